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

S_ACTION = KNOWN_STRINGS["action"]
S_ADDR = KNOWN_STRINGS["addr"]
S_SIZE = KNOWN_STRINGS["size"]
S_STREAM = KNOWN_STRINGS["stream"]
S_TIME_US = KNOWN_STRINGS["time_us"]
S_FRAMES = KNOWN_STRINGS["frames"]
S_POOL_ID = KNOWN_STRINGS["pool_id"]
S_USER_METADATA = KNOWN_STRINGS["user_metadata"]
S_COMPILE_CONTEXT = KNOWN_STRINGS["compile_context"]
S_DEVICE_FREE = KNOWN_STRINGS["device_free"]
S_FORWARD_FRAMES = KNOWN_STRINGS["forward_frames"]
S_DEVICE = KNOWN_STRINGS["device"]
S_ADDRESS = KNOWN_STRINGS["address"]
S_TOTAL_SIZE = KNOWN_STRINGS["total_size"]
S_ALLOCATED_SIZE = KNOWN_STRINGS["allocated_size"]
S_ACTIVE_SIZE = KNOWN_STRINGS["active_size"]
S_REQUESTED_SIZE = KNOWN_STRINGS["requested_size"]
S_SEGMENT_TYPE = KNOWN_STRINGS["segment_type"]
S_SEGMENT_POOL_ID = KNOWN_STRINGS["segment_pool_id"]
S_IS_EXPANDABLE = KNOWN_STRINGS["is_expandable"]
S_BLOCKS = KNOWN_STRINGS["blocks"]
S_STATE = KNOWN_STRINGS["state"]
S_HISTORY = KNOWN_STRINGS["history"]
S_REAL_SIZE = KNOWN_STRINGS["real_size"]
S_NAME = KNOWN_STRINGS["name"]
S_STAGE = KNOWN_STRINGS["stage"]
S_FILENAME = KNOWN_STRINGS["filename"]
S_LINE = KNOWN_STRINGS["line"]

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
) = range(20)

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
