"""Where slices and counters stand in a trace: slices that nest on one thread, counters with no more points than asked.

Legend: E events, N points, S slices. Times are µs of the clock that ``Clock`` chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.timeline import thinned

__all__ = ["LANES", "Clock", "Points", "Slice", "in_lanes", "points_of"]

Int64 = npt.NDArray[np.int64]

LANES = 8
"""Threads for slices that overlap without lying in each other; those that fit on none are told as async ones."""


@dataclass(frozen=True)
class Clock:
    """[E] a time for each event that never goes back; of events without times their number."""

    time_us: Int64
    real: bool

    @classmethod
    def of(cls, facts: Facts) -> Clock:
        """The clock of a rank's events."""
        replay = facts.replay
        if not len(replay) or not replay.has_times:
            return cls(np.arange(len(replay), dtype=np.int64), False)
        return cls(np.maximum.accumulate(replay.time_us), True)

    @property
    def before_us(self) -> int:
        """A moment before the first event."""
        return int(self.time_us[0]) - 1 if len(self.time_us) else 0


@dataclass(frozen=True)
class Slice:
    """Something that lasts, with what is known of it."""

    name: str
    start_us: int
    stop_us: int
    about: dict[str, Any]


@dataclass(frozen=True)
class Points:
    """A measure where it changes: N times and values, and how many changes there are in all."""

    time_us: Int64
    value: Int64
    changes: int


def points_of(clock: Clock, start: int, curve: Int64, most: int) -> Points:
    """The changes of a curve [E] that begins at ``start``; of more than ``most`` (0: no bound) a selection that has
    the first, lowest, highest and last of each stretch of time, and so the peak."""
    time_us = np.concatenate([[clock.before_us], clock.time_us]).astype(np.int64)
    value = np.concatenate([[start], curve]).astype(np.int64)
    changed = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
    time_us, value = time_us[changed], value[changed]
    if not most or len(value) <= most:
        return Points(time_us, value, len(changed))
    kept = thinned((time_us - time_us[0]).astype(np.float64), value, most)
    return Points(time_us[kept], value[kept], len(changed))


def in_lanes(slices: Iterable[Slice]) -> Iterator[tuple[int, Slice]]:
    """Each slice with the lane in which it lies in, or beside, those before it; ``LANES`` where it fits in none.

    The outer come before what they hold.
    """
    lanes: list[list[int]] = [[] for _ in range(LANES)]
    for one in sorted(slices, key=lambda s: (s.start_us, -s.stop_us)):
        yield _lane(lanes, one), one


def _lane(lanes: list[list[int]], one: Slice) -> int:
    for number, open_until in enumerate(lanes):
        while open_until and open_until[-1] <= one.start_us:
            open_until.pop()
        if not open_until or one.stop_us <= open_until[-1]:
            open_until.append(one.stop_us)
            return number
    return LANES
