"""What two runs hold at a moment each, as one tree: by stack, by module, or by category and owner.

Legend: n held allocations of one side, g groups of both sides that are one path, d distinct paths.

Both sides are matched by names that are comparable (``stacks.py``, ``keys.py``), never by address, and what is one
unchanged row of a comparison (``rows.py``) is no change here. Swapping base and head gives the same tree with its two
sides swapped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import ROOT
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.tree import Branch, PathTree
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
    basis_of,
    joint_keys,
)
from snapviz.compare.rank import RankDiff
from snapviz.schema import UNUSED

__all__ = [
    "BASE",
    "BASE_COUNT",
    "CHANGED",
    "DANGLES",
    "EITHER",
    "HEAD",
    "HEAD_COUNT",
    "Division",
    "LiveTree",
    "Part",
    "Where",
    "live_tree",
]

Int64 = npt.NDArray[np.int64]

BASE, HEAD, BASE_COUNT, HEAD_COUNT, EITHER, CHANGED = range(6)
"""Weights of a node: bytes and allocations of base and of head; then, summed over the paths below it, the larger of
both bytes, and how far they are apart. Those two nest where differences would not: what grew does not hide what
shrank."""

Division = Literal["stack", "module", "category"]

DANGLES = "dangling parameter"
NO_STACK_TEXT = "(no stack: another thread, or memory from before the recording)"
NO_MODULE = "(no module known)"
NO_OWNER = "(not named)"
UNUSED_TEXT = "(reserved, in no allocation)"

_UNUSED_CODE = CATEGORY_NAMES.index(UNUSED)
_PARTS = 64
"""Parts of a dotted name that are told apart."""
_DIGITS = re.compile(r"\d{1,18}")
_TOKEN = 8
"""Characters of a step in a URL: enough that siblings do not meet."""


@dataclass(frozen=True)
class Part:
    """Allocations of one category and birth within a branch, whose owners differ in numbers at most."""

    category: str
    owners: tuple[str, ...]  # "": nobody names it
    birth: str  # folded phase, "" where several, or not comparable
    base_bytes: int
    head_bytes: int
    base_count: int
    head_count: int

    @property
    def delta_bytes(self) -> int:
        """head − base."""
        return self.head_bytes - self.base_bytes


@dataclass(frozen=True)
class Where:
    """Allocations of one stack within a branch."""

    frames: tuple[str, ...]  # ``function (file)``, innermost first
    base_lines: tuple[int, ...] | None  # of each frame; none where base has no such stack
    head_lines: tuple[int, ...] | None
    base_frames: tuple[
        str, ...
    ]  # of what head made elsewhere, and is the same: where base did; () where it is ``frames``
    base_bytes: int
    head_bytes: int
    base_count: int
    head_count: int


class LiveTree:
    """The tree, and what its branches hold."""

    def __init__(self, keys: Keys, sides: Sequence[Held], row: Int64, by: Division, folded: bool) -> None:
        """``row`` [N] is the row that each member would have in a comparison, base's first."""
        self._keys, self._sides = keys, sides
        self._folded = folded
        self._joint = np.concatenate([side.key for side in sides])
        self._size = np.concatenate([side.size for side in sides])
        self._of_head = np.arange(len(self._size)) >= len(sides[0].size)
        self._seen = self._stacks_seen()
        self._meet(row, WHERE, self._seen.get)
        self._meet(row, MODULE, keys.modules.__getitem__)
        # what is unused is no allocation
        self._is_one = self._joint[:, CATEGORY] != _UNUSED_CODE
        columns = _COLUMNS[by]
        self._group, count = group_keys([self._joint[:, column] for column in columns])
        first = np.zeros(count, np.int64)
        first[self._group[::-1]] = np.arange(len(self._group))[::-1]
        self.labels, steps, offsets = _numbered(list(self._texts(by, first)))
        self.paths = PathTree(steps, offsets, np.stack([*self._sums(self._group, count)]))
        self._categories = self._weigh_categories()
        weights = self.paths.weights
        larger = np.maximum(weights[BASE], weights[HEAD])
        self.paths.weigh(np.stack([larger, abs(weights[HEAD] - weights[BASE])]))

    def _stacks_seen(self) -> dict[int, tuple[str, ...]]:
        """Each stack's texts, outermost first, by its joint id."""
        distinct, first = np.unique(self._joint[:, WHERE], return_index=True)
        texts = self._keys.stacks.frame_texts
        paths = [self._path(member) for member in first.tolist()]
        return {
            where: tuple(texts[frame] for frame in path[::-1].tolist()) or (NO_STACK_TEXT,)
            for where, path in zip(distinct.tolist(), paths, strict=True)
        }

    def _meet(self, row: Int64, column: int, name: Callable[[int], Any]) -> None:
        """What a row holds on both sides alike, but not in the same places, is put in one of them: the name says that
        it is the same, wherever it was made."""
        place, count = group_keys([row, self._joint[:, column]])
        moved = self._apart(place, count)[place] & ~self._apart(row, int(row.max(initial=-1)) + 1)[row]
        order = np.flatnonzero(moved)[np.argsort(row[moved], kind="stable")]
        for members in np.split(order, np.flatnonzero(np.diff(row[order])) + 1) if len(order) else ():
            # of several the one whose name comes first, whichever side it is on
            self._joint[members, column] = min(np.unique(self._joint[members, column]).tolist(), key=name)

    def _apart(self, group: Int64, count: int) -> npt.NDArray[np.bool_]:
        """[g] whether the sides differ, in bytes or in allocations."""
        base, head = [(group[side], self._size[side]) for side in (~self._of_head, self._of_head)]
        both = zip(sums(*base, count), sums(*head, count), strict=True)
        apart: npt.NDArray[np.bool_] = np.any([one != other for one, other in both], axis=0)
        return apart

    def _sums(self, group: Int64, count: int) -> Iterator[Int64]:
        """Bytes of base and of head, then allocations: [g] each."""
        for values in (self._size, self._is_one.astype(np.int64)):
            for of_side in (~self._of_head, self._of_head):
                yield sums(group[of_side], values[of_side], count)[0]

    def _weigh_categories(self) -> Int64:
        """[2, c, d + 1] bytes of base and of head in each category, summed over the paths before each."""
        path = self.paths.path[self._group]
        code = np.where(self._joint[:, DANGLING] == 1, len(CATEGORY_NAMES), self._joint[:, CATEGORY])
        found = np.zeros((2, len(CATEGORY_NAMES) + 1, len(self.paths) + 1), np.int64)
        np.add.at(found, (self._of_head.astype(np.int64), code, path + 1), self._size)
        summed: Int64 = np.cumsum(found, axis=2)
        return summed

    def category(self, branch: Branch, side: int) -> str:
        """The category that has most of a branch's bytes in ``BASE`` or ``HEAD``; "" where it holds nothing there."""
        held = self._categories[side, :, branch.stop] - self._categories[side, :, branch.first]
        most = int(held.argmax())
        return (*CATEGORY_NAMES, DANGLES)[most] if held[most] else ""

    def _texts(self, by: Division, members: Int64) -> Iterator[list[str]]:
        """The path of each of these members, in texts, outermost first."""
        for member in members.tolist():
            key = self._joint[member]
            if key[CATEGORY] == _UNUSED_CODE:
                yield [UNUSED_TEXT]
            elif by == "stack":
                yield list(self._seen[int(key[WHERE])])
            elif by == "module":
                yield self._module(self._keys.modules[key[MODULE]], CATEGORY_NAMES[key[CATEGORY]])
            else:
                category = DANGLES if key[DANGLING] else CATEGORY_NAMES[key[CATEGORY]]
                yield [category, *self._owner(self._keys.owners[key[OWNER]], self._keys.modules[key[MODULE]])]

    def _module(self, path: str, category: str) -> list[str]:
        if not path:
            return [NO_MODULE, category]
        return self._split(path) if path != ROOT else [ROOT]

    def _owner(self, owner: str, module: str) -> list[str]:
        """An owner by its parts; what has none by the module that made it."""
        return self._split(owner) if owner else [NO_OWNER, *(self._split(module) if module else [])]

    def _split(self, name: str) -> list[str]:
        parts = name.split(".", _PARTS)
        return ["*" if part.isdecimal() else part for part in parts] if self._folded else parts

    def _path(self, member: int) -> Int64:
        """Frames of a member's own stack, innermost first."""
        return self._keys.stacks.path(int(self._of_head[member]), self._stack_of(member))

    def _stack_of(self, member: int) -> int:
        """The stack of a member, in its own file."""
        of_base = len(self._sides[0].size)
        return int(self._sides[0].stack[member] if member < of_base else self._sides[1].stack[member - of_base])

    # ------------------------------------------------------------------ branches by name

    def label(self, branch: Branch) -> list[str]:
        """The texts of the branch's own steps, outermost first; all of them."""
        return [self.labels[step] for step in self.paths.steps(branch)]

    def token(self, branch: Branch) -> str:
        """What a URL calls a branch among its siblings: the same in every session, and at other moments."""
        text = self.labels[self.paths.step(branch)]
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_TOKEN // 2).hexdigest()

    def walk(self, tokens: Iterable[str]) -> tuple[list[Branch], bool]:
        """The branches from the root down that these tokens name, as far as they are there; and whether all are."""
        found = [self.paths.root()]
        for token in tokens:
            below = next((one for one in self.paths.below(found[-1]) if self.token(one) == token), None)
            if below is None:
                return found, False
            found.append(below)
        return found, True

    def looked_for(self, text: str) -> set[int]:
        """The steps whose text has another text in it, in capitals or not."""
        wanted = text.casefold()
        return {step for step, label in enumerate(self.labels) if wanted in label.casefold()}

    def weights_with(self, steps: Collection[int]) -> Int64:
        """[k] weights of the paths that have any of these steps, each path once."""
        found: Int64 = self.paths.weights[:, self.paths.having(steps)].sum(axis=1)
        return found

    # ------------------------------------------------------------------ what a branch holds

    def parts(self, branch: Branch, most: int) -> tuple[list[Part], int]:
        """By category, owner and birth, those that changed most first; and how many more there are."""
        members = self._members(branch)
        owners, of = np.unique(self._joint[members, OWNER], return_inverse=True)
        patterns: dict[str, int] = {}
        alike = [
            patterns.setdefault(_DIGITS.sub("#", self._keys.owners[one]), len(patterns)) for one in owners.tolist()
        ]
        owner = np.array(alike, np.int64)[of.reshape(-1)]
        group, first, table = self._grouped(members, [owner, *self._joint[members][:, (CATEGORY, DANGLING, BIRTH)].T])
        found = []
        for g in (shown := _order(table)[:most]).tolist():
            key = self._joint[members[first[g]]]
            names = [self._keys.owners[one] for one in np.unique(self._joint[members[group == g], OWNER]).tolist()]
            category = DANGLES if key[DANGLING] else CATEGORY_NAMES[key[CATEGORY]]
            found.append(Part(category, tuple(names), self._keys.births[key[BIRTH]], *table[:, g].tolist()))
        return found, len(first) - len(shown)

    def stacks(self, branch: Branch, most: int) -> tuple[list[Where], int]:
        """By stack, those that changed most first; and how many more there are."""
        members = self._members(branch)
        members = members[self._is_one[members]]
        group, first, table = self._grouped(members, [self._joint[members, WHERE]])
        shown = _order(table)[:most]
        found = [self._where(members[group == g], table[:, g].tolist()) for g in shown.tolist()]
        return found, len(first) - len(shown)

    def _where(self, members: Int64, values: list[int]) -> Where:
        stacks = self._keys.stacks
        sides = [members[self._of_head[members] == head] for head in (False, True)]
        # a stack of a large allocation stands for the others: they differ in lines at most
        largest = [int(some[self._size[some].argmax()]) if len(some) else None for some in sides]
        own = [None if one is None else self._stack_of(one) for one in largest]
        side = 1 if own[1] is not None else 0
        known = own[side]
        assert known is not None
        lines = [None if stack is None else stacks.lines(at, stack) for at, stack in enumerate(own)]
        texts = stacks.texts(side, known)
        elsewhere = stacks.texts(0, own[0]) if side and own[0] is not None else texts
        if elsewhere == texts:
            elsewhere = ()
        return Where(texts, lines[0], lines[1], elsewhere, *values)

    def _members(self, branch: Branch) -> Int64:
        """Positions among the members of both sides."""
        path = self.paths.path[self._group]
        return np.flatnonzero((path >= branch.first) & (path < branch.stop))

    def _grouped(self, members: Int64, columns: Sequence[Int64]) -> tuple[Int64, Int64, Int64]:
        """The group of each by these columns of keys, [g] the first of each group, [4, g] bytes and allocations."""
        group, count = group_keys(columns)
        first = np.zeros(count, np.int64)
        first[group[::-1]] = np.arange(len(group))[::-1]
        head = self._of_head[members]
        table = np.zeros((4, count), np.int64)
        for row, (values, side) in enumerate(
            ((self._size, ~head), (self._size, head), (self._is_one, ~head), (self._is_one, head))
        ):
            np.add.at(table[row], group[side], values[members][side])
        return group, first, table


_COLUMNS: dict[Division, tuple[int, ...]] = {
    "stack": (WHERE, CATEGORY),
    "module": (MODULE, CATEGORY),
    "category": (CATEGORY, DANGLING, OWNER, MODULE),
}
"""What tells two paths apart; categories for what is unused, which has neither stack nor module."""


def live_tree(
    both: RankDiff, events: tuple[int | None, int | None], by: Division = "stack", folded: bool = False
) -> LiveTree:
    """What base and head hold after an event each; none: that side holds nothing.

    ``folded`` takes parts of names that are numbers for one (``layers.*.mlp``), which stacks do not have. The measure
    is that of ``both``. With ``reserved`` what no allocation has is a branch of its own.
    """
    assert by in get_args(Division)
    basis = _basis(both, events)
    keys = Keys(both.stacks, basis, both.view.masks, both.view.options.measure)
    sides = []
    for side, (facts, event) in enumerate(zip((both.base, both.head), events, strict=True)):
        found = keys.side(side, facts, -1 if event is None else event)
        sides.append(found if event is not None else _nothing(found))
    sides, row, _ = joint_keys(sides, basis, keys.before, None)
    return LiveTree(keys, sides, row, by, folded)


def _basis(both: RankDiff, events: tuple[int | None, int | None]) -> Basis:
    """What both are compared by; of one run alone, or twice, all that is known of it, however late it begins."""
    if None not in events and both.base is not both.head:
        return both.basis
    alone = both.head if events[0] is None else both.base
    return replace(basis_of(alone, alone), history=True)


def _nothing(held: Held) -> Held:
    return Held(held.key[:0], held.size[:0], held.requested[:0], held.dangling[:0], held.evidence[:0], held.stack[:0])


def _order(table: Int64) -> Int64:
    """[g] by how far both sides are apart, then by the larger of them."""
    return np.lexsort((-np.maximum(table[0], table[1]), -abs(table[1] - table[0])))


def _numbered(paths: list[list[str]]) -> tuple[list[str], Int64, Int64]:
    """Texts in order, the paths as their numbers one after the other, and where each begins.

    The numbers are those of the sorted texts, so that neither side comes first.
    """
    labels = sorted({text for path in paths for text in path})
    number = {text: index for index, text in enumerate(labels)}
    steps = np.array([number[text] for path in paths for text in path], np.int64)
    return labels, steps, np.append(0, np.cumsum([len(path) for path in paths], dtype=np.int64))
