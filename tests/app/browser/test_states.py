"""Every page in every state that it can be in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from snapviz.app.pages import every
from snapviz.app.state import State
from tests.app.browser import places
from tests.app.browser.conftest import Served
from tests.app.browser.visitor import Visitor

PAGES = [page.NAME for page in every()]
OF_RUNS = [page.NAME for page in every() if getattr(page, "NEEDS_RUNS", True)]

by_page = pytest.mark.parametrize("page", PAGES)
by_page_of_runs = pytest.mark.parametrize("page", OF_RUNS)
# what the shell does before any page is asked: the same on all of them
by_some_page = pytest.mark.parametrize("page", ["compare", "timeline"])


def of(run_ids: tuple[str, str], page: str) -> State:
    return State(page=page, base=run_ids[0], head=run_ids[1])


def drawn(visitor: Visitor, state: State) -> str:
    """Opens a state of which nothing is refused; what can be read then."""
    visitor.open(state)
    assert visitor("#problem").inner_text() == ""
    assert visitor("#page h1").first.inner_text()
    assert visitor.state == state
    return visitor.text()


@by_page
def test_a_pair(somebody: Visitor, page: str) -> None:
    drawn(somebody, of(places.THUNDER, page))


@by_page
def test_a_pair_of_one_rank(somebody: Visitor, page: str) -> None:
    drawn(somebody, of(places.EAGER, page))


@by_page
def test_a_pair_of_six_ranks(somebody: Visitor, page: str) -> None:
    drawn(somebody, replace(of(places.UNEVEN, page), rank=3))


@by_page_of_runs
@pytest.mark.parametrize("side", ["base", "head"])
def test_one_run(somebody: Visitor, page: str, side: str) -> None:
    text = drawn(somebody, State(page=page).with_(**{side: places.THUNDER[1]}))
    assert "p1" in text or page != "dangling"


@by_page
def test_nothing_changed(somebody: Visitor, page: str) -> None:
    text = drawn(somebody, of((places.THUNDER[1],) * 2, page))
    if page == "compare":
        assert "same" in text
        assert "+4.00 MiB" not in text


@by_page_of_runs
def test_truncated_history_is_told_of(somebody: Visitor, page: str) -> None:
    text = drawn(somebody, of(places.TRUNCATED, page))
    # without a record nothing is told of what dangles
    told = "cannot be told" if page == "dangling" else "begins in the middle"
    assert told in text, text


@by_page_of_runs
def test_a_rank_that_cannot_be_read_is_named(somebody: Visitor, page: str) -> None:
    text = drawn(somebody, of(places.BROKEN, page))
    assert "rank 1" in text, text
    assert "cut short" in text, text
    assert "/pytest-" not in text, "where it lies on the server"


@by_some_page
@pytest.mark.parametrize("other", ["", places.THUNDER[0]])
def test_a_run_that_cannot_be_read(somebody: Visitor, page: str, other: str) -> None:
    somebody.open(State(page=page, base=other, head=places.UNREADABLE))
    text = somebody.text()
    assert "This cannot be shown." in text
    assert places.UNREADABLE in text
    assert "Traceback" not in text
    assert somebody("#page").inner_text() == ""


@by_some_page
def test_a_run_that_is_not_there(somebody: Visitor, page: str) -> None:
    somebody.open(State(page=page, base="../etc", head=places.THUNDER[0]))
    assert "there is no run '../etc' here" in somebody.text()


@pytest.mark.parametrize("page", ["compare", "runs"])
def test_no_runs_at_all(visit: Callable[..., Visitor], served: Served, page: str) -> None:
    visitor = visit(served.empty).open(State(page=page))
    assert "no run" in visitor.text().lower()
    assert visitor("#problem").inner_text() == ""


@by_some_page
def test_reading_is_shown_cancelled_and_done(somebody: Visitor, served: Served, page: str) -> None:
    served.gate.unlink(missing_ok=True)
    state = of(places.SLOW[page], page)
    somebody.page.goto(somebody.url + state.url())
    panel = somebody("#progress-panel")
    panel.wait_for()
    somebody.expect("#progress-text").to_have_text("waiting at the gate")
    bar = somebody("#progress")
    somebody.until(lambda: float(bar.get_attribute("value") or 0) > 20, "progress")
    somebody("#cancel").click()
    panel.wait_for(state="hidden")
    somebody.expect("#status").to_contain_text("Reading was cancelled.")
    assert somebody("#page").inner_text() == ""
    served.gate.touch()
    somebody("#status a").click()
    somebody("#page h1").first.wait_for()
    somebody.settled()
    assert not panel.is_visible()
    assert somebody.state == state
    assert "cancelled" not in somebody.text()


def test_another_page_while_one_is_read(somebody: Visitor, served: Served) -> None:
    """Whoever goes elsewhere meanwhile is not brought back when reading is done."""
    served.gate.unlink(missing_ok=True)
    somebody.page.goto(somebody.url + of(places.SLOW["left"], "compare").url())
    somebody("#progress-panel").wait_for()
    somebody.choose("base", places.THUNDER[0])
    somebody.choose("head", places.THUNDER[1])
    somebody.becomes(base=places.THUNDER[0], head=places.THUNDER[1])
    served.gate.touch()
    assert "stays whole after shard" in somebody("#page h1").first.inner_text()
    assert not somebody("#progress-panel").is_visible()


@by_page
def test_markup_is_text(somebody: Visitor, page: str) -> None:
    text = drawn(somebody, of(places.HOSTILE, page))
    assert "onerror" in text or page in ("segments",), text
    assert somebody("main img[src=x]").count() == 0
    assert somebody.page.evaluate("() => window.attacked") is None
    somebody.picker("head").fill("onerror")
    somebody.page.get_by_role("option").first.wait_for()
    assert somebody.page.evaluate("() => window.attacked") is None
