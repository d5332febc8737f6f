"""The timeline in a browser: its window, its cursors and what is picked stand in the address and are drawn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from snapviz.app.state import State
from tests.app.browser.places import BROKEN, HOSTILE, MARKUP, THUNDER, TRUNCATED
from tests.app.browser.visitor import Visitor

PAIR = State(page="timeline", base=THUNDER[0], head=THUNDER[1], axis="event")

PLACE = """
([panel, x, y]) => {
  const plot = document.querySelector("#timeline-chart .js-plotly-plot"), layout = plot._fullLayout;
  const box = plot.getBoundingClientRect(), number = panel ? "2" : "";
  const across = layout["xaxis" + number], up = layout["yaxis" + number];
  return [box.left + across._offset + across.d2p(x), box.top + up._offset + up.d2p(y)];
}
"""
RANGE = """
() => {
  const layout = document.querySelector("#timeline-chart .js-plotly-plot")._fullLayout;
  return [layout.xaxis.range, layout.xaxis2.range, layout.yaxis.range, layout.yaxis2.range];
}
"""


def opened(visitor: Visitor, state: State = PAIR) -> Visitor:
    visitor.open(state)
    visitor("#timeline-chart .main-svg").first.wait_for()
    return visitor.settled()


def place(visitor: Visitor, panel: int, x: float, y: float) -> tuple[float, float]:
    visitor("#timeline-chart").scroll_into_view_if_needed()
    found = visitor.page.evaluate(PLACE, [panel, x, y])
    return found[0], found[1]


def test_one_click_shows_who_holds_what_dangles(somebody: Visitor) -> None:
    opened(somebody)
    somebody.page.mouse.click(*place(somebody, 1, 10.5, 1 << 20))
    state = somebody.becomes(bt=10, ht=10)
    assert state.name.startswith("head.0.")
    told = somebody("#timeline-allocation").inner_text()
    for words in ("p1", "Dangling.", "should have gone in shard", "Kept by:", "Model._parameters"):
        assert words in told
    assert somebody("#timeline-moment h2").inner_text() == "At the cursors"
    shapes = somebody.page.evaluate(
        "() => document.querySelector('#timeline-chart .js-plotly-plot').layout.shapes.map(one => [one.xref, one.x0])"
    )
    assert {tuple(one) for one in shapes} == {("x", 10), ("x2", 10)}
    # the same again from the address alone
    before = somebody("#timeline-allocation").inner_text()
    somebody.page.reload()
    somebody("#timeline-allocation article").wait_for()
    assert somebody("#timeline-allocation").inner_text() == before


def test_what_lies_under_the_pointer_is_said(somebody: Visitor) -> None:
    opened(somebody)
    somebody.page.mouse.move(*place(somebody, 1, 10.5, 1 << 20))
    somebody.expect("#timeline-under").to_contain_text("p1: 4.00 MiB, parameter, dangling")


def test_wheel_keys_buttons_and_a_drag_move_both_panels(somebody: Visitor) -> None:
    opened(somebody)
    assert somebody.page.evaluate(RANGE)[0] == [-1, 20]
    somebody.page.mouse.move(*place(somebody, 0, 10, 4 << 20))
    somebody.page.mouse.wheel(0, -400)
    somebody.until(lambda: somebody.state.x0 is not None, "a window in the address")
    somebody.settled()
    first = somebody.state
    assert first.x0 is not None
    assert first.x1 is not None
    assert -1 <= first.x0 < 10 < first.x1 <= 20
    ranges = somebody.page.evaluate(RANGE)
    assert ranges[0] == ranges[1] == [first.x0, first.x1]
    assert ranges[2] == ranges[3]
    somebody.page.keyboard.press("w")
    somebody.until(lambda: (somebody.state.x0, somebody.state.x1) != (first.x0, first.x1), "a narrower window")
    somebody.settled()
    somebody.page.keyboard.press("f")
    somebody.becomes(x0=None, x1=None)
    assert somebody.page.evaluate(RANGE)[0] == [-1, 20]
    somebody("[data-timeline=in]").click()
    somebody.until(lambda: somebody.state.x0 is not None, "a window in the address")
    somebody.settled()
    somebody("[data-timeline=fit]").click()
    somebody.becomes(x0=None, x1=None)
    start, stop = place(somebody, 1, 5, 12 << 20), place(somebody, 1, 12, 2 << 20)
    somebody.page.mouse.move(*start)
    somebody.page.mouse.down()
    somebody.page.mouse.move(*stop, steps=5)
    somebody.page.mouse.up()
    somebody.until(lambda: somebody.state.y1 is not None, "heights in the address")
    state = somebody.settled().state
    # as near as a pixel
    assert state.x0 in (4, 5)
    assert state.x1 in (12, 13)
    assert state.y0 is not None
    assert abs(state.y0 - (2 << 20)) < 1 << 19
    # no click came of it
    assert state.bt is None


def test_a_window_is_no_step_back_in_the_history(somebody: Visitor) -> None:
    opened(somebody, PAIR.with_(axis="time"))
    somebody("[data-timeline=in]").click()
    somebody.until(lambda: somebody.state.x0 is not None, "a window in the address")
    somebody.settled()
    somebody(
        "#nav a",
    ).filter(has_text="Compare").click()
    somebody.becomes(page="compare")
    somebody.page.go_back()
    assert somebody.becomes(page="timeline").x0 is not None


@pytest.mark.parametrize("view", ["curves", "category", "owner", "module", "phase", "stack"])
def test_every_view_is_drawn(somebody: Visitor, view: str) -> None:
    opened(somebody, PAIR.with_(view=view))
    named = somebody.page.evaluate(
        "() => document.querySelector('#timeline-chart .js-plotly-plot').data.map(one => one.name)"
    )
    assert "allocated" in named
    assert somebody("#timeline-groups tbody tr").count() >= 2
    assert "allocated" in somebody("#timeline-groups tr.total").inner_text()


def test_controls_change_the_address_and_the_picture(somebody: Visitor) -> None:
    opened(somebody, PAIR)
    somebody("label").filter(has_text="by owner").click()
    somebody.becomes(view="owner")
    assert somebody("#timeline-groups caption").inner_text().startswith("allocated bytes by owner")
    somebody("label").filter(has_text="apart").click()
    somebody.becomes(show="apart")
    somebody.page.keyboard.press("/")
    somebody.page.keyboard.type("forward")
    somebody.becomes(q="forward")
    assert "“forward” is in" in somebody("#timeline-said").inner_text()


def test_a_phase_is_gone_to(somebody: Visitor) -> None:
    opened(somebody)
    somebody("#timeline-phase").click()
    somebody("[role=option]:visible").filter(has_text="shard").first.click()
    somebody.until(lambda: somebody.state.x0 is not None, "the window of a phase")
    state = somebody.settled().state
    assert (state.x0, state.x1) == (4, 10)


def test_events_one_by_one(somebody: Visitor) -> None:
    opened(somebody, PAIR.with_(bt=5, ht=5))
    somebody("[aria-label='head: one event on']").click()
    somebody.becomes(bt=6, ht=6)
    somebody("label").filter(has_text="apart").click()
    somebody.becomes(show="apart")
    somebody("[aria-label='base: one event back']").click()
    somebody.becomes(bt=5, ht=6)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State(page="timeline", base=TRUNCATED[0], head=TRUNCATED[1]), "begins in the middle"),
        (State(page="timeline", head=THUNDER[1]), "No base is chosen"),
        (State(page="timeline", base=BROKEN[0], head=BROKEN[1], rank=1), "rank 1 could not be read"),
    ],
    ids=["truncated", "one run", "broken rank"],
)
def test_what_is_missing_is_said_above_the_picture(somebody: Visitor, state: State, words: str) -> None:
    opened(somebody, state)
    assert words in somebody("#timeline-notes").inner_text()
    assert somebody("#timeline-groups tr.total").count() == 1


def test_markup_in_names_stays_text(somebody: Visitor) -> None:
    state = State(page="timeline", base=HOSTILE[0], head=HOSTILE[1], view="stack")
    opened(somebody, state)
    somebody.page.mouse.move(*place(somebody, 1, 50, 1 << 20))
    assert somebody.page.evaluate("() => window.attacked") is None
    assert MARKUP in somebody("#timeline-groups").inner_text()
    opened(somebody, state.with_(view=""))
    somebody.page.mouse.click(*place(somebody, 1, 100, 1 << 20))
    somebody("#timeline-allocation article").wait_for()
    assert MARKUP in somebody("#timeline-allocation").inner_text()
    assert somebody.page.evaluate("() => window.attacked") is None


def test_no_answer_is_too_large(somebody: Visitor) -> None:
    sizes: list[int] = []

    def note(response: Any) -> None:
        if "_dash-update-component" in response.url:
            sizes.append(len(response.body()))

    somebody.page.on("response", note)
    opened(somebody, State(page="timeline", base="litgpt_eager_8/main", head="litgpt_eager_8/pr", view="stack"))
    assert 20_000 < max(sizes) < 300_000


def test_it_is_as_readable_in_the_dark_and_on_a_narrow_screen(visit: Callable[..., Visitor]) -> None:
    somebody = opened(visit(viewport={"width": 800, "height": 900}, color_scheme="dark"))
    assert somebody.widest() <= 0
    fill = somebody.page.evaluate("() => getComputedStyle(document.querySelector('#timeline-chart .x2tick text')).fill")
    assert fill == "rgb(230, 237, 243)"
