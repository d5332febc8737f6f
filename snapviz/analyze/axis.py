"""The axis that a timeline is drawn along, and columns of equal width on it.

Legend: E events, C columns.

A place on the axis is a whole number, of µs or of events, since a zero that two runs can share: their beginnings, or
the start of a phase. What is held after an event lasts from its place to the next one's. ``START``, what was held
before the first, is given one unit before it, and the last event one after it, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.bands import Columns, columns_between, values_after
from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import fold
from snapviz.replay.model import START, Replay

__all__ = ["Axis", "AxisKind", "Window", "axis_of", "start_of"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

AxisKind = Literal["time", "event"]

_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Window:
    """A stretch of the axis that one run has something in, as C columns of it."""

    low: int
    high: int
    edges: tuple[int, ...]  # C + 1 places, rising
    columns: Columns
    peak_event: int  # of the most that is allocated in it; START where it has no columns

    def column_at(self, place: float) -> int:
        """The column that a place lies in; the nearest where it lies in none. There must be one."""
        at = int(np.searchsorted(np.array(self.edges, np.float64), place, "right")) - 1
        return min(max(at, 0), len(self.columns) - 1)


@dataclass(frozen=True)
class Axis:
    """One rank along an axis."""

    kind: AxisKind
    replay: Replay
    zero: int  # µs since the epoch, or an event

    @property
    def low(self) -> int:
        """Where what was held before the first event begins."""
        return self._first - 1 - self.zero

    @property
    def high(self) -> int:
        """Where what is held after the last event ends."""
        if not len(self.replay):
            return self.low + 1
        last = int(self.replay.rising_us[-1]) if self.kind == "time" else len(self.replay) - 1
        return last + 1 - self.zero

    @property
    def _first(self) -> int:
        timed = self.kind == "time" and len(self.replay) > 0
        return int(self.replay.rising_us[0]) if timed else 0

    def places(self, events: Int64) -> Float64:
        """Where some events are, ``START`` among them."""
        if self.kind == "event" or not len(self.replay):
            return events.astype(np.float64) - self.zero
        # as floats: a hostile file has times whose difference no int64 holds
        found = self.replay.rising_us[np.maximum(events, 0)].astype(np.float64) - self.zero
        return np.where(events < 0, float(self.low), found)

    def place(self, event: int) -> float:
        """Where one event is."""
        return float(self.places(np.array([event], np.int64))[0])

    def event_at(self, place: float) -> int:
        """The event that is shown at a place: the last that is not beyond it, ``START`` before the first."""
        at = max(-_LARGEST, min(int(np.floor(place)) + self.zero, _LARGEST))
        if self.kind == "event":
            return max(START, min(at, len(self.replay) - 1))
        return int(np.searchsorted(self.replay.rising_us, at, "right")) - 1

    def window(self, low: int, high: int, most: int) -> Window:
        """What lies between two places in at most ``most`` columns of equal width; none where nothing does.

        What is held when the window begins is in it, if it lasts longer than up to there.
        """
        low, high = max(low, self.low), min(high, self.high)
        count = min(most, high - low) if len(self.replay) else 0
        if count <= 0:
            nothing = columns_between(self.replay, np.zeros(1, np.int64), np.zeros(0, bool))
            return Window(low, low, (low,), nothing, START)
        edges = [low + (high - low) * k // count for k in range(count + 1)]
        first = self._first_from(edges)
        # an edge lies before the end, so that there is an event at or after it
        lasts = self.places(first[:-1]) > np.array(edges[:-1], np.float64)
        columns = columns_between(self.replay, first, lasts)
        held = values_after(self.replay, "allocated", columns.shown)
        return Window(low, high, tuple(edges), columns, int(columns.shown[np.argmax(held)]))

    def _first_from(self, edges: Sequence[int]) -> Int64:
        """[C + 1] the first event at or after each edge, E where none is."""
        places = np.array([max(-_LARGEST, min(edge + self.zero, _LARGEST)) for edge in edges], np.int64)
        if self.kind == "event":
            return np.clip(places, 0, len(self.replay))
        found = np.searchsorted(self.replay.rising_us, places, "left")
        # one unit after the last event that an int64 can hold
        found[[edge + self.zero > _LARGEST for edge in edges]] = len(self.replay)
        return found


def axis_of(facts: Facts, kind: AxisKind, align: str = "") -> Axis:
    """One rank along an axis whose zero is the start of the first phase of a name, folded or not; else its first event.

    Events of torch before 2.2 carry no times: what asks for ``time`` has to look at ``Replay.has_times`` first.
    """
    own = Axis(kind, facts.replay, 0)
    found = start_of(facts, kind, align) if align else None
    return Axis(kind, facts.replay, own.low + 1 if found is None else found)


def start_of(facts: Facts, kind: AxisKind, phase: str) -> int | None:
    """Where the first phase of a name begins, in µs since the epoch or as an event; none where there is none."""
    phases = facts.phases
    starts = phases.start_us if kind == "time" else phases.first
    named = [i for i, name in enumerate(phases.names) if name == phase]
    named = named or [i for i, name in enumerate(phases.names) if fold(name) == phase or name.startswith(f"{phase}/")]
    return min((int(starts[i]) for i in named), default=None)
