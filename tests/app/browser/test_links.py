"""What is shown stands in the address, and an address shows it again."""

from __future__ import annotations

import pytest

from snapviz.app.pages import every
from snapviz.app.state import State
from tests.app.browser import places
from tests.app.browser.visitor import Visitor

THUNDER = State(base=places.THUNDER[0], head=places.THUNDER[1])


def test_one_click_shows_who_holds_it(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    somebody(".ag-row").first.click()
    drawer = somebody.page.get_by_role("dialog")
    drawer.wait_for()
    somebody.until(lambda: bool(somebody.state.row), "the row in the address")
    somebody.settled()
    for words in ("p1", "Model._parameters['p1']", "ThunderModule._model", "4,194,304"):
        assert words in drawer.inner_text()
    row, told = somebody.state.row, drawer.inner_text()
    somebody.page.reload()
    drawer.wait_for()
    somebody.settled()
    assert (somebody.state.row, drawer.inner_text()) == (row, told)
    somebody.page.keyboard.press("Escape")
    somebody.becomes(row="")
    somebody.page.go_back()
    somebody.becomes(row=row)
    drawer.wait_for()


@pytest.mark.parametrize("page", [page.NAME for page in every()])
def test_an_address_shows_the_same_again(somebody: Visitor, page: str) -> None:
    state = THUNDER.with_(page=page, rank=1, at="phase:train:peak", measure="reserved", q="p1")
    somebody.open(state)
    shown = somebody.shown()
    assert shown["state"] == state
    somebody.page.reload()
    somebody.settled()
    assert somebody.shown() == shown
