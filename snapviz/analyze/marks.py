"""What stands beside the curves of a timeline: phases, annotations, and where memory ran out.

Legend: P phases, N marks. Places are of an ``Axis``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.axis import Axis, AxisKind
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.fragmentationpoints import device_free_at, oom_events
from snapviz.analyze.phases import fold
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.snapshot.columns import STAGES

__all__ = [
    "MOST_MARKS",
    "Mark",
    "PhaseWindow",
    "Span",
    "annotation_marks",
    "oom_marks",
    "phase_ends",
    "phase_spans",
    "phase_window",
]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

MOST_MARKS = 200
"""Marks of one kind in a picture; neighbours beyond that share one."""

_DEEPEST = 3
"""Levels of phases that are drawn."""

_AROUND = 20
"""One part in so many of a phase is shown before and after it."""

_LONGEST_NAME = 200
"""Bytes of an annotation's name."""

_ALLOCATED = MEASURES.index("allocated")


@dataclass(frozen=True)
class Span:
    """A phase along the axis, or ``count`` neighbours of one level that are too narrow to be told apart."""

    name: str
    low: float
    high: float
    level: int  # 0: outermost
    count: int
    peak_bytes: int  # allocated, of the highest


@dataclass(frozen=True)
class Mark:
    """A moment with a name, or ``count`` of them that are too near each other."""

    place: float
    event: int
    text: str
    count: int


def phase_spans(facts: Facts, axis: Axis, low: float, high: float, narrow: float) -> tuple[Span, ...]:
    """The phases that reach into a window, those narrower than ``narrow`` together with their neighbours."""
    phases = facts.phases
    if phases.source == "none":
        return ()
    starts, stops = phase_ends(facts, axis)
    inside = np.flatnonzero((starts < high) & (stops > low))
    known = set(phases.names)
    levels: dict[int, list[int]] = {}
    for index in inside.tolist():
        levels.setdefault(_level(phases.names[index], known), []).append(index)
    found = []
    for level, some in sorted(levels.items()):
        if level < _DEEPEST:
            found += list(_joined(facts, some, starts, stops, narrow, level))
    return tuple(found)


def phase_ends(facts: Facts, axis: Axis) -> tuple[Float64, Float64]:
    """[P] where each phase begins, and [P] where it ends."""
    phases = facts.phases
    first, stop = (phases.start_us, phases.stop_us) if axis.kind == "time" else (phases.first, phases.stop)
    return first.astype(np.float64) - axis.zero, stop.astype(np.float64) - axis.zero


def _level(name: str, known: set[str]) -> int:
    """How many phases of the rank this one lies below by name."""
    parts = name.split("/", _DEEPEST + 2)
    return sum("/".join(parts[:depth]) in known for depth in range(1, len(parts)))


def _joined(
    facts: Facts, some: list[int], starts: Float64, stops: Float64, narrow: float, level: int
) -> Iterator[Span]:
    """Phases of one level in order, runs of narrow ones as one."""
    together: list[int] = []
    some.sort(key=lambda index: (starts[index], stops[index]))
    for index in some:
        wide = stops[index] - starts[index] >= narrow
        apart = bool(together) and starts[index] - stops[together[-1]] >= narrow
        if together and (wide or apart):
            yield _span(facts, together, starts, stops, level)
            together = []
        if wide:
            yield _span(facts, [index], starts, stops, level)
        else:
            together.append(index)
    if together:
        yield _span(facts, together, starts, stops, level)


def _span(facts: Facts, some: list[int], starts: Float64, stops: Float64, level: int) -> Span:
    names = list(dict.fromkeys(facts.phases.names[index] for index in some))
    folded = dict.fromkeys(map(fold, names))
    name = names[0] if len(names) == 1 else next(iter(folded)) if len(folded) == 1 else "several phases"
    peak = int(facts.phases.peak[some, _ALLOCATED].max())
    return Span(name, float(starts[some].min()), float(stops[some].max()), level, len(some), peak)


@dataclass(frozen=True)
class PhaseWindow:
    """Where a phase lies on an axis whose zero is its start, with a little of what is around it."""

    align: str  # raw: of several of one folded name, that which peaks highest
    kind: AxisKind
    low: int
    high: int


def phase_window(sides: Sequence[Facts], phase: str, measure: str = "allocated") -> PhaseWindow | None:
    """The window that holds a phase, folded or not, of every side that has it; the first such names it. None where
    none does."""
    align, lengths = "", []
    kind: AxisKind = "time" if all(facts.replay.has_times for facts in sides) else "event"
    for facts in sides:
        found = Stretches(facts).named(align or phase)
        if found:
            highest = max(found, key=lambda one: facts.replay.peak(measure, one.first, one.stop)[0])
            align = align or highest.name
            lengths.append(_length(facts, highest, kind))
    around = max(1, max(lengths, default=0) // _AROUND)
    return PhaseWindow(align, kind, -around, max(lengths) + around) if lengths else None


def _length(facts: Facts, one: Stretch, kind: AxisKind) -> int:
    if kind == "event":
        return one.stop - one.first
    phases = facts.phases
    # what spans others may have no times of its own
    named = [i for i, name in enumerate(phases.names) if f"{name}/".startswith(f"{one.name}/")]
    return max(int(phases.stop_us[i]) for i in named) - min(int(phases.start_us[i]) for i in named)


# ------------------------------------------------------------------ moments


def annotation_marks(facts: Facts, axis: Axis, low: float, high: float) -> tuple[Mark, ...]:
    """The annotations of the file that begin in a window."""
    table, replay = facts.columns.annotations, facts.replay
    if not replay.has_times:
        return ()
    mine = (table.device == replay.device) | (table.device < 0)
    chosen = np.flatnonzero(mine & (table.stage == STAGES.index("START")) & (table.time_us >= 0))
    chosen = chosen[np.argsort(table.time_us[chosen], kind="stable")]
    times = table.time_us[chosen]
    events = np.searchsorted(replay.rising_us, times, "right") - 1
    places = times.astype(np.float64) - axis.zero if axis.kind == "time" else axis.places(events)
    names = facts.columns.strings
    return _thinned(places, events, (low, high), lambda at: names.text(int(table.name[chosen[at]]), _LONGEST_NAME))


def oom_marks(facts: Facts, axis: Axis, low: float, high: float) -> tuple[Mark, ...]:
    """Where the allocator gave up in a window: how much was asked for, and how much the device had."""
    events = oom_events(facts)
    sizes = facts.columns.trace(facts.replay.device).size

    def told(at: int) -> str:
        asked, free = int(sizes[events[at]]), device_free_at(facts, int(events[at]))
        had = "" if free is None else f", the device had {free:,} free"
        return (f"{asked:,} bytes asked for" if asked >= 0 else "no size is recorded") + had

    return _thinned(axis.places(events), events, (low, high), told)


def _thinned(
    places: Float64, events: Int64, window: tuple[float, float], told: Callable[[int], str]
) -> tuple[Mark, ...]:
    """The marks of a window, at most ``MOST_MARKS``: of those that are too near each other the first."""
    low, high = window
    inside = np.flatnonzero((places >= low) & (places < high))
    cell = np.floor((places[inside] - low) * (MOST_MARKS / max(high - low, 1)))
    _, first, count = np.unique(cell, return_index=True, return_counts=True)
    chosen = zip(inside[first].tolist(), count.tolist(), strict=True)
    return tuple(Mark(float(places[at]), int(events[at]), told(at), number) for at, number in chosen)
