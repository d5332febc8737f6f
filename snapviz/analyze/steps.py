"""The steps of a rank: its phases ``…/stepN``, one after the other.

Legend: E events, P phases, S steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts, Phases
from snapviz.analyze.phases import end_of_run
from snapviz.schema import is_training

__all__ = ["Steps", "find_steps"]

Int64 = npt.NDArray[np.int64]

_KINDS = ("step", "iteration", "iter", "batch", "epoch")
"""Of two that nest, the earlier is the step: a step may have batches, and an epoch has steps."""
_STEP = re.compile(rf"({'|'.join(_KINDS)})[-_ ]?\d{{1,18}}")
_NUMBER = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class Steps:
    """S steps in order of their start. A step lasts until the next one begins, the last until the run is over.

    What runs between two of them, such as an evaluation, so belongs to the one before it.
    """

    names: tuple[str, ...]  # raw names of the phases
    phase: Int64  # [S] index into the phases
    first: Int64  # [S] first event
    over: int  # the event after which the run is over

    def __len__(self) -> int:
        return len(self.names)

    @property
    def last(self) -> Int64:
        """[S] the last event before the next one begins."""
        return np.append(self.first[1:] - 1, self.over)[: len(self.names)]

    def of(self, events: Int64) -> Int64:
        """The step in which each event is; -1 before the first."""
        return np.searchsorted(self.first, events, side="right").astype(np.int64) - 1


def find_steps(facts: Facts) -> Steps:
    """The steps of training; without any, those of whatever else the phases number most often."""
    # without an event nothing is known of any of them
    chosen = _outermost(facts.phases, _family(facts.phases)) if len(facts.replay) else []
    over = _over(facts, int(facts.phases.stop[chosen[-1]]) - 1) if chosen else end_of_run(facts)
    return Steps(
        names=tuple(facts.phases.names[i] for i in chosen),
        phase=np.array(chosen, np.int64),
        first=facts.phases.first[chosen].astype(np.int64),
        over=over,
    )


def _over(facts: Facts, last: int) -> int:
    """The event after which nothing counts: the last step's, where the run holds no more when it is over.

    What a program lets go of as it ends says nothing of how long it would have been kept.
    """
    end = end_of_run(facts)
    held, in_the_end = (facts.replay.after(event).allocated_bytes for event in (last, end))
    return last if in_the_end <= held else end


def _family(phases: Phases) -> list[int]:
    """Indices of the phases that are steps of one kind: of one name but for its numbers."""
    families: dict[str, list[int]] = {}
    kinds: dict[str, int] = {}
    for index, name in enumerate(phases.names):
        if match := _STEP.fullmatch(name.rpartition("/")[2]):
            family = _NUMBER.sub("#", name)
            families.setdefault(family, []).append(index)
            kinds.setdefault(family, _KINDS.index(match[1]))
    if not families:
        return []
    best = max(families, key=lambda name: (is_training(name), -kinds[name], len(families[name]), -name.count("/")))
    return families[best]


def _outermost(phases: Phases, indices: list[int]) -> list[int]:
    """In order of their start, without those that lie inside another.

    By times: one without an event lies nowhere among the events, and two that follow each other can share those
    of a microsecond.
    """
    kept: list[int] = []
    stop = -1
    for index in sorted(indices, key=lambda i: (int(phases.start_us[i]), -int(phases.stop_us[i]))):
        if phases.stop_us[index] > stop:
            kept.append(index)
            stop = int(phases.stop_us[index])
    return kept
