"""Memory over time as a trace for ui.perfetto.dev and chrome://tracing: phases, counters, and what went wrong.

Chrome's Trace Event Format (JSON): a process for each rank, slices as complete events ("X"), counters ("C"),
instants ("i"), overlapping slices as async ones ("b", "e"). Times are µs since ``origin_us`` (``otherData``),
which is µs since the Unix epoch: a double would lose part of them, and the file would be twice as large.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.scopes import find_scopes
from snapviz.analyze.select import curve_without
from snapviz.report.exports.tracks import LANES, Clock, Points, Slice, in_lanes, points_of
from snapviz.report.layout import clean
from snapviz.snapshot.columns import ABSENT, ACTIONS

__all__ = ["COUNTERS", "write_perfetto"]

Int64 = npt.NDArray[np.int64]
Event = dict[str, Any]

COUNTERS = ("allocated", "active", "reserved")
"""Measures that have a counter; dangling bytes have one where it is known what dangles."""

_COUNTERS, _PHASES, _ANNOTATIONS, _SEGMENTS, _OOM = 1, 2, 12, 21, 22
"""Threads: each kind of slice has ``LANES`` of them. Process and thread 0 are the idle task to Perfetto, so that both
are counted from 1, and rank 0 is process 1."""

_SEGMENT_ACTIONS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


def write_perfetto(found: Sequence[Facts], run: str, exporter: str, most: int, stream: IO[str]) -> None:
    """Writes one trace of all these ranks, no counter with more than ``most`` points (0: every change)."""
    clocks = [Clock.of(facts) for facts in found]
    # two ranks without times have nothing in common but their beginning
    real = [_begin(facts, clock) for facts, clock in zip(found, clocks, strict=True) if clock.real]
    origin = min(real, default=-1)
    about: dict[str, Any] = {
        "exporter": exporter,
        "run": clean(run),
        "origin_us": max(origin, 0),
        "notes": [f"rank {facts.rank}: {clean(note)}" for facts in found for note in facts.notes],
    }
    stream.write('{"displayTimeUnit": "ms", "traceEvents": [')
    divider = "\n"
    for facts, clock in zip(found, clocks, strict=True):
        for text in _Trace(facts, clock, origin if clock.real else -1, most, about["notes"]).events():
            stream.write(divider + text)
            divider = ",\n"
    stream.write(f'\n],\n"otherData": {json.dumps(about)}}}\n')


def _begin(facts: Facts, clock: Clock) -> int:
    """The first moment that anything in the trace has."""
    scopes = _scopes(facts, clock)
    starts: list[int] = facts.phases.start_us.tolist()
    return min(clock.before_us, *starts, *(scope.start_us for scope in scopes))


def _scopes(facts: Facts, clock: Clock) -> list[Slice]:
    """The annotations of the rank's device."""
    if not clock.real:
        return []
    scopes, _ = find_scopes(facts.columns, facts.replay.device, 0, int(clock.time_us[-1]))
    return [Slice(one.name, one.start_us, one.stop_us, {} if one.ended else {"ended": False}) for one in scopes]


class _Trace:
    """The events of one rank as JSON texts."""

    def __init__(self, facts: Facts, clock: Clock, origin: int, most: int, notes: list[str]) -> None:
        self.facts, self.clock, self.origin, self.most, self.notes = facts, clock, origin, most, notes
        self.pid = facts.rank + 1

    def events(self) -> Iterator[str]:
        """All of them; what could not be shown is added to the notes."""
        facts = self.facts
        yield from map(json.dumps, self._process())
        yield from map(json.dumps, self._slices("phases", _PHASES, self._phases()))
        yield from map(json.dumps, self._slices("annotations", _ANNOTATIONS, _scopes(facts, self.clock)))
        for name in COUNTERS:
            start = getattr(facts.replay.start, f"{name}_bytes")
            yield from self._counter(name, start, facts.replay.curve(name))
        if facts.dangling_known:
            start, without = curve_without(facts, facts.dangling_since)
            yield from self._counter("dangling", facts.replay.start.allocated_bytes - start, _minus(facts, without))
        yield from map(json.dumps, self._segments())
        yield from map(json.dumps, self._out_of_memory())

    def _event(self, kind: str, name: str, thread: int, time_us: int, **rest: Any) -> Event:
        return {
            "ph": kind,
            "name": clean(name),
            "pid": self.pid,
            "tid": thread,
            "ts": time_us - self.origin,
        } | rest

    def _meta(self, what: str, thread: int, **value: Any) -> Event:
        return {"ph": "M", "name": what, "pid": self.pid, "tid": thread, "args": value}

    def _process(self) -> Iterator[Event]:
        facts = self.facts
        yield self._meta("process_name", _COUNTERS, name=f"rank {facts.rank}")
        yield self._meta("process_sort_index", _COUNTERS, sort_index=facts.rank)
        unsure = [] if facts.exact else ["not exact"]
        unsure += ["begins in the middle"] if facts.truncated else []
        unsure += [] if self.clock.real else ["no times: 1 µs for each event"]
        if unsure:
            yield self._meta("process_labels", _COUNTERS, labels=", ".join(unsure))

    # ------------------------------------------------------------ slices

    def _phases(self) -> Iterator[Slice]:
        phases, names = self.facts.phases, (*COUNTERS, "requested")
        for index, name in enumerate(phases.names):
            about: dict[str, Any] = {"exact": bool(phases.exact[index])}
            for measure in names:
                column = MEASURES.index(measure)
                about[f"peak_{measure}_bytes"] = int(phases.peak[index, column])
                about[f"end_{measure}_bytes"] = int(phases.end[index, column])
            if phases.least[index].any():
                about["peak_may_have_been_higher"] = True
            start, stop = int(phases.start_us[index]), int(phases.stop_us[index])
            if not self.clock.real or phases.source == "none":
                start, stop = self._whole()
            yield Slice(name, start, max(start, stop), about)

    def _whole(self) -> tuple[int, int]:
        times = self.clock.time_us
        return (int(times[0]), int(times[-1])) if len(times) else (self.origin, self.origin)

    def _slices(self, track: str, thread: int, slices: Iterator[Slice] | list[Slice]) -> Iterator[Event]:
        named: set[int] = set()
        for number, (lane, one) in enumerate(in_lanes(slices)):
            at = thread + min(lane, LANES - 1)
            if at not in named:
                named.add(at)
                told = track if lane == 0 else f"{track} ({lane + 1})"
                yield self._meta("thread_name", at, name=told)
                yield self._meta("thread_sort_index", at, sort_index=at)
            if lane < LANES:
                yield self._event("X", one.name, at, one.start_us, dur=one.stop_us - one.start_us, args=one.about)
                continue
            more: Event = {"cat": track, "id": f"{self.facts.rank}.{thread}.{number}"}
            yield self._event("b", one.name, at, one.start_us, args=one.about, **more)
            yield self._event("e", one.name, at, one.stop_us, **more)

    # ------------------------------------------------------------ counters

    def _counter(self, name: str, start: int, curve: Int64) -> Iterator[str]:
        points = points_of(self.clock, start, curve, self.most)
        if len(points.value) < points.changes:
            self.notes.append(
                f"rank {self.facts.rank}: counter {name} has {len(points.value):,} of {points.changes:,} changes, "
                "its peak among them"
            )
        return self._samples(name, points)

    def _samples(self, name: str, points: Points) -> Iterator[str]:
        # there are millions of them, and nothing in them has to be escaped
        head = f'{{"ph": "C", "name": "{name}", "pid": {self.pid}, "tid": {_COUNTERS}, "ts": '
        for time_us, value in zip((points.time_us - self.origin).tolist(), points.value.tolist(), strict=True):
            yield f'{head}{time_us}, "args": {{"bytes": {value}}}}}'

    # ------------------------------------------------------------ instants

    def _segments(self) -> Iterator[Event]:
        some = self._of_action(*_SEGMENT_ACTIONS)
        trace = self.facts.columns.trace(self.facts.replay.device)
        if self.most and len(some) > self.most:
            self.notes.append(f"rank {self.facts.rank}: the {self.most:,} largest of {len(some):,} segment events")
            some = np.sort(some[np.argsort(-trace.size[some], kind="stable")[: self.most]])
        if len(some):
            yield self._meta("thread_name", _SEGMENTS, name="segments")
        for event in some.tolist():
            about = {"bytes": int(trace.size[event]), "address": hex(int(trace.addr[event])), "event": event}
            action = ACTIONS[int(trace.action[event])]
            yield self._event("i", action, _SEGMENTS, int(self.clock.time_us[event]), s="t", args=about)

    def _out_of_memory(self) -> Iterator[Event]:
        columns, device = self.facts.columns, self.facts.replay.device
        trace, (first, _) = columns.trace(device), columns.trace_range(device)
        free = dict(zip(columns.sparse.oom_event.tolist(), columns.sparse.oom_device_free.tolist(), strict=True))
        some = self._of_action("oom")
        if len(some):
            yield self._meta("thread_name", _OOM, name="out of memory")
        for event in some.tolist():
            about: Event = {"requested_bytes": int(trace.size[event]), "event": event}
            if (left := free.get(first + event, ABSENT)) != ABSENT:
                about["device_free_bytes"] = left
            about["stack"] = [clean(line) for line in self.facts.stack_lines(int(trace.stack[event]))]
            yield self._event("i", "out of memory", _OOM, int(self.clock.time_us[event]), s="p", args=about)

    def _of_action(self, *actions: str) -> Int64:
        trace = self.facts.columns.trace(self.facts.replay.device)
        return np.flatnonzero(np.isin(trace.action, [ACTIONS.index(one) for one in actions]))


def _minus(facts: Facts, without: Int64) -> Int64:
    dangling: Int64 = facts.replay.allocated_bytes - without
    return dangling
