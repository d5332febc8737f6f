"""Reserved memory at one moment, cut into pieces that each are one thing: live, held back, or free in one of four ways.

What can be given back is told by segment, and in segments that expand by page: 2 MiB of the small pool, 20 MiB of
the large one (c10/cuda/CUDACachingAllocator.cpp of torch 2.11, ``release_block`` and ``unmap_block``). Such a segment
or page is a *unit* here: one that has something live in it holds whatever is free in it.

Legend: G segments, B blocks, P pieces, U units that are neither all free nor all live, A allocations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.replay.final import ranges
from snapviz.replay.freeblocks import is_private
from snapviz.replay.origins import LARGE_PAGE, SMALL_PAGE
from snapviz.replay.rules import rules_from_settings
from snapviz.replay.segments import ALLOCATED, FREE, SegmentTable
from snapviz.schema import MemoryCell, PoolPart, ReservedParts
from snapviz.snapshot.columns import ABSENT, Columns

__all__ = [
    "BUSY",
    "CELLS",
    "HELD_BACK",
    "LIVE",
    "MOSTLY_FREE",
    "WHOLE",
    "Pieces",
    "cells_of",
    "holders_of",
    "paged_bytes",
    "pieces_of",
    "pool_name",
    "pool_parts",
    "reserved_parts",
]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

LIVE, HELD_BACK, BUSY, MOSTLY_FREE, WHOLE = range(5)
"""What a piece is: allocated; freed, but another stream may still use it; free in a unit of which at most half is
free; free in one of which more is; free and possible to give back."""

CELLS = 128
"""Shares of a picture."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """P pieces by address, which fill all segments, and the U units that hold free memory."""

    table: SegmentTable
    private: Bool  # [G] of a private pool
    start: Int64  # [P]
    size_bytes: Int64  # [P]
    kind: npt.NDArray[np.int8]  # [P] LIVE to WHOLE
    segment: Int64  # [P]
    unit: Int64  # [P] the unit it is free in, or ABSENT
    unit_start: Int64  # [U] ascending
    unit_bytes: Int64  # [U]
    unit_free_bytes: Int64  # [U]
    unit_segment: Int64  # [U]

    def sum_of(self, kind: int, mask: Bool | None = None) -> int:
        """Bytes of one kind, of the pieces that ``mask`` [P] picks."""
        chosen = self.kind == kind if mask is None else (self.kind == kind) & mask
        return int(self.size_bytes[chosen].sum())

    @property
    def mostly_free(self) -> Int64:
        """The units of which more than half is free."""
        return np.flatnonzero(2 * self.unit_free_bytes > self.unit_bytes)


def pieces_of(table: SegmentTable, columns: Columns) -> Pieces:
    """The pieces of all segments after an event."""
    free = np.flatnonzero(table.block_state == FREE)
    segment, start, stop, whole = _cut(table, free)
    page = np.where(table.expandable, np.where(table.small, SMALL_PAGE, LARGE_PAGE), table.size_bytes)
    # a page's number, 0 for the whole of a segment that does not expand; whole pieces belong to no unit
    held = np.flatnonzero(~whole)
    number = (start[held] - table.address[segment[held]]) // np.maximum(page[segment[held]], 1)
    unit, count = group_keys([segment[held], _ranked(number)]) if len(held) else (segment[:0], 0)
    free_in, _ = sums(unit, (stop - start)[held], count)
    first = np.zeros(count, np.int64)
    first[unit[::-1]] = held[::-1]
    of = segment[first]
    unit_start = table.address[of] + (start[first] - table.address[of]) // np.maximum(page[of], 1) * page[of]
    unit_bytes = np.minimum(page[of], table.address[of] + table.size_bytes[of] - unit_start)
    kind = np.full(len(start), WHOLE, np.int8)
    kind[held] = np.where(2 * free_in > unit_bytes, MOSTLY_FREE, BUSY)[unit]
    units = np.full(len(start), ABSENT, np.int64)
    units[held] = unit
    live = np.flatnonzero(table.block_state != FREE)
    order = np.argsort(np.concatenate([start, table.block_address[live]]), kind="stable")

    def joined(of_free: npt.NDArray[np.integer], of_live: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        return np.concatenate([of_free, of_live])[order]

    return Pieces(
        table=table,
        private=is_private(table.pool, columns.pools),
        start=joined(start, table.block_address[live]).astype(np.int64),
        size_bytes=joined(stop - start, table.block_bytes[live]).astype(np.int64),
        kind=joined(kind, np.where(table.block_state[live] == ALLOCATED, LIVE, HELD_BACK)).astype(np.int8),
        segment=joined(segment, table.segment_of_block[live]).astype(np.int64),
        unit=joined(units, np.full(len(live), ABSENT, np.int64)).astype(np.int64),
        unit_start=unit_start,
        unit_bytes=unit_bytes,
        unit_free_bytes=free_in,
        unit_segment=of,
    )


def _ranked(values: Int64) -> Int64:
    """Values as small numbers of the same order: keys of groups are multiplied."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _cut(table: SegmentTable, free: Int64) -> tuple[Int64, Int64, Int64, Bool]:
    """Segment, start, end, and whether whole, of what free blocks are made of: each of those in segments that expand
    at most its part of the page it begins in, whole pages, and its part of the page it ends in."""
    of = table.segment_of_block[free]
    start, stop = table.block_address[free], table.block_address[free] + table.block_bytes[free]
    expands = table.expandable[of]
    fixed = np.flatnonzero(~expands)
    whole = table.block_bytes[free[fixed]] == table.size_bytes[of[fixed]]
    paged = np.flatnonzero(expands)
    base, page = table.address[of[paged]], np.where(table.small[of[paged]], SMALL_PAGE, LARGE_PAGE)
    up = base + -(-(start[paged] - base) // page) * page
    down = base + (stop[paged] - base) // page * page
    inside = up > down  # begins and ends in the same page, touching neither of its edges
    first = np.where(inside, stop[paged], up)
    last = np.where(inside, stop[paged], down)
    parts = [
        (of[fixed], start[fixed], stop[fixed], whole),
        (of[paged], start[paged], first, np.zeros(len(paged), bool)),
        (of[paged], first, np.maximum(first, last), np.ones(len(paged), bool)),
        (of[paged], np.maximum(first, last), stop[paged], np.zeros(len(paged), bool)),
    ]
    segment, begin, end, is_whole = (np.concatenate([part[i] for part in parts]) for i in range(4))
    some = np.flatnonzero(end > begin)
    some = some[np.argsort(begin[some], kind="stable")]
    return segment[some], begin[some], end[some], is_whole[some]


def reserved_parts(facts: Facts, pieces: Pieces) -> ReservedParts:
    """Reserved memory, explained: every byte in one part."""
    replay, table = facts.replay, facts.replay.allocations
    event = pieces.table.event
    totals = replay.after(event)
    now = np.flatnonzero(table.allocated_after(event))
    requested, block = table.requested_bytes[now], table.block_bytes[now]
    rules = rules_from_settings(facts.columns.settings)
    # torch_npu's own rules are taken where only they fit a file, and a finding says so
    rules = rules.as_npu() if any(finding.kind == "npu-rules" for finding in replay.findings) else rules
    rounding = int((np.minimum(rules.rounded(requested), block) - requested).sum())
    private = pieces.private[pieces.segment]
    free = {
        "whole_bytes": pieces.sum_of(WHOLE, ~private),
        "private_bytes": pieces.sum_of(WHOLE, private),
        "mostly_free_bytes": pieces.sum_of(MOSTLY_FREE),
        "busy_bytes": pieces.sum_of(BUSY),
    }
    return ReservedParts(
        reserved_bytes=totals.reserved_bytes,
        allocated_bytes=totals.allocated_bytes,
        requested_bytes=int(requested.sum()),
        rounding_bytes=rounding,
        unsplit_bytes=totals.allocated_bytes - int(requested.sum()) - rounding,
        pending_bytes=totals.active_bytes - totals.allocated_bytes,
        **free,
        unexplained_bytes=totals.reserved_bytes - totals.active_bytes - sum(free.values()),
    )


def paged_bytes(pieces: Pieces) -> int:
    """Of what is free and held in segments that do not expand, what would be whole pages if they did, at most."""
    held = ((pieces.kind == BUSY) | (pieces.kind == MOSTLY_FREE)) & ~pieces.table.expandable[pieces.segment]
    page = np.where(pieces.table.small[pieces.segment[held]], SMALL_PAGE, LARGE_PAGE)
    return int((pieces.size_bytes[held] // page * page).sum())


def pool_name(columns: Columns, pool: int) -> str:
    """A pool for people: default, graph pool (4, 0), memory pool (0, 4). One that nothing tells is taken for the
    default one."""
    first, second = columns.pools[pool].tolist() if 0 <= pool < len(columns.pools) else (0, 0)
    if (first, second) == (0, 0):
        return "default"
    # a capture has the first number, a handle or a MemPool the second (c10/cuda/CUDACachingAllocator.h, MempoolId_t)
    return f"{'graph' if first else 'memory'} pool ({first}, {second})"


def pool_parts(pieces: Pieces, columns: Columns) -> tuple[PoolPart, ...]:
    """What lies in segments, by pool, size class, stream and kind of segment, the largest first."""
    table = pieces.table
    if len(table) == 0:
        return ()
    pool = np.where(pieces.private, table.pool, ABSENT)
    group, count = group_keys(
        [_ranked(pool), table.small.astype(np.int8), _ranked(table.stream), table.expandable.astype(np.int8)]
    )
    reserved, segments = sums(group, table.size_bytes, count)
    of = group[pieces.segment]
    kinds = [sums(of[pieces.kind == k], pieces.size_bytes[pieces.kind == k], count)[0] for k in range(WHOLE + 1)]
    free = np.flatnonzero(table.block_state == FREE)
    largest = np.zeros(count, np.int64)
    np.maximum.at(largest, group[table.segment_of_block[free]], table.block_bytes[free])
    first = np.zeros(count, np.int64)
    first[group[::-1]] = np.arange(len(table) - 1, -1, -1)
    rows = []
    for g in np.lexsort((np.arange(count), -reserved)).tolist():
        at = int(first[g])
        live, pending, busy, mostly, whole = (int(kind[g]) for kind in kinds)
        rows.append(
            PoolPart(
                pool=pool_name(columns, int(pool[at])),
                private=bool(pieces.private[at]),
                size_class="small" if table.small[at] else "large",
                stream=int(table.stream[at]) if table.stream[at] != ABSENT else None,
                expandable=bool(table.expandable[at]),
                segments=int(segments[g]),
                reserved_bytes=int(reserved[g]),
                allocated_bytes=live,
                pending_bytes=pending,
                whole_bytes=whole,
                mostly_free_bytes=mostly,
                busy_bytes=busy,
                largest_free_bytes=int(largest[g]),
            )
        )
    return tuple(rows)


def cells_of(pieces: Pieces) -> tuple[MemoryCell, ...]:
    """All segments side by side, in ``CELLS`` equal shares (to a byte), each with what it is made of."""
    ends = np.cumsum(pieces.size_bytes)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        return ()
    edges = np.array([total * i // CELLS for i in range(CELLS + 1)], np.int64)
    at = np.minimum(np.searchsorted(ends, edges, "right"), len(ends) - 1)
    within = edges - (ends[at] - pieces.size_bytes[at])
    shares = []
    for kind in range(WHOLE + 1):
        mine = np.where(pieces.kind == kind, pieces.size_bytes, 0)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(mine)])
        shares.append(np.diff(before[at] + np.where(pieces.kind[at] == kind, within, 0)))
    names = ("allocated_bytes", "pending_bytes", "busy_bytes", "mostly_free_bytes", "whole_bytes")
    return tuple(MemoryCell(**dict(zip(names, map(int, row), strict=True))) for row in np.stack(shares, axis=1))


def holders_of(pieces: Pieces, units: Int64) -> tuple[Int64, Int64]:
    """Which of ``units``, by position, and which block reaches into it, of everything live in them."""
    table = pieces.table
    live = np.flatnonzero(table.block_state != FREE)
    begin, end = table.block_address[live], table.block_address[live] + table.block_bytes[live]
    first = np.searchsorted(end, pieces.unit_start[units], "right")
    stop = np.searchsorted(begin, pieces.unit_start[units] + pieces.unit_bytes[units], "left")
    return np.repeat(np.arange(len(units)), stop - first), live[ranges(first, stop - first)]
