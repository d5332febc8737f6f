"""What everybody can use: names and contrast (axe-core), narrow windows, the keyboard alone, paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from snapviz.app.pages import every
from snapviz.app.state import State
from tests.app.browser import places
from tests.app.browser.conftest import Served
from tests.app.browser.visitor import Visitor

PAGES = [page.NAME for page in every()]
by_page = pytest.mark.parametrize("page", PAGES)


def of(page: str, run_ids: tuple[str, str] = places.THUNDER) -> State:
    return State(page=page, base=run_ids[0], head=run_ids[1])


def violations(visitor: Visitor) -> list[str]:
    """What axe-core finds that keeps somebody out."""
    from axe_playwright_python.sync_playwright import Axe

    found: list[dict[str, Any]] = Axe().run(visitor.page).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {[node['html'][:300] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@by_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Callable[..., Visitor], page: str, scheme: str) -> None:
    visitor = visit(color_scheme=scheme).open(of(page))
    assert violations(visitor) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_nothing_is_shown(
    visit: Callable[..., Visitor], served: Served, scheme: str
) -> None:
    assert violations(visit(served.empty, color_scheme=scheme).open(State())) == []
    refused = visit(color_scheme=scheme).open(State(base=places.UNREADABLE))
    assert violations(refused) == []
    refused.page.keyboard.press("?")
    refused.page.get_by_role("dialog").wait_for()
    # a dialog that is still fading in is too pale
    refused.page.wait_for_function(
        "() => [...document.querySelectorAll('[role=dialog], .mantine-Modal-overlay')]"
        ".every(one => getComputedStyle(one).opacity === '1') "
        "&& document.getAnimations().every(one => one.playState !== 'running')"
    )
    assert violations(refused) == []


@by_page
@pytest.mark.parametrize("run_ids", [places.EAGER, places.HOSTILE], ids=["eager", "hostile"])
def test_nothing_sticks_out_of_a_narrow_window(
    visit: Callable[..., Visitor], page: str, run_ids: tuple[str, str]
) -> None:
    visitor = visit(viewport={"width": 800, "height": 900}).open(of(page, run_ids))
    assert visitor.widest() <= 0


@by_page
def test_paper_has_the_content_and_no_controls(somebody: Visitor, page: str) -> None:
    somebody.open(of(page))
    somebody.page.emulate_media(media="print")
    for selector in ("#print-page", "#export-html", "#help-button"):
        assert not somebody(selector).is_visible()
    assert somebody("#page h1").first.is_visible()
    assert len(somebody.page.pdf()) > 5_000


@pytest.mark.parametrize("page", ["compare"])
def test_the_keyboard_reaches_the_content_first(somebody: Visitor, page: str) -> None:
    somebody.open(of(page))
    somebody.page.keyboard.press("Tab")
    assert somebody.page.evaluate("() => document.activeElement.className") == "skip"
    somebody.page.keyboard.press("Enter")
    assert somebody.page.evaluate("() => document.activeElement.id") == "main"


@by_page
def test_every_chart_has_a_name_and_a_table(somebody: Visitor, page: str) -> None:
    somebody.open(of(page))
    for chart in somebody("figure.chart").all():
        assert chart.locator("[role=img][aria-label]").count() == 1
        # some are made when they are asked for
        chart.locator("details.chart-table > summary").click()
        chart.locator("details.chart-table table, details.chart-table [role=grid]").first.wait_for()
