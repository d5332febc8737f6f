"""Segments and blocks at any event, against an allocator that really has them, and against the files' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapviz import UsageError
from snapviz.replay.final import ranges
from snapviz.replay.freeblocks import FollowedPool, FreeCurves, free_curves, is_private
from snapviz.replay.model import START, Replay
from snapviz.replay.origins import LARGE_PAGE, SMALL_PAGE, last_over
from snapviz.replay.segments import ALLOCATED, FREE, PENDING, SegmentHistory, SegmentTable, segments_at
from snapviz.replay.snapshot import Snapshot, load_snapshot
from snapviz.snapshot.columns import ABSENT, BLOCK_STATES, Columns
from snapviz.snapshot.objects import columns_from_objects
from tests.replay.builders import BASE, MIB, alloc, block, columns, event, free, gap, segment, segment_alloc
from tests.replay.miniature import Miniature
from tests.replay.test_oracle import ALLOCATORS, STEPS, program

RECORDED = sorted((Path(__file__).resolve().parents[1] / "data" / "allocator").glob("*.pickle.xz"))
PAGES = {True: SMALL_PAGE, False: LARGE_PAGE}

State = list[tuple[int, int, int, bool, list[tuple[int, int, str]]]]


class Watched(Miniature):
    """The miniature, with its segments written down after every event."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.states: list[State] = []

    def record(self, action: str, addr: int, size: int, stream: int) -> None:
        super().record(action, addr, size, stream)
        self.states.append(plain(self.segments()))


def plain(segments: list[dict[str, Any]]) -> State:
    return sorted(
        (
            one["address"],
            one["total_size"],
            one["stream"],
            one["segment_type"] == "small",
            [(b["address"], b["size"], b["state"]) for b in one["blocks"]],
        )
        for one in segments
    )


def state_of(table: SegmentTable) -> State:
    blocks = list(
        zip(table.block_address.tolist(), table.block_bytes.tolist(), table.block_state.tolist(), strict=True)
    )
    return [
        (
            int(table.address[g]),
            int(table.size_bytes[g]),
            int(table.stream[g]),
            bool(table.small[g]),
            [(a, n, BLOCK_STATES[s]) for a, n, s in blocks[table.block_offsets[g] : table.block_offsets[g + 1]]],
        )
        for g in range(len(table))
    ]


def watched(steps, options) -> tuple[Watched, Snapshot]:
    mini = program(steps, options, Watched)
    return mini, Snapshot(columns_from_objects(mini.snapshot()))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS)
def test_every_moment_is_the_allocators_own(steps, options):
    mini, snap = watched(steps, options)
    replay = snap.replay(0)
    history = SegmentHistory(replay, snap.columns)
    assert state_of(history.at(START)) == []
    for index, state in enumerate(mini.states):
        table = history.at(index)
        assert state_of(table) == state
        assert len(table.outside) == 0


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS, st.floats(0, 1))
def test_a_cut_recording_knows_the_same_moments_where_nothing_is_estimated(steps, options, share):
    mini = program(steps, options, Watched)
    cut = int(share * len(mini.events))
    snap = Snapshot(columns_from_objects(mini.snapshot(cut)))
    replay = snap.replay(0)
    history = SegmentHistory(replay, snap.columns)
    states = [[], *mini.states][cut:]
    for index, state in enumerate(states, START):
        if index > replay.estimated_until or not replay.allocations.estimated.any():
            found = state_of(history.at(index))
            # ten small pages that were mapped before and go as one are like a large page
            shown = slice(None) if not mini.expandable else slice(0, 3)
            assert [(*one[shown], one[-1]) for one in found] == [(*one[shown], one[-1]) for one in state]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS)
def test_the_curves_of_free_memory_are_those_of_the_moments(steps, options):
    mini, snap = watched(steps, options)
    replay = snap.replay(0)
    pools = [FollowedPool(stream, small) for stream in (0, 7) for small in (False, True)]
    history = SegmentHistory(replay, snap.columns)
    curves = free_curves(history, pools)
    for index in range(START, len(replay)):
        check_curves(history.at(index), snap.columns, curves)
    assert int(curves.largest_bytes[:, 0].sum()) == 0
    grew = [(e, n) for e, n in zip(curves.grown_event.tolist(), curves.grown_bytes.tolist(), strict=True)]
    assert all(
        mini.events[e]["size"] == n and mini.events[e]["action"] in ("segment_alloc", "segment_map") for e, n in grew
    )


def check_curves(table: SegmentTable, columns: Columns, curves: FreeCurves) -> None:
    place = table.event + 1
    private, of = is_private(table.pool, columns.pools), table.segment_of_block
    is_free = table.block_state == FREE
    for row, pool in enumerate(curves.pools):
        mine = is_free & ((table.stream == pool.stream) & (table.small == pool.small) & ~private)[of]
        sizes = table.block_bytes[mine]
        assert int(sizes.max(initial=0)) == curves.largest_bytes[row, place]
        assert int(sizes.sum()) == curves.free_bytes[row, place]
    whole = [0, 0]
    for one in np.flatnonzero(is_free).tolist():
        whole[int(private[of[one]])] += whole_bytes(table, one, int(of[one]))
    assert whole == [curves.whole_bytes[place], curves.private_bytes[place]]


def whole_bytes(table: SegmentTable, block: int, segment: int) -> int:
    size = int(table.block_bytes[block])
    if not table.expandable[segment]:
        return size if size == table.size_bytes[segment] else 0
    page = PAGES[bool(table.small[segment])]
    first = int(table.block_address[block] - table.address[segment])
    return sum(page for start in range(0, first + size, page) if start >= first and start + page <= first + size)


def check_file(columns: Columns, replay: Replay) -> None:
    """The end block for block, and the totals of other moments."""
    history = SegmentHistory(replay, columns)
    end = history.at(len(replay) - 1)
    chosen = np.flatnonzero(columns.segments.device == replay.device)
    chosen = chosen[np.argsort(columns.segments.address[chosen])]
    block = ranges(columns.segments.block_offsets[:-1][chosen], np.diff(columns.segments.block_offsets)[chosen])
    for ours, theirs in (
        (end.address, columns.segments.address[chosen]),
        (end.size_bytes, columns.segments.total_size[chosen]),
        (end.stream, columns.segments.stream[chosen]),
        (end.pool, columns.segments.pool[chosen]),
        (end.block_address, columns.blocks.address[block]),
        (end.block_bytes, columns.blocks.size[block]),
        (end.block_state, columns.blocks.state[block]),
    ):
        assert ours.tolist() == theirs.tolist()
    types = [columns.strings.text(int(word)) == "small" for word in columns.segments.segment_type[chosen]]
    assert end.small.tolist() == types
    streams = np.unique(end.stream)[:2].tolist()
    curves = free_curves(history, [FollowedPool(stream) for stream in streams])
    for index in np.unique(np.linspace(START, len(replay) - 1, 9).astype(int)).tolist():
        table = history.at(index)
        check_totals(table, replay)
        check_curves(table, columns, curves)
        live = table.allocation != ABSENT
        of = table.segment_of_block[live]
        assert table.stream[of].tolist() == replay.allocations.stream[table.allocation[live]].tolist()


def check_totals(table: SegmentTable, replay: Replay) -> None:
    totals = replay.after(table.event)
    assert int(table.size_bytes.sum()) == totals.reserved_bytes
    assert int(table.block_bytes[table.block_state == ALLOCATED].sum()) == totals.allocated_bytes
    assert int(table.block_bytes[table.block_state == PENDING].sum()) == totals.active_bytes - totals.allocated_bytes
    assert int(table.block_bytes.sum()) == totals.reserved_bytes
    assert table.outside.tolist() == []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_recorded_files(path: Path) -> None:
    snap = load_snapshot(path, cache=False)
    check_file(snap.columns, snap.replay())


def test_every_consistent_real_file(shared: Path) -> None:
    checked = 0
    for path in sorted((shared / "corpus").glob("*.xz")) + sorted((shared / "groundtruth").glob("*.xz")):
        snap = load_snapshot(path, cache=False)
        for device in snap.devices:
            replay = snap.replay(device)
            if replay.consistent:
                check_file(snap.columns, replay)
                checked += 1
    assert checked == 53


@pytest.mark.parametrize("name", ["alloc_plain_rank0", "alloc_graph_rank0", "alloc_ring_rank0"])
def test_inactive_split_bytes_are_torchs(shared: Path, name: str) -> None:
    """torch counts as inactive and split what is free in segments that are not wholly free."""
    about = json.loads((shared / "groundtruth" / f"{name}.json").read_text())
    snap = load_snapshot(shared / "groundtruth" / f"{name}.pickle.xz", cache=False)
    replay = snap.replay()
    curves = free_curves(SegmentHistory(replay, snap.columns), [])
    split = replay.reserved_bytes - replay.active_bytes - (curves.whole_bytes + curves.private_bytes)[1:]
    assert int(split[-1]) == about["stats"]["inactive_split_bytes.all.current"]
    last = about["phases"][-1]
    first, stop = replay.window(last["t0"], last["t1"])
    assert int(split[first - 1 : stop].max()) == about["stats"]["inactive_split_bytes.all.peak"]


def test_what_contradicts_the_segments_is_outside_and_nothing_fails():
    there = segment(BASE, block(512), gap(2 * MIB - 512))
    made = columns([segment_alloc(BASE, 2 * MIB), alloc(BASE, 512), alloc(BASE + 40 * MIB, 1024)], [there])
    replay = Snapshot(made).replay(0)
    table = segments_at(replay, made, 2)
    assert not replay.consistent
    assert table.outside.tolist() == [1]
    assert int(table.block_bytes.sum()) == int(table.size_bytes.sum())
    free_curves(SegmentHistory(replay, made), [FollowedPool(0)])


def test_an_event_the_trace_has_not_is_said():
    made = columns([segment_alloc(BASE, 2 * MIB)], [])
    replay = Snapshot(made).replay(0)
    for wrong in (1, -2):
        with pytest.raises(UsageError, match="of a trace of 1 events"):
            segments_at(replay, made, wrong)


def test_a_segment_that_was_given_back_has_no_pool_but_what_an_event_tells():
    told = columns_from_objects(
        {
            "segments": [],
            "device_traces": [
                [
                    segment_alloc(BASE, 2 * MIB, pool_id=(0, 3), stream=9),
                    event("segment_free", BASE, 2 * MIB, pool_id=(0, 3), stream=9),
                    segment_alloc(BASE, 20 * MIB),
                    *free(BASE, 1),
                    event("segment_free", BASE, 20 * MIB),
                ]
            ],
        }
    )
    history = SegmentHistory(Snapshot(told).replay(0), told)
    first, second = history.at(0), history.at(2)
    assert (told.pools[first.pool].tolist(), first.stream.tolist(), first.small.tolist()) == ([[0, 3]], [9], [True])
    assert (second.pool.tolist(), second.stream.tolist(), second.small.tolist()) == ([ABSENT], [0], [False])


def test_what_is_mapped_between_two_ranges_shows_that_they_are_of_one_pool():
    events = [
        event("segment_map", BASE + 20 * MIB, 20 * MIB),
        event("segment_unmap", BASE + 40 * MIB, 20 * MIB),
    ]
    left = segment(BASE, gap(40 * MIB), expandable=True, segment_pool_id=(0, 3))
    made = columns(events, [left])
    before = SegmentHistory(Snapshot(made).replay(0), made).at(START)
    assert before.address.tolist() == [BASE, BASE + 40 * MIB]
    assert made.pools.tolist() == [[0, 3]]
    assert before.pool.tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 99)), max_size=30))
def test_last_over_is_the_highest_of_the_windows(windows):
    first = np.array([min(a, b) for a, b, _ in windows], np.int64)
    stop = np.array([max(a, b) for a, b, _ in windows], np.int64)
    value = np.array([v for _, _, v in windows], np.int64)
    found = last_over(first, stop, value, 40).tolist()
    assert found == [
        max([v for a, b, v in zip(first, stop, value, strict=True) if a <= x < b], default=-1) for x in range(40)
    ]
