"""From base to head in steps by category, of rows that are finished: every step a signed sum, none left out.

What dangles is one step, whatever its category. Rows of one category are summed, so that memory which only
moved from one stack to another cancels, and is named as moved. Steps come in order of size, and the small
ones are folded into "other", which is last:

- a step is small where it is less than 1/100 of all steps together (each without its sign), or where
  seven larger ones stand before it;
- what dangles is never small, and one small step alone keeps its name;
- small ones that sum to nothing are no step;
- rows below a threshold, of which nobody knows the categories any more, are in it always.

The rows have to know their categories: those that are grouped by something else do not.
Nothing in this depends on which run is base: swapped, every step has the other sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from snapviz.schema import (
    BELOW,
    DANGLING,
    OTHER,
    DiffRow,
    FoldedRows,
    Point,
    RankPoint,
    Waterfall,
    WaterfallStep,
)

__all__ = ["waterfall_of", "waterfalls"]

_NAMED = 7
"""Steps that have a name of their own: as many as a figure can show beside each other."""

_SMALL = 100
"""A step less than one part in this many of all of them is small."""

_EVIDENCE: tuple[Literal["recorded", "annotated", "inferred"], ...] = ("recorded", "annotated", "inferred")


@dataclass(frozen=True)
class _Sum:
    """Rows of one category, or of several."""

    categories: tuple[str, ...]
    delta: int
    base_count: int
    head_count: int
    evidence: Literal["recorded", "annotated", "inferred"]

    @property
    def what(self) -> str:
        return self.categories[0]


def waterfalls(points: Iterable[Point]) -> tuple[Waterfall, ...]:
    """Of every point and rank that can be compared, in their order."""
    found = (waterfall_of(rank, point.at) for point in points for rank in point.ranks)
    return tuple(one for one in found if one is not None)


def waterfall_of(rank: RankPoint, at: str) -> Waterfall | None:
    """The steps of one rank; none where it has no total on both sides, or other stretches by one name."""
    base, head = rank.base_moment, rank.head_moment
    if not rank.comparable or rank.base_total_bytes is None or rank.head_total_bytes is None:
        return None
    sums = _by_category(rank.rows)
    steps = _named([one for one in sums if one.delta], rank.folded)
    return Waterfall(
        at=at,
        rank=rank.rank,
        base_phase=base.phase if base else None,
        head_phase=head.phase if head else None,
        whole=all(when is None or when.trust.whole for when in (base, head)),
        from_bytes=rank.base_total_bytes,
        to_bytes=rank.head_total_bytes,
        steps=_steps(steps, rank.base_total_bytes, rank.head_total_bytes),
        moved=tuple(one.what for one in sums if not one.delta),
    )


def _by_category(rows: Sequence[DiffRow]) -> list[_Sum]:
    found: dict[str, list[DiffRow]] = {}
    for row in rows:
        # a report of all there is has rows that did not change too
        if (row.base_bytes, row.base_count) != (row.head_bytes, row.head_count):
            found.setdefault(DANGLING if row.dangling else row.category, []).append(row)
    sums = [_sum(what, some) for what, some in found.items()]
    return sorted(sums, key=lambda one: (-abs(one.delta), one.what))


def _sum(what: str, rows: Sequence[DiffRow]) -> _Sum:
    return _Sum(
        categories=(what,),
        delta=sum(row.delta_bytes for row in rows),
        base_count=sum(row.base_count for row in rows),
        head_count=sum(row.head_count for row in rows),
        evidence=max((row.evidence for row in rows), key=_EVIDENCE.index),
    )


def _named(sums: Sequence[_Sum], below: FoldedRows | None) -> list[tuple[str, _Sum]]:
    """The steps under their names, what is small in one."""
    total = sum(abs(one.delta) for one in sums) + abs(below.delta_bytes if below else 0)
    small = [
        one
        for place, one in enumerate(sums)
        if one.what != DANGLING and (place >= _NAMED or abs(one.delta) * _SMALL < total)
    ]
    if len(small) + (below is not None) < 2:
        small = []
    steps = [(one.what, one) for one in sums if one not in small]
    if below is not None:
        counts = (below.delta_bytes, below.base_count, below.head_count)
        small.append(_Sum((BELOW,), *counts, evidence=_EVIDENCE[-1]))
    other = _together(small) if small else None
    return [*steps, (OTHER, other)] if other is not None and other.delta else steps


def _together(sums: Sequence[_Sum]) -> _Sum:
    return _Sum(
        categories=tuple(one.what for one in sums),
        delta=sum(one.delta for one in sums),
        base_count=sum(one.base_count for one in sums),
        head_count=sum(one.head_count for one in sums),
        evidence=max((one.evidence for one in sums), key=_EVIDENCE.index),
    )


def _steps(named: Sequence[tuple[str, _Sum]], base: int, head: int) -> tuple[WaterfallStep, ...]:
    steps, level = [], base
    for what, one in named:
        steps.append(
            WaterfallStep(
                what=what,
                categories=one.categories,
                delta_bytes=one.delta,
                from_bytes=level,
                to_bytes=level + one.delta,
                base_count=one.base_count,
                head_count=one.head_count,
                evidence=one.evidence,
            )
        )
        level += one.delta
    assert level == head
    return tuple(steps)
