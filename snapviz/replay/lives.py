"""Which stretches of memory belong together: the lives of segments over a whole trace.

A segment that does not expand lives from its event to its end. One that expands is mapped and unmapped
in parts, and lives as long as any part of it: what is mapped beside a part of it belongs to it too. The
addresses of a life can be another's later, so addresses alone do not say what belongs together.

Legend: K segment events, S segments at the start, X coordinates. Lives 0 to S - 1 are those of the
start; event k begins life S + k, or joins another.
"""

from __future__ import annotations

import numpy as np
from numba import types

from snapviz.replay.heap import (
    END,
    EXPANDABLE,
    FREE,
    NONE,
    ROW,
    SEGMENT,
    STATE,
    at_or_before,
    drop,
    left_of,
    put,
    shorten,
)
from snapviz.replay.jit import BITS, BLOCKS, INT, Bools, Bytes, Ids, inner, jit
from snapviz.snapshot.columns import ACTIONS

__all__ = ["find_lives"]

_SEGMENT_ALLOC = ACTIONS.index("segment_alloc")
_SEGMENT_MAP = ACTIONS.index("segment_map")

_PARENTS = types.Array(types.int32, 1, "C")


@inner(INT(_PARENTS, INT))
def _root(parent, life):  # type: ignore[no-untyped-def]
    while parent[life] != life:
        # halves the path for whoever comes next
        parent[life] = parent[parent[life]]
        life = np.int64(parent[life])
    return life


@inner(types.void(BLOCKS, BITS, _PARENTS, INT, INT, INT, types.boolean))
def _appear(blocks, bits, parent, a, b, life, expandable):  # type: ignore[no-untyped-def]
    """A stretch from a to b, where nothing is; one that expands joins what is mapped beside it."""
    if expandable and blocks[b, STATE] != NONE and blocks[b, SEGMENT] == EXPANDABLE:
        parent[_root(parent, life)] = _root(parent, np.int64(blocks[b, ROW]))
    left = left_of(blocks, a)
    if expandable and left >= 0 and blocks[left, SEGMENT] == EXPANDABLE:
        parent[_root(parent, life)] = _root(parent, np.int64(blocks[left, ROW]))
    put(blocks, bits, a, b, FREE, life, EXPANDABLE if expandable else 1)


@inner(INT(BLOCKS, BITS, INT, INT))
def _vanish(blocks, bits, a, b):  # type: ignore[no-untyped-def]
    """Nothing lies from a to b afterwards. Returns the life of what did, -1 where nothing did."""
    life = np.int64(-1)
    at = at_or_before(bits, b - 1)
    while at >= 0 and blocks[at, END] > a:
        stop = np.int64(blocks[at, END])
        segment = np.int64(blocks[at, SEGMENT])
        life = np.int64(blocks[at, ROW])
        if at < a:
            shorten(blocks, at, a)
        else:
            drop(blocks, bits, at)
        if stop > b:
            put(blocks, bits, b, stop, FREE, life, segment)
        at = at_or_before(bits, at - 1)
    return life


@jit(types.UniTuple(_PARENTS, 2)(BLOCKS, BITS, Bytes, Ids, Ids, Ids, Ids, Bools))
def find_lives(blocks, bits, action, first, last, begin, end, expandable):  # type: ignore[no-untyped-def]
    """``action`` int8[K], ``first`` and ``last`` int32[K] coordinates; of the segments at the start
    ``begin`` and ``end`` int32[S] and ``expandable`` bool[S]; the heap is empty.

    Returns per life, int32[S + K], the number of the life that it is part of, and per event, int32[K], the
    life that it touches: that which it begins or joins, or from which it takes; -1 for none.
    """
    starts = len(begin)
    parent = np.arange(starts + len(action)).astype(np.int32)
    touched = np.full(len(action), -1, np.int32)
    for row in range(starts):
        _appear(blocks, bits, parent, np.int64(begin[row]), np.int64(end[row]), row, expandable[row])
    for row in range(len(action)):
        a = np.int64(first[row])
        b = np.int64(last[row])
        if a >= b:
            continue
        gone = _vanish(blocks, bits, a, b)
        if action[row] == _SEGMENT_ALLOC or action[row] == _SEGMENT_MAP:
            touched[row] = starts + row
            _appear(blocks, bits, parent, a, b, starts + row, action[row] == _SEGMENT_MAP)
        else:
            touched[row] = gone
    for life in range(len(parent)):
        parent[life] = _root(parent, life)
    return parent, touched
