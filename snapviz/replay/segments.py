"""Segments and their blocks after any event of a device: what its memory looked like then.

``segments_at`` gives one moment, a ``SegmentHistory`` many of one replay for the price of one
preparation. Segments are those of the end, taken back to the moment event by event; in them lie the
allocations that are active then, and what is between those is free. The rules are PyTorch's
(c10/cuda/CUDACachingAllocator.cpp of torch 2.11): free neighbours of a segment are always one block,
and a segment that expands is one segment as far as it is mapped without a gap.

Legend: E events, K of them segment events, A allocations, G segments at the moment, B blocks, X coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.errors import UsageError
from snapviz.replay.final import final_state
from snapviz.replay.model import START, Replay
from snapviz.replay.origins import SEGMENT_ACTIONS, Births, Lives, SegmentEvents, lives_at, names_of
from snapviz.replay.rules import LIMIT
from snapviz.snapshot.columns import ABSENT, BLOCK_STATES, Columns

__all__ = ["ALLOCATED", "FREE", "PENDING", "SegmentHistory", "SegmentTable", "segments_at"]

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

FREE, ALLOCATED, PENDING = range(len(BLOCK_STATES))
"""States of a block, codes into ``BLOCK_STATES``; pending is freed, and not usable again yet."""


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """The G segments after an event, by address, and the B blocks that fill them, by address.

    Blocks of segment g are ``block_offsets[g]:block_offsets[g + 1]``; without a gap, and no two free
    ones side by side. ``outside`` holds what is active and lies in no segment, or over another block:
    empty unless the file contradicts itself.
    """

    event: int  # the moment is just after it; START: before the first
    address: Int64  # [G]
    size_bytes: Int64  # [G]
    stream: Int64  # [G] or ABSENT
    pool: Int32  # [G] pool id, or ABSENT where nothing tells it
    small: Bool  # [G] of the pool for requests up to 1 MiB
    expandable: Bool  # [G]
    block_offsets: Int64  # [G + 1]
    block_address: Int64  # [B]
    block_bytes: Int64  # [B]
    block_state: Int8  # [B] FREE, ALLOCATED or PENDING
    allocation: Int64  # [B] index into the allocation table, ABSENT of a free block
    outside: Int64  # indices into the allocation table

    def __len__(self) -> int:
        return len(self.address)

    @property
    def segment_of_block(self) -> Int64:
        """[B] index of the segment that each block lies in."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.block_offsets))

    def sums(self, mask: Bool) -> Int64:
        """[G] bytes of the blocks that ``mask`` [B] picks."""
        # no sum of a segment exceeds its size, and sizes are below LIMIT
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(mask, self.block_bytes, 0))])
        summed: Int64 = running[self.block_offsets[1:]] - running[self.block_offsets[:-1]]
        return summed


def segments_at(replay: Replay, columns: Columns, event: int) -> SegmentTable:
    """The segments of ``replay``'s device just after an event of its trace (``START``: before the first).

    ``columns`` are those the replay was made from. In a consistent file the sizes sum to
    ``replay.after(event).reserved_bytes``, allocated and pending blocks to its other measures, and at
    the last event every block is one of the file's own. Where ``allocations.estimated`` holds, a block
    may be up to 1 MiB larger than given and the free one behind it smaller.

    Takes O(K log K + A) for the first moment. Raises ``UsageError`` for an event the trace has not.
    """
    return SegmentHistory(replay, columns).at(event)


class SegmentHistory:
    """The segment events of one device, prepared, so that any number of moments can be asked for."""

    def __init__(self, replay: Replay, columns: Columns) -> None:
        self.replay, self.columns = replay, columns
        self.events = _segment_events(replay, columns)
        self._final = final_state(columns, replay.device)
        edges = [self.events.address, self.events.end, self._final.segment_start, self._final.segment_end]
        self._address = np.unique(np.concatenate([*edges, np.zeros(1, np.int64)]))
        self._first, self._last, self._begin, self._end = (self._place(values) for values in edges)
        self._start = self._segments(START)
        self._lives = self._names()

    def at(self, event: int) -> SegmentTable:
        """The segments just after an event. Raises ``UsageError`` for an event the trace has not."""
        if not START <= event < len(self.replay):
            raise UsageError(f"event {event:,} of a trace of {len(self.replay):,} events")
        address, end, expandable = self._segments(event)
        life = self._lives_at(event, address, end)
        named = (self._lives.stream[life], self._lives.pool[life], self._lives.small[life])
        return _filled(self.replay, event, (address, end, expandable, *named))

    def births(self) -> Births:
        """The segments and mapped stretches that appear within the trace."""
        events, lives = self.events, self._lives
        came = np.flatnonzero(events.appears)
        life = lives.part_of[lives.touched[came]]
        named = (lives.stream[life], lives.pool[life], lives.small[life])
        return Births(events.event[came], events.address[came], events.size_bytes[came], *named, events.maps[came])

    def _place(self, values: Int64) -> Int32:
        return np.searchsorted(self._address, values).astype(np.int32)

    def _segments(self, event: int) -> tuple[Int64, Int64, Bool]:
        """Start, end and kind of the segments: those of the end, with all later segment events undone."""
        # numba takes a while to import and not everyone who imports this floor replays
        from snapviz.replay import heap, kernels, ledger

        table, counts = ledger.new_ledger(0)
        state = (*heap.new_heap(len(self._address)), self._address, table, counts)
        kernels.place_segments(*state, self._begin, self._end, self._final.segment_expandable)
        later = self._upto(event)
        rank = np.arange(len(self._address), dtype=np.int32)
        undone = (self.events.action[later:], self._first[later:], self._last[later:], rank)
        kernels.undo_segments(*state, *undone, len(self._begin))
        blocks = state[0]
        at = np.flatnonzero(blocks[:, heap.STATE] == heap.FREE)
        expandable = blocks[at, heap.SEGMENT] == heap.EXPANDABLE
        return self._address[at], self._address[blocks[at, heap.END]], expandable

    def _names(self) -> Lives:
        from snapviz.replay.heap import new_heap
        from snapviz.replay.lives import find_lives

        begin, end, expandable = self._start
        edges = (self._place(begin), self._place(end), np.ascontiguousarray(expandable))
        self._part_of, touched = find_lives(
            *new_heap(len(self._address)), self.events.action, self._first, self._last, *edges
        )
        address, stop, _ = self._segments(len(self.replay) - 1)
        last = self._lives_at(len(self.replay) - 1, address, stop)
        # of the file's segments those that the events leave; in a file that agrees with itself all of them
        at = np.searchsorted(address, self._final.segment_start, "right") - 1
        row = np.flatnonzero((at >= 0) & (self._final.segment_end > self._final.segment_start))
        return names_of(self.events, (self._part_of, touched), last[at[row]], self._final.segment[row], self.columns)

    def _lives_at(self, event: int, address: Int64, end: Int64) -> Int64:
        found = lives_at(self.events, self._upto(event), self._address, address, end, self._start[0])
        return self._part_of[found].astype(np.int64) if len(self._part_of) else found

    def _upto(self, event: int) -> int:
        """How many of the segment events are not after an event."""
        return int(np.searchsorted(self.events.event, event, "right"))


def _segment_events(replay: Replay, columns: Columns) -> SegmentEvents:
    events = columns.trace(replay.device)
    sane = (events.addr >= 0) & (events.addr <= LIMIT) & (events.size > 0) & (events.size <= LIMIT)
    chosen = np.flatnonzero(np.isin(events.action, SEGMENT_ACTIONS) & sane)
    return SegmentEvents(
        event=chosen,
        action=np.ascontiguousarray(events.action[chosen]),
        address=events.addr[chosen].astype(np.int64),
        size_bytes=events.size[chosen].astype(np.int64),
        stream=events.stream[chosen],
        pool=events.pool[chosen],
    )


_Found = tuple[Int64, Int64, Bool, Int64, Int32, Bool]


def _filled(replay: Replay, event: int, found: _Found) -> SegmentTable:
    """The table with the blocks: what is active where it lies, and free blocks between."""
    address, end, expandable, stream, pool, small = found
    table = replay.allocations
    live = np.flatnonzero(table.active_after(event))
    live = live[np.argsort(table.address[live], kind="stable")]
    start, stop = table.address[live], table.address[live] + table.block_bytes[live]
    segment = np.searchsorted(address, start, "right") - 1
    fits = _clear_of_others(start, stop) & (segment >= 0)
    fits[fits] = stop[fits] <= end[segment[fits]]
    outside, live, segment = live[~fits], live[fits], segment[fits]
    start, stop = start[fits], stop[fits]
    state = np.where(table.free_requested_event[live] > event, ALLOCATED, PENDING).astype(np.int8)

    # a gap before each block from where the one before it ends, and one behind the last of each segment
    first = np.append(True, segment[1:] != segment[:-1])[: len(segment)]
    before = np.where(first, address[segment], np.append(0, stop[:-1])[: len(stop)])
    tail = address.copy()
    last = np.append(first[1:], True)[: len(segment)]
    tail[segment[last]] = stop[last]
    at = np.concatenate([start, before, tail])
    size = np.concatenate([stop - start, start - before, end - tail])
    which = np.concatenate([live, np.full(len(live) + len(address), ABSENT, np.int64)])
    states = np.concatenate([state, np.full(len(live) + len(address), FREE, np.int8)])
    filled = np.flatnonzero(size > 0)
    filled = filled[np.argsort(at[filled], kind="stable")]
    return SegmentTable(
        event=event,
        address=address,
        size_bytes=end - address,
        stream=stream,
        pool=pool,
        small=small,
        expandable=expandable,
        block_offsets=np.append(np.searchsorted(at[filled], address), len(filled)).astype(np.int64),
        block_address=at[filled],
        block_bytes=size[filled],
        block_state=states[filled],
        allocation=which[filled],
        outside=outside,
    )


def _clear_of_others(start: Int64, stop: Int64) -> Bool:
    """Mask of the blocks, by address, that begin where all before them have ended."""
    furthest = np.maximum.accumulate(stop)
    clear = np.ones(len(start), bool)
    clear[1:] = start[1:] >= furthest[:-1]
    return clear
