"""What the kernels write: the allocation table, running totals, and a count of what did not fit.

``table`` is int64[A, 7], a row per allocation; ``counts`` int64[COUNTERS]. Columns and places are
named below.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import types

from snapviz.replay import heap
from snapviz.replay.heap import (
    END,
    EXPANDABLE,
    FREE,
    OUTSIDE,
    PENDING,
    ROW,
    SEGMENT,
    STATE,
    at_or_before,
    drop,
    put,
    shorten,
)
from snapviz.replay.jit import BITS, BLOCKS, COUNTS, FLAG, INT, TABLE, Addresses, inner
from snapviz.replay.rules import EXPANDABLE_SETTING, MAX_SPLIT, SMALL_SIZE

__all__ = [
    "ACTIVE",
    "ADDRESS",
    "ALLOCATED",
    "ALLOC_EVENT",
    "BLOCK_BYTES",
    "ESTIMATED",
    "FREE_COMPLETED",
    "FREE_REQUESTED",
    "INSIDE_FREE",
    "MISFITS",
    "MISFIT_BYTES",
    "MISFIT_COUNT",
    "MISFIT_EVENT",
    "NOT_LIVE",
    "OTHER_SIZE",
    "OUTSIDE_SEGMENTS",
    "OVER_LIVE",
    "REFINED_ACTIVE",
    "REFINED_ALLOCATED",
    "REQUESTED",
    "REQUESTED_BYTES",
    "RESERVED",
    "ROWS",
    "SEGMENT_DIFFERS",
    "TOO_LARGE",
    "TOO_SMALL",
    "carve",
    "clear",
    "misfit",
    "new_ledger",
    "splits",
]

ADDRESS, ALLOC_EVENT, FREE_REQUESTED, FREE_COMPLETED, REQUESTED_BYTES, BLOCK_BYTES, ESTIMATED = range(7)
"""Columns of ``table``. Events are as in ``Allocations``; ``ESTIMATED`` is 0 or 1."""

MISFITS: Final = 8
(
    TOO_SMALL,  # an alloc at a free block that is smaller than its rounded size
    INSIDE_FREE,  # an alloc inside a free block, not at its start
    OUTSIDE_SEGMENTS,  # an alloc, or a block alive at the start, where no segment is known
    OVER_LIVE,  # an allocation that was live where another alloc or a segment took its place
    NOT_LIVE,  # a free of an address where nothing is live, or of what was freed before
    OTHER_SIZE,  # a free whose size is not the size that was allocated there
    SEGMENT_DIFFERS,  # a segment event over memory that was not as it says
    TOO_LARGE,  # a segment event that brings reserved out of any sane range
) = range(MISFITS)

REQUESTED, ALLOCATED, ACTIVE, RESERVED = 0, 1, 2, 3
"""Places in ``counts`` of the totals of this moment."""

ROWS, REFINED_ALLOCATED, REFINED_ACTIVE = 4, 5, 6
"""Places in ``counts`` of the rows of ``table`` that are taken, and of the bytes that turned out to
have been allocated, or active, ever since the start."""

MISFIT_COUNT, MISFIT_BYTES, MISFIT_EVENT = 7, 7 + MISFITS, 7 + 2 * MISFITS
"""Places in ``counts`` where eight numbers begin, one per kind of misfit: how many, how many bytes,
the first event."""

_COUNTERS: Final = 7 + 3 * MISFITS
_MOST_BYTES: Final = 1 << 61


def new_ledger(rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``table`` with room for ``rows`` allocations, and ``counts``, all 0."""
    return np.zeros((rows, 7), np.int64), np.zeros(_COUNTERS, np.int64)


@inner(types.void(COUNTS, INT, INT, INT))
def misfit(counts, kind, event, size):  # type: ignore[no-untyped-def]
    """Counts something that does not fit; bytes are capped so that they cannot overflow."""
    if counts[MISFIT_COUNT + kind] == 0:
        counts[MISFIT_EVENT + kind] = event
    counts[MISFIT_COUNT + kind] += 1
    total = counts[MISFIT_BYTES + kind] + min(size, _MOST_BYTES)
    counts[MISFIT_BYTES + kind] = min(total, _MOST_BYTES)


@inner(INT(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, INT))
def clear(blocks, bits, address, table, counts, a, b, event):  # type: ignore[no-untyped-def]
    """Makes room: no block overlaps a to b afterwards. Returns the free bytes that were there.

    What reaches over an edge keeps its outer part, as free memory. Live allocations end here.
    Every step but two takes a block away for good, so that all calls together stay linear.
    """
    free = 0
    at = at_or_before(bits, b - 1)
    while at >= 0 and blocks[at, END] > a:
        stop = np.int64(blocks[at, END])
        segment = np.int64(blocks[at, SEGMENT])
        if blocks[at, STATE] == FREE:
            free += address[min(stop, b)] - address[max(at, a)]
        else:
            row = blocks[at, ROW]
            size = table[row, BLOCK_BYTES]
            misfit(counts, OVER_LIVE, event, size)
            if blocks[at, STATE] != PENDING:
                table[row, FREE_REQUESTED] = event
                counts[ALLOCATED] -= size
            table[row, FREE_COMPLETED] = event
            counts[ACTIVE] -= size
            counts[REQUESTED] -= table[row, REQUESTED_BYTES]
            blocks[at, STATE] = FREE
        if at < a:
            shorten(blocks, at, a)
        else:
            drop(blocks, bits, at)
        if stop > b:
            put(blocks, bits, b, stop, FREE, -1, segment)
        at = at_or_before(bits, at - 1)
    return free


@inner(FLAG(INT, INT, INT, Addresses))
def splits(rounded, remainder, segment, options):  # type: ignore[no-untyped-def]
    """``should_split``: whether what a request leaves of a free block becomes a block of its own."""
    if rounded <= SMALL_SIZE or segment == EXPANDABLE or options[EXPANDABLE_SETTING]:
        return remainder > 0  # both are multiples of 512, so this is >= 512
    return rounded < options[MAX_SPLIT] and remainder > SMALL_SIZE


@inner(types.void(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, INT, INT))
def carve(blocks, bits, address, table, counts, a, b, row, event):  # type: ignore[no-untyped-def]
    """A live block of exactly a to b, whatever is there."""
    over = at_or_before(bits, a)
    segment = np.int64(OUTSIDE)
    if over >= 0 and blocks[over, END] > a:
        segment = np.int64(blocks[over, SEGMENT])
    clear(blocks, bits, address, table, counts, a, b, event)
    put(blocks, bits, a, b, heap.ALLOCATED, row, segment)
