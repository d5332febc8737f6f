"""The passes over a device's events: what was there before, segments backwards, blocks forwards.

Rules: c10/cuda/CUDACachingAllocator.cpp of torch 2.11 (``malloc``, ``alloc_found_block``,
``should_split``, ``free``, ``free_block``, ``try_merge_blocks``, ``map_block``, ``unmap_block``).
A trace says at which address a request was served, so the search for a block is left out: it is the
free block that starts there.

``blocks`` and ``bits`` are a heap (``heap``), ``address`` int64[X] the address of each coordinate,
``table`` and ``counts`` a ledger (``ledger``), ``options`` int64[4] the rules (``Rules.options``).

Legend: E events, X coordinates, S allocations alive at the start, G segments.
"""

from __future__ import annotations

import numpy as np
from numba import types

from snapviz.replay import ledger
from snapviz.replay.heap import (
    ALLOCATED,
    END,
    EXPANDABLE,
    FREE,
    NONE,
    OUTSIDE,
    PENDING,
    ROW,
    SEGMENT,
    STATE,
    at_or_before,
    drop,
    left_of,
    put,
    release,
    shorten,
)
from snapviz.replay.jit import BITS, BLOCKS, COUNTS, FLAG, INT, TABLE, Addresses, Bools, Bytes, Ids, inner, jit
from snapviz.replay.ledger import (
    BLOCK_BYTES,
    ESTIMATED,
    FREE_COMPLETED,
    FREE_REQUESTED,
    REQUESTED_BYTES,
    carve,
    clear,
    misfit,
    splits,
)
from snapviz.replay.rules import ABSORB, ALIGN, LIMIT
from snapviz.snapshot.columns import ACTIONS

__all__ = [
    "FREED",
    "LIVE",
    "PENDING_FREE",
    "UNTOUCHED",
    "last_seen",
    "place_segments",
    "place_start",
    "run",
    "undo_segments",
]

_ALLOC = ACTIONS.index("alloc")
_FREE_REQUESTED = ACTIONS.index("free_requested")
_FREE_COMPLETED = ACTIONS.index("free_completed")
_SEGMENT_ALLOC = ACTIONS.index("segment_alloc")
_SEGMENT_FREE = ACTIONS.index("segment_free")
_SEGMENT_MAP = ACTIONS.index("segment_map")
_SEGMENT_UNMAP = ACTIONS.index("segment_unmap")
_FREE = ACTIONS.index("free")

UNTOUCHED, LIVE, PENDING_FREE, FREED = 0, 1, 2, 3
"""What the last alloc or free of an address left it as."""

_SLOT_STATES = types.Array(types.uint8, 1, "C")


@jit(types.Tuple((_SLOT_STATES, COUNTS, COUNTS, INT))(Bytes, Ids, INT))
def last_seen(action, first, slots):  # type: ignore[no-untyped-def]
    """Matches frees to allocs by address, forwards, and finds the frees that no alloc belongs to.

    ``action`` int8[E], ``first`` int32[E] slot or -1, ``slots`` how many there are.

    Returns per slot how its last event left it (uint8), and the event of the orphan free whose
    free_completed has not come yet (int64, -1: none); the events that are the first to free
    something older than the recording (int64[any], ascending); and how many frees of what the trace
    allocated were completed without having been requested.
    """
    state = np.zeros(slots, np.uint8)
    open_orphan = np.full(slots, -1, np.int64)
    orphans = np.empty(slots, np.int64)
    count = 0
    unasked = 0
    for event in range(len(action)):
        slot = first[event]
        kind = action[event]
        if slot < 0 or _SEGMENT_ALLOC <= kind <= _SEGMENT_UNMAP:
            continue
        if kind == _ALLOC:
            state[slot] = LIVE
            open_orphan[slot] = -1
            continue
        if state[slot] == UNTOUCHED:
            orphans[count] = event
            count += 1
            open_orphan[slot] = event
        if kind == _FREE_REQUESTED:
            state[slot] = PENDING_FREE
        else:
            unasked += state[slot] == LIVE and kind == _FREE_COMPLETED
            state[slot] = FREED
            open_orphan[slot] = -1
    return state, open_orphan, orphans[:count].copy(), unasked


@jit(types.void(BLOCKS, BITS, Addresses, TABLE, COUNTS, Ids, Ids, Bools))
def place_segments(blocks, bits, address, table, counts, begin, end, expandable):  # type: ignore[no-untyped-def]
    """Puts the final segments (int32[G] coordinates, bool[G]) into an empty heap, all free."""
    for g in range(len(begin)):
        a = np.int64(begin[g])
        b = np.int64(end[g])
        if a >= b:
            continue
        if clear(blocks, bits, address, table, counts, a, b, -1):
            misfit(counts, ledger.SEGMENT_DIFFERS, -1, address[b] - address[a])
        if expandable[g]:
            release(blocks, bits, a, b, EXPANDABLE)
        else:
            put(blocks, bits, a, b, FREE, -1, g + 1)


@jit(INT(BLOCKS, BITS, Addresses, TABLE, COUNTS, Bytes, Ids, Ids, Ids, INT))
def undo_segments(  # type: ignore[no-untyped-def]
    blocks, bits, address, table, counts, action, first, last, rank, serial
):
    """Takes the segments in the heap back to the start. Segment numbers go on from ``serial``.

    Returns the bytes by which reserved grows over the trace.
    """
    grown = 0
    for event in range(len(action) - 1, -1, -1):
        kind = action[event]
        if first[event] < 0 or not _SEGMENT_ALLOC <= kind <= _SEGMENT_UNMAP:
            continue
        a = np.int64(rank[first[event]])
        b = np.int64(rank[last[event]])
        if a >= b or abs(grown) > LIMIT:
            continue
        size = address[b] - address[a]
        appears = kind == _SEGMENT_ALLOC or kind == _SEGMENT_MAP
        grown += size if appears else -size
        there = clear(blocks, bits, address, table, counts, a, b, event)
        if there != (size if appears else 0):
            misfit(counts, ledger.SEGMENT_DIFFERS, event, size)
        if kind == _SEGMENT_FREE:
            serial += 1
            put(blocks, bits, a, b, FREE, -1, serial)
        elif kind == _SEGMENT_UNMAP:
            release(blocks, bits, a, b, EXPANDABLE)
    return grown


@inner(types.void(BLOCKS, BITS, Addresses, TABLE, Ids, Ids, Bools, Addresses))
def _settle_start(blocks, bits, address, table, begin, end, guessed, options):  # type: ignore[no-untyped-def]
    """Gives the blocks alive at the start the remainders that must be theirs; marks what stays open.

    Every block of a large pool that does not expand is larger than 1 MiB, so a smaller gap behind
    such a block cannot be a block: it is its remainder.
    """
    for row in range(len(begin)):
        a = np.int64(begin[row])
        b = np.int64(end[row])
        size = table[row, BLOCK_BYTES]
        segment = np.int64(blocks[a, SEGMENT])
        if not guessed[row] or splits(size, 512, segment, options):
            continue
        if segment == OUTSIDE:
            table[row, ESTIMATED] = 1
        elif blocks[b, STATE] == FREE and blocks[b, SEGMENT] == segment:
            stop = np.int64(blocks[b, END])
            if splits(size, address[stop] - address[b], segment, options):
                table[row, ESTIMATED] = 1
            else:
                drop(blocks, bits, b)
                shorten(blocks, a, stop)
                table[row, BLOCK_BYTES] = address[stop] - address[a]


@jit(types.void(BLOCKS, BITS, Addresses, TABLE, COUNTS, Ids, Ids, Bools, Addresses))
def place_start(  # type: ignore[no-untyped-def]
    blocks, bits, address, table, counts, begin, end, guessed, options
):
    """Puts the allocations alive at the start into the heap, and their bytes into table and totals.

    ``begin`` and ``end`` int32[S]: coordinates, ascending, disjoint; their rows of ``table`` are
    filled in but for ``BLOCK_BYTES`` and ``ESTIMATED``. ``guessed`` bool[S]: the end is that of the
    rounded request, and a remainder may belong to the block.
    """
    for row in range(len(begin)):
        a = np.int64(begin[row])
        b = np.int64(end[row])
        over = at_or_before(bits, a)
        table[row, BLOCK_BYTES] = address[b] - address[a]
        if over < 0 or blocks[over, END] < b:
            misfit(counts, ledger.OUTSIDE_SEGMENTS, -1, table[row, BLOCK_BYTES])
        carve(blocks, bits, address, table, counts, a, b, row, -1)
        if table[row, FREE_REQUESTED] == -1:
            blocks[a, STATE] = PENDING
    if options[ABSORB]:
        _settle_start(blocks, bits, address, table, begin, end, guessed, options)
    for row in range(len(begin)):
        counts[ledger.REQUESTED] += table[row, REQUESTED_BYTES]
        counts[ledger.ACTIVE] += table[row, BLOCK_BYTES]
        if table[row, FREE_REQUESTED] != -1:
            counts[ledger.ALLOCATED] += table[row, BLOCK_BYTES]
    counts[ledger.ROWS] = len(begin)


@inner(FLAG(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, Addresses))
def _settle_left(blocks, bits, address, table, counts, free, a, options):  # type: ignore[no-untyped-def]
    """Where an alloc at a, inside the block ``free``, shows that a block alive since the start ends
    at a, later than guessed.

    The free block behind it can only start where it ends, so the first request served from there
    says where that is. True where it did; then a free block starts at a.
    """
    left = left_of(blocks, free)
    if left < 0 or blocks[left, STATE] == FREE or blocks[left, SEGMENT] != blocks[free, SEGMENT]:
        return False
    row = blocks[left, ROW]
    more = address[a] - address[free]
    segment = np.int64(blocks[left, SEGMENT])
    if not table[row, ESTIMATED] or splits(table[row, BLOCK_BYTES], more, segment, options):
        return False
    stop = np.int64(blocks[free, END])
    drop(blocks, bits, free)
    shorten(blocks, left, a)
    put(blocks, bits, a, stop, FREE, -1, segment)
    # freed within the trace but still active: the curve has left the guess behind, so it stays one
    if blocks[left, STATE] == PENDING and table[row, FREE_REQUESTED] >= 0:
        return True
    table[row, BLOCK_BYTES] += more
    table[row, ESTIMATED] = 0
    counts[ledger.REFINED_ACTIVE] += more
    if blocks[left, STATE] == ALLOCATED:
        counts[ledger.REFINED_ALLOCATED] += more
    return True


@inner(FLAG(BLOCKS, BITS, Addresses, INT, INT, Addresses))
def _start_aligned(blocks, bits, address, free, a, options):  # type: ignore[no-untyped-def]
    """Splits the block ``free`` at a, where an allocator that aligns starts would. True if so."""
    align = options[ALIGN]
    if align == 0 or address[a] % align or address[a] - address[free] >= align:
        return False
    stop = np.int64(blocks[free, END])
    shorten(blocks, free, a)
    put(blocks, bits, a, stop, FREE, -1, np.int64(blocks[free, SEGMENT]))
    return True


@inner(FLAG(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, INT, Addresses))
def _find_free(blocks, bits, address, table, counts, a, rounded, event, options):  # type: ignore[no-untyped-def]
    """Whether a free block starts at a, if need be after the rules have explained that it does."""
    if blocks[a, STATE] != NONE:
        return blocks[a, STATE] == FREE
    over = at_or_before(bits, a)
    if over < 0 or blocks[over, END] <= a:
        misfit(counts, ledger.OUTSIDE_SEGMENTS, event, rounded)
        return False
    if blocks[over, STATE] != FREE:
        return False
    if options[ABSORB] and _settle_left(blocks, bits, address, table, counts, over, a, options):
        return True
    if _start_aligned(blocks, bits, address, over, a, options):
        return True
    misfit(counts, ledger.INSIDE_FREE, event, rounded)
    return False


@inner(types.void(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, INT, INT, INT, Addresses))
def _allocate(blocks, bits, address, table, counts, a, b, size, event, events, options):  # type: ignore[no-untyped-def]
    """A request of ``size`` bytes served at a; b is where its rounded size ends."""
    row = counts[ledger.ROWS]
    counts[ledger.ROWS] = row + 1
    rounded = address[b] - address[a]
    free = _find_free(blocks, bits, address, table, counts, a, rounded, event, options)
    if free and blocks[a, END] >= b:
        stop = np.int64(blocks[a, END])
        segment = np.int64(blocks[a, SEGMENT])
        if stop > b and (not options[ABSORB] or splits(rounded, address[stop] - address[b], segment, options)):
            put(blocks, bits, b, stop, FREE, -1, segment)
            stop = b
        put(blocks, bits, a, stop, ALLOCATED, row, segment)
    else:
        if free:
            misfit(counts, ledger.TOO_SMALL, event, rounded)
        carve(blocks, bits, address, table, counts, a, b, row, event)
        stop = b
    block = address[stop] - address[a]
    table[row, ledger.ADDRESS] = address[a]
    table[row, ledger.ALLOC_EVENT] = event
    table[row, FREE_REQUESTED] = events
    table[row, FREE_COMPLETED] = events
    table[row, REQUESTED_BYTES] = size
    table[row, BLOCK_BYTES] = block
    counts[ledger.REQUESTED] += size
    counts[ledger.ALLOCATED] += block
    counts[ledger.ACTIVE] += block


@inner(types.void(BLOCKS, BITS, TABLE, COUNTS, INT, INT, INT, FLAG))
def _deallocate(blocks, bits, table, counts, a, size, event, completed):  # type: ignore[no-untyped-def]
    """free_requested, or free_completed and whatever of the former has not been said."""
    state = blocks[a, STATE]
    if state == NONE or state == FREE or (state == PENDING and not completed):
        misfit(counts, ledger.NOT_LIVE, event, size)
        return
    row = blocks[a, ROW]
    requested = table[row, REQUESTED_BYTES]
    block = table[row, BLOCK_BYTES]
    if size != requested:
        misfit(counts, ledger.OTHER_SIZE, event, abs(size - requested))
    if state == ALLOCATED:
        counts[ledger.ALLOCATED] -= block
        table[row, FREE_REQUESTED] = event
        blocks[a, STATE] = PENDING
    if completed:
        counts[ledger.ACTIVE] -= block
        counts[ledger.REQUESTED] -= requested
        table[row, FREE_COMPLETED] = event
        segment = np.int64(blocks[a, SEGMENT])
        if segment == OUTSIDE:
            drop(blocks, bits, a)
        else:
            release(blocks, bits, a, np.int64(blocks[a, END]), segment)


@inner(types.void(BLOCKS, BITS, Addresses, TABLE, COUNTS, INT, INT, INT, INT, INT))
def _change_segment(blocks, bits, address, table, counts, kind, a, b, event, serial):  # type: ignore[no-untyped-def]
    """segment_alloc, segment_free, segment_map or segment_unmap of a to b."""
    if a >= b:
        return
    size = address[b] - address[a]
    appears = kind == _SEGMENT_ALLOC or kind == _SEGMENT_MAP
    reserved = counts[ledger.RESERVED] + (size if appears else -size)
    if abs(reserved) > 2 * LIMIT:
        misfit(counts, ledger.TOO_LARGE, event, size)
        return
    counts[ledger.RESERVED] = reserved
    if clear(blocks, bits, address, table, counts, a, b, event) != (0 if appears else size):
        misfit(counts, ledger.SEGMENT_DIFFERS, event, size)
    if kind == _SEGMENT_ALLOC:
        put(blocks, bits, a, b, FREE, -1, serial)
    elif kind == _SEGMENT_MAP:
        release(blocks, bits, a, b, EXPANDABLE)


@jit(types.UniTuple(COUNTS, 4)(BLOCKS, BITS, Addresses, TABLE, COUNTS, Bytes, Addresses, Ids, Ids, Ids, INT, Addresses))
def run(  # type: ignore[no-untyped-def]
    blocks, bits, address, table, counts, action, size, first, last, rank, serial, options
):
    """Replays every event. Returns requested, allocated, active, reserved after each, int64[E].

    The totals in ``counts`` must be the start's. ``rank`` int32: slot → coordinate. After the call
    the refined bytes in ``counts`` are missing in all of allocated and active, the start's too.
    """
    events = len(action)
    requested = np.empty(events, np.int64)
    allocated = np.empty(events, np.int64)
    active = np.empty(events, np.int64)
    reserved = np.empty(events, np.int64)
    for event in range(events):
        if first[event] >= 0:
            kind = action[event]
            a = np.int64(rank[first[event]])
            if kind == _ALLOC:
                b = np.int64(rank[last[event]])
                _allocate(blocks, bits, address, table, counts, a, b, size[event], event, events, options)
            elif kind == _FREE_REQUESTED or kind == _FREE_COMPLETED or kind == _FREE:
                _deallocate(blocks, bits, table, counts, a, size[event], event, kind != _FREE_REQUESTED)
            else:
                serial += 1
                b = np.int64(rank[last[event]])
                _change_segment(blocks, bits, address, table, counts, kind, a, b, event, serial)
        requested[event] = counts[ledger.REQUESTED]
        allocated[event] = counts[ledger.ALLOCATED]
        active[event] = counts[ledger.ACTIVE]
        reserved[event] = counts[ledger.RESERVED]
    return requested, allocated, active, reserved
