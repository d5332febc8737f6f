"""Segments as they are drawn: every byte in one bar, every bar in its row, and what lies where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.fragmentationparts import BUSY, HELD_BACK, LIVE, MOSTLY_FREE, WHOLE, Pieces, reserved_parts
from snapviz.analyze.passes import analyze
from snapviz.analyze.segmentblocks import BY, FreePlace, LiveBlock, allocation_of, codes_of, lies_at, segments
from snapviz.analyze.segmentmap import ORDERS, Bars, Layout, bars_of, laid_out, row_bytes_for, row_px
from snapviz.replay.model import START
from snapviz.replay.snapshot import Snapshot
from snapviz.snapshot.columns import ABSENT
from snapviz.snapshot.objects import columns_from_objects
from tests.analyze.builders import sample
from tests.analyze.test_fragmentation import facts_of, objects
from tests.replay.builders import BASE, MIB, alloc, block, event, frames, free, gap, segment, segment_alloc
from tests.replay.test_oracle import ALLOCATORS, STEPS, program
from tests.replay.test_segments import Watched

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_bars(pieces: Pieces, layout: Layout, bars: Bars, code: np.ndarray) -> None:
    placed = layout.segment
    assert int(bars.size_bytes.sum()) == int(pieces.table.size_bytes[placed].sum())
    assert len(placed) + layout.more == len(pieces.table)
    assert (bars.size_bytes > 0).all()
    assert (bars.left_bytes + bars.size_bytes <= layout.row_bytes).all()
    assert (bars.row < layout.rows).all()
    # none lies over another, and none in the row of a group's name
    start = bars.row * layout.row_bytes + bars.left_bytes
    assert (np.diff(start) >= bars.size_bytes[:-1]).all()
    heads = {group.row + at for group in layout.groups for at in range(layout.head_rows)}
    assert not set(bars.row.tolist()) & heads
    assert not heads or layout.head_rows * row_px(layout.rows) >= 18
    for at in range(len(bars)):
        inside = code[bars.first[at] : bars.last[at] + 1]
        assert bars.code[at] in inside
        assert len(set(pieces.segment[bars.first[at] : bars.last[at] + 1].tolist())) == 1


@SLOW
@given(STEPS, ALLOCATORS, st.floats(0, 1), st.sampled_from(ORDERS), st.integers(1, 64 * MIB), st.sampled_from(BY))
def test_every_byte_is_in_one_bar(steps, options, share, order, row_bytes, by):
    mini = program(steps, options, Watched)
    assume(mini.states)
    space = AddressSpace(facts_of(mini.snapshot()))
    pieces = space.pieces(int(share * len(mini.states)) - 1)
    codes = codes_of(space.facts, pieces, by)
    parts = reserved_parts(space.facts, pieces)
    assert int(codes.size_bytes[: codes.pending].sum()) == parts.allocated_bytes
    assert codes.size_bytes[codes.pending :].tolist() == [
        parts.pending_bytes, parts.busy_bytes, parts.mostly_free_bytes, parts.whole_bytes + parts.private_bytes,
    ]  # fmt: skip
    for size in (row_bytes_for(pieces), max(row_bytes, row_bytes_for(pieces) // 50)):
        for most in (1, 4_000):
            layout = laid_out(pieces, size, order)
            check_bars(pieces, layout, bars_of(pieces, layout, codes.code, most), codes.code)


@SLOW
@given(STEPS, ALLOCATORS, st.integers(1, 12), st.integers(0, 3000), st.integers(1, 3000))
def test_layers_sum_to_what_is_reserved_and_keep_every_peak(steps, options, most, first, length):
    mini = program(steps, options, Watched)
    assume(mini.states)
    space = AddressSpace(facts_of(mini.snapshot()))
    replay = space.facts.replay
    first = min(first, len(replay) - 1)
    stop = min(len(replay), first + length)
    found = space.layers(most, first, stop)
    assert found.event[0] == first - 1
    assert found.event[-1] == stop - 1
    assert (np.diff(found.event) > 0).all()
    layers = (found.allocated_bytes, found.pending_bytes, found.held_bytes, found.private_bytes, found.whole_bytes)
    assert np.array_equal(sum(layers), found.reserved_bytes)
    for at, when in enumerate(found.event.tolist()):
        totals = replay.after(when)
        assert totals.reserved_bytes == found.reserved_bytes[at]
        assert totals.allocated_bytes == found.allocated_bytes[at]
        parts = reserved_parts(space.facts, space.pieces(when))
        assert parts.busy_bytes + parts.mostly_free_bytes == found.held_bytes[at]
    assert found.reserved_bytes.max() == replay.peak("reserved", first, stop)[0]
    assert found.allocated_bytes.max() == replay.peak("allocated", first, stop)[0]


@pytest.mark.parametrize("name", ["single", "single_expandable", "cuda_graph", "fsdp2_after"])
def test_figures_of_segments_sum_to_the_reserved_parts(name):
    space = AddressSpace(sample(name).ranks[0].facts())
    for when in (
        START,
        space.facts.replay.peak("allocated", 0, len(space.facts.replay))[1],
        len(space.facts.replay) - 1,
    ):
        pieces = space.pieces(when)
        figures, parts = segments(pieces), reserved_parts(space.facts, pieces)
        assert int(figures.size_bytes.sum()) == parts.reserved_bytes
        assert int(figures.allocated_bytes.sum()) == parts.allocated_bytes
        assert int(figures.busy_bytes.sum()) == parts.busy_bytes
        assert int(figures.mostly_free_bytes.sum()) == parts.mostly_free_bytes
        assert int(figures.whole_bytes.sum()) == parts.whole_bytes + parts.private_bytes
        live = figures.allocated_bytes + figures.pending_bytes
        assert np.array_equal(live + figures.free_bytes, figures.size_bytes)
        assert np.array_equal(figures.largest == ABSENT, figures.blocks == 0)
        assert (figures.largest_free_bytes <= figures.free_bytes).all()


def test_few_segments_have_a_row_each_and_many_share():
    few = [segment(BASE + i * 64 * MIB, block((2 + 2 * i) * MIB)) for i in range(3)]
    pieces = AddressSpace(facts_of(objects([], few))).pieces(START)
    layout = laid_out(pieces, row_bytes_for(pieces))
    assert (layout.place // layout.row_bytes).tolist() == [1, 2, 3]
    assert pieces.table.size_bytes[layout.segment].tolist() == [6 * MIB, 4 * MIB, 2 * MIB]
    assert [(one.row, one.segments, one.size_bytes) for one in layout.groups] == [(0, 3, 12 * MIB)]
    many = [segment(BASE + i * 64 * MIB, block(2 * MIB)) for i in range(100)]
    many.append(segment(BASE + (1 << 40), block(32 * MIB)))
    pieces = AddressSpace(facts_of(objects([], many))).pieces(START)
    layout = laid_out(pieces, row_bytes_for(pieces))
    assert layout.more == 0
    # a head, the large one, and 15 of 2 MiB in a row, with a gap between them
    assert layout.rows == 2 + 7


def test_what_has_no_row_is_counted():
    many = [segment(BASE + i * 64 * MIB, block(2 * MIB)) for i in range(1_000)]
    pieces = AddressSpace(facts_of(objects([], many))).pieces(START)
    layout = laid_out(pieces, 2 * MIB)
    assert (layout.rows, layout.more, layout.more_bytes) == (400, 604, 604 * 2 * MIB)


def test_one_segment_that_expands_goes_on_in_the_next_row():
    one = segment(BASE, block(900 * MIB), gap(60 * MIB), expandable=True)
    pieces = AddressSpace(facts_of(objects([], [one], expandable_segments=True))).pieces(START)
    size = row_bytes_for(pieces)
    assert size == 40 * MIB
    layout = laid_out(pieces, size)
    bars = bars_of(pieces, layout, pieces.kind)
    assert bars.row.tolist() == [*range(1, 24), 23, 24]
    assert bars.code.tolist() == [LIVE] * 23 + [WHOLE] * 2


def fragmented():
    """Two live blocks keep 14 of 20 MiB, and one of those is freed on another stream."""
    a, b = BASE + 4 * MIB, BASE + 8 * MIB
    events = [
        segment_alloc(BASE, 20 * MIB),
        alloc(BASE, 4 * MIB, frames=frames("first")),
        alloc(a, 4 * MIB, frames=frames("kept")),
        alloc(b, 2 * MIB, frames=frames("late")),
        *free(BASE, 4 * MIB),
        {"action": "free_requested", "addr": b, "size": 2 * MIB, "stream": 0},
    ]
    left = segment(
        BASE, gap(4 * MIB), block(4 * MIB, frames=frames("kept")), block(2 * MIB, state="active_pending_free"),
        gap(10 * MIB),
    )  # fmt: skip
    return AddressSpace(facts_of(objects(events, [left])))


def test_what_lies_at_a_place():
    space = fragmented()
    pieces = space.pieces(len(space.facts.replay) - 1)
    assert pieces.kind.tolist() == [MOSTLY_FREE, LIVE, HELD_BACK, MOSTLY_FREE]
    assert allocation_of(pieces).tolist() == [ABSENT, 1, 2, ABSENT]
    first, kept, late, last = (lies_at(space, pieces, at) for at in range(4))
    assert isinstance(first, FreePlace)
    assert first.before is None
    assert first.after == kept
    assert (first.unit_bytes, first.unit_free_bytes, first.paged) == (20 * MIB, 14 * MIB, False)
    assert first.holders == (kept, late)
    assert (first.holder_count, first.holder_bytes) == (2, 6 * MIB)
    assert isinstance(kept, LiveBlock)
    assert (kept.offset_bytes, kept.block_bytes, kept.alloc_event, kept.free_event) == (4 * MIB, 4 * MIB, 2, None)
    assert kept.stack == ("kept (train.py:1)",)
    assert not kept.pending
    assert isinstance(late, LiveBlock)
    assert late.pending
    assert late.free_event == 6
    assert isinstance(last, FreePlace)
    assert last.before == late
    assert last.after is None
    with pytest.raises(IndexError):
        lies_at(space, pieces, 4)


def test_what_is_whole_is_kept_by_nothing():
    one = segment(BASE, gap(20 * MIB))
    space = AddressSpace(facts_of(objects([], [one])))
    found = lies_at(space, space.pieces(START), 0)
    assert isinstance(found, FreePlace)
    assert (found.kind, found.unit_bytes, found.holders) == (WHOLE, 0, ())


def test_nothing_is_drawn_of_nothing():
    snap = Snapshot(columns_from_objects(objects([], [])))
    space = AddressSpace(analyze(0, snap.columns, snap.replay(0), None, None))
    pieces = space.pieces(START)
    layout = laid_out(pieces, row_bytes_for(pieces))
    bars = bars_of(pieces, layout, codes_of(space.facts, pieces).code)
    assert (len(bars), layout.rows, layout.groups) == (0, 0, ())
    assert space.layers().event.tolist() == [START]


def test_many_owners_are_the_largest_and_the_others():
    blocks = [block((2 + i % 5) * MIB, frames=frames(f"f{i}")) for i in range(40)]
    space = AddressSpace(facts_of(objects([], [segment(BASE, *blocks)])))
    pieces = space.pieces(START)
    codes = codes_of(space.facts, pieces, "owner")
    assert codes.labels == ("",)
    facts = space.facts
    named = type(facts)(**{**vars(facts), "owner": np.arange(40, dtype=np.int32), "owners": tuple(map(str, range(40)))})
    codes = codes_of(named, pieces, "owner")
    assert len(codes.labels) == 15
    assert codes.rest
    assert codes.labels[-1] == "other"
    assert int(codes.size_bytes.sum()) == int(pieces.size_bytes.sum())
    assert codes.size_bytes[:14].tolist() == sorted(codes.size_bytes[:14].tolist(), reverse=True)


def test_a_page_that_is_busy_is_no_segment():
    one = segment(BASE, block(18 * MIB), gap(2 * MIB), gap(0), block(20 * MIB), expandable=True)
    space = AddressSpace(facts_of(objects([], [one], expandable_segments=True)))
    pieces = space.pieces(START)
    found = lies_at(space, pieces, int(np.flatnonzero(pieces.kind == BUSY)[0]))
    assert isinstance(found, FreePlace)
    assert found.paged
    assert found.unit_bytes == 20 * MIB
    assert [one.block_bytes for one in found.holders] == [18 * MIB]


def test_neighbours_of_two_segments_are_never_one_bar():
    halves = (block(MIB), gap(MIB))
    many = [segment(BASE + i * 64 * MIB, *halves) for i in range(100)]
    many.append(segment(BASE + (1 << 40), block(32 * MIB)))
    pieces = AddressSpace(facts_of(objects([], many))).pieces(START)
    layout = laid_out(pieces, row_bytes_for(pieces))
    bars = bars_of(pieces, layout, pieces.kind, 1)
    check_bars(pieces, layout, bars, pieces.kind)
    assert len(bars) == 101


def test_a_peak_of_reserved_memory_alone_is_kept():
    quiet = [one for _ in range(20) for one in (alloc(BASE, 2 * MIB), *free(BASE, 2 * MIB))]
    spike = [segment_alloc(BASE + (1 << 40), 64 * MIB), event("segment_free", BASE + (1 << 40), 64 * MIB)]
    events = [segment_alloc(BASE, 20 * MIB), *quiet, *spike, *quiet]
    space = AddressSpace(facts_of(objects(events, [segment(BASE, gap(20 * MIB))])))
    assert int(space.layers(1).reserved_bytes.max()) == 84 * MIB
