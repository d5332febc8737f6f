"""The snapshot for torch's own viewer: pytorch.org/memory_viz and ``python -m torch.cuda._memory_viz``.

Legend: E events of a file, T traces, G segments, B blocks, N annotations.

The web viewer reads ``category`` of events (torch/utils/viz/MemoryViz.js, 2.0 to 2.14): of an allocation's
``alloc``, or of its free where it is older than the recording. It colours by the order in which names
appear, in ten colours, and cannot open a file with categories none of which is ``unknown``: it adds that
one to a list whose name it misspells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import IO

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.report.exports.opcodes import START, STOP, Shared, batches, integer, long_integer, plain, text
from snapviz.snapshot.columns import ABSENT, ACTIONS, BLOCK_STATES, HOST_DEVICE, STAGES, Columns

__all__ = ["VIEWER_NAMES", "event_categories", "write_viewer"]

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]

VIEWER_NAMES = {"optimizer state": "optimizer_state"}
"""Ours → torch's (torch/profiler/_memory_profiler.py, ``Category``), where they mean the same and differ."""

_UNKNOWN = CATEGORIES.index("unknown")
_REPEATED = 4_096
"""Sizes and streams that are kept as they are written: few differ."""
_ROWS = 50_000
"""Events that are Python objects at a time."""


def write_viewer(columns: Columns, found: Sequence[Facts], stream: IO[bytes]) -> None:
    """Writes a snapshot as torch would, every device of it, with the categories of the ranks that are known."""
    writer = _Writer(columns, _all_categories(columns, found))
    stream.write(START + b"}(")
    for piece in writer.pieces():
        stream.write(piece)
    stream.write(b"u" + STOP)


def event_categories(facts: Facts) -> Int16:
    """[events of the device] index into ``CATEGORIES`` where the viewer reads it, else ``ABSENT``."""
    table = facts.replay.allocations
    count = len(facts.replay)
    found = np.full(count, ABSENT, np.int16)
    born = table.alloc_event >= 0
    found[table.alloc_event[born]] = facts.category[born]
    for event in (table.free_requested_event, table.free_completed_event):
        freed = ~born & (event >= 0) & (event < count)
        found[event[freed]] = facts.category[freed]
    return found


def _all_categories(columns: Columns, found: Sequence[Facts]) -> Int16:
    """[E] the same for the whole file, with one ``unknown`` in it where there is any."""
    out = np.full(len(columns.events), ABSENT, np.int16)
    for facts in found:
        first, stop = columns.trace_range(facts.replay.device)
        out[first:stop] = event_categories(facts)
    return _with_unknown(columns, out)


def _with_unknown(columns: Columns, found: Int16) -> Int16:
    """The same with an ``unknown`` that the viewer comes across, if there is any category."""
    # a free_completed right behind its free_requested is passed over, and the host's trace is not opened
    met = columns.events.action != ACTIONS.index("free_completed")
    met[slice(*columns.trace_range(HOST_DEVICE))] = False
    named = found != ABSENT
    if not named.any() or (met & (found == _UNKNOWN)).any():
        return found
    # no colour is taken from an event that has none; where all have one, the smallest has to give it up
    some = np.flatnonzero(met & ~named) if (met & ~named).any() else np.flatnonzero(named)
    found[some[np.argmin(columns.events.size[some])]] = _UNKNOWN
    return found


class _Writer:
    """The pieces of one file. What is shared is written where it first stands: nothing may be made out of turn."""

    def __init__(self, columns: Columns, categories: Int16) -> None:
        self.columns, self.categories = columns, categories
        number = count()
        self.words = Shared[str](number, lambda word: text(word.encode()))
        self.strings = Shared[int](number, lambda string: text(columns.strings.raw(string)))
        self.frames = Shared[int](number, lambda frame: self._dict(self._frame_items(frame)))
        self.stacks = Shared[int](number, lambda stack: b"]" + b"".join(batches(self._frames_of(stack))))
        self.fields: tuple[tuple[str, Callable[[int], bytes]], ...] = (
            ("action", Shared[int](number, lambda action: text(ACTIONS[action].encode())).__getitem__),
            ("addr", long_integer),
            ("size", lru_cache(_REPEATED)(integer)),
            ("stream", lru_cache(_REPEATED)(integer)),
            ("time_us", long_integer),
            ("frames", self.stacks.__getitem__),
            ("pool_id", self._pool),
            ("user_metadata", self.strings.__getitem__),
            ("compile_context", self.strings.__getitem__),
            ("device_free", integer),
            ("forward_frames", self.stacks.__getitem__),
            ("category", Shared[int](number, lambda code: text(_viewer_name(code).encode())).__getitem__),
        )
        # fields of a shape, once one event of it is written: key, place in the row, how it is written
        self.shapes: dict[int, list[tuple[bytes, int, Callable[[int], bytes]]]] = {}
        sparse, events = columns.sparse, len(columns.events)
        self.sparse = (
            _spread(sparse.oom_event, sparse.oom_device_free, events),
            _spread(sparse.forward_event, sparse.forward_stack, events),
        )

    def pieces(self) -> Iterator[bytes]:
        """Everything between the beginning of the outermost dict and its end."""
        device, traces = self.columns.segments.device, self.columns.trace_device.tolist()
        yield from self._list("segments", map(self._segment, np.flatnonzero(device != HOST_DEVICE).tolist()))
        yield self.words["device_traces"] + b"]"
        for number in range(max(traces, default=ABSENT) + 1):
            yield b"("
            yield from self._trace(number)
            yield b"e"
        yield self.words["allocator_settings"] + plain(self.columns.settings)
        yield from self._list("external_annotations", map(self._annotation, range(len(self.columns.annotations))))
        if (device == HOST_DEVICE).any():
            yield from self._list("host_segments", map(self._segment, np.flatnonzero(device == HOST_DEVICE).tolist()))
        if HOST_DEVICE in traces:
            yield self.words["host_traces"]
            yield from self._trace(HOST_DEVICE)

    def _list(self, key: str, items: Iterable[bytes]) -> Iterator[bytes]:
        yield self.words[key] + b"]"
        yield from batches(items)

    def _dict(self, items: Iterable[bytes]) -> bytes:
        return b"}(" + b"".join(items) + b"u"

    # ------------------------------------------------------------ what is shared

    def _frames_of(self, stack: int) -> Iterator[bytes]:
        return map(self.frames.__getitem__, self.columns.stacks.of(stack).tolist())

    def _frame_items(self, frame: int) -> Iterator[bytes]:
        table = self.columns.frames
        yield from self._named("name", int(table.name[frame]))
        # what has no file name is no frame
        yield self.words["filename"]
        yield self.strings[int(table.filename[frame])]
        yield from self._integers([("line", int(table.line[frame]))])

    def _pool(self, pool: int) -> bytes:
        return b"".join(map(integer, self.columns.pools[pool].tolist())) + b"\x86"

    # ------------------------------------------------------------ keys and values, in turn

    def _integers(self, items: Iterable[tuple[str, int]]) -> Iterator[bytes]:
        for key, value in items:
            if value != ABSENT:
                yield self.words[key]
                yield integer(value)

    def _named(self, key: str, string: int) -> Iterator[bytes]:
        if string != ABSENT:
            yield self.words[key]
            yield self.strings[string]

    def _stacked(self, key: str, stack: int) -> Iterator[bytes]:
        if stack != ABSENT:
            yield self.words[key]
            yield self.stacks[stack]

    def _pooled(self, key: str, pool: int) -> Iterator[bytes]:
        if pool != ABSENT:
            yield self.words[key]
            yield self._pool(pool)

    # ------------------------------------------------------------ tables

    def _segment(self, segment: int) -> bytes:
        return self._dict(self._segment_items(segment))

    def _segment_items(self, segment: int) -> Iterator[bytes]:
        table = self.columns.segments
        yield self.words["device"]
        yield integer(int(table.device[segment]))
        yield from self._integers((key, int(getattr(table, key)[segment])) for key in _SEGMENT_INTEGERS)
        yield from self._named("segment_type", int(table.segment_type[segment]))
        yield from self._pooled("segment_pool_id", int(table.pool[segment]))
        if (flag := int(table.is_expandable[segment])) != ABSENT:
            yield self.words["is_expandable"]
            yield plain(bool(flag))
        yield from self._stacked("frames", int(table.stack[segment]))
        first, stop = table.block_offsets[segment : segment + 2].tolist()
        yield from self._list("blocks", map(self._block, range(first, stop)))

    def _block(self, block: int) -> bytes:
        return self._dict(self._block_items(block))

    def _block_items(self, block: int) -> Iterator[bytes]:
        table = self.columns.blocks
        yield from self._integers((key, int(getattr(table, key)[block])) for key in _BLOCK_INTEGERS)
        yield self.words["state"]
        yield self.words[BLOCK_STATES[int(table.state[block])]]
        yield from self._stacked("frames", int(table.stack[block]))

    def _annotation(self, annotation: int) -> bytes:
        return self._dict(self._annotation_items(annotation))

    def _annotation_items(self, annotation: int) -> Iterator[bytes]:
        table = self.columns.annotations
        yield from self._named("name", int(table.name[annotation]))
        yield self.words["stage"]
        yield self.words[STAGES[int(table.stage[annotation])]]
        yield from self._integers(
            [("device", int(table.device[annotation])), ("time_us", int(table.time_us[annotation]))]
        )

    def _trace(self, device: int) -> Iterator[bytes]:
        yield b"]"
        first, stop = self.columns.trace_range(device)
        for start in range(first, stop, _ROWS):
            yield from batches(self._events(start, min(start + _ROWS, stop)))

    def _events(self, start: int, stop: int) -> Iterator[bytes]:
        columns = [array[start:stop] for array in self._event_columns()]
        # which keys an event has, as a number: events of one shape differ in their values only
        shapes = sum((column != ABSENT).astype(np.int64) << bit for bit, column in enumerate(columns))
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for shape, row in zip(np.broadcast_to(shapes, stop - start).tolist(), rows, strict=True):
            fields = self.shapes.get(shape)
            if fields is None:
                yield self._first_of(shape, row)
            else:
                yield b"}(" + b"".join([part for key, at, write in fields for part in (key, write(row[at]))]) + b"u"

    def _first_of(self, shape: int, row: tuple[int, ...]) -> bytes:
        present = [(at, key, write) for at, (key, write) in enumerate(self.fields) if shape >> at & 1]
        event = (
            b"}(" + b"".join([part for at, key, write in present for part in (self.words[key], write(row[at]))]) + b"u"
        )
        # from now on every key of it is known
        self.shapes[shape] = [(self.words[key], at, write) for at, key, write in present]
        return event

    def _event_columns(self) -> list[npt.NDArray[np.integer]]:
        """One for each of ``fields``."""
        return [*(getattr(self.columns.events, key) for key in _EVENT_COLUMNS), *self.sparse, self.categories]


def _viewer_name(category: int) -> str:
    name = CATEGORIES[category]
    return VIEWER_NAMES.get(name, name)


def _spread(event: Int64, value: npt.NDArray[np.integer], count: int) -> Int64:
    """[E] a key that few events have."""
    out = np.full(count, ABSENT, np.int64)
    out[event] = value
    return out


_EVENT_COLUMNS = ("action", "addr", "size", "stream", "time_us", "stack", "pool", "user_metadata", "compile_context")
_SEGMENT_INTEGERS = ("address", "total_size", "allocated_size", "active_size", "requested_size", "stream")
_BLOCK_INTEGERS = ("address", "size", "requested_size")
