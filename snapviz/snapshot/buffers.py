"""The growable arrays the pickle machine writes into, and how they grow.

They are named tuples of arrays because numba takes those apart at no cost. Capacity is set aside
with ``np.empty``, whose untouched pages cost nothing, and a full group is copied to a larger one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapviz.snapshot import vocabulary as v

__all__ = ["Buffers", "allocate", "grow", "used"]

Array = npt.NDArray[Any]


class Work(NamedTuple):
    """The pickle stack (tag and value per slot), marks, memo, and one word per container."""

    stack_tag: Array
    stack_value: Array
    marks: Array
    memo_tag: Array
    memo_value: Array
    objects: Array


class StringTable(NamedTuple):
    """Interned strings: open-addressing slots (id + 1), hash, extent in ``blob``, where first seen."""

    slots: Array
    hash: Array
    end: Array
    blob: Array
    where: Array


class FrameTable(NamedTuple):
    """Interned frames: slots (id + 1), hash, and the three values."""

    slots: Array
    hash: Array
    name: Array
    filename: Array
    line: Array


class StackTable(NamedTuple):
    """Interned stacks: slots (id + 1), hash, extent in ``frames``, frame ids."""

    slots: Array
    hash: Array
    end: Array
    frames: Array


class PairTable(NamedTuple):
    """Interned pairs of integers: slots (id + 1), hash, and the two."""

    slots: Array
    hash: Array
    first: Array
    second: Array


class EventRows(NamedTuple):
    """The fields of ``columns.Events``."""

    action: Array
    addr: Array
    size: Array
    stream: Array
    time_us: Array
    stack: Array
    pool: Array
    user_metadata: Array
    compile_context: Array


class BlockRows(NamedTuple):
    """The fields of ``columns.Blocks``."""

    address: Array
    size: Array
    requested_size: Array
    state: Array
    stack: Array


class SegmentRows(NamedTuple):
    """The fields of ``columns.Segments``, and the list of blocks by its object id."""

    device: Array
    address: Array
    total_size: Array
    allocated_size: Array
    active_size: Array
    requested_size: Array
    stream: Array
    segment_type: Array
    pool: Array
    is_expandable: Array
    stack: Array
    blocks: Array  # object id of the list


class AnnotationRows(NamedTuple):
    """The fields of ``columns.Annotations``."""

    name: Array
    stage: Array
    device: Array
    time_us: Array


class HistoryRows(NamedTuple):
    """Entries of torch 2.0's block history."""

    real_size: Array
    stack: Array


class Rest(NamedTuple):
    """Containers without a table: dict items, and list elements as runs of consecutive rows."""

    item_dict: Array
    item_key_tag: Array
    item_key: Array
    item_tag: Array
    item_value: Array
    span_list: Array
    span_kind: Array
    span_value: Array
    span_count: Array
    oom_event: Array
    oom_device_free: Array
    forward_event: Array
    forward_stack: Array
    unknown_key: Array  # kind << 32 | string id
    unknown_count: Array


class Buffers(NamedTuple):
    """All of them; one argument to the machine."""

    work: Work
    strings: StringTable
    frames: FrameTable
    stacks: StackTable
    pairs: PairTable
    events: EventRows
    blocks: BlockRows
    segments: SegmentRows
    annotations: AnnotationRows
    history: HistoryRows
    rest: Rest


_I1, _I4, _I8, _U1, _U8 = np.int8, np.int32, np.int64, np.uint8, np.uint64

# table, field → (group it grows with, dtype). Slots are kept at least twice as long as their group.
_LAYOUT: dict[tuple[str, str], tuple[int, type]] = {
    ("work", "stack_tag"): (v.G_STACK, _I1),
    ("work", "stack_value"): (v.G_STACK, _I8),
    ("work", "marks"): (v.G_MARKS, _I8),
    ("work", "memo_tag"): (v.G_MEMO, _I1),
    ("work", "memo_value"): (v.G_MEMO, _I8),
    ("work", "objects"): (v.G_OBJECTS, _I8),
    ("strings", "slots"): (v.G_STRINGS, _I4),
    ("strings", "hash"): (v.G_STRINGS, _U8),
    ("strings", "end"): (v.G_STRINGS, _I8),
    ("strings", "blob"): (v.G_BLOB, _U1),
    ("strings", "where"): (v.G_STRINGS, _I8),
    ("frames", "slots"): (v.G_FRAMES, _I4),
    ("frames", "hash"): (v.G_FRAMES, _U8),
    ("frames", "name"): (v.G_FRAMES, _I4),
    ("frames", "filename"): (v.G_FRAMES, _I4),
    ("frames", "line"): (v.G_FRAMES, _I8),
    ("stacks", "slots"): (v.G_STACKS, _I4),
    ("stacks", "hash"): (v.G_STACKS, _U8),
    ("stacks", "end"): (v.G_STACKS, _I8),
    ("stacks", "frames"): (v.G_STACK_FRAMES, _I4),
    ("pairs", "slots"): (v.G_PAIRS, _I4),
    ("pairs", "hash"): (v.G_PAIRS, _U8),
    ("pairs", "first"): (v.G_PAIRS, _I8),
    ("pairs", "second"): (v.G_PAIRS, _I8),
    ("events", "action"): (v.G_EVENTS, _I1),
    **{("events", name): (v.G_EVENTS, _I8) for name in ("addr", "size", "stream", "time_us")},
    **{("events", name): (v.G_EVENTS, _I4) for name in ("stack", "pool", "user_metadata", "compile_context")},
    **{("blocks", name): (v.G_BLOCKS, _I8) for name in ("address", "size", "requested_size")},
    ("blocks", "state"): (v.G_BLOCKS, _I1),
    ("blocks", "stack"): (v.G_BLOCKS, _I4),
    **{("segments", name): (v.G_SEGMENTS, _I8) for name in SegmentRows._fields},
    **{("segments", name): (v.G_SEGMENTS, _I4) for name in ("device", "segment_type", "pool", "stack")},
    ("segments", "is_expandable"): (v.G_SEGMENTS, _I1),
    ("annotations", "name"): (v.G_ANNOTATIONS, _I4),
    ("annotations", "stage"): (v.G_ANNOTATIONS, _I1),
    ("annotations", "device"): (v.G_ANNOTATIONS, _I4),
    ("annotations", "time_us"): (v.G_ANNOTATIONS, _I8),
    ("history", "real_size"): (v.G_HISTORY, _I8),
    ("history", "stack"): (v.G_HISTORY, _I4),
    ("rest", "item_dict"): (v.G_ITEMS, _I8),
    ("rest", "item_key_tag"): (v.G_ITEMS, _I1),
    ("rest", "item_key"): (v.G_ITEMS, _I8),
    ("rest", "item_tag"): (v.G_ITEMS, _I1),
    ("rest", "item_value"): (v.G_ITEMS, _I8),
    ("rest", "span_list"): (v.G_SPANS, _I8),
    ("rest", "span_kind"): (v.G_SPANS, _I1),
    ("rest", "span_value"): (v.G_SPANS, _I8),
    ("rest", "span_count"): (v.G_SPANS, _I8),
    ("rest", "oom_event"): (v.G_OOM, _I8),
    ("rest", "oom_device_free"): (v.G_OOM, _I8),
    ("rest", "forward_event"): (v.G_FORWARD, _I8),
    ("rest", "forward_stack"): (v.G_FORWARD, _I4),
}
_CLEARED = {("work", "memo_tag")}  # T_UNSET is 0: what was never put must read as such
_START = 256


def allocate(size: int) -> Buffers:
    """Buffers for a pickle of ``size`` bytes, with room for what such a file usually holds."""
    # 2.11 writes about 107 bytes an event with its stack shared, two containers and a memo entry each.
    guess = {
        v.G_EVENTS: size // 128,
        v.G_OBJECTS: size // 64,
        v.G_MEMO: size // 64,
        v.G_BLOB: 2 * sum(map(len, v.KNOWN_STRINGS)),  # interned before the machine asks for room
        v.G_STACK_FRAMES: 2 * v.STACK_LIMIT,  # this much is always asked for, see machine._room_for_items
    }
    tables = {}
    for table in Buffers.__annotations__:
        kind = _tuple_type(table)
        arrays = {}
        for name in kind._fields:
            if name.startswith("unknown"):
                arrays[name] = np.zeros(v.U_LIMIT, np.int64)
                continue
            group, dtype = _LAYOUT[table, name]
            capacity = max(_START, guess.get(group, 0))
            if name == "slots":
                arrays[name] = np.zeros(4 * _START, dtype)
            else:
                arrays[name] = np.zeros(capacity, dtype) if (table, name) in _CLEARED else np.empty(capacity, dtype)
        tables[table] = kind(**arrays)
    return Buffers(**tables)


def grow(buffers: Buffers, group: int, needed: int, in_use: int) -> Buffers:
    """The same buffers with room for at least ``needed`` in one group; ``in_use`` are kept."""
    tables = {}
    for table in Buffers._fields:
        old = getattr(buffers, table)
        changed = {}
        for name in old._fields:
            if name.startswith("unknown") or _LAYOUT[table, name][0] != group:
                continue
            array = getattr(old, name)
            if name == "slots":
                changed[name] = _rehash(old.hash[:in_use], needed)
            else:
                changed[name] = _longer(array, needed, in_use, (table, name) in _CLEARED)
        tables[table] = old._replace(**changed) if changed else old
    return Buffers(**tables)


def used(table: Any, count: int) -> dict[str, Array]:
    """The arrays of one table, cut to what is in use (views)."""
    return {name: getattr(table, name)[:count] for name in table._fields}


def _tuple_type(table: str) -> Any:
    return {
        "work": Work,
        "strings": StringTable,
        "frames": FrameTable,
        "stacks": StackTable,
        "pairs": PairTable,
        "events": EventRows,
        "blocks": BlockRows,
        "segments": SegmentRows,
        "annotations": AnnotationRows,
        "history": HistoryRows,
        "rest": Rest,
    }[table]


def _longer(array: Array, needed: int, in_use: int, cleared: bool) -> Array:
    capacity = max(needed, len(array) + len(array) // 2)
    longer = np.zeros(capacity, array.dtype) if cleared else np.empty(capacity, array.dtype)
    longer[:in_use] = array[:in_use]
    return longer


def _rehash(hashes: Array, needed: int) -> Array:
    from snapviz.snapshot.intern import fill_slots

    capacity = 4 * _START
    while capacity < 4 * needed:
        capacity *= 2
    slots = np.zeros(capacity, np.int32)
    fill_slots(slots, hashes)
    return slots
