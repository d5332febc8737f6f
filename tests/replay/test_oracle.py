"""The replay against a miniature allocator that knows its own counters."""

from __future__ import annotations

import random
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapviz.replay import MEASURES, Replay, replay_device
from snapviz.snapshot.objects import columns_from_objects
from tests.replay.miniature import MIB, Miniature

M = TypeVar("M", bound=Miniature)

ROUND_SIZES = (512, MIB, MIB + 1, 2 * MIB, 3 * MIB - 512, 9 * MIB + 1, 10 * MIB, 20 * MIB, 20 * MIB + 1, 30 * MIB)


@st.composite
def programs(draw):
    """Up to 200 steps. They come from a seed, since drawn one by one they stay too few to fill and
    empty memory; the length still shrinks."""
    seeded = random.Random(draw(st.integers(0, 1 << 32)))
    weights = [seeded.choice([2, 5, 8]), 5, seeded.choice([0, 1]), 1, seeded.choice([0, 0.3]), 0.2]
    names = ["malloc", "free", "free_later", "complete", "empty_cache", "checkpoint"]
    steps = []
    for name in seeded.choices(names, weights, k=draw(st.integers(1, 200))):
        size = seeded.choice([seeded.randint(1, 4096), seeded.randint(MIB, 12 * MIB), seeded.choice(ROUND_SIZES)])
        number = size if name == "malloc" else seeded.randrange(1 << 16)
        steps.append((name, number, seeded.choice([(0, 0), (0, 0), (0, 0), (7, 0), (0, 1)])))
    return steps


STEPS = programs()
ALLOCATORS = st.sampled_from(
    [
        {},
        {"segment_gap": 2 * MIB},
        {"expandable": True},
        {"divisions": 4},
        {"divisions": 8, "expandable": True},
        {"max_split": 12 * MIB},
        {"max_split": 22 * MIB, "divisions": 2},
    ]
)


def program(steps, options, kind: type[M] = Miniature) -> M:
    mini = kind(**options)
    for what, number, where in steps:
        if what == "malloc":
            mini.malloc(number, *where)
        elif what in ("empty_cache", "checkpoint"):
            getattr(mini, what)()
        else:
            wanted = "pending" if what == "complete" else "allocated"
            found = [b for b in mini.live if b.state == wanted]
            if found:
                block = found[number % len(found)]
                mini.complete(block) if what == "complete" else mini.free(block, later=what == "free_later")
    return mini


def replayed(mini: Miniature, cut: int = 0) -> Replay:
    return replay_device(columns_from_objects(mini.snapshot(cut)), 0)


def curves(replay: Replay) -> np.ndarray:
    return np.stack([replay.curve(measure) for measure in MEASURES], axis=1)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS)
def test_a_whole_recording_equals_the_allocators_counters(steps, options):
    mini = program(steps, options)
    found = replayed(mini)
    assert found.notes == ()
    assert found.exact
    assert found.consistent
    assert curves(found).tolist() == [list(row) for row in mini.history]
    table = found.allocations
    assert list(zip(table.address.tolist(), table.block_bytes.tolist(), strict=True)) == mini.born


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS, st.floats(0, 1))
def test_a_cut_recording_equals_the_whole_one_but_for_what_it_calls_estimated(steps, options, share):
    mini = program(steps, options)
    cut = int(share * len(mini.events))
    found = replayed(mini, cut)
    assert found.consistent, found.notes
    truth = np.array([(0, 0, 0, 0), *mini.history])[cut:]
    start = [getattr(found.start, f"{measure}_bytes") for measure in MEASURES]
    ours = np.vstack([start, curves(found)])
    table = found.allocations
    missing = truth - ours
    guesses = np.array([(table.estimated & table.active_after(e)).sum() for e in range(-1, len(found))])
    assert (missing[:, [0, 3]] == 0).all()
    assert (missing >= 0).all()
    assert (missing <= guesses[:, None] * MIB).all()
    assert found.exact == (not table.estimated.any())


def _with_a_remainder(mini: Miniature):
    """A block of 4 MiB that was asked for with 1,000 bytes less, so that its last 512 are a remainder;
    between two others. Returns it, and the one behind it."""
    before = mini.malloc(4 * MIB)
    behind = mini.malloc(2 * MIB)
    mini.malloc(14 * MIB)
    mini.free(before)
    block = mini.malloc(4 * MIB - 1000)
    assert block.size == 4 * MIB
    return block, behind


def test_a_remainder_before_a_neighbour_is_found_by_geometry():
    mini = Miniature()
    block, _ = _with_a_remainder(mini)
    cut = len(mini.events)
    mini.free(block)
    found = replayed(mini, cut)
    assert found.exact
    assert found.start.allocated_bytes == 20 * MIB
    assert found.allocations.block_bytes.tolist() == [4 * MIB, 2 * MIB, 14 * MIB]


@pytest.mark.parametrize("later", [False, True])
def test_a_remainder_before_a_gap_is_found_by_the_next_request(later):
    mini = Miniature()
    block, behind = _with_a_remainder(mini)
    mini.free(behind)
    cut = len(mini.events)
    mini.malloc(100)
    mini.malloc(2 * MIB)
    mini.free(block, later=later)
    found = replayed(mini, cut)
    assert found.exact
    assert found.start.allocated_bytes == 18 * MIB
    assert curves(found).tolist() == [list(row) for row in mini.history[cut:]]


def test_a_remainder_of_what_was_freed_before_the_recording_was_active_only():
    mini = Miniature()
    block, behind = _with_a_remainder(mini)
    mini.free(behind)
    mini.free(block, later=True)
    cut = len(mini.events)
    mini.malloc(2 * MIB)
    mini.complete(block)
    found = replayed(mini, cut)
    assert found.exact
    assert (found.start.allocated_bytes, found.start.active_bytes) == (14 * MIB, 18 * MIB)
    assert curves(found).tolist() == [list(row) for row in mini.history[cut:]]


def test_a_remainder_before_a_gap_is_an_estimate_until_it_is_freed():
    mini = Miniature()
    block, behind = _with_a_remainder(mini)
    mini.free(behind)
    cut = len(mini.events)
    mini.malloc(100)
    mini.free(block)
    mini.malloc(100)
    found = replayed(mini, cut)
    assert found.consistent
    assert not found.exact
    assert found.start.allocated_bytes == 18 * MIB - 512
    assert found.estimated_until == len(found) - 2
    missing = np.array(mini.history[cut:]) - curves(found)
    assert missing[:, 1].tolist() == [512] * 2 + [0] * 3
    assert missing[:, 2].tolist() == [512] * 3 + [0] * 2
    (finding,) = [f for f in found.findings if f.severity == "estimate"]
    assert (finding.count, finding.bytes, finding.event) == (1, 4 * MIB - 512, len(found) - 2)
    assert "1,048,576 bytes too low" in finding.message


def test_a_remainder_found_while_the_free_is_pending_stays_an_estimate():
    mini = Miniature()
    block, behind = _with_a_remainder(mini)
    mini.free(behind)
    cut = len(mini.events)
    mini.free(block, later=True)
    mini.malloc(2 * MIB)
    mini.complete(block)
    found = replayed(mini, cut)
    assert found.consistent
    assert not found.exact
    assert found.end.active_bytes == mini.history[-1][2]


def test_a_free_that_was_asked_for_before_the_recording():
    mini = Miniature()
    block = mini.malloc(3 * MIB)
    mini.malloc(100)
    mini.free(block, later=True)
    cut = len(mini.events)
    mini.malloc(200)
    mini.free(mini.malloc(300))
    mini.complete(block)
    found = replayed(mini, cut)
    assert curves(found).tolist() == [list(row) for row in mini.history[cut:]]
    row = found.allocations.address.tolist().index(mini.born[0][0])
    assert found.allocations.free_requested_event[row] == -1
    assert found.start.allocated_bytes == 512


@pytest.mark.parametrize("cut", [0, 3])
def test_checkpoints_are_checked(cut):
    mini = Miniature()
    mini.malloc(MIB)
    mini.malloc(3 * MIB)
    mini.checkpoint()
    mini.events[-1]["size"] += 512
    found = replayed(mini, cut)
    assert not found.consistent
    assert any(f.kind == "checkpoint" and f.count == 1 and f.bytes == -512 for f in found.findings)
