"""Reading one value of a dict from the pickle machine's stack (numba).

Legend: ``i`` the value's slot, its key one below; ``kind`` what the dict is, for messages; ``st`` the
machine's registers. ``BAD`` comes back where the value has another type, with details in ``st``.
"""

from __future__ import annotations

from numba import int64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.columns import ABSENT
from snapviz.snapshot.intern import intern_stack
from snapviz.snapshot.jit import inlined

__all__ = ["BAD", "integer", "note_unknown", "pool_of", "stack_of", "string", "unknown_key", "wrong_type"]

BAD = -(1 << 62)
"""No value: no address, size or time can be it."""
_USED = v.ST_USED


@inlined
def note_unknown(rest, st, kind, key):  # type: ignore[no-untyped-def]
    """Counts something not understood; beyond U_LIMIT distinct ones, only how many more."""
    word = (int64(kind) << 32) | key
    for i in range(st[v.ST_UNKNOWN]):
        if rest.unknown_key[i] == word:
            rest.unknown_count[i] += 1
            return
    if st[v.ST_UNKNOWN] == v.U_LIMIT:
        st[v.ST_UNKNOWN_MORE] += 1
        return
    rest.unknown_key[st[v.ST_UNKNOWN]] = word
    rest.unknown_count[st[v.ST_UNKNOWN]] = 1
    st[v.ST_UNKNOWN] += 1


@inlined
def wrong_type(st, kind, key, tag):  # type: ignore[no-untyped-def]
    """BAD, with what was found where in the registers."""
    st[v.ST_A], st[v.ST_B], st[v.ST_C] = kind, key, tag
    return BAD


@inlined
def integer(work, i, kind, st):  # type: ignore[no-untyped-def]
    """The integer in slot ``i``, ABSENT for None."""
    tag = work.stack_tag[i]
    if tag == v.T_INT or tag == v.T_BOOL:
        value = work.stack_value[i]
        # BAD is a value no address, size or time can have; reading it as damage is right.
        return value if value != BAD else wrong_type(st, kind, work.stack_value[i - 1], v.T_BIGINT)
    if tag == v.T_NONE:
        return int64(ABSENT)
    return int64(wrong_type(st, kind, work.stack_value[i - 1], tag))


@inlined
def string(work, i, kind, st, needed):  # type: ignore[no-untyped-def]
    """The id of the string in slot ``i``, ABSENT for None unless a string is needed."""
    tag = work.stack_tag[i]
    if tag == v.T_STR:
        return work.stack_value[i]
    if tag == v.T_NONE and not needed:
        return int64(ABSENT)
    return int64(wrong_type(st, kind, work.stack_value[i - 1], tag))


@inlined
def stack_of(work, stacks, i, kind, st):  # type: ignore[no-untyped-def]
    """The id of the list of frames in slot ``i``, ABSENT for None."""
    tag = work.stack_tag[i]
    if tag == v.T_NONE:
        return int64(ABSENT)
    if tag == v.T_OBJ:
        word = work.objects[work.stack_value[i]]
        work.objects[work.stack_value[i]] = word | v.OBJ_USED
        if word & v.OBJ_KIND == v.K_STACK:
            return word >> v.OBJ_SHIFT
        if word & v.OBJ_KIND == v.K_NEW_LIST:
            count = st[_USED + v.G_STACKS]
            found = intern_stack(st[_USED + v.G_STACK_FRAMES], 0, st[v.ST_SEED], stacks, count)
            if found == count:
                st[_USED + v.G_STACKS] += 1
            return int64(found)
    return int64(wrong_type(st, kind, work.stack_value[i - 1], tag))


@inlined
def pool_of(work, rest, i, st):  # type: ignore[no-untyped-def]
    """The id of the pair in slot ``i``; ABSENT for None, and, counted, for anything else."""
    tag = work.stack_tag[i]
    if tag == v.T_OBJ:
        word = work.objects[work.stack_value[i]]
        if word & v.OBJ_KIND == v.K_PAIR:
            work.objects[work.stack_value[i]] = word | v.OBJ_USED
            return word >> v.OBJ_SHIFT
    if tag != v.T_NONE:
        note_unknown(rest, st, v.U_POOL, 0)
    return int64(ABSENT)


@inlined
def unknown_key(work, rest, i, kind, st):  # type: ignore[no-untyped-def]
    """Counts the key in slot ``i``."""
    if work.stack_tag[i] == v.T_STR:
        note_unknown(rest, st, kind, work.stack_value[i])
    else:
        note_unknown(rest, st, v.U_KEY_TYPE, kind)
