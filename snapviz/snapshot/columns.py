"""The column model: a snapshot as numpy arrays, one table per kind of thing.

Legend: E events, T traces (one per device that has a list), G segments, B blocks, N annotations,
F frames, S stacks, P pools, W strings. Every id is an index into the table it names. ``ABSENT``
(-1) stands where the snapshot did not have the key. Sizes are bytes, times µs since the Unix epoch.

Key meanings and the versions they appear in: torch/cuda/memory.py, ``_snapshot`` (2.0 to 2.14).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ABSENT",
    "ACTIONS",
    "BLOCK_STATES",
    "FRAME_TEXT_BYTES",
    "HOST_DEVICE",
    "MAX_DEVICES",
    "STAGES",
    "Annotations",
    "Blocks",
    "Columns",
    "Events",
    "Frames",
    "Segments",
    "Sparse",
    "Stacks",
    "Strings",
]

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

ABSENT = -1
FRAME_TEXT_BYTES = 500
"""The most that is shown of a function's name or a file's path."""
MAX_DEVICES = 1024
"""Device numbers are below this; torch's own limit is 120 (C10_COMPILE_TIME_MAX_GPUS)."""
HOST_DEVICE = -1
"""Device of ``host_segments`` and ``host_traces`` (torch 2.14): pinned host memory."""

ACTIONS: tuple[str, ...] = (
    "(unknown)",
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
    "free",
)
"""Event actions by code. Code 0 is any action not named here; ``free`` is what torch 2.0 and some
forks write where later versions write free_requested and free_completed."""

BLOCK_STATES: tuple[str, ...] = ("inactive", "active_allocated", "active_pending_free")
"""Block states by code; ``active_awaiting_free`` of the docstrings is read as the last."""

STAGES: tuple[str, ...] = ("START", "END", "(unknown)")
"""Annotation stages by code."""


class _Table:
    """Shared by the tables below: every field is an array, all of one length but ragged offsets."""

    def arrays(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        for item in fields(self):  # type: ignore[arg-type]
            yield item.name, getattr(self, item.name)


@dataclass(frozen=True)
class Strings(_Table):
    """W distinct byte strings; string w is ``blob[offsets[w]:offsets[w + 1]]`` (UTF-8, surrogates
    allowed, as pickle writes them)."""

    blob: UInt8
    offsets: Int64  # [W + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def raw(self, string: int) -> bytes:
        """The bytes of one string; empty for ``ABSENT``."""
        if string < 0:
            return b""
        return self.blob[self.offsets[string] : self.offsets[string + 1]].tobytes()

    def text(self, string: int, limit: int | None = None) -> str:
        """One string for people: what is not UTF-8 is replaced, so that it can be printed.

        ``limit``: at most so many bytes, with ``…`` where it was longer.
        """
        if string < 0:
            return ""
        start, stop = int(self.offsets[string]), int(self.offsets[string + 1])
        cut = limit is not None and stop - start > limit
        shown = self.blob[start : start + limit if cut and limit is not None else stop].tobytes()
        return shown.decode("utf-8", "replace") + "…" * cut


@dataclass(frozen=True)
class Frames(_Table):
    """F distinct frames."""

    name: Int32  # [F] string id, or ABSENT
    filename: Int32  # [F] string id, or ABSENT
    line: Int64  # [F] or ABSENT


@dataclass(frozen=True)
class Stacks(_Table):
    """S distinct stacks, innermost frame first as torch writes them."""

    offsets: Int64  # [S + 1]
    frames: Int32  # [offsets[-1]] frame ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, stack: int) -> Int32:
        """Frame ids of one stack; empty for ``ABSENT``."""
        if stack < 0:
            return self.frames[:0]
        return self.frames[self.offsets[stack] : self.offsets[stack + 1]]


@dataclass(frozen=True)
class Events(_Table):
    """E allocator events, in the order of the trace."""

    action: Int8  # [E] code into ACTIONS
    addr: Int64  # [E] or ABSENT (oom)
    size: Int64  # [E] bytes: requested for alloc and free, rounded for segments; or ABSENT
    stream: Int64  # [E] or ABSENT
    time_us: Int64  # [E] or ABSENT (before torch 2.2)
    stack: Int32  # [E] stack id, or ABSENT where no context was recorded
    pool: Int32  # [E] pool id, or ABSENT (before torch 2.12)
    user_metadata: Int32  # [E] string id, or ABSENT
    compile_context: Int32  # [E] string id, or ABSENT

    def __len__(self) -> int:
        return len(self.action)

    def slice(self, start: int, stop: int) -> Events:
        """Events ``start`` to ``stop``, as views."""
        return Events(**{name: array[start:stop] for name, array in self.arrays()})


@dataclass(frozen=True)
class Segments(_Table):
    """G segments, in the order of the file."""

    device: Int32  # [G]
    address: Int64  # [G]
    total_size: Int64  # [G]
    allocated_size: Int64  # [G] or ABSENT
    active_size: Int64  # [G] or ABSENT
    requested_size: Int64  # [G] or ABSENT (torch 2.0)
    stream: Int64  # [G] or ABSENT
    segment_type: Int32  # [G] string id ("small", "large"), or ABSENT
    pool: Int32  # [G] pool id, or ABSENT (torch 2.0)
    is_expandable: Int8  # [G] 0, 1 or ABSENT
    stack: Int32  # [G] stack id, or ABSENT
    block_offsets: Int64  # [G + 1] blocks of segment g are block_offsets[g]:block_offsets[g + 1]

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class Blocks(_Table):
    """B blocks, segment after segment."""

    address: Int64  # [B] summed up from the segment where the file has none (torch 2.0)
    size: Int64  # [B] rounded bytes
    requested_size: Int64  # [B] or ABSENT; stale on inactive blocks
    state: Int8  # [B] code into BLOCK_STATES
    stack: Int32  # [B] stack id, or ABSENT

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class Annotations(_Table):
    """N external annotations (torch 2.5), in the order of the file."""

    name: Int32  # [N] string id
    stage: Int8  # [N] code into STAGES
    device: Int32  # [N] or ABSENT
    time_us: Int64  # [N] or ABSENT

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Sparse(_Table):
    """Keys that few events have, beside the event's index in the whole event table."""

    oom_event: Int64  # events that carry device_free
    oom_device_free: Int64  # bytes
    forward_event: Int64  # events that carry forward_frames (anomaly mode, torch 2.11)
    forward_stack: Int32  # stack id


@dataclass(frozen=True)
class Columns:
    """A whole snapshot. Immutable; arrays may be memory-mapped and read-only."""

    strings: Strings
    frames: Frames
    stacks: Stacks
    pools: Int64  # [P, 2]
    events: Events  # every device, trace after trace
    trace_device: Int32  # [T] ascending
    trace_offsets: Int64  # [T + 1] events of trace t
    segments: Segments
    blocks: Blocks
    annotations: Annotations
    sparse: Sparse
    settings: dict[str, Any] = field(default_factory=dict)
    """``allocator_settings`` as it stood in the file (torch 2.3)."""
    ignored: dict[str, int] = field(default_factory=dict)
    """What was not understood and left out, in words → how many times."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How the file was written: ``container``, ``protocol``, ``shape``, ``trailing_bytes``."""

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that have events or segments, ascending; ``HOST_DEVICE`` is pinned host memory."""
        seen = {int(d) for d, n in zip(self.trace_device, np.diff(self.trace_offsets), strict=True) if n}
        return tuple(sorted(seen | {int(d) for d in np.unique(self.segments.device)}))

    def trace_range(self, device: int) -> tuple[int, int]:
        """First and one-past-last event of a device in ``events``; ``(0, 0)`` where it has none."""
        found = np.flatnonzero(self.trace_device == device)
        if len(found) == 0:
            return 0, 0
        return int(self.trace_offsets[found[0]]), int(self.trace_offsets[found[0] + 1])

    def trace(self, device: int) -> Events:
        """The events of one device, as views."""
        return self.events.slice(*self.trace_range(device))

    def frame_text(self, frame: int) -> str:
        """One frame for people: ``name (file:line)``."""
        # one string of a megabyte can stand in thousands of frames
        name = self.strings.text(int(self.frames.name[frame]), FRAME_TEXT_BYTES)
        filename = self.strings.text(int(self.frames.filename[frame]), FRAME_TEXT_BYTES)
        return f"{name} ({filename}:{self.frames.line[frame]})"
