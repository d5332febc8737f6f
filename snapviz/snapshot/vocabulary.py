"""Numbers the pickle machine works with: opcodes, value tags, object kinds, known strings, failures.

Plain integers at module level, because numba freezes those into the compiled code. Opcodes as in
CPython's ``Lib/pickle.py`` (3.14); what the C++ writer emits is in ``torch/csrc/jit/serialization/
pickler.cpp`` (torch 2.11).
"""

from __future__ import annotations

import pickletools

from snapviz.snapshot.rules import ACTION_CODES, BLOCK_STATE_CODES, KNOWN_KEYS, STAGE_CODES

__all__ = ["KNOWN_STRINGS", "opcode_name"]

# What a slot of the stack or memo holds.
T_UNSET, T_NONE, T_BOOL, T_INT, T_FLOAT, T_STR, T_OBJ, T_OPAQUE, T_BIGINT = range(9)
TAG_WORDS = ("nothing", "None", "bool", "int", "float", "str", "container", "value of another type", "int over 64 bits")

# What a container turned out to be. Rows first: ROW_KINDS of them are tables of their own.
(
    K_EVENT,
    K_BLOCK,
    K_SEGMENT,
    K_FRAME,
    K_ANNOTATION,
    K_HISTORY,
    K_NEW_DICT,
    K_NEW_LIST,
    K_DICT,
    K_LIST,
    K_STACK,
    K_PAIR,
) = range(12)
ROW_KINDS = 6
# In spans, beside the row kinds: any other container by its object id, and scalars by SPAN_SCALAR + tag.
SPAN_OBJECT = 6
SPAN_SCALAR = 16

KIND_WORDS = ("event", "block", "segment", "frame", "annotation", "history entry")

# An object's word: reference * 32 + (used already) * 16 + kind.
OBJ_SHIFT, OBJ_USED, OBJ_KIND = 5, 16, 15


def _known_strings() -> dict[str, int]:
    """Every string with a meaning, by the id it gets: they are interned before the first byte is read."""
    keys = [key for kind, names in KNOWN_KEYS.items() if kind != "snapshot" for key in names]
    return {s: i for i, s in enumerate(dict.fromkeys([*keys, *ACTION_CODES, *BLOCK_STATE_CODES, *STAGE_CODES]))}


KNOWN_STRINGS = _known_strings()
N_KNOWN = len(KNOWN_STRINGS)

# The keys that tell what a dict is, first come first.
TELLING = {"action": K_EVENT, "blocks": K_SEGMENT, "state": K_BLOCK, "stage": K_ANNOTATION}
TELLING |= {"filename": K_FRAME, "real_size": K_HISTORY}

# How a value is read.
(
    F_IGNORED,
    F_INT,
    F_FLAG,
    F_STRING,
    F_STACK,
    F_POOL,
    F_LIST,
    F_ACTION,
    F_STATE,
    F_STAGE,
    F_HISTORY,
    F_DEVICE_FREE,
    F_FORWARD,
) = range(13)

# Columns of each kind of row in the machine's tables: key, column name, how it is read. The first
# N_WIDE of an event are 64 bits wide, the rest 32.
COLUMNS: dict[int, tuple[tuple[str, str, int], ...]] = {
    K_EVENT: (
        ("addr", "addr", F_INT),
        ("size", "size", F_INT),
        ("stream", "stream", F_INT),
        ("time_us", "time_us", F_INT),
        ("action", "action", F_ACTION),
        ("frames", "stack", F_STACK),
        ("pool_id", "pool", F_POOL),
        ("user_metadata", "user_metadata", F_STRING),
        ("compile_context", "compile_context", F_STRING),
    ),
    K_BLOCK: (
        ("address", "address", F_INT),
        ("size", "size", F_INT),
        ("requested_size", "requested_size", F_INT),
        ("state", "state", F_STATE),
        ("frames", "stack", F_STACK),
        ("history", "history", F_HISTORY),
    ),
    K_SEGMENT: (
        ("device", "device", F_INT),
        ("address", "address", F_INT),
        ("total_size", "total_size", F_INT),
        ("allocated_size", "allocated_size", F_INT),
        ("active_size", "active_size", F_INT),
        ("requested_size", "requested_size", F_INT),
        ("stream", "stream", F_INT),
        ("segment_type", "segment_type", F_STRING),
        ("segment_pool_id", "pool", F_POOL),
        ("is_expandable", "is_expandable", F_FLAG),
        ("frames", "stack", F_STACK),
        ("blocks", "blocks", F_LIST),
    ),
    K_FRAME: (("name", "name", F_STRING), ("filename", "filename", F_STRING), ("line", "line", F_INT)),
    K_ANNOTATION: (
        ("name", "name", F_STRING),
        ("stage", "stage", F_STAGE),
        ("device", "device", F_INT),
        ("time_us", "time_us", F_INT),
    ),
    K_HISTORY: (("real_size", "real_size", F_INT), ("frames", "stack", F_STACK)),
}
# Keys that are read without having a column.
BESIDE = {K_EVENT: {"device_free": F_DEVICE_FREE, "forward_frames": F_FORWARD}, K_HISTORY: {"addr": F_IGNORED}}

N_WIDE = 4
N_EVENT, N_BLOCK, N_SEGMENT, N_FRAME, N_ANNOTATION, N_HISTORY = (len(COLUMNS[kind]) for kind in range(ROW_KINDS))
BLOCK_REQUESTED, BLOCK_STACK, BLOCK_HISTORY = 2, 4, 5

assert {kind: {key for key, _, _ in columns} | set(BESIDE.get(kind, ())) for kind, columns in COLUMNS.items()} == {
    KIND_WORDS.index(word): set(keys) for word, keys in KNOWN_KEYS.items() if word in KIND_WORDS
}

# What unknown things are counted under: the row kinds, then these.
U_ACTION, U_STATE, U_STAGE, U_POOL, U_KEY_TYPE = 16, 17, 18, 19, 20
U_LIMIT = 256

# How a run of the machine ended.
(
    R_DONE,
    R_PAUSED,
    R_GROW,
    R_TRUNCATED,
    R_OPCODE,
    R_REFUSED,
    R_TEXT,
    R_PROTOCOL,
    R_UNDERFLOW,
    R_NO_MARK,
    R_MEMO,
    R_MEMO_INDEX,
    R_NOT_LIST,
    R_NOT_DICT,
    R_ODD_ITEMS,
    R_TYPE,
    R_CHANGED,
    R_FRAME,
    R_LATE_KEY,
    R_DEEP_STACK,
    R_MEMO_NUMBER,
) = range(21)

# Which growable buffer is full (R_GROW).
(
    G_STACK,
    G_MARKS,
    G_MEMO,
    G_OBJECTS,
    G_STRINGS,
    G_BLOB,
    G_FRAMES,
    G_STACKS,
    G_STACK_FRAMES,
    G_PAIRS,
    G_EVENTS,
    G_BLOCKS,
    G_SEGMENTS,
    G_ANNOTATIONS,
    G_HISTORY,
    G_ITEMS,
    G_SPANS,
    G_OOM,
    G_FORWARD,
) = range(19)
N_GROUPS = 19

# The machine's registers: its position, how much of each group is in use, and what it reports.
ST_POS, ST_PROTOCOL, ST_MEMO_LEN, ST_SEED, ST_A, ST_B, ST_C, ST_OFFSET, ST_UNKNOWN, ST_UNKNOWN_MORE = range(10)
ST_USED = 16
N_STATE = ST_USED + N_GROUPS

STACK_LIMIT = 65_536
"""Frames in one stack; a list that grows beyond is refused, or its copies could grow without bound."""
BATCH = 1_000
"""CPython's pickler appends to a list in batches of this many (Lib/pickle.py, _BATCHSIZE)."""


def opcode_name(code: int) -> str:
    """The opcode's name in CPython's ``pickletools``, or its byte."""
    found = next((op.name for op in pickletools.opcodes if op.code == chr(code)), None)
    return found or f"0x{code:02x}"
