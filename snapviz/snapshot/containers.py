"""Lists and tuples of the pickle machine, and making room before a container closes (numba).

A list of frames becomes a stack at once, two integers a pair (a pool id), anything else runs of
elements. Legend: ``m`` to ``sp`` the elements' slots on the stack; ``st`` the machine's registers.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.intern import intern_pair, intern_stack
from snapviz.snapshot.jit import inlined

__all__ = ["append", "fail", "full", "new_object", "room_for_items", "room_for_pairs", "table_full"]

_USED = v.ST_USED
_1 = np.uint64(1)


@inlined
def fail(st, code, offset, a, b):  # type: ignore[no-untyped-def]
    """``code``, with its offset and details in the registers."""
    st[v.ST_OFFSET], st[v.ST_A], st[v.ST_B] = offset, a, b
    return code


@inlined
def full(st, group, needed):  # type: ignore[no-untyped-def]
    """R_GROW, with the group and how many it must hold in the registers."""
    st[v.ST_A], st[v.ST_B] = group, needed
    return v.R_GROW


@inlined
def _add_span(spans, st, owner, kind, value):  # type: ignore[no-untyped-def]
    """One element of a list; a row that follows the last one lengthens its run."""
    at = st[_USED + v.G_SPANS]
    if kind < v.ROW_KINDS and at > 0:
        last = at - 1
        if spans[0, last] == owner and spans[1, last] == kind and spans[2, last] + spans[3, last] == value:
            spans[3, last] += 1
            return
    spans[0, at] = owner
    spans[1, at] = kind
    spans[2, at] = value
    spans[3, at] = 1
    st[_USED + v.G_SPANS] += 1


@inlined
def _element(objects, spans, st, owner, tag, value):  # type: ignore[no-untyped-def]
    if tag != v.T_OBJ:
        _add_span(spans, st, owner, v.SPAN_SCALAR + tag, value)
        return
    word = objects[value]
    objects[value] = word | v.OBJ_USED
    if word & v.OBJ_KIND < v.ROW_KINDS:
        _add_span(spans, st, owner, word & v.OBJ_KIND, word >> v.OBJ_SHIFT)
    else:
        _add_span(spans, st, owner, v.SPAN_OBJECT, value)


@inlined
def _two_ints(stack_tag, m, sp):  # type: ignore[no-untyped-def]
    if sp - m != 2:
        return False
    for i in range(m, sp):
        if stack_tag[i] != v.T_INT:
            return False
    return True


@inlined
def _lay_stack(b, st, prefix, m, sp):  # type: ignore[no-untyped-def]
    """Stack id of the frames of stack ``prefix`` (or none) and those in slots ``m`` to ``sp``.

    -1 where one of the slots holds something that is not a frame; nothing has happened then.
    """
    begin = st[_USED + v.G_STACK_FRAMES]
    length = int64(0)
    if prefix >= 0:
        start = b.stack_end[prefix - 1] if prefix > 0 else 0
        length = b.stack_end[prefix] - start
        for i in range(length):
            b.stack_frames[begin + i] = b.stack_frames[start + i]
    at = uint64(begin + length)
    for slot in range(uint64(m), uint64(sp)):
        if b.stack_tag[slot] != v.T_OBJ:
            return int64(-1)
        word = b.objects[uint64(b.stack_value[slot])]
        if word & v.OBJ_KIND != v.K_FRAME:
            return int64(-1)
        b.stack_frames[at] = word >> v.OBJ_SHIFT
        at += _1
    length += sp - m
    count = st[_USED + v.G_STACKS]
    found = int64(
        intern_stack(begin, length, st[v.ST_SEED], b.stack_slots, b.stack_hash, b.stack_end, b.stack_frames, count)
    )
    if found == count:
        st[_USED + v.G_STACKS] += 1
        st[_USED + v.G_STACK_FRAMES] += length
    return found


@inlined
def _spread(b, st, obj, m, sp):  # type: ignore[no-untyped-def]
    for i in range(m, sp):
        _element(b.objects, b.spans, st, obj, b.stack_tag[i], b.stack_value[i])


@inlined
def append(b, st, obj, m, sp):  # type: ignore[no-untyped-def]
    """Appends slots ``m`` to ``sp`` to the list (or new tuple) ``obj``; 0, or why it cannot be."""
    word = b.objects[obj]
    kind = word & v.OBJ_KIND
    if kind != v.K_NEW_LIST and kind != v.K_LIST and kind != v.K_STACK and kind != v.K_PAIR:
        return v.R_NOT_LIST
    if m == sp:
        return 0
    if word & v.OBJ_USED:
        return v.R_CHANGED
    if kind == v.K_NEW_LIST:
        stack = _lay_stack(b, st, int64(-1), m, sp)
        if stack >= 0:
            if sp - m > v.STACK_LIMIT:
                return v.R_DEEP_STACK
            b.objects[obj] = stack << v.OBJ_SHIFT | v.K_STACK
            return 0
        if _two_ints(b.stack_tag, m, sp):
            count = st[_USED + v.G_PAIRS]
            pair = int64(
                intern_pair(
                    b.stack_value[m], b.stack_value[m + 1], st[v.ST_SEED], b.pair_slots, b.pair_hash, b.pairs, count
                )
            )
            if pair == count:
                st[_USED + v.G_PAIRS] += 1
            b.objects[obj] = pair << v.OBJ_SHIFT | v.K_PAIR
            return 0
        # A later element of the same list may come from another run, so its reference is its first run.
        b.objects[obj] = st[_USED + v.G_SPANS] << v.OBJ_SHIFT | v.K_LIST
        _spread(b, st, obj, m, sp)
        return 0
    if kind == v.K_STACK:
        stack = word >> v.OBJ_SHIFT
        start = b.stack_end[stack - 1] if stack > 0 else 0
        depth = b.stack_end[stack] - start
        if depth + sp - m > v.STACK_LIMIT:
            return v.R_DEEP_STACK
        stack = _lay_stack(b, st, stack, m, sp) if depth % v.BATCH == 0 else int64(-1)
        if stack < 0:
            return v.R_FRAME
        b.objects[obj] = stack << v.OBJ_SHIFT | v.K_STACK
        return 0
    if kind == v.K_PAIR:
        pair = word >> v.OBJ_SHIFT
        b.objects[obj] = st[_USED + v.G_SPANS] << v.OBJ_SHIFT | v.K_LIST
        _add_span(b.spans, st, obj, v.SPAN_SCALAR + v.T_INT, b.pairs[0, pair])
        _add_span(b.spans, st, obj, v.SPAN_SCALAR + v.T_INT, b.pairs[1, pair])
    _spread(b, st, obj, m, sp)
    return 0


@inlined
def new_object(objects, st, kind):  # type: ignore[no-untyped-def]
    """Id of a new container."""
    obj = st[_USED + v.G_OBJECTS]
    objects[obj] = kind
    st[_USED + v.G_OBJECTS] += 1
    return obj


@inlined
def room_for_items(b, st, count):  # type: ignore[no-untyped-def]
    """R_GROW if closing a list or dict of ``count`` values could overfill something, else 0."""
    if st[_USED + v.G_OBJECTS] + 1 > len(b.objects):
        return full(st, v.G_OBJECTS, st[_USED + v.G_OBJECTS] + 1)
    # Two more spans than values: a pair that turns out to be a longer list.
    if st[_USED + v.G_SPANS] + count + 2 > b.spans.shape[1]:
        return full(st, v.G_SPANS, st[_USED + v.G_SPANS] + count + 2)
    if st[_USED + v.G_STACK_FRAMES] + count + v.STACK_LIMIT > len(b.stack_frames):
        return full(st, v.G_STACK_FRAMES, st[_USED + v.G_STACK_FRAMES] + count + v.STACK_LIMIT)
    if table_full(b.stack_slots, b.stack_hash, st[_USED + v.G_STACKS]):
        return full(st, v.G_STACKS, st[_USED + v.G_STACKS] + 1)
    if table_full(b.pair_slots, b.pair_hash, st[_USED + v.G_PAIRS]):
        return full(st, v.G_PAIRS, st[_USED + v.G_PAIRS] + 1)
    return 0


@inlined
def room_for_pairs(b, st, count):  # type: ignore[no-untyped-def]
    """R_GROW if closing a dict of ``count`` pairs could overfill something, else 0."""
    if st[_USED + v.G_EVENTS] + 1 > b.events_wide.shape[1]:
        return full(st, v.G_EVENTS, st[_USED + v.G_EVENTS] + 1)
    if st[_USED + v.G_BLOCKS] + 1 > b.blocks.shape[1]:
        return full(st, v.G_BLOCKS, st[_USED + v.G_BLOCKS] + 1)
    if st[_USED + v.G_SEGMENTS] + 1 > b.segments.shape[1]:
        return full(st, v.G_SEGMENTS, st[_USED + v.G_SEGMENTS] + 1)
    if st[_USED + v.G_ANNOTATIONS] + 1 > b.annotations.shape[1]:
        return full(st, v.G_ANNOTATIONS, st[_USED + v.G_ANNOTATIONS] + 1)
    if st[_USED + v.G_HISTORY] + 1 > b.history.shape[1]:
        return full(st, v.G_HISTORY, st[_USED + v.G_HISTORY] + 1)
    if st[_USED + v.G_ITEMS] + count > b.items.shape[1]:
        return full(st, v.G_ITEMS, st[_USED + v.G_ITEMS] + count)
    if st[_USED + v.G_OOM] + count > b.device_free.shape[1]:
        return full(st, v.G_OOM, st[_USED + v.G_OOM] + count)
    if st[_USED + v.G_FORWARD] + count > b.forward.shape[1]:
        return full(st, v.G_FORWARD, st[_USED + v.G_FORWARD] + count)
    if table_full(b.frame_slots, b.frame_hash, st[_USED + v.G_FRAMES]):
        return full(st, v.G_FRAMES, st[_USED + v.G_FRAMES] + 1)
    if table_full(b.stack_slots, b.stack_hash, st[_USED + v.G_STACKS]):
        return full(st, v.G_STACKS, st[_USED + v.G_STACKS] + 1)
    return 0


@inlined
def table_full(slots, hashes, count):  # type: ignore[no-untyped-def]
    """Whether an interning table of ``count`` entries may not take one more."""
    return count + 1 > len(hashes) or 2 * (count + 1) > len(slots)
