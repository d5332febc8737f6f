"""The allocations of two moments grouped into rows that sum to the difference, to the byte.

Legend: n live allocations of one side, g groups. Sums are int64 throughout: never floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import BEFORE, CATEGORIES, EVIDENCE, INFERRED, RECORDED, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.owners import normal_owner
from snapviz.analyze.phases import fold
from snapviz.compare.stacks import NO_STACK, JointStacks
from snapviz.schema import DiffRow, Unchanged

__all__ = ["Basis", "Rows", "basis_of", "group_rows", "has_names"]

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_OWNER, _CATEGORY, _BIRTH, _DANGLING, _STACK = range(5)
"""Columns of a group key."""

_SEVERAL = 0
"""Joint id of "", which is no birth's name."""


@dataclass(frozen=True)
class Basis:
    """What two ranks can be compared by: what only one of them knows would split equal rows."""

    names: bool  # names were placed on both, or on neither
    births: bool  # their phases come from the same kind of source
    history: bool  # both begin at the first allocation: else what a guess owes to events the other may lack
    dangling: tuple[bool, bool]  # whether base, and head, can tell what dangles


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
        names=has_names(base) == has_names(head),
        births=base.phases.source == head.phases.source,
        history=not (base.truncated or head.truncated),
        dangling=(base.dangling_known, head.dangling_known),
    )


def has_names(facts: Facts) -> bool:
    """Whether any recorded name found its allocation: a record alone need not hold any."""
    return bool((facts.evidence == RECORDED).any())


@dataclass(frozen=True)
class _Side:
    """The live allocations of one side as the columns of a group key."""

    live: Int64  # [n] into the allocation table
    key: Int64  # [n, 5] joint ids, in the order of _OWNER and so on
    size: Int64  # [n] bytes
    evidence: Int8  # [n]
    stack: npt.NDArray[np.int32]  # [n] of this side


class _Texts:
    """Texts of both sides under one numbering."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {"": 0}

    def of(self, texts: tuple[str, ...], index: npt.NDArray[np.int32], normal: Callable[[str], str]) -> Int64:
        """[n] joint ids of ``normal(texts[index])``; only texts that occur are numbered."""
        distinct, inverse = np.unique(index, return_inverse=True)
        joint = [self.ids.setdefault(normal(texts[i]), len(self.ids)) for i in distinct.tolist()]
        return np.array(joint, np.int64)[inverse.reshape(-1)]

    def texts(self) -> list[str]:
        return list(self.ids)


def group_rows(base: Facts, head: Facts, base_event: int, head_event: int, stacks: JointStacks, basis: Basis) -> Rows:
    """Rows between base after one event and head after another."""
    owners, births = _Texts(), _Texts()
    sides = [
        _side(facts, event, side, owners, births, stacks, basis)
        for side, (facts, event) in enumerate(((base, base_event), (head, head_event)))
    ]
    split = len(sides[0].size)
    key = np.concatenate([side.key for side in sides])
    _join_dangling(key, np.arange(len(key)) >= split, basis)
    _join_births(key, births.ids.get(BEFORE))
    sides = [replace(side, key=part) for side, part in zip(sides, np.split(key, [split]), strict=True)]
    group, count = group_keys(list(key.T))
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


def _join_dangling(key: Int64, of_head: Bool, basis: Basis) -> None:
    """What a side cannot tell does not split a row: its members go with the other's dangling ones."""
    if basis.dangling[0] == basis.dangling[1]:
        return
    group, count = group_keys([key[:, _OWNER], key[:, _CATEGORY], key[:, _STACK]])
    cannot_tell = of_head if basis.dangling[0] else ~of_head
    dangling, unknown = np.zeros(count, bool), np.zeros(count, bool)
    dangling[group[key[:, _DANGLING] == 1]] = True
    unknown[group[cannot_tell]] = True
    key[(dangling & unknown)[group], _DANGLING] = 1


def _join_births(key: Int64, before: int | None) -> None:
    """``BEFORE`` means "not known": where it is among the births of what is otherwise one row, the row is
    not split by birth. It has the one birth that is known, "" where there are several."""
    if before is None:
        return
    group, count = group_keys([key[:, _OWNER], key[:, _CATEGORY], key[:, _DANGLING], key[:, _STACK]])
    birth = key[:, _BIRTH]
    known = birth != before
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(lowest, group[known], birth[known])
    np.maximum.at(highest, group[known], birth[known])
    one = np.where(highest < 0, before, np.where(lowest == highest, highest, _SEVERAL))
    joined = np.zeros(count, bool)
    joined[group[~known]] = True
    key[:, _BIRTH] = np.where(joined[group], one[group], birth)


def _side(
    facts: Facts, event: int, side: int, owners: _Texts, births: _Texts, stacks: JointStacks, basis: Basis
) -> _Side:
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(event))
    stack = table.stack[live]
    key = np.zeros((len(live), 5), np.int64)
    if basis.names:
        by_history = _owes_to_history(facts, live, basis)
        owner = np.where(by_history, 0, facts.owner[live]).astype(np.int32)
        key[:, _OWNER] = owners.of(facts.owners, owner, normal_owner)
        key[:, _CATEGORY] = np.where(by_history, facts.stack_category[live], facts.category[live])
        key[:, _DANGLING] = facts.dangling_since[live] <= event
    else:
        key[:, _CATEGORY] = facts.stack_category[live]
    if basis.births:
        key[:, _BIRTH] = births.of(facts.births, facts.birth[live], fold)
    evidence = facts.evidence[live] if basis.names else np.full(len(live), INFERRED, np.int8)
    # what a record names is the same thing wherever it was made: only the unnamed are told by their stack
    key[:, _STACK] = np.where(evidence == RECORDED, NO_STACK, stacks.ids(side, stack))
    return _Side(live, key, table.block_bytes[live], evidence, stack)


def _owes_to_history(facts: Facts, live: Int64, basis: Basis) -> Bool:
    """[n] categories that are guessed from events the other side may not have seen."""
    guessed: Bool = (facts.evidence[live] == INFERRED) & (facts.category[live] != facts.stack_category[live])
    return guessed & (not basis.history)


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
            owner=self._owners[int(key[_OWNER])],
            category=CATEGORIES[int(key[_CATEGORY])],
            birth_phase=self._births[int(key[_BIRTH])],
            dangling=bool(key[_DANGLING]),
            evidence=EVIDENCE[weakest],
            stack=self._stacks.texts(*shown[-1]),
            base_lines=self._stacks.lines(0, lines[0]) if 0 in lines and self._is_one(lines) else None,
            head_lines=self._stacks.lines(1, lines[1]) if 1 in lines else None,
            base_bytes=base_bytes,
            base_count=base_count,
            head_bytes=head_bytes,
            head_count=head_count,
            delta_bytes=head_bytes - base_bytes,
        )

    def _is_one(self, stacks: dict[int, int]) -> bool:
        """Whether the stacks of the sides, by side, are the same: under a name they may differ."""
        ids = {int(self._stacks.ids(side, np.array([stack], np.int32))[0]) for side, stack in stacks.items()}
        return len(ids) == 1


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
