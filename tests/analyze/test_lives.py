"""Some allocations in full, what is like them, the peak without it, and the shape of a phase."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import BEFORE, Facts
from snapviz.analyze.lives import alike, lives_of, saved, sizes_of
from snapviz.analyze.sparks import spark_of, sparks
from snapviz.analyze.stretches import Stretches
from tests.analyze.builders import MIB, Trace, frame, run_of, sample
from tests.compare.jobs import job


@pytest.fixture(scope="module")
def facts() -> Facts:
    """Three steps of gathers and activations, two of the last gathers kept."""
    return run_of(job(leak=2)).ranks[0].facts()


def of(facts: Facts, name: str) -> np.ndarray:
    """Allocations whose innermost frame is of that name."""
    stacks = [facts.stack_lines(int(one))[0] for one in facts.replay.allocations.stack.tolist()]
    return np.flatnonzero([text.startswith(name) for text in stacks])


def test_each_says_when_it_came_and_went(facts: Facts) -> None:
    gathers = of(facts, "foreach_all_gather")
    found = lives_of(facts, gathers)
    assert len(found) == 12
    assert {one.block_bytes for one in found} == {64 * MIB}
    assert [one.allocation for one in found] == sorted(one.allocation for one in found)
    assert sum(one.freed_event is None for one in found) == 2
    first = found[0]
    table = facts.replay.allocations
    assert first.born_event == int(table.alloc_event[first.allocation])
    assert first.born_us == int(facts.replay.time_us[first.born_event] - facts.replay.time_us[0])
    assert "step0" in first.born_in
    assert first.freed_in is not None


def test_the_largest_come_first_and_no_more_than_asked_for(facts: Facts) -> None:
    everything = np.arange(len(facts.replay.allocations))
    found = [one.block_bytes for one in lives_of(facts, everything, 5)]
    assert found == [64 * MIB] * 5
    assert sizes_of(facts, everything) == [(64 * MIB, 12), (30 * MIB, 12), (22 * MIB, 3)]


def test_what_is_older_than_the_recording_has_no_birth() -> None:
    trace = Trace()
    trace.alloc(20, frame("old"))
    trace.events = []
    trace.alloc(40, frame("new"))
    old = run_of(trace).ranks[0].facts()
    (life,) = lives_of(old, np.flatnonzero(old.replay.allocations.alloc_event < 0))
    assert (life.born_event, life.born_us, life.born_in, life.freed_event) == (None, None, BEFORE, None)


@pytest.mark.parametrize("by", ["", "stack", "phase", "category", "owner", "module", "rank"])
def test_what_is_alike_is_what_has_the_same_key(facts: Facts, by: str) -> None:
    chosen = of(facts, "linear")[:1]
    found = alike(facts, chosen, by)
    assert found[chosen].all()
    if by == "rank":
        assert found.all()
    if by in ("", "stack"):
        # the first step is another phase than the later ones
        assert found.sum() == (4 if by == "" else 12)
        assert set(np.flatnonzero(found)) <= set(of(facts, "linear"))


@given(st.integers(0, 26), st.integers(0, 26), st.sampled_from(["", "stack", "phase", "category"]))
def test_alike_is_an_equivalence(one: int, other: int, by: str) -> None:
    facts = _FACTS
    first, second = alike(facts, np.array([one]), by), alike(facts, np.array([other]), by)
    assert first[other] == second[one]
    assert bool((first == second).all()) == bool(first[other])
    assert (alike(facts, np.array([one, other]), by) == (first | second)).all()


_FACTS = run_of(job(leak=2)).ranks[0].facts()


def test_without_them_the_peak_is_that_of_the_others(facts: Facts) -> None:
    gathers = np.zeros(len(facts.replay.allocations), bool)
    gathers[of(facts, "foreach_all_gather")] = True
    whole, *phases = saved(facts, gathers)
    table, events = facts.replay.allocations, len(facts.replay)
    others = [table.block_bytes[~gathers & table.allocated_after(event)].sum() for event in range(events)]
    assert whole.phase == ""
    assert whole.peak_bytes == int(facts.replay.allocated_bytes.max())
    assert whole.without_bytes == max(others)
    assert all(one.saved_bytes > 0 for one in phases)
    none = saved(facts, np.zeros_like(gathers))
    assert [(one.phase, one.saved_bytes) for one in none] == [("", 0)]


def test_what_dangles_is_taken_out_from_where_it_was_due() -> None:
    facts = sample("thunder_478/pr").ranks[0].facts()
    dangling = facts.dangling_since < len(facts.replay)
    whole, *phases = saved(facts, dangling, only_dangling=True)
    assert whole.saved_bytes == 4 * MIB
    assert "materialize" not in {one.phase for one in phases}


# ------------------------------------------------------------------ shapes


def test_a_shape_has_the_true_extremes_whatever_its_width(facts: Facts) -> None:
    replay = facts.replay
    for most in (1, 2, 7, 48, 10_000):
        one = spark_of(replay, 3, len(replay), "reserved", most)
        inside = replay.reserved_bytes[2:]
        assert (one.low_bytes, one.high_bytes) == (int(inside.min()), int(inside.max()))
        assert len(one.low) <= most + 1
        assert (one.low <= one.high).all()


def test_a_shape_without_events_is_what_is_held_before(facts: Facts) -> None:
    one = spark_of(facts.replay, 5, 5)
    assert (one.events, one.low.tolist(), one.high.tolist()) == (0, *[[int(facts.replay.allocated_bytes[4])]] * 2)
    assert spark_of(facts.replay, 0, 0).high_bytes == facts.replay.start.allocated_bytes


def test_shapes_are_of_the_stretch_with_the_highest_peak(facts: Facts) -> None:
    stretches = Stretches(facts)
    found = sparks(facts, [*stretches.folded, "no such phase"])
    assert found.keys() == stretches.folded.keys()
    for name, one in found.items():
        assert one.high_bytes == max(each.peak_allocated for each in stretches.folded[name])
