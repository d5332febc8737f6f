"""One rank in both runs: its rows at a point, its phases, its figures, and what dangles in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.describe import dangling_of, suspects_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.moments import At, moment
from snapviz.analyze.owners import normal_owner
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.compare.ends import ends_with_training
from snapviz.compare.figures import (
    bytes_at,
    end_of,
    joint_trust,
    measure_delta,
    minus,
    peak_and_end,
    peak_of,
    trust_of,
    without,
)
from snapviz.compare.keys import basis_of, has_names
from snapviz.compare.rows import group_rows, members_of
from snapviz.compare.stacks import JointStacks
from snapviz.compare.training import before_training
from snapviz.compare.view import View, view_of
from snapviz.schema import Dangling, DiffRow, Moment, PhaseDelta, RankDelta, RankPoint, Suspect, Unchanged, Without

__all__ = ["RankDiff", "Side"]

Side = Literal["base", "head"]

Int64 = npt.NDArray[np.int64]


class RankDiff:
    """One aligned rank."""

    def __init__(self, number: int, base: Facts, head: Facts, view: View | None = None) -> None:
        self.number, self.base, self.head = number, base, head
        self.view = view or view_of()
        self.stacks = JointStacks(base.frames, head.frames, self.view.masks)
        self.basis = basis_of(base, head)
        self.names = has_names(base), has_names(head)
        self.stretches = Stretches(base), Stretches(head)

    def sides(self) -> tuple[tuple[Side, Facts], tuple[Side, Facts]]:
        """Both sides with their names, base first."""
        return ("base", self.base), ("head", self.head)

    def moments(self, at: At) -> tuple[Moment | None, Moment | None]:
        """When a point is in base and in head; none on a side without it."""
        base, head = self.stretches
        measure = self.view.options.measure
        return moment(self.base, base, at, measure), moment(self.head, head, at, measure)

    def _is_one_moment(self, at: At) -> bool:
        """Whether a point is the same moment in both: phases of other sources, and ends of other things, are not."""
        if at.phase is not None:
            return self.basis.births
        return at.peak or ends_with_training(self.base, self.head) is None

    def point(self, at: At, view: View | None = None) -> RankPoint:
        """The rows at a point, where both sides have it; of another view than its own where that is given."""
        base, head = self.moments(at)
        rows, measure = None, self.view.options.measure
        if base is not None and head is not None:
            moments = (self.base, base.event), (self.head, head.event)
            rows = group_rows(moments, self.stacks, self.basis, view or self.view)
        before = self._before_training(base, head) if rows else None
        return RankPoint(
            rank=self.number,
            base_moment=base,
            head_moment=head,
            comparable=rows is not None and self._is_one_moment(at),
            base_total_bytes=bytes_at(self.base, base, measure),
            head_total_bytes=bytes_at(self.head, head, measure),
            delta_bytes=rows.head_total - rows.base_total if rows else None,
            rows=rows.listed if rows else (),
            unchanged=rows.unchanged if rows else Unchanged(rows=0, total_bytes=0),
            before_training_bytes=before,
            training_bytes=rows.head_total - rows.base_total - before if rows and before is not None else None,
            base_without=self._without(0, at, base),
            head_without=self._without(1, at, head),
        )

    def members(self, at: At, rows: Sequence[DiffRow]) -> tuple[Int64, Int64]:
        """The allocations that some rows at a point sum together, in base and in head, by their place in the tables;
        none where the point has no such rows."""
        base, head = self.moments(at)
        if base is None or head is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        moments = (self.base, base.event), (self.head, head.event)
        return members_of(moments, self.stacks, self.basis, self.view, rows)

    def _without(self, side: int, at: At, when: Moment | None) -> Without | None:
        if self.view.options.measure != "allocated":
            return None
        return without((self.base, self.head)[side], self.stretches[side], at, when)

    def _before_training(self, base: Moment | None, head: Moment | None) -> int | None:
        """How much more head holds than base of what is older than its first training step."""
        if base is None or head is None:
            return None
        measure = self.view.options.measure
        one, other = before_training(self.base, base.event, measure), before_training(self.head, head.event, measure)
        return other - one if one is not None and other is not None else None

    def phases(self) -> list[PhaseDelta]:
        """Every phase of either side, in order of head's."""
        base, head = (side.folded for side in self.stretches)
        return [self._phase(name, base.get(name), head.get(name)) for name in dict.fromkeys((*head, *base))]

    def _phase(self, name: str, base: Sequence[Stretch] | None, head: Sequence[Stretch] | None) -> PhaseDelta:
        base_peak, base_end = peak_and_end(base)
        head_peak, head_end = peak_and_end(head)
        apart = not self.basis.births and base is not None and head is not None
        sources = f"{self.base.phases.source} in base, {self.head.phases.source} in head"
        return PhaseDelta(
            rank=self.number,
            phase=name,
            spans=all(one.spans for one in (*(base or ()), *(head or ()))),
            comparable=not apart,
            note=f"phases come from another source on each side: {sources}" if apart else "",
            base_trust=joint_trust(base),
            head_trust=joint_trust(head),
            base_peak=base_peak,
            base_end=base_end,
            head_peak=head_peak,
            head_end=head_end,
            peak_delta=minus(head_peak, base_peak),
            end_delta=minus(head_end, base_end),
        )

    def whole(self) -> RankDelta:
        """The rank as a whole."""
        return RankDelta(
            rank=self.number,
            base=trust_of(self.base),
            head=trust_of(self.head),
            peak=measure_delta(*(peak_of(facts) for _, facts in self.sides())),
            end=measure_delta(*(end_of(facts) for _, facts in self.sides())),
        )

    def dangling(self) -> list[Dangling]:
        """What dangles on either side, under the names that rows have."""
        found = [d for side, facts in self.sides() for d in dangling_of(facts, side, self.number)]
        return [
            d.model_copy(update={"name": self._name(d.name), "names": tuple(map(self._name, d.names))}) for d in found
        ]

    def _name(self, name: str) -> str:
        return self.view.masks.name(normal_owner(name))

    def suspects(self) -> list[Suspect]:
        """What may dangle on either side."""
        return [s for side, facts in self.sides() for s in suspects_of(facts, side, self.number)]
