"""Both runs in one window: the numbers that a timeline's figure is drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.overtime import (
    DANGLES,
    DIMMED,
    DIMMED_DANGLES,
    DRAWN,
    NOTHING,
    SHADES,
    VIEWS,
    Asked,
    axes_of,
    over_time,
    peak_groups,
    side_window,
)
from snapviz.analyze.picking import pick
from tests.analyze.builders import MIB, Trace
from tests.analyze.test_axis import held_in
from tests.analyze.test_timeline import facts_of, steps
from tests.test_sample_runs import sample


def pair(*names: str) -> list[Facts | None]:
    return [*(sample(name).ranks[0].facts() for name in names), None][:2]


@given(kind=st.sampled_from(["time", "event"]), view=st.sampled_from(VIEWS), data=st.data())
def test_the_peak_of_any_window_is_in_its_picture(kind: str, view: str, data: st.DataObject) -> None:
    facts = pair("thunder_478/main", "thunder_478/pr")
    axes = axes_of(facts, Asked(kind))  # type: ignore[arg-type]
    low = min(axis.low for axis in axes if axis)
    high = max(axis.high for axis in axes if axis)
    x0 = data.draw(st.integers(low, high - 1))
    x1 = data.draw(st.integers(x0 + 1, high))
    seen = over_time(facts, Asked(kind, "", view, x0, x1))  # type: ignore[arg-type]
    assert (seen.low, seen.high) == (x0, x1)
    for one, axis, side in zip(facts, axes, seen.sides, strict=True):
        assert one is not None
        assert axis is not None
        assert side is not None
        held = held_in(axis, x0, x1)
        if not held or side.high <= side.low:
            assert x0 >= axis.high or x1 <= axis.low
            continue
        for measure in DRAWN:
            true = [getattr(one.replay.after(event), f"{measure}_bytes") for event in held]
            line = side.lines[measure].value_bytes
            assert (line.max(), line.min()) == (max(true), min(true))
        assert side.peak_bytes == side.lines["allocated"].value_bytes.max()
        assert one.replay.after(side.peak_event).allocated_bytes == side.peak_bytes
        assert seen.low_bytes <= side.peak_bytes <= seen.high_bytes
        assert seen.low <= side.peak_place <= seen.high
        if side.stacked.size:
            assert side.stacked.sum(axis=0).max() == side.peak_bytes


def test_a_line_is_the_curve_where_every_event_has_its_column() -> None:
    facts = pair("thunder_478/pr")
    seen = over_time(facts, Asked("event"))
    (side,) = [one for one in seen.sides[:1] if one is not None]
    line = side.lines["allocated"]
    replay = facts[0].replay  # type: ignore[union-attr]
    at = np.searchsorted(line.places, np.arange(len(replay)), "right") - 1
    assert (line.value_bytes[at] == replay.allocated_bytes).all()
    assert (np.diff(line.places) > 0).all()
    assert line.places[[0, -1]].tolist() == [seen.low, seen.high]


def test_what_dangles_is_drawn_as_such_from_when_it_should_have_gone() -> None:
    facts = pair("thunder_478/pr")[0]
    assert facts is not None
    (dangling,) = facts.dangling
    asked = Asked("event")
    side = over_time([facts, None], asked).sides[0]
    window = side_window([facts, None], asked, 0)
    assert side is not None
    assert side.picture is not None
    assert window is not None
    codes = side.picture.codes
    row = (side.picture.high_bytes - side.picture.low_bytes) // len(codes)
    strong = (codes >= DANGLES) & (codes < DIMMED)
    for column, event in enumerate(window.columns.shown.tolist()):
        lives = facts.replay.allocations.allocated_after(event)[dangling.allocation]
        due = event >= dangling.since_event
        assert strong[:, column].any() == (lives and due)
        if lives and due:
            assert abs(strong[:, column].sum() * row - dangling.block_bytes) <= row
            assert pick(facts, window, window.edges[column], 1)[1] == dangling.allocation
    assert side.dangling.max() == dangling.block_bytes
    parameter = 1 + CATEGORIES.index("parameter") * SHADES
    assert ((codes >= parameter) & (codes < parameter + SHADES)).any()


def test_a_search_dims_all_else() -> None:
    facts = pair("thunder_478/pr")
    for text, dims in (("p1", False), ("no such thing", True)):
        side = over_time(facts, Asked("event", text=text)).sides[0]
        assert side is not None
        assert side.picture is not None
        codes = side.picture.codes
        assert (codes >= DIMMED_DANGLES).any() == dims
        assert ((codes >= DANGLES) & (codes < DIMMED)).any() == (not dims)
        drawn = codes[(codes != NOTHING) & (codes < DANGLES)]
        assert len(drawn) == 0 or not dims
        assert side.hit_count == (0 if dims else side.hit_count)
        assert side.hits.max() == (0 if dims else side.hits.max() or 1)


def test_heights_are_those_that_are_asked_for() -> None:
    facts = pair("thunder_478/pr")
    seen = over_time(facts, Asked("event", y0=5 * MIB, y1=7 * MIB))
    assert (seen.low_bytes, seen.high_bytes) == (5 * MIB, 7 * MIB)
    assert seen.sides[0] is not None
    picture = seen.sides[0].picture
    assert picture is not None
    assert (picture.low_bytes, len(picture.codes)) == (5 * MIB, 320)
    assert picture.high_bytes - 7 * MIB < 2 * MIB // 320 + 2
    for wrong in (Asked("event", y0=9, y1=3), Asked("event", x0=9, x1=3), Asked("event", x0=10**9, x1=10**9 + 5)):
        back = over_time(facts, wrong)
        assert (back.low, back.high, back.low_bytes) == (-1, 20, 0)


def test_one_side_alone_and_none_with_events() -> None:
    trace, phases = steps()
    facts = facts_of(trace, *phases)
    seen = over_time([None, facts], Asked(align="train"))
    assert seen.sides[0] is None
    groups, sizes = peak_groups([None, facts], seen)
    assert sizes[0] is None
    assert sizes[1] is not None
    assert sizes[1].sum() == 160 * MIB
    assert groups.by == "category"
    empty = facts_of(Trace())
    seen = over_time([empty, None], Asked())
    assert seen.sides[0] is not None
    assert seen.sides[0].high == seen.sides[0].low
    assert peak_groups([empty, None], seen)[1] == [None, None]
    both = over_time([empty, facts], Asked())
    assert both.sides[1] is not None
    assert both.sides[1].peak_bytes == 160 * MIB


def test_events_without_times_are_drawn_by_event() -> None:
    trace, _ = steps()
    untimed, _ = steps()
    untimed.events = [{k: v for k, v in event.items() if k != "time_us"} for event in untimed.events]
    seen = over_time([facts_of(trace), facts_of(untimed)], Asked("time"))
    assert (seen.kind, seen.whole) == ("event", (-1, len(trace.events)))


@pytest.mark.parametrize("view", ["category", "owner"])
def test_the_table_is_of_the_peak_that_is_shown(view: str) -> None:
    facts = pair("fsdp2_after", "fsdp2_before_notfixed")
    seen = over_time(facts, Asked("event", "", view, 100, 3000))
    groups, sizes = peak_groups(facts, seen)
    assert groups is seen.groups
    for size, side in zip(sizes, seen.sides, strict=True):
        assert size is not None
        assert side is not None
        assert size.sum() == side.peak_bytes
