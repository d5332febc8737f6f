"""Closing a dict: the pickle machine's pairs become a row of the table they belong to (numba).

A dict is recognised by the key only its kind has (vocabulary.TELLING); any other is kept as items.
What each key means is data (layout); here is only how a value is read and where it goes. Legend:
``m`` the first pair's slot on the stack, ``sp`` one past the last value; ``st`` the machine's
registers (vocabulary.ST_*).
"""

from __future__ import annotations

from numba import int64, uint64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.columns import ABSENT
from snapviz.snapshot.intern import intern_frame, intern_stack
from snapviz.snapshot.jit import inlined
from snapviz.snapshot.layout import CODES, COLUMN, FORMAT, RANK

__all__ = ["close_dict"]

_USED = v.ST_USED
_BAD = -(1 << 62)  # no value: no address, size or time can be it
_KINDS = tuple(v.TELLING.values())
_UNKNOWN_CODE = (0, 0, 2)  # an action, state or stage that is none of ours
_UNKNOWN_WORD = (v.U_ACTION, v.U_STATE, v.U_STAGE)


@inlined
def _dict_kind(stack_tag, stack_value, m, sp):  # type: ignore[no-untyped-def]
    """The row kind that a dict's keys make it, or K_DICT."""
    best = len(_KINDS)
    for i in range(m, sp, 2):
        key = stack_value[i]
        if stack_tag[i] == v.T_STR and key < v.N_KNOWN and RANK[key] < best:
            best = RANK[key]
            if best == 0:
                break
    return _KINDS[best] if best < len(_KINDS) else v.K_DICT


@inlined
def _note_unknown(unknown, st, kind, key):  # type: ignore[no-untyped-def]
    """Counts something not understood; beyond U_LIMIT distinct ones, only how many more."""
    word = (int64(kind) << 32) | key
    known = st[v.ST_UNKNOWN]
    for i in range(known):
        if unknown[0, i] == word:
            unknown[1, i] += 1
            return
    if known == v.U_LIMIT:
        st[v.ST_UNKNOWN_MORE] += 1
        return
    unknown[0, known] = word
    unknown[1, known] = 1
    st[v.ST_UNKNOWN] += 1


@inlined
def _stack(b, st, obj):  # type: ignore[no-untyped-def]
    """The id of a list of frames, _BAD where the container is none."""
    word = b.objects[obj]
    b.objects[obj] = word | v.OBJ_USED
    if word & v.OBJ_KIND == v.K_STACK:
        return word >> v.OBJ_SHIFT
    if word & v.OBJ_KIND != v.K_NEW_LIST:
        return int64(_BAD)
    count = st[_USED + v.G_STACKS]
    begin = st[_USED + v.G_STACK_FRAMES]
    found = int64(
        intern_stack(begin, 0, st[v.ST_SEED], b.stack_slots, b.stack_hash, b.stack_end, b.stack_frames, count)
    )
    if found == count:
        st[_USED + v.G_STACKS] += 1
    return found


@inlined
def _pool(objects, unknown, st, tag, obj):  # type: ignore[no-untyped-def]
    """The id of a pair; ABSENT, and counted, for anything else."""
    if tag == v.T_OBJ:
        word = objects[obj]
        if word & v.OBJ_KIND == v.K_PAIR:
            objects[obj] = word | v.OBJ_USED
            return word >> v.OBJ_SHIFT
    _note_unknown(unknown, st, v.U_POOL, 0)
    return int64(ABSENT)


@inlined
def _newest(objects, spans, obj):  # type: ignore[no-untyped-def]
    """Row of the first entry of torch 2.0's ``history``, which is the newest; ABSENT where it has none."""
    word = objects[obj]
    if word & v.OBJ_KIND == v.K_LIST and spans[1, word >> v.OBJ_SHIFT] == v.K_HISTORY:
        objects[obj] = word | v.OBJ_USED
        return spans[2, word >> v.OBJ_SHIFT]
    return int64(ABSENT)


@inlined
def _coded(unknown, st, which, string):  # type: ignore[no-untyped-def]
    code = CODES[which, string] if string < v.N_KNOWN else int64(-1)
    if code >= 0:
        return code
    _note_unknown(unknown, st, _UNKNOWN_WORD[which], string)
    return int64(_UNKNOWN_CODE[which])


@inlined
def _value(b, st, form, tag, x):  # type: ignore[no-untyped-def]
    """A column's value from what a slot holds; _BAD where it has another type."""
    coded = form - v.F_ACTION
    if tag == v.T_NONE:
        return int64(_BAD) if coded >= 0 and coded < 3 else int64(ABSENT)
    if form == v.F_INT or form == v.F_FLAG or form == v.F_DEVICE_FREE:
        if tag != v.T_INT and tag != v.T_BOOL:
            return int64(_BAD)
        return int64(1 if x != 0 else 0) if form == v.F_FLAG else x
    if form == v.F_STRING:
        return x if tag == v.T_STR else int64(_BAD)
    if form == v.F_POOL:
        return _pool(b.objects, b.unknown, st, tag, x)
    if coded >= 0 and coded < 3:
        return _coded(b.unknown, st, coded, x) if tag == v.T_STR else int64(_BAD)
    if tag != v.T_OBJ:
        return int64(_BAD)
    if form == v.F_LIST:
        return x
    if form == v.F_HISTORY:
        return _newest(b.objects, b.spans, x)
    return _stack(b, st, x)  # F_STACK, F_FORWARD


@inlined
def _store(b, kind, column, row, x):  # type: ignore[no-untyped-def]
    if kind == v.K_EVENT:
        if column < v.N_WIDE:
            b.events_wide[uint64(column), uint64(row)] = x
        else:
            b.events_narrow[uint64(column - v.N_WIDE), uint64(row)] = x
    elif kind == v.K_BLOCK:
        b.blocks[column, row] = x
    elif kind == v.K_SEGMENT:
        b.segments[column, row] = x
    elif kind == v.K_ANNOTATION:
        b.annotations[column, row] = x
    elif kind == v.K_FRAME:
        b.frames[column, row] = x
    else:
        b.history[column, row] = x


@inlined
def _beside(device_free, forward, st, form, row, x):  # type: ignore[no-untyped-def]
    """Values of keys that few events have: lists of (event, value)."""
    if x == ABSENT or form == v.F_IGNORED:
        return
    if form == v.F_DEVICE_FREE:
        at = st[_USED + v.G_OOM]
        device_free[0, at] = row
        device_free[1, at] = x
        st[_USED + v.G_OOM] += 1
    else:
        at = st[_USED + v.G_FORWARD]
        forward[0, at] = row
        forward[1, at] = x
        st[_USED + v.G_FORWARD] += 1


@inlined
def _fill(b, st, kind, m, sp, row):  # type: ignore[no-untyped-def]
    """Writes the pairs into a row; 0, or R_TYPE with details in ``st``."""
    if kind == v.K_EVENT:
        for column in range(v.N_WIDE):
            b.events_wide[column, row] = ABSENT
        for column in range(v.N_EVENT - v.N_WIDE):
            b.events_narrow[column, row] = ABSENT
    else:
        for column in range(_width(kind)):
            _store(b, kind, column, row, int64(ABSENT))
    for i in range(m, sp, 2):
        key = b.stack_value[i]
        if b.stack_tag[i] != v.T_STR:
            _note_unknown(b.unknown, st, v.U_KEY_TYPE, kind)
            continue
        form = FORMAT[kind, key] if key < v.N_KNOWN else int64(-1)
        if form < 0:
            _note_unknown(b.unknown, st, kind, key)
            continue
        if form == v.F_IGNORED:
            continue
        tag = b.stack_tag[i + 1]
        x = _value(b, st, form, tag, b.stack_value[i + 1])
        if x == _BAD:
            st[v.ST_A], st[v.ST_B], st[v.ST_C] = kind, key, tag
            return v.R_TYPE
        column = COLUMN[kind, key]
        if column >= 0:
            _store(b, kind, column, row, x)
        else:
            _beside(b.device_free, b.forward, st, form, row, x)
    return 0


@inlined
def _width(kind):  # type: ignore[no-untyped-def]
    if kind == v.K_EVENT:
        return v.N_EVENT
    if kind == v.K_BLOCK:
        return v.N_BLOCK
    if kind == v.K_SEGMENT:
        return v.N_SEGMENT
    if kind == v.K_ANNOTATION:
        return v.N_ANNOTATION
    return v.N_FRAME if kind == v.K_FRAME else v.N_HISTORY


@inlined
def _group(kind):  # type: ignore[no-untyped-def]
    if kind == v.K_EVENT:
        return v.G_EVENTS
    if kind == v.K_BLOCK:
        return v.G_BLOCKS
    if kind == v.K_SEGMENT:
        return v.G_SEGMENTS
    if kind == v.K_ANNOTATION:
        return v.G_ANNOTATIONS
    return v.G_FRAMES if kind == v.K_FRAME else v.G_HISTORY


@inlined
def _settle(b, st, kind, row):  # type: ignore[no-untyped-def]
    """What follows from a full row; the row it is known by (an equal frame's, where there is one)."""
    if kind == v.K_FRAME:
        return int64(intern_frame(st[v.ST_SEED], b.frame_slots, b.frame_hash, b.frames, row))
    if kind == v.K_BLOCK and b.blocks[v.BLOCK_HISTORY, row] != ABSENT:
        newest = b.blocks[v.BLOCK_HISTORY, row]
        if b.blocks[v.BLOCK_REQUESTED, row] == ABSENT:
            b.blocks[v.BLOCK_REQUESTED, row] = b.history[0, newest]
        if b.blocks[v.BLOCK_STACK, row] == ABSENT:
            b.blocks[v.BLOCK_STACK, row] = b.history[1, newest]
    return row


@inlined
def _items(stack_tag, stack_value, objects, items, st, m, sp, obj):  # type: ignore[no-untyped-def]
    """Pairs of a dict without a table; references stay object ids."""
    for i in range(m, sp, 2):
        at = st[_USED + v.G_ITEMS]
        items[0, at] = obj
        items[1, at] = stack_tag[i]
        items[2, at] = stack_value[i]
        items[3, at] = stack_tag[i + 1]
        items[4, at] = stack_value[i + 1]
        st[_USED + v.G_ITEMS] += 1
        if stack_tag[i + 1] == v.T_OBJ:
            objects[stack_value[i + 1]] |= v.OBJ_USED


@inlined
def close_dict(b, st, obj, m, sp):  # type: ignore[no-untyped-def]
    """Puts the pairs in slots ``m`` to ``sp`` into the dict ``obj``; 0, or one of vocabulary.R_*.

    Room was made by the caller.
    """
    word = b.objects[obj]
    kind = _dict_kind(b.stack_tag, b.stack_value, m, sp)
    old = word & v.OBJ_KIND
    if old == v.K_DICT and kind != v.K_DICT:
        return v.R_LATE_KEY
    if word & v.OBJ_USED or (old != v.K_NEW_DICT and old != v.K_DICT):
        return v.R_CHANGED  # as is a key more for a row that is already written
    if kind == v.K_DICT:
        b.objects[obj] = v.K_DICT
        _items(b.stack_tag, b.stack_value, b.objects, b.items, st, m, sp, obj)
        return 0
    group = _group(kind)
    row = st[_USED + group]
    code = _fill(b, st, kind, m, sp, row)
    if code != 0:
        return code
    found = _settle(b, st, kind, row)
    if found == row:
        st[_USED + group] += 1
    b.objects[obj] = found << v.OBJ_SHIFT | kind
    return 0
