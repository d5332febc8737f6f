"""What the allocations of two moments are grouped by: the columns of their keys.

Legend: n held allocations of one side, N of both, g groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import BEFORE, CATEGORIES, INFERRED, RECORDED, Facts
from snapviz.analyze.groups import group_keys
from snapviz.analyze.owners import normal_owner
from snapviz.analyze.phases import fold
from snapviz.compare.held import held, unused_bytes
from snapviz.compare.masks import Masks
from snapviz.compare.stacks import NO_STACK, JointStacks
from snapviz.schema import UNUSED, By, MeasureName

__all__ = [
    "BIRTH",
    "CATEGORY",
    "CATEGORY_NAMES",
    "DANGLING",
    "MODULE",
    "OWNER",
    "WHERE",
    "Basis",
    "Held",
    "Keys",
    "basis_of",
    "has_names",
    "joint_keys",
]

Bool = npt.NDArray[np.bool_]
Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]

OWNER, CATEGORY, BIRTH, DANGLING, STACK, WHERE, MODULE = range(7)
"""Columns of a key. ``STACK`` has no stack for what a record names, ``WHERE`` has everyone's own."""

_COLUMNS = 7

CATEGORY_NAMES = (*CATEGORIES, UNUSED)
"""Names of the codes in the column of categories."""

_SEVERAL = 0
"""Joint id of "", which is no birth's name."""

_NO_ALLOCATION = -1
"""Index of what is reserved and unused: no row of the allocation table."""

_GROUPED_BY: dict[By | None, tuple[int, ...]] = {
    None: (OWNER, CATEGORY, BIRTH, DANGLING, STACK),
    "stack": (WHERE,),
    "phase": (BIRTH,),
    "category": (CATEGORY, DANGLING),
    "owner": (OWNER, DANGLING),
    "module": (MODULE, DANGLING),
    "rank": (),
}
"""What dangles has rows of its own, but where the whole of a stack, phase or rank is asked for: those rows
say how much of them dangles."""

_ELSE_CATEGORY: dict[By | None, int] = {"owner": OWNER, "module": MODULE}
"""Where what has no name falls together by category."""


@dataclass(frozen=True)
class Basis:
    """What two ranks can be compared by: what only one of them knows would split equal rows."""

    names: bool  # names were placed on both, or on neither
    births: bool  # their phases come from the same kind of source
    history: bool  # both begin at the first allocation: else what a guess owes to events the other may lack
    modules: bool  # both know modules, or neither does
    dangling: tuple[bool, bool]  # whether base, and head, can tell what dangles


def basis_of(base: Facts, head: Facts) -> Basis:
    """What these two ranks have in common."""
    return Basis(
        names=has_names(base) == has_names(head),
        births=base.phases.source == head.phases.source,
        history=not (base.truncated or head.truncated),
        modules=_has_modules(base) == _has_modules(head),
        dangling=(base.dangling_known, head.dangling_known),
    )


def has_names(facts: Facts) -> bool:
    """Whether any recorded name found its allocation: a record alone need not hold any."""
    return bool((facts.evidence == RECORDED).any())


def _has_modules(facts: Facts) -> bool:
    return bool(facts.module.any())


@dataclass(frozen=True)
class Held:
    """What one side holds, and the columns of its keys."""

    key: Int64  # [n, 7] joint ids, in the order of OWNER and so on
    size: Int64  # [n] bytes of the measure
    requested: Int64  # [n] bytes
    dangling: Bool  # [n] by this side's own record
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
        """The texts by their ids."""
        return list(self.ids)


class Keys:
    """Both sides at one pair of moments, and the texts that their keys stand for."""

    def __init__(self, stacks: JointStacks, basis: Basis, masks: Masks, measure: MeasureName) -> None:
        self.stacks, self._basis, self._masks, self._measure = stacks, basis, masks, measure
        self._owners, self._births, self._modules = _Texts(), _Texts(), _Texts()

    @property
    def owners(self) -> list[str]:
        """Owners by their ids."""
        return self._owners.texts()

    @property
    def births(self) -> list[str]:
        """Birth phases by their ids."""
        return self._births.texts()

    @property
    def modules(self) -> list[str]:
        """Modules by their ids."""
        return self._modules.texts()

    @property
    def before(self) -> int | None:
        """The id of ``BEFORE``; none where nothing is older than its recording."""
        return self._births.ids.get(BEFORE)

    def side(self, side: int, facts: Facts, event: int) -> Held:
        """What one side holds after an event; with ``reserved`` what is unused is a last member."""
        live, size = held(facts, event, self._measure)
        table, basis = facts.replay.allocations, self._basis
        stack = table.stack[live]
        evidence = facts.evidence[live] if basis.names else np.full(len(live), INFERRED, np.int8)
        dangling = facts.dangling_since[live] <= event
        where = self.stacks.ids(side, stack)
        key = np.zeros((len(live), _COLUMNS), np.int64)
        if basis.names:
            by_history = _owes_to_history(facts, live, basis)
            owner = np.where(by_history, 0, facts.owner[live]).astype(np.int32)
            key[:, OWNER] = self._owners.of(facts.owners, owner, self._name)
            key[:, CATEGORY] = np.where(by_history, facts.stack_category[live], facts.category[live])
            key[:, DANGLING] = dangling
        else:
            key[:, CATEGORY] = facts.stack_category[live]
        if basis.births:
            key[:, BIRTH] = self._births.of(facts.births, facts.birth[live], fold)
        if basis.modules:
            key[:, MODULE] = self._modules.of(facts.modules, facts.module[live], self._name)
        # what a record names is the same thing wherever it was made: only the unnamed are told by their stack
        key[:, STACK] = np.where(evidence == RECORDED, NO_STACK, where)
        key[:, WHERE] = where
        found = Held(key, size, table.requested_bytes[live], dangling, evidence, stack)
        return _with_unused(found, unused_bytes(facts, event)) if self._measure == "reserved" else found

    def _name(self, name: str) -> str:
        return self._masks.name(normal_owner(name))


def _owes_to_history(facts: Facts, live: Int64, basis: Basis) -> Bool:
    """[n] categories that are guessed from events the other side may not have seen."""
    guessed: Bool = (facts.evidence[live] == INFERRED) & (facts.category[live] != facts.stack_category[live])
    return guessed & (not basis.history)


def _with_unused(found: Held, unused: int) -> Held:
    """The same with one member more: what is reserved and in no active block, which is exact knowledge."""
    key = np.zeros((1, _COLUMNS), np.int64)
    key[0, CATEGORY] = CATEGORY_NAMES.index(UNUSED)
    return Held(
        key=np.concatenate([found.key, key]),
        size=np.append(found.size, unused),
        requested=np.append(found.requested, 0),
        dangling=np.append(found.dangling, False),
        evidence=np.append(found.evidence, np.int8(RECORDED)),
        stack=np.append(found.stack, np.int32(_NO_ALLOCATION)),
    )


def joint_keys(sides: list[Held], basis: Basis, before: int | None, by: By | None) -> tuple[list[Held], Int64, int]:
    """The sides with what one of them cannot tell joined, [N] the group of each member, base first, and g."""
    split = len(sides[0].size)
    key = np.concatenate([side.key for side in sides])
    _join_dangling(key, np.arange(len(key)) >= split, basis)
    _join_births(key, before)
    sides = [replace(side, key=part) for side, part in zip(sides, np.split(key, [split]), strict=True)]
    columns = [key[:, column] for column in _GROUPED_BY[by]]
    if by in _ELSE_CATEGORY:
        columns.append(np.where(key[:, _ELSE_CATEGORY[by]] == _SEVERAL, key[:, CATEGORY], 0))
    return sides, *group_keys(columns or [np.zeros(len(key), np.int64)])


def _join_dangling(key: Int64, of_head: Bool, basis: Basis) -> None:
    """What a side cannot tell does not split a row: its members go with the other's dangling ones."""
    if basis.dangling[0] == basis.dangling[1]:
        return
    group, count = group_keys([key[:, OWNER], key[:, CATEGORY], key[:, STACK]])
    cannot_tell = of_head if basis.dangling[0] else ~of_head
    dangling, unknown = np.zeros(count, bool), np.zeros(count, bool)
    dangling[group[key[:, DANGLING] == 1]] = True
    unknown[group[cannot_tell]] = True
    key[(dangling & unknown)[group], DANGLING] = 1


def _join_births(key: Int64, before: int | None) -> None:
    """``BEFORE`` means "not known": where it is among the births of what is otherwise one row, the row is
    not split by birth. It has the one birth that is known, "" where there are several."""
    if before is None:
        return
    group, count = group_keys([key[:, OWNER], key[:, CATEGORY], key[:, DANGLING], key[:, STACK]])
    birth = key[:, BIRTH]
    known = birth != before
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(lowest, group[known], birth[known])
    np.maximum.at(highest, group[known], birth[known])
    one = np.where(highest < 0, before, np.where(lowest == highest, highest, _SEVERAL))
    joined = np.zeros(count, bool)
    joined[group[~known]] = True
    key[:, BIRTH] = np.where(joined[group], one[group], birth)
