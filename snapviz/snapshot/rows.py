"""Closing a dict: the pickle machine's pairs become a row of the table they belong to (numba).

A dict is recognised by the key only its kind has: ``action`` an event, ``blocks`` a segment,
``state`` a block, ``stage`` an annotation, ``filename`` a frame, ``real_size`` an entry of torch
2.0's history. Any other is kept as items. Legend: ``m`` the first pair's slot on the stack, ``sp``
one past the last value; ``st`` the machine's registers (vocabulary.ST_*).

Every function returns 0, or a vocabulary.R_* code with details in ``st``.
"""

from __future__ import annotations

from numba import int64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.columns import ABSENT
from snapviz.snapshot.fields import BAD, integer, note_unknown, pool_of, stack_of, string, unknown_key, wrong_type
from snapviz.snapshot.intern import intern_frame
from snapviz.snapshot.jit import inlined
from snapviz.snapshot.rules import ACTION_CODES, BLOCK_STATE_CODES, STAGE_CODES

__all__ = ["close_dict", "dict_kind"]

_USED = v.ST_USED
_FIRST_ACTION = v.KNOWN_STRINGS["alloc"]
_LAST_ACTION = _FIRST_ACTION + len(ACTION_CODES) - 1
_FIRST_STATE = v.KNOWN_STRINGS["inactive"]
_STATES = tuple(BLOCK_STATE_CODES.values())
_START = v.KNOWN_STRINGS["START"]
_END = v.KNOWN_STRINGS["END"]

# The code of an action is its place after "alloc": the two tables must keep one order.
assert [v.KNOWN_STRINGS[name] - _FIRST_ACTION + 1 for name in ACTION_CODES] == list(ACTION_CODES.values())
assert [v.KNOWN_STRINGS[name] - _FIRST_STATE for name in BLOCK_STATE_CODES] == list(range(len(_STATES)))
assert (STAGE_CODES["START"], STAGE_CODES["END"]) == (0, 1)


@inlined
def dict_kind(work, m, sp):  # type: ignore[no-untyped-def]
    """The row kind that a dict's keys make it, or K_DICT."""
    kind = v.K_DICT
    rank = 99
    for i in range(m, sp, 2):
        if work.stack_tag[i] != v.T_STR:
            continue
        key = work.stack_value[i]
        if key == v.S_ACTION:
            return v.K_EVENT
        if key == v.S_BLOCKS and rank > 1:
            kind, rank = v.K_SEGMENT, 1
        elif key == v.S_STATE and rank > 2:
            kind, rank = v.K_BLOCK, 2
        elif key == v.S_STAGE and rank > 3:
            kind, rank = v.K_ANNOTATION, 3
        elif key == v.S_FILENAME and rank > 4:
            kind, rank = v.K_FRAME, 4
        elif key == v.S_REAL_SIZE and rank > 5:
            kind, rank = v.K_HISTORY, 5
    return kind


@inlined
def _event(buffers, st, m, sp, row):  # type: ignore[no-untyped-def]
    work, events, rest = buffers.work, buffers.events, buffers.rest
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_ACTION:
            x = string(work, i + 1, v.K_EVENT, st, True)
            if x >= _FIRST_ACTION and x <= _LAST_ACTION:
                events.action[row] = x - _FIRST_ACTION + 1
            elif x != BAD:
                note_unknown(rest, st, v.U_ACTION, x)
                events.action[row] = 0
        elif key == v.S_ADDR:
            x = integer(work, i + 1, v.K_EVENT, st)
            events.addr[row] = x
        elif key == v.S_SIZE:
            x = integer(work, i + 1, v.K_EVENT, st)
            events.size[row] = x
        elif key == v.S_STREAM:
            x = integer(work, i + 1, v.K_EVENT, st)
            events.stream[row] = x
        elif key == v.S_TIME_US:
            x = integer(work, i + 1, v.K_EVENT, st)
            events.time_us[row] = x
        elif key == v.S_FRAMES:
            x = stack_of(work, buffers.stacks, i + 1, v.K_EVENT, st)
            events.stack[row] = x if x != BAD else 0
        elif key == v.S_POOL_ID:
            events.pool[row] = pool_of(work, rest, i + 1, st)
        elif key == v.S_USER_METADATA:
            x = string(work, i + 1, v.K_EVENT, st, False)
            events.user_metadata[row] = x if x != BAD else 0
        elif key == v.S_COMPILE_CONTEXT:
            x = string(work, i + 1, v.K_EVENT, st, False)
            events.compile_context[row] = x if x != BAD else 0
        elif key == v.S_DEVICE_FREE:
            x = integer(work, i + 1, v.K_EVENT, st)
            if x != ABSENT and x != BAD:
                at = st[_USED + v.G_OOM]
                rest.oom_event[at] = row
                rest.oom_device_free[at] = x
                st[_USED + v.G_OOM] += 1
        elif key == v.S_FORWARD_FRAMES:
            x = stack_of(work, buffers.stacks, i + 1, v.K_EVENT, st)
            if x != ABSENT and x != BAD:
                at = st[_USED + v.G_FORWARD]
                rest.forward_event[at] = row
                rest.forward_stack[at] = x
                st[_USED + v.G_FORWARD] += 1
        else:
            unknown_key(work, rest, i, v.K_EVENT, st)
        if x == BAD:
            return v.R_TYPE
    return 0


@inlined
def _segment(buffers, st, m, sp, row):  # type: ignore[no-untyped-def]
    work, segments, rest = buffers.work, buffers.segments, buffers.rest
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_DEVICE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.device[row] = x if x != BAD else 0
        elif key == v.S_ADDRESS:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.address[row] = x
        elif key == v.S_TOTAL_SIZE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.total_size[row] = x
        elif key == v.S_ALLOCATED_SIZE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.allocated_size[row] = x
        elif key == v.S_ACTIVE_SIZE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.active_size[row] = x
        elif key == v.S_REQUESTED_SIZE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.requested_size[row] = x
        elif key == v.S_STREAM:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.stream[row] = x
        elif key == v.S_SEGMENT_TYPE:
            x = string(work, i + 1, v.K_SEGMENT, st, False)
            segments.segment_type[row] = x if x != BAD else 0
        elif key == v.S_SEGMENT_POOL_ID:
            segments.pool[row] = pool_of(work, rest, i + 1, st)
        elif key == v.S_IS_EXPANDABLE:
            x = integer(work, i + 1, v.K_SEGMENT, st)
            segments.is_expandable[row] = (1 if x != 0 else 0) if x != ABSENT else ABSENT
        elif key == v.S_FRAMES:
            x = stack_of(work, buffers.stacks, i + 1, v.K_SEGMENT, st)
            segments.stack[row] = x if x != BAD else 0
        elif key == v.S_BLOCKS:
            if work.stack_tag[i + 1] == v.T_OBJ:
                segments.blocks[row] = work.stack_value[i + 1]
            elif work.stack_tag[i + 1] == v.T_NONE:
                segments.blocks[row] = ABSENT
            else:
                x = wrong_type(st, v.K_SEGMENT, key, work.stack_tag[i + 1])
        else:
            unknown_key(work, rest, i, v.K_SEGMENT, st)
        if x == BAD:
            return v.R_TYPE
    return 0


@inlined
def _newest_history(work, rest, history, i):  # type: ignore[no-untyped-def]
    """Row of the first entry of the list in slot ``i``, ABSENT where it has none."""
    word = work.objects[work.stack_value[i]]
    if word & v.OBJ_KIND == v.K_LIST and rest.span_kind[word >> v.OBJ_SHIFT] == v.K_HISTORY:
        work.objects[work.stack_value[i]] = word | v.OBJ_USED
        return rest.span_value[word >> v.OBJ_SHIFT]
    return int64(ABSENT)


@inlined
def _block(buffers, st, m, sp, row):  # type: ignore[no-untyped-def]
    work, blocks, rest = buffers.work, buffers.blocks, buffers.rest
    newest = int64(ABSENT)
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_STATE:
            x = string(work, i + 1, v.K_BLOCK, st, True)
            if x >= _FIRST_STATE and x < _FIRST_STATE + len(_STATES):
                blocks.state[row] = _STATES[x - _FIRST_STATE]
            elif x != BAD:
                note_unknown(rest, st, v.U_STATE, x)
                blocks.state[row] = 0
        elif key == v.S_ADDRESS:
            x = integer(work, i + 1, v.K_BLOCK, st)
            blocks.address[row] = x
        elif key == v.S_SIZE:
            x = integer(work, i + 1, v.K_BLOCK, st)
            blocks.size[row] = x
        elif key == v.S_REQUESTED_SIZE:
            x = integer(work, i + 1, v.K_BLOCK, st)
            blocks.requested_size[row] = x
        elif key == v.S_FRAMES:
            x = stack_of(work, buffers.stacks, i + 1, v.K_BLOCK, st)
            blocks.stack[row] = x if x != BAD else 0
        elif key == v.S_HISTORY:
            if work.stack_tag[i + 1] == v.T_OBJ:
                newest = _newest_history(work, rest, buffers.history, i + 1)
            elif work.stack_tag[i + 1] != v.T_NONE:
                x = wrong_type(st, v.K_BLOCK, key, work.stack_tag[i + 1])
        else:
            unknown_key(work, rest, i, v.K_BLOCK, st)
        if x == BAD:
            return v.R_TYPE
    if newest != ABSENT:
        if blocks.requested_size[row] == ABSENT:
            blocks.requested_size[row] = buffers.history.real_size[newest]
        if blocks.stack[row] == ABSENT:
            blocks.stack[row] = buffers.history.stack[newest]
    return 0


@inlined
def _annotation(buffers, st, m, sp, row):  # type: ignore[no-untyped-def]
    work, annotations, rest = buffers.work, buffers.annotations, buffers.rest
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_NAME:
            x = string(work, i + 1, v.K_ANNOTATION, st, False)
            annotations.name[row] = x if x != BAD else 0
        elif key == v.S_STAGE:
            x = string(work, i + 1, v.K_ANNOTATION, st, True)
            if x == _START or x == _END:
                annotations.stage[row] = 0 if x == _START else 1
            elif x != BAD:
                note_unknown(rest, st, v.U_STAGE, x)
                annotations.stage[row] = 2
        elif key == v.S_DEVICE:
            x = integer(work, i + 1, v.K_ANNOTATION, st)
            annotations.device[row] = x if x != BAD else 0
        elif key == v.S_TIME_US:
            x = integer(work, i + 1, v.K_ANNOTATION, st)
            annotations.time_us[row] = x
        else:
            unknown_key(work, rest, i, v.K_ANNOTATION, st)
        if x == BAD:
            return v.R_TYPE
    return 0


@inlined
def _frame(buffers, st, m, sp, obj):  # type: ignore[no-untyped-def]
    work, rest = buffers.work, buffers.rest
    name, filename, line = int64(ABSENT), int64(ABSENT), int64(ABSENT)
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_NAME:
            x = name = string(work, i + 1, v.K_FRAME, st, False)
        elif key == v.S_FILENAME:
            x = filename = string(work, i + 1, v.K_FRAME, st, False)
        elif key == v.S_LINE:
            x = line = integer(work, i + 1, v.K_FRAME, st)
        else:
            unknown_key(work, rest, i, v.K_FRAME, st)
        if x == BAD:
            return v.R_TYPE
    count = st[_USED + v.G_FRAMES]
    found = int64(intern_frame(name, filename, line, st[v.ST_SEED], buffers.frames, count))
    if found == count:
        st[_USED + v.G_FRAMES] += 1
    work.objects[obj] = found << v.OBJ_SHIFT | v.K_FRAME
    return 0


@inlined
def _history(buffers, st, m, sp, row):  # type: ignore[no-untyped-def]
    work, history, rest = buffers.work, buffers.history, buffers.rest
    for i in range(m, sp, 2):
        key = work.stack_value[i] if work.stack_tag[i] == v.T_STR else int64(-1)
        x = int64(0)
        if key == v.S_REAL_SIZE:
            x = integer(work, i + 1, v.K_HISTORY, st)
            history.real_size[row] = x
        elif key == v.S_FRAMES:
            x = stack_of(work, buffers.stacks, i + 1, v.K_HISTORY, st)
            history.stack[row] = x if x != BAD else 0
        elif key != v.S_ADDR:
            unknown_key(work, rest, i, v.K_HISTORY, st)
        if x == BAD:
            return v.R_TYPE
    return 0


@inlined
def _blank(buffers, kind, row):  # type: ignore[no-untyped-def]
    """Every key of a new row absent."""
    if kind == v.K_EVENT:
        t = buffers.events
        t.action[row] = 0
        t.addr[row] = t.size[row] = t.stream[row] = t.time_us[row] = ABSENT
        t.stack[row] = t.pool[row] = t.user_metadata[row] = t.compile_context[row] = ABSENT
    elif kind == v.K_SEGMENT:
        s = buffers.segments
        s.device[row] = s.segment_type[row] = s.pool[row] = s.stack[row] = ABSENT
        s.address[row] = s.total_size[row] = s.allocated_size[row] = s.active_size[row] = ABSENT
        s.requested_size[row] = s.stream[row] = s.blocks[row] = ABSENT
        s.is_expandable[row] = ABSENT
    elif kind == v.K_BLOCK:
        b = buffers.blocks
        b.address[row] = b.size[row] = b.requested_size[row] = ABSENT
        b.state[row] = 0
        b.stack[row] = ABSENT
    elif kind == v.K_ANNOTATION:
        a = buffers.annotations
        a.name[row] = a.device[row] = ABSENT
        a.stage[row] = 2
        a.time_us[row] = ABSENT
    elif kind == v.K_HISTORY:
        buffers.history.real_size[row] = ABSENT
        buffers.history.stack[row] = ABSENT


@inlined
def _fill(buffers, st, kind, m, sp, row):  # type: ignore[no-untyped-def]
    if kind == v.K_EVENT:
        return _event(buffers, st, m, sp, row)
    if kind == v.K_SEGMENT:
        return _segment(buffers, st, m, sp, row)
    if kind == v.K_BLOCK:
        return _block(buffers, st, m, sp, row)
    if kind == v.K_ANNOTATION:
        return _annotation(buffers, st, m, sp, row)
    return _history(buffers, st, m, sp, row)


@inlined
def _group(kind):  # type: ignore[no-untyped-def]
    if kind == v.K_EVENT:
        return v.G_EVENTS
    if kind == v.K_SEGMENT:
        return v.G_SEGMENTS
    if kind == v.K_BLOCK:
        return v.G_BLOCKS
    if kind == v.K_ANNOTATION:
        return v.G_ANNOTATIONS
    return v.G_HISTORY


@inlined
def _items(buffers, st, m, sp, obj):  # type: ignore[no-untyped-def]
    """Pairs of a dict without a table; references stay object ids."""
    work, rest = buffers.work, buffers.rest
    for i in range(m, sp, 2):
        at = st[_USED + v.G_ITEMS]
        rest.item_dict[at] = obj
        rest.item_key_tag[at] = work.stack_tag[i]
        rest.item_key[at] = work.stack_value[i]
        rest.item_tag[at] = work.stack_tag[i + 1]
        rest.item_value[at] = work.stack_value[i + 1]
        st[_USED + v.G_ITEMS] += 1
        if work.stack_tag[i + 1] == v.T_OBJ:
            work.objects[work.stack_value[i + 1]] |= v.OBJ_USED


@inlined
def close_dict(buffers, st, obj, m, sp):  # type: ignore[no-untyped-def]
    """Puts the pairs in slots ``m`` to ``sp`` into the dict ``obj``. Room was made by the caller."""
    work = buffers.work
    word = work.objects[obj]
    kind = dict_kind(work, m, sp)
    old = word & v.OBJ_KIND
    if old == v.K_NEW_DICT:
        if word & v.OBJ_USED:
            return v.R_CHANGED
        if kind == v.K_DICT:
            work.objects[obj] = v.K_DICT
            _items(buffers, st, m, sp, obj)
            return 0
        if kind == v.K_FRAME:
            return _frame(buffers, st, m, sp, obj)
        group = _group(kind)
        row = st[_USED + group]
        _blank(buffers, kind, row)
        st[_USED + group] += 1
        work.objects[obj] = row << v.OBJ_SHIFT | kind
        return _fill(buffers, st, kind, m, sp, row)
    if old == v.K_DICT:
        if kind != v.K_DICT:
            return v.R_LATE_KEY
        if word & v.OBJ_USED:
            return v.R_CHANGED
        _items(buffers, st, m, sp, obj)
        return 0
    return v.R_CHANGED  # more keys for a row that is already written
