"""The allocations of two moments grouped into rows that sum to the difference, to the byte.

Legend: n live allocations of one side, g groups. Sums are int64 throughout: never floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, INFERRED, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.phases import fold
from snapviz.compare.stacks import JointStacks
from snapviz.schema import DiffRow, Unchanged

__all__ = ["Basis", "Rows", "basis_of", "group_rows"]

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Basis:
    """What two ranks can be compared by: what only one of them knows would split equal rows."""

    names: bool  # both have records, or neither
    births: bool  # their phases come from the same kind of source


@dataclass(frozen=True)
class Rows:
    """Rows that changed, those that did not, and the totals they explain."""

    changed: tuple[DiffRow, ...]
    unchanged: Unchanged
    base_total: int
    head_total: int


def basis_of(base: Facts, head: Facts) -> Basis:
    """What these two ranks have in common."""
    return Basis(
        names=(base.record is None) == (head.record is None),
        births=base.phases.source == head.phases.source,
    )


@dataclass(frozen=True)
class _Side:
    """The live allocations of one side as the columns of a group key."""

    live: Int64  # [n] into the allocation table
    key: Int64  # [n, 5] owner, category, birth, dangling, stack: joint ids
    size: Int64  # [n] bytes
    evidence: Int8  # [n]
    stack: npt.NDArray[np.int32]  # [n] of this side


class _Texts:
    """Texts of both sides under one numbering."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {"": 0}

    def of(self, texts: tuple[str, ...], index: npt.NDArray[np.int32]) -> Int64:
        """[n] joint ids of ``texts[index]``; only texts that occur are numbered."""
        distinct, inverse = np.unique(index, return_inverse=True)
        joint = [self.ids.setdefault(texts[i], len(self.ids)) for i in distinct.tolist()]
        return np.array(joint, np.int64)[inverse.reshape(-1)]

    def texts(self) -> list[str]:
        return list(self.ids)


def group_rows(
    base: Facts, head: Facts, base_event: int | None, head_event: int | None, stacks: JointStacks, basis: Basis
) -> Rows:
    """Rows between base after one event and head after another; none stands for a side without it."""
    owners, births = _Texts(), _Texts()
    sides = [
        _side(facts, event, side, owners, births, stacks, basis)
        for side, (facts, event) in enumerate(((base, base_event), (head, head_event)))
    ]
    group, count = group_keys(list(np.concatenate([side.key for side in sides]).T))
    split = len(sides[0].size)
    parts = [group[:split], group[split:]]
    summed = [sums(part, side.size, count) for part, side in zip(parts, sides, strict=True)]
    changed = np.flatnonzero((summed[0][0] != summed[1][0]) | (summed[0][1] != summed[1][1]))
    build = _RowBuilder(sides, parts, owners.texts(), births.texts(), stacks)
    rows = [build.row(int(g), summed) for g in changed]
    totals = [int(side.size.sum()) for side in sides]
    same = int(summed[0][0].sum()) - int(summed[0][0][changed].sum())
    result = Rows(tuple(sorted(rows, key=_order)), Unchanged(rows=count - len(rows), total_bytes=same), *totals)
    assert totals[0] + sum(row.delta_bytes for row in rows) == totals[1]
    return result


def _side(
    facts: Facts, event: int | None, side: int, owners: _Texts, births: _Texts, stacks: JointStacks, basis: Basis
) -> _Side:
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(event)) if event is not None else np.zeros(0, np.int64)
    stack = table.stack[live]
    key = np.zeros((len(live), 5), np.int64)
    if basis.names:
        key[:, 0] = owners.of(facts.owners, facts.owner[live])
        key[:, 1] = facts.category[live]
        key[:, 3] = facts.dangling_since[live] <= (event if event is not None else -1)
    else:
        key[:, 1] = facts.stack_category[live]
    if basis.births:
        key[:, 2] = births.of(tuple(map(fold, facts.births)), facts.birth[live])
    key[:, 4] = stacks.ids(side, stack)
    evidence = facts.evidence[live] if basis.names else np.full(len(live), INFERRED, np.int8)
    return _Side(live, key, table.block_bytes[live], evidence, stack)


def _order(row: DiffRow) -> tuple[object, ...]:
    return (-abs(row.delta_bytes), row.owner, row.category, row.birth_phase, row.dangling, row.stack)


class _RowBuilder:
    """Makes the rows that are shown: only their stacks are turned into text."""

    def __init__(
        self, sides: list[_Side], groups: list[Int64], owners: list[str], births: list[str], stacks: JointStacks
    ) -> None:
        self._sides, self._owners, self._births, self._stacks = sides, owners, births, stacks
        self._members = [_Members(group, side.size) for group, side in zip(groups, sides, strict=True)]

    def row(self, group: int, summed: list[tuple[Int64, Int64]]) -> DiffRow:
        largest = [members.largest(group) for members in self._members]
        key = next(side.key[at] for side, at in zip(self._sides, largest, strict=True) if at is not None)
        shown = [(i, int(self._sides[i].stack[at])) for i, at in enumerate(largest) if at is not None]
        lines = dict(shown)
        weakest = max(
            int(side.evidence[members.of(group)].max(initial=0))
            for side, members in zip(self._sides, self._members, strict=True)
        )
        base_bytes, head_bytes = (int(total[group]) for total, _ in summed)
        base_count, head_count = (int(number[group]) for _, number in summed)
        return DiffRow(
            owner=self._owners[int(key[0])],
            category=CATEGORIES[int(key[1])],
            birth_phase=self._births[int(key[2])],
            dangling=bool(key[3]),
            evidence=EVIDENCE[weakest],
            stack=self._stacks.texts(*shown[0]),
            base_lines=self._stacks.lines(0, lines[0]) if 0 in lines else None,
            head_lines=self._stacks.lines(1, lines[1]) if 1 in lines else None,
            base_bytes=base_bytes,
            base_count=base_count,
            head_bytes=head_bytes,
            head_count=head_count,
            delta_bytes=head_bytes - base_bytes,
        )


class _Members:
    """Positions of each group's members, the largest first."""

    def __init__(self, group: Int64, size: Int64) -> None:
        # ties in the order of the table, which is that of the events
        self._order = np.lexsort((-size, group))
        self._sorted = group[self._order]

    def of(self, group: int) -> Int64:
        first, stop = np.searchsorted(self._sorted, [group, group + 1])
        return self._order[first:stop]

    def largest(self, group: int) -> int | None:
        members = self.of(group)
        return int(members[0]) if len(members) else None
