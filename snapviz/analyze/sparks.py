"""The shape of a phase in a few columns: what is lowest and highest in each, every event counted.

Legend: E events, C columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.bands import columns_of
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.replay.model import Replay

__all__ = ["Spark", "spark_of", "sparks"]

Int64 = npt.NDArray[np.int64]

COLUMNS = 48
"""Of one drawing: it is about twice as many pixels wide."""


@dataclass(frozen=True)
class Spark:
    """A measure over one stretch of events."""

    phase: str  # raw: of several of one folded name, that with the highest peak
    events: int
    low: Int64  # [C] lowest in each column; the first is what is held just before the first event
    high: Int64  # [C] highest

    def data(self) -> list[object]:
        """As JSON has it."""
        return [self.phase, self.events, self.low.tolist(), self.high.tolist()]

    @classmethod
    def of(cls, data: Sequence[Any]) -> Spark:
        """From ``data``."""
        phase, events, *both = data
        low, high = (np.array(one, np.int64) for one in both)
        return cls(phase, events, low, high)

    @property
    def low_bytes(self) -> int:
        """The lowest of all."""
        return int(self.low.min())

    @property
    def high_bytes(self) -> int:
        """The highest of all: what the phase peaked at, as far as it is recorded."""
        return int(self.high.max())


def sparks(facts: Facts, names: Iterable[str], measure: str = "allocated", most: int = COLUMNS) -> dict[str, Spark]:
    """Phase, folded or not → its shape; one that the rank does not have is left out."""
    stretches, column = Stretches(facts), MEASURES.index(measure)
    found = {}
    for name in names:
        some = stretches.named(name)
        if some:
            highest: Stretch = max(some, key=lambda one: int(one.peak[column]))
            found[name] = spark_of(facts.replay, highest.first, highest.stop, measure, most, phase=highest.name)
    return found


def spark_of(
    replay: Replay, first: int, stop: int, measure: str = "allocated", most: int = COLUMNS, *, phase: str = ""
) -> Spark:
    """The shape of events ``first`` to ``stop``, and of what is held just before them."""
    before = int(getattr(replay.after(first - 1), f"{measure}_bytes"))
    columns = columns_of(replay, first, stop, most)
    if len(columns) == 0:
        level = np.full(1, before, np.int64)
        return Spark(phase, 0, level, level)
    part, begins = replay.curve(measure)[first:stop], columns.first - first
    low, high = np.minimum.reduceat(part, begins), np.maximum.reduceat(part, begins)
    return Spark(phase, stop - first, np.append(before, low), np.append(before, high))
