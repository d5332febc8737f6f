"""Addresses to small integers: every boundary that can matter, once, in ascending order.

A trace names the same few thousand addresses over and over, so they go through a hash set and only
the distinct ones are sorted. Hashes are keyed by a number drawn for each replay: nobody can write a
file whose addresses collide.

Legend: E events, X distinct addresses; a *slot* is an address's index in order of first sight, its
*coordinate* the index in ascending order.
"""

from __future__ import annotations

import numpy as np
from numba import types

from snapviz.replay.jit import COUNTS, FLAG, INT, Addresses, Bytes, inner, jit
from snapviz.replay.rules import LIMIT, MIN_BLOCK, ROUNDUP_BUCKETS
from snapviz.snapshot.columns import ACTIONS

__all__ = ["collect", "in_range", "round_size"]

_ALLOC = ACTIONS.index("alloc")
_FREE_REQUESTED = ACTIONS.index("free_requested")
_FREE_COMPLETED = ACTIONS.index("free_completed")
_SEGMENT_ALLOC = ACTIONS.index("segment_alloc")
_SEGMENT_UNMAP = ACTIONS.index("segment_unmap")
_FREE = ACTIONS.index("free")

KEY = types.uint64
SLOTS = types.Array(types.int32, 1, "C")

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@inner(FLAG(INT, INT))
def in_range(addr, size):  # type: ignore[no-untyped-def]
    """Whether an event's address and size can be a device's."""
    return 0 <= addr <= LIMIT and 0 <= size <= LIMIT


@inner(INT(INT, INT, Addresses))
def round_size(size, pad, shifts):  # type: ignore[no-untyped-def]
    """``round_size`` of torch 2.11's allocator, for ``0 <= size <= LIMIT``; at most ``2 * LIMIT``."""
    size += pad
    if size < MIN_BLOCK:
        return MIN_BLOCK
    if size > 2 * MIN_BLOCK:
        power = 10
        while size >> (power + 1):
            power += 1
        shift = shifts[min(max(power - 20, 0), ROUNDUP_BUCKETS - 1)]
        if shift > 0 and size > (MIN_BLOCK << shift):
            step = 1 << (power - shift)
            return (size + step - 1) // step * step
    return (size + MIN_BLOCK - 1) // MIN_BLOCK * MIN_BLOCK


@inner(INT(INT, KEY, KEY))
def _home(address, key, mask):  # type: ignore[no-untyped-def]
    """Where an address is looked for first: splitmix64's mixer over the keyed address."""
    value = np.uint64(address) ^ key
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return np.int64((value ^ (value >> np.uint64(31))) & mask)


@inner(SLOTS(SLOTS, Addresses, KEY))
def _grown(table, addresses, key):  # type: ignore[no-untyped-def]
    """A table of four times the places with the same slots in it."""
    bigger = np.full(4 * len(table), -1, np.int32)
    mask = np.uint64(len(bigger) - 1)
    for slot in range(len(addresses)):
        place = _home(addresses[slot], key, mask)
        while bigger[place] >= 0:
            place = (place + 1) & np.int64(mask)
        bigger[place] = slot
    return bigger


@inner(INT(INT, SLOTS, COUNTS, INT, KEY))
def _slot(address, table, addresses, count, key):  # type: ignore[no-untyped-def]
    """The slot of an address, ``count`` where it is new (and then taken). The table has room."""
    mask = np.uint64(len(table) - 1)
    place = _home(address, key, mask)
    while table[place] >= 0:
        slot = table[place]
        if addresses[slot] == address:
            return np.int64(slot)
        place = (place + 1) & np.int64(mask)
    table[place] = count
    addresses[count] = address
    return np.int64(count)


@jit(types.Tuple((COUNTS, SLOTS, SLOTS, INT, INT))(Bytes, Addresses, Addresses, INT, Addresses, KEY))
def collect(action, addr, size, pad, shifts, key):  # type: ignore[no-untyped-def]
    """Slots of every event.

    ``action`` int8[E], ``addr`` and ``size`` int64[E], ``shifts`` int64[16], ``key`` uint64.

    Returns the distinct addresses int64[X]; per event the slot of its address and of where its
    block or range ends, int32[E], -1 where it has none: an action without effect on blocks (both),
    a free (the end), something out of range (both); the number of the last kind, and the first of
    them (-1: none).
    """
    events = len(action)
    first = np.full(events, -1, np.int32)
    last = np.full(events, -1, np.int32)
    table = np.full(1 << 12, -1, np.int32)
    addresses = np.empty(1 << 10, np.int64)
    count = 0
    refused = 0
    first_refused = -1
    for i in range(events):
        kind = action[i]
        is_free = kind == _FREE_REQUESTED or kind == _FREE_COMPLETED or kind == _FREE
        is_segment = _SEGMENT_ALLOC <= kind <= _SEGMENT_UNMAP
        if not (is_free or is_segment or kind == _ALLOC):
            continue
        if not in_range(addr[i], size[i]):
            if refused == 0:
                first_refused = i
            refused += 1
            continue
        # two more addresses must fit, and the table stays at most half full
        if count + 2 > len(addresses):
            more = np.empty(2 * len(addresses), np.int64)
            more[:count] = addresses[:count]
            addresses = more
        if 2 * (count + 2) > len(table):
            table = _grown(table, addresses[:count], key)
        slot = _slot(addr[i], table, addresses, count, key)
        count = max(count, slot + 1)
        first[i] = slot
        if is_free:
            continue
        end = addr[i] + (size[i] if is_segment else round_size(size[i], pad, shifts))
        slot = _slot(end, table, addresses, count, key)
        count = max(count, slot + 1)
        last[i] = slot
    return addresses[:count].copy(), first, last, refused, first_refused
