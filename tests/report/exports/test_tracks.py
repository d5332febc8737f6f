from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapviz.report.exports.tracks import LANES, Clock, Slice, in_lanes, points_of
from tests.analyze.builders import Trace, frame
from tests.report.exports.builders import facts_of

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted), max_size=40)
curves = st.lists(st.integers(0, 50), min_size=1, max_size=200)


@given(spans)
def test_slices_of_one_lane_lie_in_each_other_or_beside(found: list[list[int]]) -> None:
    slices = [Slice(str(i), start, stop, {}) for i, (start, stop) in enumerate(found)]
    placed = list(in_lanes(slices))
    assert sorted(one.name for _, one in placed) == sorted(one.name for one in slices)
    for lane in range(LANES):
        mine = [one for number, one in placed if number == lane]
        for i, outer in enumerate(mine):
            for inner in mine[i + 1 :]:
                assert outer.start_us <= inner.start_us
                assert inner.start_us >= outer.stop_us or inner.stop_us <= outer.stop_us


def test_slices_that_nest_need_one_lane_and_others_their_own() -> None:
    nested = [Slice("a", 0, 100, {}), Slice("b", 0, 50, {}), Slice("c", 50, 100, {}), Slice("d", 60, 70, {})]
    assert {lane for lane, _ in in_lanes(reversed(nested))} == {0}
    crossing = [Slice(str(i), i, 1_000 + i, {}) for i in range(2_000)]
    lanes = [lane for lane, _ in in_lanes(crossing)]
    assert lanes[:LANES] == list(range(LANES))
    assert set(lanes[LANES:1_000]) == {LANES}


@given(curves, st.integers(0, 50), st.sampled_from([0, 4, 10, 1_000]))
def test_points_keep_the_peak_the_trough_and_every_level_that_lasts(values: list[int], start: int, most: int) -> None:
    clock = Clock(np.arange(10, 10 + len(values), dtype=np.int64), True)
    points = points_of(clock, start, np.array(values, np.int64), most)
    assert points.value.max() == max(start, *values)
    assert points.value.min() == min(start, *values)
    assert points.value[0] == start
    assert points.time_us[0] == 9
    assert (np.diff(points.time_us) > 0).all()
    assert points.value[-1] == values[-1]
    if not most or points.changes <= most:
        changes = [i for i, (a, b) in enumerate(zip([start, *values], values, strict=False)) if a != b]
        assert points.time_us[1:].tolist() == [10 + i for i in changes]
        assert points.changes == len(changes) + 1
    else:
        assert len(points.value) <= most


def test_a_clock_never_goes_back_and_counts_events_without_times() -> None:
    trace = Trace()
    trace.alloc(20, frame("f"))
    trace.alloc(20, frame("f"))
    trace.events[2]["time_us"] = 1
    clock = Clock.of(facts_of(trace))
    assert clock.real
    assert (np.diff(clock.time_us) >= 0).all()
    for event in trace.events:
        del event["time_us"]
    clock = Clock.of(facts_of(trace))
    assert not clock.real
    assert clock.time_us.tolist() == [0, 1, 2, 3]
    trace.events.clear()
    assert Clock.of(facts_of(trace)).before_us == 0
