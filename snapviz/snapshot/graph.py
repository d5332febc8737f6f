"""From what the machine left to columns: follows the few containers that lead from the root to rows.

Legend: a *word* describes a container (vocabulary.OBJ_*); a *span* is a run of list elements that are
consecutive rows of one kind. A list may be used many times in a pickle at two bytes a use, so what is
expanded is bounded by how many elements the file really wrote.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.errors import SnapshotError
from snapviz.snapshot import columns as model
from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.buffers import Buffers
from snapviz.snapshot.columns import ABSENT, HOST_DEVICE, Columns
from snapviz.snapshot.ranges import joined, last_of_each, reindexed
from snapviz.snapshot.rules import KNOWN_KEYS, check_devices, ignored_key, ignored_value, next_address
from snapviz.snapshot.settings import UNREADABLE, Plain

__all__ = ["Decoded", "columns_of"]

Array = npt.NDArray[Any]
_LISTS = (v.K_NEW_LIST, v.K_LIST, v.K_STACK, v.K_PAIR)


@dataclass(frozen=True)
class Decoded:
    """What a finished run of the machine leaves: its buffers and registers, and the data's size."""

    buffers: Buffers
    st: npt.NDArray[np.int64]
    size: int

    def in_use(self, group: int) -> int:
        """How many entries of a group of buffers hold something."""
        return int(self.st[v.ST_USED + group])


def columns_of(decoded: Decoded, facts: dict[str, Any]) -> Columns:
    """Columns of a finished run. Raises ``SnapshotError`` where the root is no snapshot."""
    return _Graph(decoded).columns(facts)


class _Graph:
    def __init__(self, decoded: Decoded) -> None:
        self.d = decoded
        self.b = decoded.buffers
        self.ignored: Counter[str] = Counter()
        elements = int(self.b.spans[3, : decoded.in_use(v.G_SPANS)].sum())
        self.budget = 4 * elements + 1024
        self._check_strings()

    # Containers

    @cached_property
    def _span_order(self) -> tuple[Array, Array]:
        owners = self.b.spans[0, : self.d.in_use(v.G_SPANS)]
        order = np.argsort(owners, kind="stable")
        return order, owners[order]

    @cached_property
    def _item_order(self) -> tuple[Array, Array]:
        owners = self.b.items[0, : self.d.in_use(v.G_ITEMS)]
        order = np.argsort(owners, kind="stable")
        return order, owners[order]

    def kind(self, obj: int) -> int:
        return int(self.b.objects[obj]) & v.OBJ_KIND

    def spans(self, obj: int) -> list[tuple[int, int, int]]:
        """(kind, first value, count) of every run of a list's elements."""
        kind, reference = self.kind(obj), int(self.b.objects[obj]) >> v.OBJ_SHIFT
        if kind == v.K_STACK:
            end = self.b.stack_end
            return [(v.K_FRAME, 0, int(end[reference]) - (int(end[reference - 1]) if reference else 0))]
        if kind == v.K_PAIR:
            return [(v.SPAN_SCALAR + v.T_INT, 0, 1), (v.SPAN_SCALAR + v.T_INT, 0, 1)]
        if kind != v.K_LIST:
            return []
        order, owners = self._span_order
        found = order[np.searchsorted(owners, obj) : np.searchsorted(owners, obj, side="right")]
        self.spend(int(self.b.spans[3, found].sum()))
        return [(kind, first, count) for kind, first, count in self.b.spans[1:, found].T.tolist()]

    def spend(self, elements: int) -> None:
        self.budget -= elements
        if self.budget < 0:
            raise SnapshotError("lists are used over and over, far more often than any snapshot does")

    def pairs(self, obj: int) -> list[tuple[int, int, int, int]]:
        """(key tag, key, value tag, value) of a dict without a table."""
        order, owners = self._item_order
        found = order[np.searchsorted(owners, obj) : np.searchsorted(owners, obj, side="right")]
        return [(key_tag, key, tag, value) for key_tag, key, tag, value in self.b.items[1:, found].T.tolist()]

    def list_of(self, value: tuple[int, int] | None, where: str) -> list[tuple[int, int, int]]:
        """Runs of the list a key holds; none where the key is absent or None."""
        if value is None or value[0] == v.T_NONE:
            return []
        tag, obj = value
        if tag != v.T_OBJ or self.kind(obj) not in _LISTS:
            word = "dict" if tag == v.T_OBJ else v.TAG_WORDS[tag]
            raise SnapshotError(f"{where}: a {word} where a list was expected")
        return self.spans(obj)

    # Columns

    def columns(self, facts: dict[str, Any]) -> Columns:
        top, shape = self._root()
        segments, blocks = self._segments(top)
        trace_device, trace_offsets, rows = self._traces(top)
        settings = self._settings(top.get("allocator_settings"))
        annotations = self._annotations(top)
        self._count_unknown()
        frames = self.b.frames[:, : self.d.in_use(v.G_FRAMES)]
        return Columns(
            strings=self._strings(),
            frames=model.Frames(frames[0].astype(np.int32), frames[1].astype(np.int32), frames[2].copy()),
            stacks=self._stacks(),
            pools=self.b.pairs[:, : self.d.in_use(v.G_PAIRS)].T.copy(),
            events=self._events(rows),
            trace_device=trace_device,
            trace_offsets=trace_offsets,
            segments=segments,
            blocks=blocks,
            annotations=annotations,
            sparse=self._sparse(rows),
            settings=settings,
            ignored=dict(self.ignored),
            facts=facts
            | {
                "shape": shape,
                "protocol": int(self.d.st[v.ST_PROTOCOL]),
                "trailing_bytes": self.d.size - int(self.d.st[v.ST_POS]),
            },
        )

    def _root(self) -> tuple[dict[str, tuple[int, int]], str]:
        tag, obj = int(self.d.st[v.ST_A]), int(self.d.st[v.ST_B])
        kind = self.kind(obj) if tag == v.T_OBJ else -1
        if kind in _LISTS:
            return {"segments": (tag, obj)}, "segment list"
        if tag != v.T_OBJ:
            raise SnapshotError(f"the pickle holds a {v.TAG_WORDS[tag]}, not a memory snapshot")
        if kind != v.K_DICT:
            word = v.KIND_WORDS[kind] if kind < v.ROW_KINDS else "dict without keys"
            raise SnapshotError(f"the pickle holds one {word}, not a memory snapshot (no 'segments')")
        top = {}
        for key_tag, key, value_tag, value in self.pairs(obj):
            if key_tag != v.T_STR:
                self.ignored["snapshot key that is not a string"] += 1
                continue
            name = self._text(key)
            if name in KNOWN_KEYS["snapshot"]:
                top[name] = (value_tag, value)
            else:
                self.ignored[ignored_key("snapshot", name)] += 1
        if not top:
            raise SnapshotError("a dict without 'segments' or 'device_traces': not a memory snapshot")
        return top, "snapshot"

    def _segments(self, top: dict[str, tuple[int, int]]) -> tuple[model.Segments, model.Blocks]:
        rows, devices = [], []
        for key, device in (("segments", None), ("host_segments", HOST_DEVICE)):
            for kind, first, count in self.list_of(top.get(key), key):
                if kind != v.K_SEGMENT:
                    self.ignored["segment without blocks"] += count
                    continue
                rows.append(np.arange(first, first + count))
                devices += [device] * count
        row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        table = dict(_named(v.K_SEGMENT, self.b.segments[:, row]))
        _check_column(self.b.segments[0, row], "segments")
        blocks, offsets = self._blocks(table.pop("blocks"), row)
        own = [
            max(int(found), 0) if given is None else given
            for found, given in zip(table["device"], devices, strict=True)
        ]
        table["device"] = np.array(own, np.int32)
        segments = model.Segments(**table, block_offsets=offsets)
        return segments, _with_addresses(blocks, segments)

    def _blocks(self, lists: Array, rows: Array) -> tuple[model.Blocks, Array]:
        """The blocks of the lists of all segments, and where each segment's begin."""
        found, counts = [np.zeros(0, np.int64)], [0]
        for obj, row in zip(lists.tolist(), rows.tolist(), strict=True):
            before = len(found)
            spans = [] if obj == ABSENT else self.list_of((v.T_OBJ, obj), f"blocks of segment {row}")
            for kind, first, count in spans:
                if kind == v.K_BLOCK:
                    found.append(np.arange(first, first + count))
                else:
                    self.ignored["block without a state"] += count
            counts.append(sum(map(len, found[before:])))
        table = dict(_named(v.K_BLOCK, self.b.blocks[:, np.concatenate(found)]))
        del table["history"]
        return model.Blocks(**table), np.cumsum(counts, dtype=np.int64)

    def _traces(self, top: dict[str, tuple[int, int]]) -> tuple[Array, Array, Array | slice]:
        """Device and extent of every trace, and the event rows in that order (a slice where it can be)."""
        lists = [(HOST_DEVICE, self._host_spans(top.get("host_traces")))]
        device = 0
        for kind, first, count in self.list_of(top.get("device_traces"), "device_traces"):
            for _ in range(count):
                value = (v.T_OBJ, first) if kind == v.SPAN_OBJECT else _scalar(kind)
                check_devices(device, device, "device_traces")
                lists.append((device, self.list_of(value, f"device_traces[{device}]")))
                device += 1
        ranges, counts = [], [0]
        for _, spans in lists:
            total = 0
            for kind, first, count in spans:
                if kind == v.K_EVENT:
                    ranges.append((first, first + count))
                    total += count
                else:
                    self.ignored["trace entry without an action"] += count
            counts.append(total)
        devices = np.array([d for d, _ in lists], np.int32)
        return devices, np.cumsum(counts, dtype=np.int64), joined(ranges)

    def _host_spans(self, value: tuple[int, int] | None) -> list[tuple[int, int, int]]:
        """Host events stand in one list, or in a list of lists."""
        spans = self.list_of(value, "host_traces")
        if not any(kind == v.SPAN_OBJECT and self.kind(first) in _LISTS for kind, first, _ in spans):
            return spans
        inner = []
        for i, (kind, first, _) in enumerate(spans):
            inner += self.list_of((v.T_OBJ, first) if kind == v.SPAN_OBJECT else _scalar(kind), f"host_traces[{i}]")
        return inner

    def _events(self, rows: Array | slice) -> model.Events:
        count = self.d.in_use(v.G_EVENTS)
        table = [*self.b.events_wide[:, :count], *self.b.events_narrow[:, :count]]
        return model.Events(**dict(_named(v.K_EVENT, [column[rows] for column in table])))

    def _sparse(self, rows: Array | slice) -> model.Sparse:
        oom = reindexed(*last_of_each(self.b.device_free[:, : self.d.in_use(v.G_OOM)]), rows)
        forward = reindexed(*last_of_each(self.b.forward[:, : self.d.in_use(v.G_FORWARD)]), rows)
        return model.Sparse(*oom, forward[0], forward[1].astype(np.int32))

    def _annotations(self, top: dict[str, tuple[int, int]]) -> model.Annotations:
        ranges = []
        for kind, first, count in self.list_of(top.get("external_annotations"), "external_annotations"):
            if kind == v.K_ANNOTATION:
                ranges.append((first, first + count))
            else:
                self.ignored["annotation without a stage"] += count
        table = self.b.annotations[:, : self.d.in_use(v.G_ANNOTATIONS)][:, joined(ranges)]
        _check_column(table[_ANNOTATION_DEVICE], "external_annotations")
        return model.Annotations(**dict(_named(v.K_ANNOTATION, table)))

    def _strings(self) -> model.Strings:
        count, size = self.d.in_use(v.G_STRINGS), self.d.in_use(v.G_BLOB)
        offsets = np.zeros(count + 1, np.int64)
        offsets[1:] = self.b.strings[0, :count]
        return model.Strings(self.b.blob[:size], offsets)

    def _stacks(self) -> model.Stacks:
        count = self.d.in_use(v.G_STACKS)
        offsets = np.zeros(count + 1, np.int64)
        offsets[1:] = self.b.stack_end[:count]
        return model.Stacks(offsets, self.b.stack_frames[: self.d.in_use(v.G_STACK_FRAMES)])

    # Words

    def _raw(self, string: int) -> bytes:
        start = int(self.b.strings[0, string - 1]) if string else 0
        return self.b.blob[start : int(self.b.strings[0, string])].tobytes()

    def _text(self, string: int) -> str:
        return self._raw(string).decode("utf-8", "replace")

    def _check_strings(self) -> None:
        """Every string is UTF-8: the whole is, and none begins inside a character."""
        count = self.d.in_use(v.G_STRINGS)
        ends, blob = self.b.strings[0, :count], self.b.blob[: self.d.in_use(v.G_BLOB)]
        starts = np.concatenate([[0], ends[:-1]])
        nonempty = starts < ends
        inside = blob[starts[nonempty]] & 0xC0 == 0x80
        try:
            blob.tobytes().decode("utf-8", "surrogatepass")
            broken = np.flatnonzero(nonempty)[np.flatnonzero(inside)]
            if len(broken) == 0:
                return
            bad = int(broken[0])
        except UnicodeDecodeError as error:
            bad = int(np.searchsorted(ends, error.start, side="right"))
        raise SnapshotError("a string that is not UTF-8", offset=int(self.b.strings[1, bad]))

    def _settings(self, value: tuple[int, int] | None) -> dict[str, Any]:
        if value is None or value[0] == v.T_NONE:
            return {}
        if value[0] != v.T_OBJ or self.kind(value[1]) in _LISTS:
            raise SnapshotError("allocator_settings: a value of another type where a dict was expected")
        return Plain(self._children).dict(value)

    def _children(self, value: tuple[int, int]) -> Any:
        """One step into a value: a scalar, or its children for ``Plain`` to go on with."""
        tag, x = value
        if tag != v.T_OBJ:
            return self._scalar(tag, x)
        kind = self.kind(x)
        if kind in (v.K_DICT, v.K_NEW_DICT):
            return {self._text(k): (t, y) for kt, k, t, y in self.pairs(x) if kt == v.T_STR}
        if kind == v.K_PAIR:
            pair = int(self.b.objects[x]) >> v.OBJ_SHIFT
            return [(v.T_INT, value) for value in self.b.pairs[:, pair].tolist()]
        if kind in _LISTS and kind != v.K_STACK:
            return [(k - v.SPAN_SCALAR if k >= v.SPAN_SCALAR else v.T_OBJ, f) for k, f, _ in self.spans(x)]
        return UNREADABLE

    def _scalar(self, tag: int, x: int) -> Any:
        if tag == v.T_STR:
            return self._text(x)
        if tag == v.T_FLOAT:
            return struct.unpack(">d", struct.pack(">q", x))[0]
        return {v.T_INT: x, v.T_BOOL: bool(x), v.T_NONE: None}.get(tag, UNREADABLE)

    def _count_unknown(self) -> None:
        for word, times in self.b.unknown[:, : int(self.d.st[v.ST_UNKNOWN])].T.tolist():
            self.ignored[self._unknown_words(word >> 32, word & 0xFFFFFFFF)] += times
        if self.d.st[v.ST_UNKNOWN_MORE]:
            self.ignored["other unknown keys and values"] += int(self.d.st[v.ST_UNKNOWN_MORE])

    def _unknown_words(self, kind: int, key: int) -> str:
        if kind == v.U_POOL:
            return "pool id that is not two integers"
        if kind == v.U_KEY_TYPE:
            return f"{v.KIND_WORDS[key]} key that is not a string"
        values = {v.U_ACTION: "action", v.U_STATE: "block state", v.U_STAGE: "annotation stage"}
        if kind in values:
            return ignored_value(values[kind], self._text(key))
        return ignored_key(v.KIND_WORDS[kind], self._text(key))


_ANNOTATION_DEVICE = [name for _, name, _ in v.COLUMNS[v.K_ANNOTATION]].index("device")


def _check_column(devices: Array, where: str) -> None:
    """Before they are narrowed to 32 bits, where 1 << 32 would become device 0."""
    if len(devices):
        check_devices(int(devices.min()), int(devices.max()), where)


def _scalar(kind: int) -> tuple[int, int]:
    """A list element that is no container, as a value; rows count as dicts."""
    return (kind - v.SPAN_SCALAR, 0) if kind >= v.SPAN_SCALAR else (v.T_OPAQUE, 0)


def _named(kind: int, table: Any) -> Iterator[tuple[str, Array]]:
    """Columns of one kind of row by name, in the width that the column model declares."""
    model_of = {v.K_EVENT: model.Events, v.K_BLOCK: model.Blocks, v.K_SEGMENT: model.Segments}
    declared = model_of.get(kind, model.Annotations).__annotations__
    widths = {"Int8": np.int8, "Int32": np.int32}
    for (_, name, _), column in zip(v.COLUMNS[kind], table, strict=True):
        yield name, column.astype(widths.get(declared.get(name, ""), np.int64), copy=False)


def _with_addresses(blocks: model.Blocks, segments: model.Segments) -> model.Blocks:
    """Torch 2.0 gives blocks no address: they follow one another from the segment's."""
    if not (blocks.address == ABSENT).any():
        return blocks
    address = blocks.address.copy()
    for g in range(len(segments)):
        at = int(segments.address[g])
        for i in range(int(segments.block_offsets[g]), int(segments.block_offsets[g + 1])):
            at = address[i] = at if address[i] == ABSENT else int(address[i])
            at = next_address(int(at), int(blocks.size[i]))
    return replace(blocks, address=address)
