"""The pickle opcode machine: a snapshot's bytes straight into columns (numba).

It knows containers, strings, numbers, None and booleans, and nothing else: no opcode of it can name,
call or build a Python object, so a file cannot run anything. Opcodes as CPython's
``Lib/pickle.py`` (3.14) reads them; protocols 2 to 5.

``run`` goes on from where the registers ``st`` say and stops at the end of the pickle, at ``limit``
(so that the caller can show progress), where a buffer is full (nothing of that opcode has happened
yet: the caller makes room and calls again), or at a fault. Every index it uses is checked against
the stack, the marks, the memo or the data first: the bytes are untrusted and numba does not look.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.containers import append, fail, full, new_object, room_for_items, room_for_pairs, table_full
from snapviz.snapshot.intern import intern_string
from snapviz.snapshot.jit import kernel
from snapviz.snapshot.opcodes import argument_width, long_integer, number, verdict
from snapviz.snapshot.rows import close_dict

__all__ = ["run"]

_USED = v.ST_USED
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(i) for i in range(1, 8))
_8, _16, _24 = (np.uint64(i) for i in (8, 16, 24))
_OP = -1  # an opcode that needs no argument bytes


@kernel
def run(data, limit, b, st):  # type: ignore[no-untyped-def]
    """Runs to the end, to ``limit``, or to where something is needed; one of vocabulary.R_*.

    data: uint8[n], read-only; st: int64[vocabulary.N_STATE], the registers, updated.
    """
    n = len(data)
    p = st[v.ST_POS]
    sp = st[_USED + v.G_STACK]
    mp = st[_USED + v.G_MARKS]
    base = b.marks[mp - 1] if mp > 0 else int64(0)
    code = 0
    memo_size, room = uint64(len(b.memo_tag)), uint64(len(b.stack_tag))
    quick = uint64(max(0, n - 9))  # the longest of the opcodes that are taken quickly
    while True:
        # Nearly all of a snapshot is memo references, integers and new containers: runs of them are taken here, in a
        # tight loop, and whatever is odd about one is left to the general code below. Indices are
        # unsigned, or numba would look for negative ones at every access.
        at, top = uint64(p), uint64(sp)
        while at < quick and top < room:
            op = data[at]
            if op == 0x6A or op == 0x68:  # LONG_BINGET, BINGET
                slot = uint64(data[at + _1])
                width = _2
                if op == 0x6A:
                    slot |= uint64(data[at + _2]) << _8 | uint64(data[at + _3]) << _16 | uint64(data[at + _4]) << _24
                    width = _5
                if slot >= memo_size:
                    break
                tag = b.memo_tag[slot]
                if tag == v.T_UNSET:
                    break
                b.stack_tag[top] = tag
                b.stack_value[top] = b.memo_value[slot]
            elif op == 0x4B or op == 0x4D:  # BININT1, BININT2
                width = _2
                value = int64(data[at + _1])
                if op == 0x4D:
                    value |= int64(data[at + _2]) << 8
                    width = _3
                b.stack_tag[top] = v.T_INT
                b.stack_value[top] = value
            elif (op == 0x8A and data[at + _1] == 6) or (op == 0x8A and data[at + _1] == 7):  # LONG1: address, time
                length = uint64(data[at + _1])
                value = int64(data[at + _2]) | int64(data[at + _3]) << 8 | int64(data[at + _4]) << 16
                value |= int64(data[at + _5]) << 24 | int64(data[at + _6]) << 32 | int64(data[at + _7]) << 40
                last = int64(data[at + _1 + length])
                if last >= 0x80:  # negative
                    break
                if length == 7:
                    value |= last << 48
                b.stack_tag[top] = v.T_INT
                b.stack_value[top] = value
                width = length + _2
            elif op == 0x4A:  # BININT
                value = int64(data[at + _1]) | int64(data[at + _2]) << 8 | int64(data[at + _3]) << 16
                value |= int64(data[at + _4]) << 24
                b.stack_tag[top] = v.T_INT
                b.stack_value[top] = value - ((value >> 31) << 32)
                width = _5
            elif op == 0x94:  # MEMOIZE
                slot = uint64(st[v.ST_MEMO_LEN])
                if slot >= memo_size or b.memo_tag[slot] != v.T_UNSET or int64(top) <= base:
                    break
                tag = b.stack_tag[top - _1]
                if tag != v.T_STR and tag != v.T_OBJ:
                    break
                b.memo_tag[slot] = tag
                b.memo_value[slot] = b.stack_value[top - _1]
                st[v.ST_MEMO_LEN] += 1
                st[_USED + v.G_MEMO] = max(st[_USED + v.G_MEMO], int64(slot) + 1)
                at += _1
                continue
            elif op == 0x28:  # MARK
                if mp >= len(b.marks):
                    break
                b.marks[mp] = top
                mp += 1
                base = int64(top)
                at += _1
                continue
            elif op == 0x7D or op == 0x5D:  # EMPTY_DICT, EMPTY_LIST
                if st[_USED + v.G_OBJECTS] >= len(b.objects):
                    break
                b.stack_tag[top] = v.T_OBJ
                b.stack_value[top] = new_object(b.objects, st, v.K_NEW_DICT if op == 0x7D else v.K_NEW_LIST)
                width = _1
            else:
                break
            top += _1
            at += width
        p, sp = int64(at), int64(top)
        if p >= limit:
            code = v.R_PAUSED if limit < n else fail(st, v.R_TRUNCATED, p, _OP, 1)
            break
        if sp + 1 > len(b.stack_tag):
            code = full(st, v.G_STACK, sp + 1)
            break
        start = p
        op = data[uint64(p)]
        p += 1
        width = argument_width(op)
        if n - p < width:
            code = fail(st, v.R_TRUNCATED, start, op, width)
            break
        argument = number(data, p, width) if width > 0 else int64(0)
        p += width

        if op == 0x68 or op == 0x6A:  # BINGET, LONG_BINGET
            if argument >= len(b.memo_tag) or b.memo_tag[argument] == v.T_UNSET:
                code = fail(st, v.R_MEMO, start, op, argument)
                break
            b.stack_tag[sp] = b.memo_tag[argument]
            b.stack_value[sp] = b.memo_value[argument]
            sp += 1
        elif op == 0x4B or op == 0x4D or op == 0x4A:  # BININT1, BININT2, BININT
            if op == 0x4A and argument >= 1 << 31:
                argument -= 1 << 32
            b.stack_tag[sp] = v.T_INT
            b.stack_value[sp] = argument
            sp += 1
        elif op == 0x8A or op == 0x8B:  # LONG1, LONG4
            if argument > n - p or argument >= 1 << 31:
                code = fail(st, v.R_TRUNCATED, start, op, argument)
                break
            fits, value = long_integer(data, p, argument)
            b.stack_tag[sp] = v.T_INT if fits else v.T_BIGINT
            b.stack_value[sp] = value
            sp += 1
            p += argument
        elif op == 0x28:  # MARK
            if mp + 1 > len(b.marks):
                p = start
                code = full(st, v.G_MARKS, mp + 1)
                break
            b.marks[mp] = sp
            mp += 1
            base = sp
        elif op == 0x7D or op == 0x5D or op == 0x29:  # EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE
            if st[_USED + v.G_OBJECTS] + 1 > len(b.objects):
                p = start
                code = full(st, v.G_OBJECTS, st[_USED + v.G_OBJECTS] + 1)
                break
            b.stack_tag[sp] = v.T_OBJ
            b.stack_value[sp] = new_object(b.objects, st, v.K_NEW_DICT if op == 0x7D else v.K_NEW_LIST)
            sp += 1
        elif op == 0x94 or op == 0x71 or op == 0x72:  # MEMOIZE, BINPUT, LONG_BINPUT
            if sp <= base:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            entry = st[v.ST_MEMO_LEN] if op == 0x94 else argument
            if entry > n:
                code = fail(st, v.R_MEMO_INDEX, start, op, entry)
                break
            if entry + 1 > len(b.memo_tag):
                p = start
                code = full(st, v.G_MEMO, entry + 1)
                break
            if b.memo_tag[entry] == v.T_UNSET:
                st[v.ST_MEMO_LEN] += 1
            b.memo_tag[entry] = b.stack_tag[sp - 1]
            b.memo_value[entry] = b.stack_value[sp - 1]
            if int64(b.memo_value[entry]) != b.stack_value[sp - 1]:  # a number of more than 32 bits
                code = fail(st, v.R_MEMO_NUMBER, start, op, 0)
                break
            st[_USED + v.G_MEMO] = max(st[_USED + v.G_MEMO], entry + 1)
        elif op == 0x75 or op == 0x73 or op == 0x64:  # SETITEMS, SETITEM, DICT
            m = base
            below = 1
            if op == 0x73:
                m, below = sp - 2, 1
            elif op == 0x64:
                below = 0
            if op != 0x73 and mp == 0:
                code = fail(st, v.R_NO_MARK, start, op, 0)
                break
            floor = base if op == 0x73 else (b.marks[mp - 2] if mp > 1 else int64(0))
            if m - below < floor or m > sp:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            if (sp - m) % 2 != 0:
                code = fail(st, v.R_ODD_ITEMS, start, op, sp - m)
                break
            code = room_for_items(b, st, 0)
            if code == 0:
                code = room_for_pairs(b, st, (sp - m) // 2)
            if code != 0:
                p = start
                break
            if below == 1:
                if b.stack_tag[m - 1] != v.T_OBJ:
                    code = fail(st, v.R_NOT_DICT, start, op, b.stack_tag[m - 1])
                    break
                obj = b.stack_value[m - 1]
            else:
                obj = new_object(b.objects, st, v.K_NEW_DICT)
            word = b.objects[obj] & v.OBJ_KIND
            if word == v.K_NEW_LIST or word == v.K_LIST or word == v.K_STACK or word == v.K_PAIR:
                code = fail(st, v.R_NOT_DICT, start, op, v.T_OBJ)
                break
            if m < sp:
                code = close_dict(b, st, obj, m, sp)
                if code != 0:
                    st[v.ST_OFFSET] = start
                    break
            if op != 0x73:
                mp -= 1
                base = floor
            sp = m
            if below == 0:
                b.stack_tag[sp] = v.T_OBJ
                b.stack_value[sp] = obj
                sp += 1
        elif op == 0x65 or op == 0x61 or op == 0x6C or op == 0x74 or (op >= 0x85 and op <= 0x87):
            # APPENDS, APPEND, LIST, TUPLE, TUPLE1, TUPLE2, TUPLE3
            marked = op == 0x65 or op == 0x6C or op == 0x74
            m = base
            if op == 0x61:
                m = sp - 1
            elif not marked:
                m = sp - (int64(op) - 0x84)
            below = 1 if op == 0x65 or op == 0x61 else 0
            if marked and mp == 0:
                code = fail(st, v.R_NO_MARK, start, op, 0)
                break
            floor = base
            if marked:
                floor = b.marks[mp - 2] if mp > 1 else int64(0)
            if m - below < floor or m > sp:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            code = room_for_items(b, st, sp - m)
            if code != 0:
                p = start
                break
            if below == 1:
                if b.stack_tag[m - 1] != v.T_OBJ:
                    code = fail(st, v.R_NOT_LIST, start, op, b.stack_tag[m - 1])
                    break
                obj = b.stack_value[m - 1]
            else:
                obj = new_object(b.objects, st, v.K_NEW_LIST)
            code = append(b, st, obj, m, sp)
            if code != 0:
                st[v.ST_OFFSET] = start
                break
            if marked:
                mp -= 1
                base = floor
            sp = m
            if below == 0:
                b.stack_tag[sp] = v.T_OBJ
                b.stack_value[sp] = obj
                sp += 1
        elif op == 0x8C or op == 0x58 or op == 0x8D or op == 0x55 or op == 0x54:
            # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8, SHORT_BINSTRING, BINSTRING
            if argument < 0 or argument > n - p:
                code = fail(st, v.R_TRUNCATED, start, op, argument)
                break
            count = st[_USED + v.G_STRINGS]
            if table_full(b.string_slots, b.string_hash, count):
                p = start
                code = full(st, v.G_STRINGS, count + 1)
                break
            if st[_USED + v.G_BLOB] + argument > len(b.blob):
                p = start
                code = full(st, v.G_BLOB, st[_USED + v.G_BLOB] + argument)
                break
            found = int64(
                intern_string(
                    data,
                    p,
                    argument,
                    st[v.ST_SEED],
                    b.string_slots,
                    b.string_hash,
                    b.strings,
                    b.blob,
                    count,
                    st[_USED + v.G_BLOB],
                )
            )
            if found == count:
                st[_USED + v.G_STRINGS] += 1
                st[_USED + v.G_BLOB] += argument
            b.stack_tag[sp] = v.T_STR
            b.stack_value[sp] = found
            sp += 1
            p += argument
        elif op == 0x4E or op == 0x88 or op == 0x89:  # NONE, NEWTRUE, NEWFALSE
            b.stack_tag[sp] = v.T_NONE if op == 0x4E else v.T_BOOL
            b.stack_value[sp] = 1 if op == 0x88 else 0
            sp += 1
        elif op == 0x47:  # BINFLOAT, big-endian: the bits are kept
            value = int64(0)
            for i in range(8):
                value = (value << 8) | int64(data[p - 8 + i])
            b.stack_tag[sp] = v.T_FLOAT
            b.stack_value[sp] = value
            sp += 1
        elif op == 0x95:  # FRAME
            if argument < 0 or argument > n - p:
                code = fail(st, v.R_TRUNCATED, start, op, argument)
                break
        elif op == 0x80:  # PROTO
            if argument > 5:
                code = fail(st, v.R_PROTOCOL, start, op, argument)
                break
            st[v.ST_PROTOCOL] = argument
        elif op == 0x2E:  # STOP
            if sp - 1 < base:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            sp -= 1
            st[v.ST_A], st[v.ST_B] = b.stack_tag[sp], b.stack_value[sp]
            code = v.R_DONE
            break
        elif op == 0x30:  # POP: an item, or the mark if there is none above it
            if sp > base:
                sp -= 1
            elif mp > 0:
                mp -= 1
                base = b.marks[mp - 1] if mp > 0 else int64(0)
            else:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
        elif op == 0x31 or op == 0x90 or op == 0x91:  # POP_MARK, ADDITEMS, FROZENSET
            if mp == 0:
                code = fail(st, v.R_NO_MARK, start, op, 0)
                break
            mp -= 1
            sp = base
            base = b.marks[mp - 1] if mp > 0 else int64(0)
            if op == 0x90 and (sp <= base or b.stack_tag[sp - 1] != v.T_OPAQUE):
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            if op == 0x91:
                b.stack_tag[sp] = v.T_OPAQUE
                b.stack_value[sp] = 0
                sp += 1
        elif op == 0x32:  # DUP
            if sp <= base:
                code = fail(st, v.R_UNDERFLOW, start, op, 1)
                break
            b.stack_tag[sp] = b.stack_tag[sp - 1]
            b.stack_value[sp] = b.stack_value[sp - 1]
            sp += 1
        elif op == 0x8F:  # EMPTY_SET
            b.stack_tag[sp] = v.T_OPAQUE
            b.stack_value[sp] = 0
            sp += 1
        elif op == 0x42 or op == 0x43 or op == 0x8E or op == 0x96:  # bytes of every kind
            if argument < 0 or argument > n - p:
                code = fail(st, v.R_TRUNCATED, start, op, argument)
                break
            b.stack_tag[sp] = v.T_OPAQUE
            b.stack_value[sp] = 0
            sp += 1
            p += argument
        else:
            code = fail(st, verdict(op), start, op, 0)
            break
    st[v.ST_POS] = p
    st[_USED + v.G_STACK] = sp
    st[_USED + v.G_MARKS] = mp
    return code
