"""What a control takes out of the address, in a browser: places that mean nothing where it leads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from snapviz.app import create_app
from tests.analyze.builders import SAMPLES
from tests.app.tabs import Tab, served

PAIR = "base=ddp&head=uneven_ranks"


@pytest.fixture(scope="module")
def tab(chromium: Any) -> Iterator[Tab]:
    with served(create_app(str(SAMPLES))) as base:
        yield Tab(chromium, base)


def _chosen(page: Any, label: str, option: str) -> None:
    page.get_by_role("textbox", name=re.compile(f"^{label}$", re.IGNORECASE)).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.parametrize(
    ("label", "option", "left"), [("moment", "end of the run", "&at=end"), ("rank", "0", "&rank=0")]
)
def test_another_moment_or_rank_leaves_the_cursors(tab: Tab, label: str, option: str, left: str) -> None:
    page = tab.open(f"/live?{PAIR}&bt=30&ht=30", "text=at the cursor")
    _chosen(page, label, option)
    page.wait_for_url(f"**/live?{PAIR}{left}")
    assert not tab.complaints


def test_another_axis_shows_all_of_it(tab: Tab) -> None:
    page = tab.open(f"/timeline?{PAIR}&x0=10&x1=200000", ".js-plotly-plot")
    page.get_by_text("events", exact=True).click()
    page.wait_for_url(f"**/timeline?{PAIR}&axis=event")
    assert not tab.complaints
