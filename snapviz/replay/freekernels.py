"""The pass that follows free blocks over all events: the largest of each pool, and what could be given back.

Sizes and lifetimes of blocks are known by now, so nothing is searched and no rule is needed: every
operation takes a range away from the free blocks or gives one back to them.

``blocks`` and ``bits`` are a heap (``heap``) of free blocks alone; the column ``ROW`` holds the block's
origin, an index into the N origins (a segment, or one stretch that was mapped), ``SEGMENT`` the origin's
group: blocks of one group merge. ``tree`` is a tournament per followed pool over the coordinates, so that
its root is the pool's largest block.

Legend: E events, O operations in their order, N origins, A allocations, X coordinates, T followed pools.
"""

from __future__ import annotations

import numpy as np
from numba import types

from snapviz.replay.heap import END, FREE, NONE, ROW, SEGMENT, STATE, at_or_before, drop, left_of, put
from snapviz.replay.jit import BITS, BLOCKS, COUNTS, INT, TABLE, Addresses, Bytes, Ids, inner, jit

__all__ = [
    "ADD",
    "BYTES",
    "FOLLOWED",
    "GIVE",
    "GROUP",
    "PAGE",
    "PRIVATE",
    "REMOVE",
    "START_ADDRESS",
    "TAKE",
    "follow",
]

GIVE, REMOVE, ADD, TAKE = range(4)
"""Operations, in the order in which those of one event are done: a block is freed, a segment or a mapped
stretch goes, one comes, a block is allocated."""

GROUP, FOLLOWED, PRIVATE, BYTES, PAGE, START_ADDRESS = range(6)
"""Columns of ``origins`` int64[N, 6]: the group; which followed pool, or -1; 1 in a private pool; bytes of
the segment, where it does not expand; of a page, where it does (else 0); where its pages are counted from."""

_CURVES = types.Array(types.int64, 2, "C")
_TREE = types.Array(types.int64, 2, "C")
_ORIGINS = types.Array(types.int64, 2, "C", readonly=True)


@inner(types.void(_TREE, INT, INT, INT))
def _set_leaf(tree, pool, leaf, value):  # type: ignore[no-untyped-def]
    """A coordinate's block of one pool in its tournament: its bytes, or 0."""
    at = (tree.shape[1] >> 1) + leaf
    tree[pool, at] = value
    at >>= 1
    while at:
        best = max(tree[pool, 2 * at], tree[pool, 2 * at + 1])
        if tree[pool, at] == best:
            return
        tree[pool, at] = best
        at >>= 1


@inner(INT(Addresses, _ORIGINS, INT, INT, INT))
def _whole(address, origins, a, b, origin):  # type: ignore[no-untyped-def]
    """Bytes of a free block that can be given back: all of its segment, or its whole pages."""
    page = origins[origin, PAGE]
    if page == 0:
        size = address[b] - address[a]
        return size if size == origins[origin, BYTES] else 0
    start = address[a] - origins[origin, START_ADDRESS]
    stop = address[b] - origins[origin, START_ADDRESS]
    return max(0, stop // page + -start // page) * page


@inner(types.void(BLOCKS, Addresses, _ORIGINS, _TREE, COUNTS, INT, INT))
def _count(blocks, address, origins, tree, totals, at, sign):  # type: ignore[no-untyped-def]
    """Counts the free block that starts at ``at`` in (``sign`` 1) or out (-1)."""
    end = np.int64(blocks[at, END])
    origin = np.int64(blocks[at, ROW])
    size = address[end] - address[at]
    pool = origins[origin, FOLLOWED]
    if pool >= 0:
        _set_leaf(tree, pool, at, size if sign > 0 else 0)
        totals[2 + pool] += sign * size
    totals[origins[origin, PRIVATE]] += sign * _whole(address, origins, at, end, origin)


@inner(types.void(BLOCKS, BITS, Addresses, _ORIGINS, _TREE, COUNTS, INT, INT, INT))
def _come(blocks, bits, address, origins, tree, totals, a, b, origin):  # type: ignore[no-untyped-def]
    put(blocks, bits, a, b, FREE, origin, origins[origin, GROUP])
    _count(blocks, address, origins, tree, totals, a, 1)


@inner(types.void(BLOCKS, BITS, Addresses, _ORIGINS, _TREE, COUNTS, INT))
def _go(blocks, bits, address, origins, tree, totals, at):  # type: ignore[no-untyped-def]
    _count(blocks, address, origins, tree, totals, at, -1)
    drop(blocks, bits, at)


@inner(INT(BLOCKS, BITS, Addresses, _ORIGINS, _TREE, COUNTS, INT, INT))
def _take(blocks, bits, address, origins, tree, totals, a, b):  # type: ignore[no-untyped-def]
    """Nothing is free from a to b afterwards. Returns the origin of what was, -1 where nothing was."""
    origin = np.int64(-1)
    at = at_or_before(bits, b - 1)
    while at >= 0 and blocks[at, END] > a:
        stop = np.int64(blocks[at, END])
        origin = np.int64(blocks[at, ROW])
        _go(blocks, bits, address, origins, tree, totals, at)
        if at < a:
            _come(blocks, bits, address, origins, tree, totals, at, a, origin)
        if stop > b:
            _come(blocks, bits, address, origins, tree, totals, b, stop, origin)
        at = at_or_before(bits, at - 1)
    return origin


@inner(types.void(BLOCKS, BITS, Addresses, _ORIGINS, _TREE, COUNTS, INT, INT, INT))
def _give(blocks, bits, address, origins, tree, totals, a, b, origin):  # type: ignore[no-untyped-def]
    """A free block from a to b, merged with its free neighbours of the same group."""
    _take(blocks, bits, address, origins, tree, totals, a, b)
    group = origins[origin, GROUP]
    if blocks[b, STATE] != NONE and blocks[b, SEGMENT] == group:
        stop = np.int64(blocks[b, END])
        _go(blocks, bits, address, origins, tree, totals, b)
        b = stop
    left = left_of(blocks, a)
    if left >= 0 and blocks[left, SEGMENT] == group:
        origin = np.int64(blocks[left, ROW])
        _go(blocks, bits, address, origins, tree, totals, left)
        a = left
    _come(blocks, bits, address, origins, tree, totals, a, b, origin)


@jit(
    types.Tuple((_CURVES, _CURVES, _CURVES))(
        BLOCKS, BITS, Addresses, _ORIGINS, TABLE, Bytes, Addresses, Ids, Ids, Ids, Ids, INT
    )
)
def follow(  # type: ignore[no-untyped-def]
    blocks, bits, address, origins, tree, kind, event, begin, end, what, homes, events
):
    """Does all operations, each as soon as its event has come; those of event -1 are the start.

    ``origins`` int64[N, 6], ``tree`` int64[T, 2 * power of two >= X], all 0; of the operations ``kind``
    int8[O], ``event`` int64[O] ascending, ``begin`` and ``end`` int32[O] coordinates, ``what`` int32[O] the
    origin (ADD), or the allocation (TAKE, GIVE). ``homes`` int32[A] is only as long as A.

    Returns int64 over the start and E events: the largest free block [T, 1 + E] and the free bytes
    [T, 1 + E] of each followed pool, and the bytes that can be given back [2, 1 + E]: of all but private
    pools, and of private ones.
    """
    pools = len(tree)
    largest = np.zeros((pools, events + 1), np.int64)
    free = np.zeros((pools, events + 1), np.int64)
    whole = np.zeros((2, events + 1), np.int64)
    totals = np.zeros(2 + pools, np.int64)
    home = np.full(len(homes), -1, np.int32)
    at = 0
    for moment in range(events + 1):
        while at < len(kind) and event[at] < moment:
            a = np.int64(begin[at])
            b = np.int64(end[at])
            ref = np.int64(what[at])
            if a < b:
                if kind[at] == TAKE:
                    home[ref] = _take(blocks, bits, address, origins, tree, totals, a, b)
                elif kind[at] == GIVE:
                    if home[ref] >= 0:
                        _give(blocks, bits, address, origins, tree, totals, a, b, np.int64(home[ref]))
                elif kind[at] == ADD:
                    _give(blocks, bits, address, origins, tree, totals, a, b, ref)
                else:
                    _take(blocks, bits, address, origins, tree, totals, a, b)
            at += 1
        for pool in range(pools):
            largest[pool, moment] = tree[pool, 1]
            free[pool, moment] = totals[2 + pool]
        whole[0, moment] = totals[0]
        whole[1, moment] = totals[1]
    return largest, free, whole
