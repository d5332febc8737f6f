"""Curves for drawing: thinned out, and still what they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import Facts
from snapviz.analyze.passes import analyze
from snapviz.analyze.timeline import MOST_POINTS, thinned, timeline
from snapviz.errors import RunError, UsageError
from tests.analyze.builders import MIB, Trace, record, sample


def facts_of(trace: Trace, *phases: tuple[str, int, int]) -> Facts:
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(0), record(phases) if phases else None)


POINTS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1 << 40)), min_size=1, max_size=400)


@given(points=POINTS, most=st.integers(4, 100))
def test_a_thinned_curve_keeps_every_extreme_of_every_bucket(points: list[tuple[int, int]], most: int) -> None:
    seconds = np.array(sorted(time for time, _ in points), np.float64)
    values = np.array([value for _, value in points], np.int64)
    kept = thinned(seconds, values, most)
    assert len(kept) <= max(most, 4)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()
    if len(values) > most:
        edges = np.linspace(seconds[0], seconds[-1], most // 4 + 1)[1:-1]
        bucket = np.searchsorted(edges, seconds, side="right")
        for one in set(bucket.tolist()):
            all_of, some = values[bucket == one], values[kept[bucket[kept] == one]]
            assert (some.max(), some.min(), some[-1]) == (all_of.max(), all_of.min(), all_of[-1])


def test_a_short_curve_is_left_as_it_is() -> None:
    values = np.arange(50)
    assert thinned(values.astype(np.float64), values, 50).tolist() == values.tolist()


@pytest.mark.parametrize("name", ["fsdp2_after", "fsdp2_before_notfixed"])
def test_the_peaks_of_real_runs_are_drawn(name: str) -> None:
    facts = sample(name).ranks[0].facts()
    assert len(facts.replay) > 2 * MOST_POINTS
    one = timeline("x", facts)
    for measure in ("allocated", "reserved"):
        curve = getattr(one, measure)
        assert len(curve.value_bytes) == len(curve.seconds) <= MOST_POINTS
        assert curve.value_bytes.max() == curve.peak_bytes == facts.replay.curve(measure).max()
        assert curve.value_bytes[-1] == curve.end_bytes == facts.replay.curve(measure)[-1]
        assert (np.diff(curve.seconds) >= 0).all()
    assert one.allocated.trough_bytes == facts.phases.end[-1][1]


def steps() -> tuple[Trace, list[tuple[str, int, int]]]:
    """100 MiB are made; a step of 60 that leaves 20; a step of 40."""
    trace, phases = Trace(), []
    start = trace.now
    trace.alloc(100)
    phases.append(("materialize", start, trace.tick()))
    for step, (mib, kept) in enumerate(((60, 20), (40, 0))):
        begin = trace.tick()
        trace.free(trace.alloc(mib))
        if kept:
            trace.alloc(kept)
        phases.append((f"train/step{step}", begin, trace.tick()))
    return trace, phases


def test_peak_trough_and_end() -> None:
    trace, phases = steps()
    one = timeline("x", facts_of(trace, *phases))
    curve = one.allocated
    assert [curve.peak_bytes, curve.trough_bytes, curve.end_bytes] == [160 * MIB, 120 * MIB, 120 * MIB]
    assert one.trough_since == "once the first training step is over"
    # the value before the first event, at 0 s, and every event
    assert (curve.value_bytes[0], curve.seconds[0], curve.seconds[1]) == (0, 0, 0)
    assert len(curve.value_bytes) == len(trace.events) + 1
    last = trace.events[-1]["time_us"] - trace.events[0]["time_us"]
    assert curve.seconds[-1] == last / 1e6
    assert [(band.name, band.stop_s > band.start_s) for band in one.bands] == [
        ("materialize", True),
        ("train/step0", True),
        ("train/step1", True),
    ]


def test_the_trough_can_lie_between_two_steps() -> None:
    trace, phases = steps()
    begin = trace.tick()
    trace.alloc(40)
    phases = [*phases[:2], ("train/step1", begin, trace.tick())]
    trace.free(trace.alloc(60))
    curve = timeline("x", facts_of(trace, *phases)).allocated
    assert (curve.trough_bytes, curve.end_bytes) == (120 * MIB, 160 * MIB)
    # also where the next one begins with what it keeps
    trace = Trace()
    trace.free(trace.alloc(40))
    one = (trace.now, trace.alloc(100), trace.tick())
    two = (trace.tick(), trace.alloc(40), trace.tick())
    spans = [(f"train/step{i}", start, stop) for i, (start, _, stop) in enumerate((one, two))]
    assert timeline("x", facts_of(trace, *spans)).allocated.trough_bytes == 100 * MIB


def test_from_a_phase_on() -> None:
    trace, phases = steps()
    facts = facts_of(trace, *phases)
    for since, low in (("train", 100), ("train/step0", 100), ("train/step", 120), ("train/step1", 120)):
        one = timeline("x", facts, since)
        # what is there as it begins is the first point
        assert one.allocated.value_bytes[0] == low * MIB
        assert one.allocated.peak_bytes == 160 * MIB
        assert one.bands[0].start_s == 0
    assert timeline("x", facts, "train/step1").allocated.trough_bytes == 120 * MIB
    assert timeline("x", facts, "train").allocated.seconds[1] > 0
    with pytest.raises(
        UsageError, match=r"--from eval: x has no such phase \(there is: materialize, train/step0, train"
    ):
        timeline("x", facts, "eval")


def test_one_step_and_none() -> None:
    trace, phases = steps()
    one = timeline("x", facts_of(trace, *phases[:2]))
    assert (one.trough_since, one.allocated.trough_bytes) == ("from the first training step on", 100 * MIB)
    none = timeline("x", facts_of(trace, phases[0]))
    assert (none.trough_since, none.allocated.trough_bytes) == ("of all that is drawn", 0)
    assert timeline("x", facts_of(trace)).bands == ()


def test_many_steps_are_one_band_and_nested_phases_do_not_overlap() -> None:
    trace = Trace()
    phases = []
    for step in range(80):
        begin = trace.tick()
        trace.free(trace.alloc(20))
        phases += [(f"train/step{step}", begin, trace.now), (f"train/step{step}/forward", begin, trace.now)]
    facts = facts_of(trace, *phases)
    assert [band.name for band in timeline("x", facts).bands] == ["train"]
    few = facts_of(trace, ("train", phases[0][1], trace.now), *phases[:4])
    assert [band.name for band in timeline("x", few).bands] == ["train/step0", "train/step1"]


def test_what_has_no_time_cannot_be_drawn() -> None:
    with pytest.raises(RunError, match="x: rank 0 has no events"):
        timeline("x", facts_of(Trace()))
    trace = Trace()
    trace.alloc(20)
    trace.events = [{key: value for key, value in event.items() if key != "time_us"} for event in trace.events]
    with pytest.raises(RunError, match="carry no times"):
        timeline("x", facts_of(trace))


def test_a_recording_that_begins_late_says_so() -> None:
    trace, _ = steps()
    objects = trace.objects()
    objects["device_traces"][0] = trace.events[4:]
    from snapviz.replay.snapshot import Snapshot
    from snapviz.snapshot.objects import columns_from_objects

    snap = Snapshot(columns_from_objects(objects))
    one = timeline("x", analyze(0, snap.columns, snap.replay(0)))
    assert not one.whole
    assert any("begins in the middle" in note for note in one.notes)
