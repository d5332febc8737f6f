"""Plain Python objects (what JSON gives) to columns.

Slow and simple on purpose: one value at a time, every type checked. It is also one half of the
test oracle for the pickle machine; the other half is a restricted ``pickle.Unpickler``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from snapviz.errors import SnapshotError
from snapviz.snapshot import columns as model
from snapviz.snapshot.columns import ABSENT, HOST_DEVICE, Columns
from snapviz.snapshot.rules import (
    ACTION_CODES,
    BLOCK_STATE_CODES,
    KNOWN_KEYS,
    STAGE_CODES,
    check_devices,
    ignored_key,
    ignored_value,
    next_address,
)
from snapviz.snapshot.settings import Plain, object_children

__all__ = ["columns_from_objects"]

_EVENT_INTS = ("addr", "size", "stream", "time_us")
_EVENT_STRINGS = ("user_metadata", "compile_context")
_SEGMENT_INTS = ("address", "total_size", "allocated_size", "active_size", "requested_size", "stream")


def columns_from_objects(root: object, facts: dict[str, Any] | None = None) -> Columns:
    """Columns of an unpickled or JSON-decoded snapshot.

    Raises ``SnapshotError`` where a known key holds something of another type, naming its place.
    """
    return _Reader().read(root, facts or {})


class _Reader:
    def __init__(self) -> None:
        self.ignored: Counter[str] = Counter()
        self.strings: dict[bytes, int] = {}
        self.frames: dict[tuple[int, int, int], int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        self.pools: dict[tuple[int, int], int] = {}
        self.seen_frames: set[int] = set()
        self.events: dict[str, list[int]] = {name: [] for name in model.Events.__dataclass_fields__}
        self.sparse: dict[str, list[int]] = {name: [] for name in model.Sparse.__dataclass_fields__}
        self.segments: dict[str, list[int]] = {
            name: [] for name in model.Segments.__dataclass_fields__ if name != "block_offsets"
        }
        self.block_counts: list[int] = []
        self.blocks: dict[str, list[int]] = {name: [] for name in model.Blocks.__dataclass_fields__}
        self.annotations: dict[str, list[int]] = {name: [] for name in model.Annotations.__dataclass_fields__}

    def read(self, root: object, facts: dict[str, Any]) -> Columns:
        if isinstance(root, list):
            top: dict[Any, Any] = {"segments": root}
            facts = facts | {"shape": "segment list"}
        elif isinstance(root, dict):
            top = root
            facts = facts | {"shape": "snapshot"}
            self._count_unknown("snapshot", top)
            if not any(key in top for key in KNOWN_KEYS["snapshot"]):
                raise SnapshotError("a dict without 'segments' or 'device_traces': not a memory snapshot")
        else:
            raise SnapshotError(f"a {_word(root)} where a snapshot (a dict, or a list of segments) was expected")
        for key, device in (("segments", None), ("host_segments", HOST_DEVICE)):
            for i, segment in enumerate(self._list(top.get(key), key)):
                self._segment(segment, f"{key}[{i}]", device)
        traces = self._traces(top)
        for i, entry in enumerate(self._list(top.get("external_annotations"), "external_annotations")):
            self._annotation(entry, f"external_annotations[{i}]")
        settings = top.get("allocator_settings")
        if settings is not None and not isinstance(settings, dict):
            raise SnapshotError(f"allocator_settings: a {_word(settings)} where a dict was expected")
        return self._finish(traces, settings or {}, facts)

    def _traces(self, top: dict[Any, Any]) -> list[tuple[int, int]]:
        """(device, events) of every trace, in ascending order of device."""
        host = self._list(top.get("host_traces"), "host_traces")
        if not any(isinstance(entry, list) for entry in host):
            host = [host]
        lists = [
            (HOST_DEVICE, "host_traces", [e for i, h in enumerate(host) for e in self._list(h, f"host_traces[{i}]")])
        ]
        traces = self._list(top.get("device_traces"), "device_traces")
        check_devices(-1, len(traces) - 1, "device_traces")
        for device, trace in enumerate(traces):
            name = f"device_traces[{device}]"
            lists.append((device, name, self._list(trace, name)))
        counts = []
        for device, name, trace in lists:
            before = len(self.events["action"])
            for i, event in enumerate(trace):
                self._event(event, f"{name}[{i}]")
            counts.append((device, len(self.events["action"]) - before))
        return counts

    def _event(self, event: object, where: str) -> None:
        if not isinstance(event, dict) or "action" not in event:
            self.ignored["trace entry without an action"] += 1
            return
        self._count_unknown("event", event)
        action = self._string_value(event["action"], f"{where}.action")
        code = ACTION_CODES.get(action, 0)
        if not code:
            self.ignored[ignored_value("action", _shown(action))] += 1
        self.events["action"].append(code)
        for key in _EVENT_INTS:
            self.events[key].append(self._int(event.get(key), f"{where}.{key}"))
        for key in _EVENT_STRINGS:
            self.events[key].append(self._string(event.get(key), f"{where}.{key}"))
        self.events["stack"].append(self._stack(event.get("frames"), f"{where}.frames"))
        self.events["pool"].append(self._pool(event.get("pool_id")))
        index = len(self.events["action"]) - 1
        device_free = self._int(event.get("device_free"), f"{where}.device_free")
        if device_free != ABSENT:
            self.sparse["oom_event"].append(index)
            self.sparse["oom_device_free"].append(device_free)
        forward = self._stack(event.get("forward_frames"), f"{where}.forward_frames")
        if forward != ABSENT:
            self.sparse["forward_event"].append(index)
            self.sparse["forward_stack"].append(forward)

    def _segment(self, segment: object, where: str, device: int | None) -> None:
        if not isinstance(segment, dict) or "blocks" not in segment:
            self.ignored["segment without blocks"] += 1
            return
        self._count_unknown("segment", segment)
        column = self.segments
        own = self._device(segment.get("device"), f"{where}.device")
        column["device"].append(device if device is not None else max(own, 0))
        for key in _SEGMENT_INTS:
            column[key].append(self._int(segment.get(key), f"{where}.{key}"))
        column["segment_type"].append(self._string(segment.get("segment_type"), f"{where}.segment_type"))
        column["pool"].append(self._pool(segment.get("segment_pool_id")))
        column["is_expandable"].append(self._flag(segment.get("is_expandable"), f"{where}.is_expandable"))
        column["stack"].append(self._stack(segment.get("frames"), f"{where}.frames"))
        blocks = self._list(segment["blocks"], f"{where}.blocks")
        address = column["address"][-1]
        before = len(self.blocks["size"])
        for i, block in enumerate(blocks):
            address = self._block(block, f"{where}.blocks[{i}]", address)
        self.block_counts.append(len(self.blocks["size"]) - before)

    def _block(self, block: object, where: str, address: int) -> int:
        """Reads one block; returns where the next one starts if that has no address of its own."""
        if not isinstance(block, dict) or "state" not in block:
            self.ignored["block without a state"] += 1
            return address
        self._count_unknown("block", block)
        state = self._string_value(block["state"], f"{where}.state")
        code = BLOCK_STATE_CODES.get(state)
        if code is None:
            self.ignored[ignored_value("block state", _shown(state))] += 1
        own = self._int(block.get("address"), f"{where}.address")
        size = self._int(block.get("size"), f"{where}.size")
        requested = self._int(block.get("requested_size"), f"{where}.requested_size")
        stack = self._stack(block.get("frames"), f"{where}.frames")
        real_size, old_stack = self._history(block.get("history"), f"{where}.history")
        address = own if own != ABSENT else address
        self.blocks["address"].append(address)
        self.blocks["size"].append(size)
        self.blocks["requested_size"].append(requested if requested != ABSENT else real_size)
        self.blocks["state"].append(code or 0)
        self.blocks["stack"].append(stack if stack != ABSENT else old_stack)
        return next_address(address, size)

    def _history(self, history: object, where: str) -> tuple[int, int]:
        """Requested bytes and stack of the newest entry of torch 2.0's ``history``, which is its first."""
        found = (ABSENT, ABSENT)
        for i, entry in enumerate(self._list(history, where)):
            if not isinstance(entry, dict) or "real_size" not in entry:
                self.ignored["history entry without a real_size"] += 1
                continue
            self._count_unknown("history entry", entry)
            real_size = self._int(entry["real_size"], f"{where}[{i}].real_size")
            stack = self._stack(entry.get("frames"), f"{where}[{i}].frames")
            if i == 0:
                found = (real_size, stack)
        return found

    def _annotation(self, entry: object, where: str) -> None:
        if not isinstance(entry, dict) or "stage" not in entry:
            self.ignored["annotation without a stage"] += 1
            return
        self._count_unknown("annotation", entry)
        stage = self._string_value(entry["stage"], f"{where}.stage")
        if stage not in STAGE_CODES:
            self.ignored[ignored_value("annotation stage", _shown(stage))] += 1
        self.annotations["name"].append(self._string(entry.get("name"), f"{where}.name"))
        self.annotations["stage"].append(STAGE_CODES.get(stage, 2))
        self.annotations["device"].append(self._device(entry.get("device"), f"{where}.device"))
        self.annotations["time_us"].append(self._int(entry.get("time_us"), f"{where}.time_us"))

    def _stack(self, frames: object, where: str) -> int:
        if frames is None:
            return ABSENT
        ids = tuple(self._frame(f, f"{where}[{i}]") for i, f in enumerate(self._list(frames, where)))
        return self.stacks.setdefault(ids, len(self.stacks))

    def _frame(self, frame: object, where: str) -> int:
        if not isinstance(frame, dict) or "filename" not in frame:
            raise SnapshotError(f"{where}: a {_word(frame)} where a frame (a dict with 'filename') was expected")
        if id(frame) not in self.seen_frames:  # a frame that many stacks share is one dict
            self.seen_frames.add(id(frame))
            self._count_unknown("frame", frame)
        key = (
            self._string(frame.get("name"), f"{where}.name"),
            self._string(frame["filename"], f"{where}.filename"),
            self._int(frame.get("line"), f"{where}.line"),
        )
        return self.frames.setdefault(key, len(self.frames))

    def _pool(self, value: object) -> int:
        if value is None:
            return ABSENT
        if isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_plain_int(v) for v in value):
            return self.pools.setdefault((int(value[0]), int(value[1])), len(self.pools))
        self.ignored["pool id that is not two integers"] += 1
        return ABSENT

    def _count_unknown(self, kind: str, item: dict[Any, Any]) -> None:
        for key in item:
            if not isinstance(key, str):
                self.ignored[f"{kind} key that is not a string"] += 1
            elif key not in KNOWN_KEYS[kind]:
                self.ignored[ignored_key(kind, _shown(key))] += 1

    def _list(self, value: object, where: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            raise SnapshotError(f"{where}: a {_word(value)} where a list was expected")
        return list(value)

    def _int(self, value: object, where: str) -> int:
        if value is None:
            return ABSENT
        if not _is_int64(value):
            raise SnapshotError(f"{where}: a {_word(value)} where an integer of 64 bits was expected")
        return int(value)  # type: ignore[call-overload, no-any-return]

    def _device(self, value: object, where: str) -> int:
        device = self._int(value, where)
        check_devices(device, device, where)
        return device

    def _flag(self, value: object, where: str) -> int:
        return ABSENT if value is None else int(self._int(value, where) != 0)

    def _string(self, value: object, where: str) -> int:
        if value is None:
            return ABSENT
        return self.strings.setdefault(_bytes(self._string_value(value, where)), len(self.strings))

    def _string_value(self, value: object, where: str) -> str:
        if not isinstance(value, str):
            raise SnapshotError(f"{where}: a {_word(value)} where a string was expected")
        return value

    def _finish(self, traces: list[tuple[int, int]], settings: dict[str, Any], facts: dict[str, Any]) -> Columns:
        frames = np.array(list(self.frames), np.int64).reshape(-1, 3)
        offsets = np.cumsum([0, *map(len, self.stacks)], dtype=np.int64)
        string_offsets = np.cumsum([0, *map(len, self.strings)], dtype=np.int64)
        segments = _arrays(model.Segments, self.segments)
        return Columns(
            strings=model.Strings(np.frombuffer(b"".join(self.strings), np.uint8), string_offsets),
            frames=model.Frames(frames[:, 0].astype(np.int32), frames[:, 1].astype(np.int32), frames[:, 2].copy()),
            stacks=model.Stacks(offsets, np.array([f for s in self.stacks for f in s], np.int32)),
            pools=np.array(list(self.pools), np.int64).reshape(-1, 2),
            events=model.Events(**_arrays(model.Events, self.events)),
            trace_device=np.array([d for d, _ in traces], np.int32),
            trace_offsets=np.cumsum([0, *(n for _, n in traces)], dtype=np.int64),
            segments=model.Segments(**segments, block_offsets=np.cumsum([0, *self.block_counts], dtype=np.int64)),
            blocks=model.Blocks(**_arrays(model.Blocks, self.blocks)),
            annotations=model.Annotations(**_arrays(model.Annotations, self.annotations)),
            sparse=model.Sparse(**_arrays(model.Sparse, self.sparse)),
            settings=Plain(object_children).dict(settings),
            ignored=dict(self.ignored),
            facts=facts,
        )


def _arrays(table: type, lists: dict[str, list[int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Each list as an array of the width its table declares."""
    widths = {"Int8": np.int8, "Int32": np.int32, "Int64": np.int64}
    return {name: np.array(values, widths[table.__annotations__[name]]) for name, values in lists.items()}


def _is_plain_int(value: object) -> bool:
    return _is_int64(value) and not isinstance(value, bool)


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(1 << 63) <= value < (1 << 63)


def _shown(value: str) -> str:
    """A string from the file for people: what cannot be printed is replaced."""
    return _bytes(value).decode("utf-8", "replace")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _word(value: object) -> str:
    return type(value).__name__
