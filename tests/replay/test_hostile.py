"""Columns nobody's allocator wrote: never a crash, never a hang, totals that still add up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.replay import MEASURES, Replay, replay_device
from tests.replay.builders import BASE, MIB, columns, event

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "free",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "dance",
)
EDGES = [v for p in (0, 9, 20, 31, 32, 60, 61, 62, 63) for v in ((1 << p) - 1, -(1 << p))]
NUMBERS = st.one_of(
    st.sampled_from([0, 512, 513, MIB, MIB + 512, 2 * MIB, 3 * MIB, 20 * MIB]),
    st.sampled_from(EDGES),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
# a few near places, so that things collide, and far ones
PLACES = st.one_of(
    st.integers(0, 40).map(lambda i: BASE + i * MIB // 2), st.integers(0, 9).map(lambda i: i * 512), NUMBERS
)
EVENTS = st.lists(
    st.builds(event, st.sampled_from(ACTIONS), PLACES, NUMBERS, time_us=st.integers(-1, 9), pool_id=st.just((0, 0))),
    max_size=60,
)
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {"size": NUMBERS, "state": st.sampled_from(["inactive", "active_allocated", "active_pending_free"])},
        optional={"address": PLACES, "requested_size": NUMBERS},
    ),
    max_size=6,
)
SEGMENTS = st.lists(
    st.fixed_dictionaries(
        {"device": st.just(0), "address": PLACES, "total_size": NUMBERS, "blocks": BLOCKS},
        optional={
            "is_expandable": st.booleans(),
            "allocated_size": NUMBERS,
            "active_size": NUMBERS,
            "requested_size": NUMBERS,
            "stream": NUMBERS,
        },
    ),
    max_size=5,
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "max_split_size": NUMBERS,
        "expandable_segments": st.one_of(st.booleans(), NUMBERS, st.none()),
        "roundup_power2_divisions": st.one_of(
            NUMBERS, st.dictionaries(st.sampled_from(["1", "2", "64", "x"]), NUMBERS)
        ),
    },
)


def must_hold(found: Replay) -> None:
    """What is true of every replay, whatever it was made from."""
    table = found.allocations
    count = len(found)
    assert (table.alloc_event <= table.free_requested_event).all()
    assert (table.free_requested_event <= table.free_completed_event).all()
    assert ((table.free_completed_event >= 0) & (table.free_completed_event <= count)).all()
    assert (table.block_bytes > 0).all()
    assert (table.requested_bytes <= table.block_bytes).all()
    for at in {-1, count // 2 - 1, count - 1}:
        live = table.active_after(at)
        totals = found.after(at)
        assert sum(table.block_bytes[live].tolist()) == totals.active_bytes
        assert sum(table.requested_bytes[live].tolist()) == totals.requested_bytes
        assert sum(table.block_bytes[table.allocated_after(at)].tolist()) == totals.allocated_bytes
        order = np.argsort(table.address[live])
        starts, ends = table.address[live][order], (table.address + table.block_bytes)[live][order]
        assert (ends[:-1] <= starts[1:]).all(), "two live allocations over one another"
    assert found.consistent or found.notes
    assert all(len(found.curve(measure)) == count for measure in MEASURES)


@settings(max_examples=400)
@given(EVENTS, SEGMENTS, SETTINGS)
def test_garbage_gives_a_replay(events, segments, allocator):
    must_hold(replay_device(columns(events, segments, allocator), 0))


def test_random_events_over_few_places_give_a_replay():
    """Longer than hypothesis draws: most events hit something."""
    seeded = np.random.default_rng(5)
    for size in (3, 20, 200):
        names = seeded.choice(ACTIONS, 4000, p=[0.3, 0.12, 0.2, 0.1, 0.06, 0.05, 0.06, 0.06, 0.03, 0.01, 0.01]).tolist()
        places = seeded.integers(0, size, 4000).tolist()
        sizes = seeded.choice([1, 512, 4096, MIB, MIB + 1, 2 * MIB, 5 * MIB, 20 * MIB], 4000).tolist()
        events = [event(n, BASE + p * 512 * 1024, s) for n, p, s in zip(names, places, sizes, strict=True)]
        must_hold(replay_device(columns(events, []), 0))


def test_more_reserved_than_an_integer_holds():
    whole = {"device": 0, "address": 0, "total_size": 1 << 61, "blocks": []}
    found = replay_device(columns([event("segment_free", 0, 1 << 61)] * 9, [whole] * 9, {}), 0)
    must_hold(found)
    assert {"segment-differs", "end-reserved"} <= {finding.kind for finding in found.findings}
    must_hold(replay_device(columns([event("segment_alloc", 0, 1 << 61)] * 9, [], {}), 0))


def test_many_blocks_are_cleared_in_linear_time():
    """One event over a hundred thousand blocks, again and again: each block is taken away once."""
    small = [event("alloc", BASE + i * 512, 512) for i in range(30_000)]
    over = [event("segment_alloc", BASE, 30_000 * 512), event("segment_free", BASE, 30_000 * 512)]
    found = replay_device(columns([*over[:1], *small, *over * 2000], []), 0)
    must_hold(found)
    assert found.end.active_bytes == 0


CHECKED = """
import os
assert os.environ["NUMBA_BOUNDSCHECK"] == "1"
from hypothesis import given, settings
from tests.replay import test_hostile as hostile, test_oracle as oracle
import hypothesis.strategies as st

@settings(max_examples=80, deadline=None, database=None)
@given(hostile.EVENTS, hostile.SEGMENTS, hostile.SETTINGS)
def garbage(events, segments, allocator):
    hostile.must_hold(hostile.replay_device(hostile.columns(events, segments, allocator), 0))

@settings(max_examples=80, deadline=None, database=None)
@given(oracle.STEPS, oracle.ALLOCATORS, st.integers(0, 60))
def programs(steps, options, cut):
    oracle.replayed(oracle.program(steps, options), cut)

garbage()
programs()
hostile.test_random_events_over_few_places_give_a_replay()
print("checked")
"""


def test_no_index_leaves_its_array(tmp_path):
    """The same garbage with numba's own bounds checks, compiled apart."""
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(root),
    }
    command = [sys.executable, "-c", CHECKED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["checked"]
