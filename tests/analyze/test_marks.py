"""Phases, annotations and the ends of memory along a timeline."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.axis import axis_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.marks import MOST_MARKS, annotation_marks, oom_marks, phase_ends, phase_spans
from snapviz.analyze.passes import analyze
from tests.analyze.builders import MIB, Trace
from tests.analyze.test_timeline import facts_of, steps
from tests.test_sample_runs import sample


def test_phases_where_they_are() -> None:
    trace, phases = steps()
    facts = facts_of(trace, *phases)
    for kind in ("time", "event"):
        axis = axis_of(facts, kind, "train/step0")  # type: ignore[arg-type]
        found = phase_spans(facts, axis, axis.low, axis.high, 0)
        assert [one.name for one in found] == ["materialize", "train/step0", "train/step1"]
        starts, stops = phase_ends(facts, axis)
        assert [(one.low, one.high) for one in found] == list(zip(starts, stops, strict=True))
        assert found[1].low == 0
        assert [one.peak_bytes for one in found] == [100 * MIB, 160 * MIB, 160 * MIB]
        assert [one.name for one in phase_spans(facts, axis, 1, axis.high, 0)] == ["train/step0", "train/step1"]


def test_levels_and_neighbours_that_are_too_narrow() -> None:
    trace, phases = Trace(), []
    trace.alloc(20)
    for step in range(50):
        begin = trace.tick()
        trace.free(trace.alloc(20))
        phases += [(f"train/step{step}", begin, trace.now), (f"train/step{step}/forward", begin, trace.now)]
    trace.tick(100_000)
    trace.alloc(20)
    facts = facts_of(trace, *phases, ("eval", phases[-1][2] + 5, trace.now))
    axis = axis_of(facts, "time")
    found = phase_spans(facts, axis, axis.low, axis.high, 500)
    assert [(one.name, one.level, one.count) for one in found] == [
        ("several phases", 0, 50),
        ("eval", 0, 1),
        ("several phases", 1, 50),
    ]
    late = phase_spans(facts, axis, *(float(end[4]) for end in phase_ends(facts, axis)), 500)
    assert [(one.name, one.count) for one in late] == [("train/step2", 1), ("train/step2/forward", 1)]
    steps_only = phase_spans(facts, axis, float(phase_ends(facts, axis)[0][2]), axis.high, 500)
    assert (steps_only[0].name, steps_only[0].count) == ("train/step", 49)


def test_nobody_named_a_phase() -> None:
    facts = facts_of(steps()[0])
    axis = axis_of(facts, "event")
    assert phase_spans(facts, axis, axis.low, axis.high, 0) == ()


def annotated(count: int) -> Facts:
    trace = Trace()
    for number in range(count):
        trace.mark("START", f"mark {number}")
        trace.alloc(20)
        trace.mark("END", f"mark {number}")
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(0))


@pytest.mark.parametrize("kind", ["time", "event"])
def test_annotations(kind: str) -> None:
    facts = annotated(3)
    axis = axis_of(facts, kind)  # type: ignore[arg-type]
    found = annotation_marks(facts, axis, axis.low - 100, axis.high)
    assert [one.text for one in found] == ["mark 0", "mark 1", "mark 2"]
    assert [one.event for one in found] == [-1, 1, 3]
    assert len(annotation_marks(facts, axis, axis.place(0), axis.high)) == 2
    many = annotated(2 * MOST_MARKS + 3)
    axis = axis_of(many, kind)  # type: ignore[arg-type]
    found = annotation_marks(many, axis, axis.low - 100, axis.high)
    assert len(found) <= MOST_MARKS
    assert sum(one.count for one in found) == 2 * MOST_MARKS + 3
    assert np.all(np.diff([one.place for one in found]) > 0)


def test_where_memory_ran_out() -> None:
    trace = Trace()
    trace.alloc(20)
    event = {"action": "oom", "addr": -1, "size": 60 * MIB, "stream": 0, "device_free": 5 * MIB, "frames": []}
    trace.events.append(event | {"time_us": trace.tick()})
    facts = facts_of(trace)
    axis = axis_of(facts, "event")
    (found,) = oom_marks(facts, axis, axis.low, axis.high)
    assert (found.event, found.place, found.count) == (2, 2, 1)
    assert found.text == "62,914,560 bytes asked for, the device had 5,242,880 free"
    assert oom_marks(facts, axis, 3, 9) == ()
    quiet = sample("leak").ranks[0].facts()
    assert oom_marks(quiet, axis_of(quiet, "time"), 0, 10**12) == ()
