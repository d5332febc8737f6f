"""What a control takes out of the address, in a browser: places that mean nothing where it leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from snapviz.app import create_app
from tests.analyze.builders import SAMPLES
from tests.app.browser import Tab, browser, served

PAIR = "base=ddp&head=uneven_ranks"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as chromium, served(create_app(str(SAMPLES))) as base:
        yield Tab(chromium, base)


def _chosen(page: Any, label: str, option: str) -> None:
    page.get_by_role("textbox", name=label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.parametrize(
    ("label", "option", "left"), [("Moment", "end of the run", "&at=end"), ("Rank", "0", "&rank=0")]
)
def test_another_moment_or_rank_leaves_the_cursors(tab: Tab, label: str, option: str, left: str) -> None:
    page = tab.open(f"/live?{PAIR}&bt=30&ht=30", "text=at the cursor")
    _chosen(page, label, option)
    page.wait_for_function(f"() => location.search === '?{PAIR}{left}'")
    assert not tab.complaints


def test_another_axis_shows_all_of_it(tab: Tab) -> None:
    page = tab.open(f"/timeline?{PAIR}&x0=10&x1=200000", ".js-plotly-plot")
    page.get_by_text("events", exact=True).click()
    page.wait_for_function(f"() => location.search === '?{PAIR}&axis=event'")
    assert not tab.complaints
