"""A timeline's axis: columns of equal time or events that lose no peak, over any window of two aligned runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.axis import Axis, axis_of, start_of
from snapviz.analyze.bands import bands, extremes, stacked, values_after
from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.replay.model import MEASURES, START
from tests.analyze.builders import Trace, record
from tests.analyze.test_timeline import facts_of, steps
from tests.test_sample_runs import sample

RUNS = ["fsdp2_before_notfixed", "leak", "thunder_478/pr", "cuda_graph"]


def held_in(axis: Axis, low: int, high: int) -> list[int]:
    """By hand: every event after which something is held for a while between two places, or that lies there."""
    places = [axis.place(event) for event in range(-1, len(axis.replay))]
    ends = [*places[1:], float(axis.high)]
    return [i - 1 for i, (a, b) in enumerate(zip(places, ends, strict=True)) if a < high and (b > low or low <= a)]


def windows(axis: Axis, data: st.DataObject) -> tuple[int, int]:
    low = data.draw(st.integers(axis.low - 5, axis.high - 1))
    return low, data.draw(st.integers(max(low, axis.low) + 1, axis.high + 5))


@given(name=st.sampled_from(RUNS), kind=st.sampled_from(["time", "event"]), data=st.data())
def test_no_window_loses_its_peak(name: str, kind: str, data: st.DataObject) -> None:
    facts = sample(name).ranks[0].facts()
    align = data.draw(st.sampled_from(["", *facts.phases.names[:5]]))
    check(axis_of(facts, kind, align), data)  # type: ignore[arg-type]


@given(
    sizes=st.lists(st.tuples(st.integers(10, 40), st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    kind=st.sampled_from(["time", "event"]),
    data=st.data(),
)
def test_nor_where_many_events_have_one_time(
    sizes: list[tuple[int, int, bool]], kind: str, data: st.DataObject
) -> None:
    trace, held = Trace(), []
    for size, pause, free in sizes:
        trace.tick(100 * pause)
        held.append(trace.alloc(2 * size))
        if free:
            trace.free(held.pop())
    for event in trace.events:
        event["time_us"] -= event["time_us"] % data.draw(st.sampled_from([1, 50, 100_000]))
    check(axis_of(facts_of(trace), kind), data)  # type: ignore[arg-type]


def check(axis: Axis, data: st.DataObject) -> None:
    low, high = windows(axis, data)
    window = axis.window(low, high, data.draw(st.integers(1, 300)))
    columns, replay = window.columns, axis.replay
    inside = np.array(held_in(axis, low, high))
    true = values_after(replay, "allocated", inside)
    shown = values_after(replay, "allocated", columns.shown)
    assert shown.max() == true.max()
    assert values_after(replay, "allocated", np.array([window.peak_event])) == true.max()
    assert np.isin(columns.shown, inside).all()
    for measure in MEASURES:
        events = extremes(replay.curve(measure), columns, getattr(replay.start, f"{measure}_bytes"))
        line, every = values_after(replay, measure, events), values_after(replay, measure, inside)
        assert (line.max(), line.min()) == (every.max(), every.min())
        assert len(events) <= 2 * len(columns)
        assert (np.diff(events) > 0).all()
    # each column by itself, and nothing outside it
    for at in data.draw(st.lists(st.integers(0, len(columns) - 1), max_size=3)):
        some = np.array(held_in(axis, window.edges[at], window.edges[at + 1]))
        assert columns.shown[at] in some
        assert shown[at] == values_after(replay, "allocated", some).max()


def test_columns_without_events_show_what_is_live() -> None:
    trace = Trace()
    trace.tick(1000)
    trace.alloc(20)
    trace.tick(100_000)
    trace.alloc(40)
    facts = facts_of(trace)
    axis = axis_of(facts, "time")
    window = axis.window(axis.low, axis.high, 50)
    assert [facts.replay.allocated_bytes[e] >> 20 for e in window.columns.shown[[0, 20, 40, -1]]] == [20, 20, 20, 60]
    assert (stacked(facts, window.columns, facts.category.astype(np.int64), len(CATEGORIES)).sum(axis=0) >> 20)[
        [0, 30, -1]
    ].tolist() == [20, 20, 60]
    picture = bands(facts, window.columns, 60)
    assert (picture.allocation[:, 30] >= 0).sum() == 20
    assert window.column_at(-5) == 0
    assert window.column_at(axis.high + 5) == 49
    assert window.edges[window.column_at(1234)] <= 1234 < window.edges[window.column_at(1234) + 1]


def without_its_beginning(trace: Trace, events: int) -> Facts:
    from snapviz.analyze.passes import analyze
    from snapviz.replay.snapshot import Snapshot
    from snapviz.snapshot.objects import columns_from_objects

    objects = trace.objects()
    objects["device_traces"][0] = trace.events[events:]
    snap = Snapshot(columns_from_objects(objects))
    return analyze(0, snap.columns, snap.replay(0))


@pytest.mark.parametrize("kind", ["time", "event"])
def test_what_was_held_before_the_first_event_is_in_the_picture(kind: str) -> None:
    trace = Trace()
    address = trace.alloc(100)
    trace.free(address)
    facts = without_its_beginning(trace, len(trace.events) - 2)
    axis = axis_of(facts, kind)  # type: ignore[arg-type]
    window = axis.window(axis.low, axis.high, 100)
    assert window.peak_event == START
    assert facts.replay.start.allocated_bytes == 100 << 20
    picture = bands(facts, window.columns, 10)
    assert (picture.allocation[:, 0] >= 0).all()
    assert (picture.allocation[:, -1] == -1).all()
    assert axis.event_at(axis.low) == START
    assert axis.place(START) == axis.low
    assert extremes(facts.replay.allocated_bytes, window.columns, facts.replay.start.allocated_bytes)[0] == START


def test_two_runs_share_the_start_of_a_phase() -> None:
    trace, phases = steps()
    facts = facts_of(trace, *phases)
    for kind in ("time", "event"):
        axis = axis_of(facts, kind, "train/step0")  # type: ignore[arg-type]
        first = int(facts.phases.first[1])
        assert axis.event_at(0) == first - (kind == "time")
        assert axis.place(first) == (10 if kind == "time" else 0)
        assert axis.zero == start_of(facts, kind, "train")  # type: ignore[arg-type]
        assert axis_of(facts, kind, "no such").low == -1  # type: ignore[arg-type]
    assert axis_of(facts, "event", "train/step1").zero == facts.phases.first[2]


def test_a_cursor_is_where_its_event_is() -> None:
    facts = sample("leak").ranks[0].facts()
    for kind in ("time", "event"):
        axis = axis_of(facts, kind, facts.phases.names[1])  # type: ignore[arg-type]
        for event in (0, 17, len(facts.replay) - 1):
            place = axis.place(event)
            assert axis.low <= place < axis.high
            assert axis.place(axis.event_at(place)) == place
        assert axis.event_at(axis.high + 10**30) == len(facts.replay) - 1


@pytest.mark.parametrize("kind", ["time", "event"])
def test_an_empty_trace_and_times_that_no_number_holds(kind: str) -> None:
    axis = axis_of(facts_of(Trace()), kind)  # type: ignore[arg-type]
    window = axis.window(axis.low, axis.high, 10)
    assert (len(window.columns), window.peak_event) == (0, START)
    trace = Trace()
    trace.alloc(20)
    trace.alloc(20)
    for event, time in zip(trace.events, (0, 5, 1 << 62, (1 << 63) - 1), strict=True):
        event["time_us"] = time
    facts = facts_of(trace)
    axis = axis_of(facts, kind)  # type: ignore[arg-type]
    window = axis.window(axis.low, axis.high, 10)
    assert facts.replay.allocated_bytes[window.peak_event] == 40 << 20
    assert len(window.columns) == (10 if kind == "time" else 5)


def test_a_record_that_begins_before_the_events() -> None:
    trace = Trace()
    trace.alloc(20)
    facts = facts_of(trace, ("materialize", 0, trace.tick()))
    assert record([("x", 0, 1)]).phases
    assert axis_of(facts, "time", "materialize").low > 0
