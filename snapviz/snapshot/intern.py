"""Interning in open-addressing tables, for strings, frames, stacks and pairs (numba).

Hashes are seeded anew for every decode, so that a file cannot be written to make them collide.
The caller has made room: a table is never more than half full, and its arrays hold one more.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.jit import inlined, kernel

__all__ = ["fill_slots", "intern_frame", "intern_known", "intern_pair", "intern_stack", "intern_string"]

_M1 = np.uint64(0xFF51AFD7ED558CCD)  # the finaliser of MurmurHash3, 64 bits
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_S33 = np.uint64(33)
_S8 = np.uint64(8)
_S29 = np.uint64(29)
_S35 = np.uint64(35)


@inlined
def _mix(x):  # type: ignore[no-untyped-def]
    x ^= x >> _S33
    x *= _M1
    x ^= x >> _S33
    x *= _M2
    return x ^ (x >> _S33)


@inlined
def _combine(h, x):  # type: ignore[no-untyped-def]
    """Folds one 64-bit word into a hash; rotating keeps the order of words."""
    h = (h << _S29) | (h >> _S35)
    return _mix(h ^ uint64(x))


@kernel
def fill_slots(slots, hashes):  # type: ignore[no-untyped-def]
    """Enters ids 0..len(hashes) into empty slots."""
    mask = uint64(len(slots) - 1)
    for i in range(len(hashes)):
        at = hashes[i] & mask
        while slots[at] != 0:
            at = (at + uint64(1)) & mask
        slots[at] = i + 1


@inlined
def intern_string(data, start, length, seed, slots, hashes, strings, blob, count, blob_used):  # type: ignore[no-untyped-def]
    """Id of ``data[start:start + length]``; equals ``count`` where it is new and was added."""
    h = _combine(uint64(seed), length)
    word = uint64(0)
    for i in range(length):
        word = (word << _S8) | uint64(data[start + i])
        if i & 7 == 7:
            h = _combine(h, word)
            word = uint64(0)
    h = _combine(h, word)
    mask = uint64(len(slots) - 1)
    at = h & mask
    while slots[at] != 0:
        found = slots[at] - 1
        if hashes[found] == h:
            begin = strings[0, found - 1] if found > 0 else 0
            if strings[0, found] - begin == length:
                same = True
                for i in range(length):
                    if blob[begin + i] != data[start + i]:
                        same = False
                        break
                if same:
                    return found
        at = (at + uint64(1)) & mask
    slots[at] = count + 1
    hashes[count] = h
    strings[1, count] = start
    for i in range(length):
        blob[blob_used + i] = data[start + i]
    strings[0, count] = blob_used + length
    return count


@inlined
def intern_frame(seed, slots, hashes, frames, count):  # type: ignore[no-untyped-def]
    """Id of the frame whose values were laid in row ``count``; equals ``count`` where it is new."""
    name, filename, line = frames[0, count], frames[1, count], frames[2, count]
    h = _combine(_combine(_combine(uint64(seed), name), filename), line)
    mask = uint64(len(slots) - 1)
    at = h & mask
    while slots[at] != 0:
        found = slots[at] - 1
        if frames[0, found] == name and frames[1, found] == filename and frames[2, found] == line:
            return found
        at = (at + uint64(1)) & mask
    slots[at] = count + 1
    hashes[count] = h
    return count


@inlined
def intern_pair(first, second, seed, slots, hashes, pairs, count):  # type: ignore[no-untyped-def]
    """Id of a pair of integers; equals ``count`` where it is new and was added."""
    h = _combine(_combine(uint64(seed), first), second)
    mask = uint64(len(slots) - 1)
    at = h & mask
    while slots[at] != 0:
        found = slots[at] - 1
        if pairs[0, found] == first and pairs[1, found] == second:
            return found
        at = (at + uint64(1)) & mask
    slots[at] = count + 1
    hashes[count] = h
    pairs[0, count] = first
    pairs[1, count] = second
    return count


@inlined
def intern_stack(begin, length, seed, slots, hashes, ends, frames, count):  # type: ignore[no-untyped-def]
    """Id of the stack whose frames were laid, tentatively, at ``frames[begin:]``.

    ``begin`` is the end of what is in use; the id equals ``count`` where the stack is new, and then
    its frames stay where they were laid.
    """
    h = _combine(uint64(seed), length)
    laid = uint64(begin)
    for i in range(uint64(length)):  # one multiplication a frame: this is where decoding spends its time
        h = (((h << _S29) | (h >> _S35)) ^ uint64(frames[laid + i])) * _M1
    h = _mix(h)
    mask = uint64(len(slots) - 1)
    at = h & mask
    while slots[at] != 0:
        found = slots[at] - 1
        if hashes[found] == h:
            start = ends[found - 1] if found > 0 else 0
            if ends[found] - start == length:
                old = uint64(start)
                differs = np.int32(0)
                for i in range(uint64(length)):  # no early exit, so that it becomes vector code
                    differs |= frames[old + i] ^ frames[laid + i]
                if differs == 0:
                    return found
        at = (at + uint64(1)) & mask
    slots[at] = count + 1
    hashes[count] = h
    ends[count] = begin + length
    return count


@kernel
def intern_known(data, length, b, st):  # type: ignore[no-untyped-def]
    """Interns one known string, laid at the start of ``data``, before the machine runs."""
    count = st[v.ST_USED + v.G_STRINGS]
    intern_string(
        data,
        0,
        length,
        st[v.ST_SEED],
        b.string_slots,
        b.string_hash,
        b.strings,
        b.blob,
        count,
        st[v.ST_USED + v.G_BLOB],
    )
    st[v.ST_USED + v.G_STRINGS] += 1
    st[v.ST_USED + v.G_BLOB] += length
