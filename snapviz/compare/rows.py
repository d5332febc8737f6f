"""The allocations of two moments grouped into rows that sum to the difference, to the byte.

Legend: n held allocations of one side, g groups. Sums are int64 throughout: never floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import EVIDENCE, Facts
from snapviz.analyze.groups import sums
from snapviz.compare.held import held
from snapviz.compare.keys import (
    BIRTH,
    CATEGORY,
    CATEGORY_NAMES,
    DANGLING,
    MODULE,
    OWNER,
    WHERE,
    Basis,
    Held,
    Keys,
    joint_keys,
)
from snapviz.compare.order import in_order
from snapviz.compare.stacks import JointStacks
from snapviz.compare.view import View
from snapviz.schema import DiffRow, Unchanged

__all__ = ["Rows", "group_rows", "members_of"]

Int64 = npt.NDArray[np.int64]

_WHOLE = (None, "stack")
"""Groupings whose rows have the stack of their largest allocation; others only one that is all of theirs."""


@dataclass(frozen=True)
class Rows:
    """Rows that are listed, those that are only counted, and the totals they explain."""

    listed: tuple[DiffRow, ...]
    unchanged: Unchanged
    base_total: int
    head_total: int


_Moments = tuple[tuple[Facts, int], tuple[Facts, int]]
"""Of base and of head: the facts, and the event after which it is."""


def group_rows(moments: _Moments, stacks: JointStacks, basis: Basis, view: View) -> Rows:
    """Rows between base after one event and head after another."""
    table, build = _grouped(moments, stacks, basis, view)
    options, count = view.options, len(table.bytes[0])
    changed = np.flatnonzero((table.bytes[0] != table.bytes[1]) | (table.count[0] != table.count[1]))
    listed = np.arange(count) if options.mode == "absolute" else changed
    rows = [build.row(int(g)) for g in listed]
    totals = [int(side.size.sum()) for side in table.sides]
    same = totals[0] - int(table.bytes[0][listed].sum())
    result = Rows(in_order(rows, options.mode), Unchanged(rows=count - len(rows), total_bytes=same), *totals)
    assert totals[0] + sum(row.delta_bytes for row in rows) == totals[1]
    return result


def members_of(
    moments: _Moments, stacks: JointStacks, basis: Basis, view: View, rows: Sequence[DiffRow]
) -> tuple[Int64, Int64]:
    """The allocations [n] that some rows of ``group_rows`` sum together, in base and in head: indices into their
    tables, ascending. A row that these moments do not have sums none."""
    table, build = _grouped(moments, stacks, basis, view)
    groups: set[int] = set()
    for row in rows:
        wanted = ((row.base_bytes, row.base_count), (row.head_bytes, row.head_count))
        like = np.ones(len(table.bytes[0]), bool)
        for side, (size, count) in enumerate(wanted):
            like &= (table.bytes[side] == size) & (table.count[side] == count)
        # rows that read alike, which cut names can make, are one group each
        same = (g for g in np.flatnonzero(like).tolist() if g not in groups and build.row(g) == row)
        groups |= set(islice(same, 1))
    chosen = np.array(sorted(groups), np.int64)
    found = []
    for side, (facts, event) in enumerate(moments):
        live, _ = held(facts, event, view.options.measure)
        members = np.flatnonzero(np.isin(table.groups[side], chosen))
        # what is reserved and unused is a member without an allocation
        found.append(live[members[members < len(live)]])
    return found[0], found[1]


def _grouped(moments: _Moments, stacks: JointStacks, basis: Basis, view: View) -> tuple[_Table, _RowBuilder]:
    options = view.options
    keys = Keys(stacks, basis, view.masks, options.measure)
    found = [keys.side(side, *moment) for side, moment in enumerate(moments)]
    sides, group, count = joint_keys(found, basis, keys.before, options.by)
    table = _Table(sides, np.split(group, [len(sides[0].size)]), count)
    return table, _RowBuilder(table, keys, whole=options.by in _WHOLE)


class _Table:
    """The groups' sums, by side: [g] int64 each."""

    def __init__(self, sides: list[Held], groups: list[Int64], count: int) -> None:
        self.sides, self.groups = sides, groups
        both = list(zip(groups, sides, strict=True))
        summed = [sums(group, side.size, count) for group, side in both]
        self.bytes, self.count = [one[0] for one in summed], [one[1] for one in summed]
        self.requested = [sums(group, side.requested, count)[0] for group, side in both]
        self.dangling = [sums(group, side.size * side.dangling, count)[0] for group, side in both]
        joint, key = np.concatenate(groups), np.concatenate([side.key for side in sides])
        self.lowest = np.full((key.shape[1], count), np.iinfo(np.int64).max)
        self.highest = np.full((key.shape[1], count), -1, np.int64)
        for column, ids in enumerate(key.T):
            np.minimum.at(self.lowest[column], joint, ids)
            np.maximum.at(self.highest[column], joint, ids)

    def one(self, group: int, column: int) -> int | None:
        """The id that all members of a group have in a column; none where there are several."""
        lowest = int(self.lowest[column, group])
        return lowest if lowest == self.highest[column, group] else None


class _RowBuilder:
    """Makes the rows that are shown: only their stacks are turned into text."""

    def __init__(self, table: _Table, keys: Keys, whole: bool) -> None:
        self._table, self._stacks, self._whole = table, keys.stacks, whole
        self._owners, self._births, self._modules = keys.owners, keys.births, keys.modules
        both = zip(table.groups, table.sides, strict=True)
        self._members = [_Members(group, side.size) for group, side in both]

    def row(self, group: int) -> DiffRow:
        table = self._table
        base_bytes, head_bytes = (int(one[group]) for one in table.bytes)
        base_count, head_count = (int(one[group]) for one in table.count)
        base_requested, head_requested = (int(one[group]) for one in table.requested)
        base_dangling, head_dangling = (int(one[group]) for one in table.dangling)
        category = table.one(group, CATEGORY)
        stack, base_lines, head_lines = self._where(group)
        return DiffRow(
            owner=self._owners[table.one(group, OWNER) or 0],
            category="" if category is None else CATEGORY_NAMES[category],
            birth_phase=self._births[table.one(group, BIRTH) or 0],
            module=self._modules[table.one(group, MODULE) or 0],
            dangling=bool(table.lowest[DANGLING, group]),
            evidence=EVIDENCE[self._weakest(group)],
            found_in="both" if base_count and head_count else "base" if base_count else "head",
            stack=stack,
            base_lines=base_lines,
            head_lines=head_lines,
            base_bytes=base_bytes,
            base_count=base_count,
            head_bytes=head_bytes,
            head_count=head_count,
            delta_bytes=head_bytes - base_bytes,
            base_requested_bytes=base_requested,
            head_requested_bytes=head_requested,
            base_dangling_bytes=base_dangling,
            head_dangling_bytes=head_dangling,
        )

    def _weakest(self, group: int) -> int:
        """What the row's owner and category rest on at worst."""
        both = zip(self._table.sides, self._members, strict=True)
        return max(int(side.evidence[members.of(group)].max(initial=0)) for side, members in both)

    def _where(self, group: int) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[int, ...] | None]:
        """The stack, and its lines in base and in head."""
        if not self._whole and self._table.one(group, WHERE) is None:
            return (), None, None
        largest = [members.largest(group) for members in self._members]
        sides = self._table.sides
        stacks = {i: int(sides[i].stack[at]) for i, at in enumerate(largest) if at is not None}
        # under a name the sides' stacks may differ: lines of another one say nothing
        ids = {int(sides[i].key[at, WHERE]) for i, at in enumerate(largest) if at is not None}
        return (
            self._stacks.texts(*max(stacks.items())),
            self._stacks.lines(0, stacks[0]) if 0 in stacks and len(ids) == 1 else None,
            self._stacks.lines(1, stacks[1]) if 1 in stacks else None,
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
