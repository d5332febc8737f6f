"""The growable arrays the pickle machine writes into, and how they grow.

One flat tuple of arrays, because numba takes that apart at no cost, and few of them, because each
costs compile time in every function that is handed the tuple. Tables are two-dimensional, a row of
the array per column, so that a column is contiguous. Capacity is set aside with ``np.empty``, whose
untouched pages cost nothing; a full group is copied to a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapviz.snapshot import vocabulary as v

__all__ = ["Buffers", "allocate", "groups", "grow"]

Array = npt.NDArray[Any]


class Buffers(NamedTuple):
    """Everything the machine writes; ``[k, n]`` is k columns of n entries."""

    stack_tag: Array  # the pickle stack: what a slot holds (vocabulary.T_*), and its value
    stack_value: Array
    marks: Array  # stack slots at which a MARK stands
    memo_tag: Array
    memo_value: Array
    objects: Array  # one word per container (vocabulary.OBJ_*)
    string_slots: Array  # open addressing: id + 1; so in the next three
    string_hash: Array
    strings: Array  # [2, n]: end in the blob, where it was first seen
    blob: Array
    frame_slots: Array
    frame_hash: Array
    frames: Array  # [3, n]: name, filename, line
    stack_slots: Array
    stack_hash: Array
    stack_end: Array  # end in stack_frames
    stack_frames: Array
    pair_slots: Array
    pair_hash: Array
    pairs: Array  # [2, n]
    events_wide: Array  # [4, n]: columns.Events' 64-bit fields, see layout.EVENT_*
    events_narrow: Array  # [5, n]: its other fields
    blocks: Array  # rows of the other tables, columns in the order of layout.COLUMNS
    segments: Array
    annotations: Array
    history: Array
    items: Array  # [5, n]: of dicts without a table: dict, key tag, key, value tag, value
    spans: Array  # [4, n]: runs of list elements: list, kind, first value, count
    device_free: Array  # [2, n]: event, bytes
    forward: Array  # [2, n]: event, stack
    unknown: Array  # [2, U_LIMIT]: what (kind << 32 | string id), how many times


class _Layout(NamedTuple):
    group: int
    dtype: type
    columns: int = 0  # 0: one-dimensional
    cleared: bool = False  # T_UNSET and free slots are 0: what was never written must read as such


_LAYOUT: dict[str, _Layout] = {
    "stack_tag": _Layout(v.G_STACK, np.int8),
    "stack_value": _Layout(v.G_STACK, np.int64),
    "marks": _Layout(v.G_MARKS, np.int64),
    "memo_tag": _Layout(v.G_MEMO, np.int8, cleared=True),
    "memo_value": _Layout(v.G_MEMO, np.uint32),
    "objects": _Layout(v.G_OBJECTS, np.int64),
    "string_slots": _Layout(v.G_STRINGS, np.int32),
    "string_hash": _Layout(v.G_STRINGS, np.uint64),
    "strings": _Layout(v.G_STRINGS, np.int64, 2),
    "blob": _Layout(v.G_BLOB, np.uint8),
    "frame_slots": _Layout(v.G_FRAMES, np.int32),
    "frame_hash": _Layout(v.G_FRAMES, np.uint64),
    "frames": _Layout(v.G_FRAMES, np.int64, 3),
    "stack_slots": _Layout(v.G_STACKS, np.int32),
    "stack_hash": _Layout(v.G_STACKS, np.uint64),
    "stack_end": _Layout(v.G_STACKS, np.int64),
    "stack_frames": _Layout(v.G_STACK_FRAMES, np.int32),
    "pair_slots": _Layout(v.G_PAIRS, np.int32),
    "pair_hash": _Layout(v.G_PAIRS, np.uint64),
    "pairs": _Layout(v.G_PAIRS, np.int64, 2),
    "events_wide": _Layout(v.G_EVENTS, np.int64, v.N_WIDE),
    "events_narrow": _Layout(v.G_EVENTS, np.int32, v.N_EVENT - v.N_WIDE),
    "blocks": _Layout(v.G_BLOCKS, np.int64, v.N_BLOCK),
    "segments": _Layout(v.G_SEGMENTS, np.int64, v.N_SEGMENT),
    "annotations": _Layout(v.G_ANNOTATIONS, np.int64, v.N_ANNOTATION),
    "history": _Layout(v.G_HISTORY, np.int64, v.N_HISTORY),
    "items": _Layout(v.G_ITEMS, np.int64, 5),
    "spans": _Layout(v.G_SPANS, np.int64, 4),
    "device_free": _Layout(v.G_OOM, np.int64, 2),
    "forward": _Layout(v.G_FORWARD, np.int64, 2),
}
_START = 256


def allocate(size: int) -> Buffers:
    """Buffers for a pickle of ``size`` bytes, with room for what such a file usually holds."""
    # torch 2.11 writes about 107 bytes an event: two containers and three memo entries. Room for more
    # is set aside, since what stays untouched costs nothing and copying to grow does.
    guess = {
        v.G_EVENTS: size // 72,
        v.G_OBJECTS: size // 48,
        v.G_MEMO: size // 24,
        v.G_BLOB: 2 * sum(map(len, v.KNOWN_STRINGS)),  # interned before the machine asks for room
        v.G_STACK_FRAMES: 2 * v.STACK_LIMIT,  # this much is always asked for, see containers.room_for_items
    }
    arrays: dict[str, Array] = {"unknown": np.zeros((2, v.U_LIMIT), np.int64)}
    for name, layout in _layout(size):
        if name.endswith("_slots"):
            arrays[name] = np.zeros(4 * _START, layout.dtype)
        else:
            arrays[name] = _empty(layout, max(_START, guess.get(layout.group, 0)))
    return Buffers(**arrays)


def groups() -> Iterator[tuple[str, int]]:
    """The arrays that are filled from their start, and the group (vocabulary.G_*) each belongs to."""
    return ((name, layout.group) for name, layout in _LAYOUT.items() if not name.endswith("_slots"))


def grow(buffers: Buffers, group: int, needed: int, in_use: int) -> Buffers:
    """The same buffers with room for at least ``needed`` in one group; ``in_use`` are kept."""
    changed: dict[str, Array] = {}
    for name, layout in _LAYOUT.items():
        if layout.group != group:
            continue
        old = getattr(buffers, name)
        if name.endswith("_slots"):
            changed[name] = _rehashed(getattr(buffers, name.replace("_slots", "_hash"))[:in_use], 2 * needed)
            continue
        capacity = max(needed, old.shape[-1] + old.shape[-1] // 2)
        changed[name] = _empty(layout._replace(dtype=old.dtype.type), capacity)
        changed[name][..., :in_use] = old[..., :in_use]
    return buffers._replace(**changed)


def _layout(size: int) -> Iterator[tuple[str, _Layout]]:
    """The layout for a pickle of ``size`` bytes: a memo of ids that 32 bits hold, where those do.

    Every string and container takes a byte or more, so there are fewer of them than bytes.
    """
    for name, layout in _LAYOUT.items():
        wide = name == "memo_value" and size >= 1 << 32
        yield name, layout._replace(dtype=np.int64) if wide else layout


def _empty(layout: _Layout, capacity: int) -> Array:
    shape = (layout.columns, capacity) if layout.columns else (capacity,)
    return np.zeros(shape, layout.dtype) if layout.cleared else np.empty(shape, layout.dtype)


def _rehashed(hashes: Array, entries: int) -> Array:
    """Slots for twice ``entries``, with the ids of ``hashes`` in them."""
    from snapviz.snapshot.intern import fill_slots

    capacity = 4 * _START
    while capacity < 2 * entries:
        capacity *= 2
    slots = np.zeros(capacity, np.int32)
    fill_slots(slots, hashes)
    return slots
