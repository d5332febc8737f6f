"""The blocks of a device's memory over coordinates, with everything near constant time.

A block is a row of ``blocks`` int32[X, 5], at the coordinate where it starts; columns are named
below. ``bits`` is a hierarchical bitset of those coordinates: level 0 has a bit per coordinate, each
level above a bit per 64-bit word below. It finds the block that covers an address; the column
``BEFORE`` finds the left neighbour in one step.

Arrays are passed one by one since numba counts references for every array that is taken out of a
tuple, which cost more than the work. Every argument named ``a``, ``b`` or ``at`` is a coordinate and
``a < b``; that callers keep to it is what keeps every index in range.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from snapviz.replay.jit import BITS, BLOCKS, INT, inner

__all__ = [
    "ALLOCATED",
    "BEFORE",
    "END",
    "EXPANDABLE",
    "FREE",
    "NONE",
    "OUTSIDE",
    "PENDING",
    "ROW",
    "SEGMENT",
    "STATE",
    "at_or_before",
    "drop",
    "left_of",
    "new_heap",
    "put",
    "release",
    "shorten",
]

STATE, END, BEFORE, ROW, SEGMENT = 0, 1, 2, 3, 4
"""Columns of a block: its state; the coordinate where it ends; where the block starts that ends
here, if one does; the row of the allocation table that a live block belongs to; its segment."""

NONE, FREE, ALLOCATED, PENDING = 0, 1, 2, 3
"""States of a coordinate: no block starts here; one that is free, allocated, or freed but active."""

OUTSIDE, EXPANDABLE = -1, 0
"""Segment numbers of blocks that lie in no known segment, and of all mapped ranges (neighbours
merge); segments that do not expand have numbers from 1, and nothing merges across their edges."""

_LEVELS = 8
"""Words at the head of ``bits`` that say where each level begins, ended by 0: 64**6 coordinates."""


def new_heap(coordinates: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """``blocks`` and ``bits`` of an empty heap, for at least one coordinate."""
    starts: list[int] = []
    words, where = max(coordinates, 1), _LEVELS
    while words > 1 or not starts:
        words = (words + 63) // 64
        starts.append(where)
        where += words
    bits = np.zeros(where, np.uint64)
    bits[: len(starts)] = starts
    return np.zeros((max(coordinates, 1), 5), np.int32), bits


@inner(types.uint64(INT))
def _bit(position):  # type: ignore[no-untyped-def]
    return np.uint64(1) << np.uint64(position & 63)


@inner(INT(types.uint64))
def _top(word):  # type: ignore[no-untyped-def]
    """Position of the highest set bit of a word that is not 0."""
    position = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            position += step
    return position


@inner(types.void(BITS, INT))
def _mark(bits, at):  # type: ignore[no-untyped-def]
    level = 0
    while bits[level]:
        word = np.int64(bits[level]) + (at >> 6)
        old = bits[word]
        bits[word] = old | _bit(at)
        if old:
            return
        at >>= 6
        level += 1


@inner(types.void(BITS, INT))
def _unmark(bits, at):  # type: ignore[no-untyped-def]
    level = 0
    while bits[level]:
        word = np.int64(bits[level]) + (at >> 6)
        bits[word] &= ~_bit(at)
        if bits[word]:
            return
        at >>= 6
        level += 1


@inner(INT(BITS, INT))
def at_or_before(bits, at):  # type: ignore[no-untyped-def]
    """Where the last block that starts at or before ``at`` starts; -1 where none does (or at < 0)."""
    level = 0
    while bits[level] and at >= 0:
        upto = _bit(at)
        word = bits[np.int64(bits[level]) + (at >> 6)] & (upto | (upto - np.uint64(1)))
        if word:
            at = (at & ~63) | _top(word)
            while level > 0:
                level -= 1
                at = (at << 6) | _top(bits[np.int64(bits[level]) + at])
            return at
        at = (at >> 6) - 1
        level += 1
    return -1


@inner(INT(BLOCKS, INT))
def left_of(blocks, at):  # type: ignore[no-untyped-def]
    """Where the block that ends at ``at`` starts; -1 where none does."""
    start = np.int64(blocks[at, BEFORE])
    if blocks[start, STATE] != NONE and blocks[start, END] == at:
        return start
    return np.int64(-1)


@inner(types.void(BLOCKS, BITS, INT, INT, INT, INT, INT))
def put(blocks, bits, a, b, state, row, segment):  # type: ignore[no-untyped-def]
    """A block from a to b, where there is none or one that starts at a."""
    if blocks[a, STATE] == NONE:
        _mark(bits, a)
    blocks[a, STATE] = state
    blocks[a, END] = b
    blocks[b, BEFORE] = a
    blocks[a, ROW] = row
    blocks[a, SEGMENT] = segment


@inner(types.void(BLOCKS, BITS, INT))
def drop(blocks, bits, a):  # type: ignore[no-untyped-def]
    """Forgets the block that starts at a."""
    blocks[a, STATE] = NONE
    _unmark(bits, a)


@inner(types.void(BLOCKS, INT, INT))
def shorten(blocks, a, b):  # type: ignore[no-untyped-def]
    """Makes the block that starts at a end at b."""
    blocks[a, END] = b
    blocks[b, BEFORE] = a


@inner(types.void(BLOCKS, BITS, INT, INT, INT))
def release(blocks, bits, a, b, segment):  # type: ignore[no-untyped-def]
    """A free block from a to b, where there is none or one that starts at a, merged with free
    neighbours of its segment (``try_merge_blocks``)."""
    if blocks[b, STATE] == FREE and blocks[b, SEGMENT] == segment:
        drop(blocks, bits, b)
        b = np.int64(blocks[b, END])
    left = left_of(blocks, a)
    if left >= 0 and blocks[left, STATE] == FREE and blocks[left, SEGMENT] == segment:
        if blocks[a, STATE] != NONE:
            drop(blocks, bits, a)
        shorten(blocks, left, b)
    else:
        put(blocks, bits, a, b, FREE, -1, segment)
