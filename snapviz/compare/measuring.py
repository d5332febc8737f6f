"""The figure that a budget is about, of one rank, and how far it can be trusted.

Legend: A allocations. Bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, INFERRED, MEASURES, Facts
from snapviz.analyze.growth import TIMES, find_growth
from snapviz.analyze.moments import At, moment
from snapviz.analyze.names import known_boundaries, named_boundaries
from snapviz.analyze.phases import end_of_run
from snapviz.analyze.stretches import Stretch, Stretches, exact_after
from snapviz.compare.spec import BudgetSpec

__all__ = ["Measured", "Meter"]

Certainty = Literal["exact", "at least", "not known"]


@dataclass(frozen=True)
class Measured:
    """A figure: exact, at least so much, or not known, for the reason in words."""

    count: int | None  # bytes; of one that is not known a guess, or none
    certainty: Certainty
    why: str = ""
    inferred: bool = False  # of a category: whether it rests on stacks, in part at least

    @property
    def at_least(self) -> bool:
        """Whether it may have been higher."""
        return self.certainty == "at least"


class Meter:
    """Takes the figures of one rank; its stretches are found once."""

    def __init__(self, name: str, facts: Facts) -> None:
        self.name = name
        self.facts = facts
        self.stretches = Stretches(facts)

    def measure(self, spec: BudgetSpec, by_stack: bool = False) -> Measured:
        """The figure of a budget; ``by_stack``: with the categories that stacks alone say."""
        if spec.figure == "dangling":
            return _dangling(self.facts)
        if spec.figure == "growth":
            return _growth(self.facts)
        if spec.phase is not None and not self.stretches.named(spec.phase):
            return Measured(None, "not known", f"{self.name} has no phase {spec.phase} there")
        if spec.category is not None:
            return self._category(spec, spec.category, by_stack)
        return self._of_run(spec) if spec.phase is None else self._of_phase(spec, self.stretches.named(spec.phase))

    def event(self, spec: BudgetSpec) -> int:
        """The event after which a peak or an end is what it is, as far as it is recorded."""
        replay = self.facts.replay
        if spec.phase is None:
            windows = [(0, len(replay))]
            last = end_of_run(self.facts)
        else:
            found = self.stretches.named(spec.phase)
            windows = [(one.first, one.stop) for one in found]
            last = max(one.stop for one in found) - 1
        if spec.figure == "end":
            return last
        # the first of the highest
        return max((replay.peak(spec.measure, *window) for window in windows), key=lambda peak: peak[0])[1]

    def _of_run(self, spec: BudgetSpec) -> Measured:
        replay, event = self.facts.replay, self.event(spec)
        count = int(getattr(replay.after(event), f"{spec.measure}_bytes"))
        if spec.figure == "end":
            return self._certain(count, exact_after(self.facts, event))
        if self.facts.truncated:
            return Measured(count, "at least")
        return self._certain(count, self.facts.exact)

    def _of_phase(self, spec: BudgetSpec, found: Sequence[Stretch]) -> Measured:
        column = MEASURES.index(spec.measure)
        if spec.figure == "end":
            last = max(found, key=lambda one: one.stop)
            # torch's counters have the other two only where the recorder asked for them
            counted = last.trust.counted and spec.measure in ("allocated", "reserved")
            sure = last.trust.exact or counted or exact_after(self.facts, last.stop - 1)
            return self._certain(int(last.end[column]), sure)
        count = max(int(one.peak[column]) for one in found)
        if any(spec.measure in one.trust.at_least for one in found):
            return Measured(count, "at least")
        return self._certain(count, all(one.trust.exact or one.trust.counted for one in found))

    def _category(self, spec: BudgetSpec, category: str, by_stack: bool) -> Measured:
        when = moment(self.facts, self.stretches, At(spec.phase, spec.figure == "peak"))
        assert when is not None
        table = self.facts.replay.allocations
        codes = self.facts.stack_category if by_stack else self.facts.category
        held = table.allocated_after(when.event) & (codes == CATEGORIES.index(category))
        count = int(table.block_bytes[held].sum())
        if not when.trust.whole:
            # a counter says how high the peak was, not what was live then
            return Measured(count, "not known", "the peak itself may not be in the recording")
        inferred = by_stack or bool((self.facts.evidence[held] == INFERRED).any())
        return replace(self._certain(count, when.trust.exact), inferred=inferred)

    def _certain(self, count: int, exact: bool) -> Measured:
        return Measured(count, "exact") if exact else Measured(count, "not known", _estimate(self.facts))


def _estimate(facts: Facts) -> str:
    """Why a figure is a guess: the first note is the reason, where there is one."""
    return f"its figure is an estimate: {facts.notes[0]}" if facts.notes else "its figure is an estimate"


def _dangling(facts: Facts) -> Measured:
    if not facts.dangling_known:
        return Measured(None, "not known", f"what dangles cannot be told: {facts.dangling_why}")
    count = sum(one.block_bytes for one in facts.dangling)
    found = np.array([one.allocation for one in facts.dangling], np.int64)
    guessed: npt.NDArray[np.bool_] = facts.replay.allocations.estimated[found]
    if guessed.any() or not facts.replay.consistent:
        return Measured(count, "not known", _estimate(facts))
    # what was named before the first event that is left may dangle as well
    lost = len(known_boundaries(facts)) < len(named_boundaries(facts))
    return Measured(count, "at least" if lost else "exact")


def _growth(facts: Facts) -> Measured:
    found = find_growth(facts)
    count = len(found.steps)
    if count < _FEWEST:
        are = "is" if count == 1 else "are"
        return Measured(None, "not known", f"it takes {_FEWEST} training steps to see growth, and there {are} {count}")
    if not found.certain[: found.judged].all():
        return Measured(found.rate_bytes, "not known", _estimate(facts))
    if any(one.way == "may grow" for one in found.groups):
        return Measured(found.rate_bytes, "not known", f"what may grow takes more than {count} steps to be told")
    return Measured(found.rate_bytes, "exact")


_FEWEST = TIMES + 1
"""Steps that show growth: those it takes, and the last, which cannot show any."""
