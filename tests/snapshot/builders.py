"""Snapshots for tests: small ones by hand, any by hypothesis, and a writer like torch's C++ one."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from snapviz.snapshot.rules import KNOWN_KEYS

RECOGNISED = {"action", "blocks", "state", "stage", "filename", "real_size"}


def frame(name: str = "f", filename: str = "a.py", line: int = 1) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def event(action: str = "alloc", addr: int = 1 << 20, size: int = 512, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1} | more


def block(size: int = 512, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"address": 1 << 20, "size": size, "requested_size": size, "state": state, "frames": []} | more


def segment(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "device": 0,
        "address": 1 << 20,
        "total_size": sum(b["size"] for b in blocks),
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": list(blocks),
    } | more


def snapshot(*events: dict[str, Any], segments: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {"segments": segments or [], "device_traces": [list(events)]} | more


# Hypothesis: every key may be missing or None, sizes are anything, unknown keys and actions occur.

integers = st.one_of(st.integers(0, 300), st.integers(-(1 << 40), 1 << 40), st.integers(-(1 << 62) + 1, (1 << 63) - 1))
texts = st.text(max_size=6) | st.sampled_from(["N/A", "model.py", "\ud800 lone", "é" * 3, "x" * 300])
unknown_keys = st.text(max_size=4).map(lambda s: "x" + s) | st.integers(0, 3)
plain = st.recursive(  # no bytes: protocol 2 calls a codec for those
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
harmless = plain.filter(lambda value: not _mentions(value, RECOGNISED))


def _mentions(value: Any, names: set[str]) -> bool:
    if isinstance(value, dict):
        return any(k in names or _mentions(v, names) for k, v in value.items())
    return isinstance(value, list) and any(_mentions(v, names) for v in value)


def _with_unknown(kind: str, known: dict[str, st.SearchStrategy[Any]], needed: dict[str, Any]) -> Any:
    assert set(known) | set(needed) <= set(KNOWN_KEYS[kind])
    optional = {key: value | st.none() for key, value in known.items()}
    extra = st.dictionaries(unknown_keys, harmless, max_size=2)
    return st.tuples(st.fixed_dictionaries(needed, optional=optional), extra).map(lambda pair: {**pair[1], **pair[0]})


frames = _with_unknown("frame", {"name": texts, "line": integers}, {"filename": texts})
stacks = st.lists(frames, max_size=4)
pools = st.tuples(integers, integers) | st.lists(integers, min_size=2, max_size=2) | st.just((0, 0)) | st.just("none")
events = _with_unknown(
    "event",
    {
        **dict.fromkeys(("addr", "size", "stream", "time_us", "device_free"), integers),
        **dict.fromkeys(("user_metadata", "compile_context"), texts),
        **dict.fromkeys(("frames", "forward_frames"), stacks),
        "pool_id": pools,
    },
    {"action": st.sampled_from(["alloc", "free_requested", "free_completed", "oom", "snapshot", "new_thing"]) | texts},
)
histories = st.lists(
    _with_unknown("history entry", {"addr": integers, "frames": stacks}, {"real_size": integers}), max_size=3
)
blocks = _with_unknown(
    "block",
    {**dict.fromkeys(("address", "size", "requested_size"), integers), "frames": stacks, "history": histories},
    {"state": st.sampled_from(["inactive", "active_allocated", "active_pending_free", "active_awaiting_free", "?"])},
)
segments = _with_unknown(
    "segment",
    {
        **dict.fromkeys(("address", "total_size", "allocated_size", "active_size", "requested_size"), integers),
        "stream": integers,
        "device": st.integers(0, 9),
        "segment_type": texts,
        "segment_pool_id": pools,
        "is_expandable": st.booleans(),
        "frames": stacks,
    },
    {"blocks": st.lists(blocks, max_size=4)},
)
annotations = _with_unknown(
    "annotation",
    {"name": texts, "device": st.integers(0, 9), "time_us": integers},
    {"stage": st.sampled_from(["START", "END", "MIDDLE"])},
)
snapshots = st.one_of(
    st.lists(segments, max_size=3),
    _with_unknown(
        "snapshot",
        {
            "device_traces": st.lists(st.lists(events, max_size=4), max_size=3),
            "external_annotations": st.lists(annotations, max_size=3),
            "allocator_settings": st.dictionaries(texts, harmless, max_size=3),
            "host_segments": st.lists(segments, max_size=2),
            "host_traces": st.lists(events, max_size=2) | st.lists(st.lists(events, max_size=2), max_size=2),
        },
        {"segments": st.lists(segments, max_size=3)},
    ),
)


class CppWriter:
    """Pickles like torch/csrc/jit/serialization/pickler.cpp: protocol 2, each container stored in the
    memo after it is filled, long strings as BINUNICODE, integers as BININT1, BININT or eight-byte LONG1."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []

    def dump(self, value: Any) -> bytes:
        self._push(value)
        return bytes(self.out + b".")

    def _put(self, key: Any) -> None:
        index = self.memo[key] = len(self.memo)
        self.out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)

    def _get(self, key: Any) -> bool:
        if key not in self.memo:
            return False
        index = self.memo[key]
        self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        return True

    def _push(self, value: Any) -> None:
        if value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._integer(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            if not self._get(value):
                raw = value.encode("utf-8", "surrogatepass")
                self.out += b"X" + struct.pack("<I", len(raw)) + raw
                self._put(value)
        elif not self._get(id(value)):
            self.kept.append(value)
            self._container(value)
            self._put(id(value))

    def _integer(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def _container(self, value: Any) -> None:
        if isinstance(value, dict):
            self.out += b"}("
            for pair in value.items():
                for item in pair:
                    self._push(item)
            self.out += b"u"
        elif isinstance(value, list):
            self.out += b"]("
            for item in value:
                self._push(item)
            self.out += b"e"
        else:
            self.out += b"("
            for item in value:
                self._push(item)
            self.out += b"t"
