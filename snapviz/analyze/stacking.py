"""The groups that memory over time is stacked by: the largest of both runs under the same names, and the rest in one.

Legend: A allocations, C columns, S stacks, G groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.bands import Columns, stacked
from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.frames import is_python
from snapviz.analyze.groups import sums
from snapviz.analyze.phases import folded_births
from snapviz.analyze.remembered import remembered

__all__ = ["OTHER", "STACKINGS", "Groups", "largest_groups", "layer", "stack_label"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

STACKINGS = ("category", "owner", "module", "phase", "stack")
"""What memory over time can be stacked by."""

OTHER = "all others"
"""The last group, of what is in none of the others."""


_ALL = slice(None)


@dataclass(frozen=True)
class Groups:
    """G groups, the largest first, without that of all others, which comes after them."""

    by: str
    keys: tuple[str, ...]  # the same in both runs
    labels: tuple[str, ...]  # for people

    def of(self, facts: Facts, some: Int64 | slice = _ALL) -> Int64:
        """[A] the group of each of some allocations, G where it is in none."""
        texts, index = _keys(facts, self.by)
        place = {key: at for at, key in enumerate(self.keys)}
        found = np.array([place.get(text, len(self.keys)) for text in texts], np.int64)
        return found[index[some]]

    def over(self, facts: Facts, columns: Columns) -> Int64:
        """[G + 1, C] allocated bytes of each, all others last: they sum to what is allocated."""
        return stacked(facts, columns, self.of(facts), len(self.keys) + 1)

    def at(self, facts: Facts, event: int) -> Int64:
        """[G + 1] allocated bytes of each just after an event, all others last."""
        live = np.flatnonzero(facts.replay.allocations.allocated_after(event))
        return sums(self.of(facts, live), facts.replay.allocations.block_bytes[live], len(self.keys) + 1)[0]


def largest_groups(moments: Sequence[tuple[Facts, int]], by: str, most: int) -> Groups:
    """The ``most`` largest groups at some moments (a rank and an event), each by the most it has at any of them."""
    size: dict[str, int] = {}
    first: dict[str, tuple[Facts, int]] = {}
    for facts, event in moments:
        live = np.flatnonzero(facts.replay.allocations.allocated_after(event))
        texts, index = _keys(facts, by)
        total, _ = sums(index[live], facts.replay.allocations.block_bytes[live], len(texts))
        mine: dict[str, int] = {}
        for code in np.flatnonzero(total).tolist():
            mine[texts[code]] = mine.get(texts[code], 0) + int(total[code])
            first.setdefault(texts[code], (facts, code))
        for key, value in mine.items():
            size[key] = max(size.get(key, 0), value)
    keys = sorted(size, key=lambda key: (-size[key], key))[:most]
    return Groups(by, tuple(keys), _told_apart([_label(*first[key], by, key) for key in keys]))


def layer(facts: Facts, columns: Columns, since: Int64) -> Int64:
    """[C] allocated bytes, at the event that each column shows, of allocations that count from an event on.

    ``since`` [A] is E or more where one never does.
    """
    table = facts.replay.allocations
    shown = columns.crossing.allocation
    some = shown[since[shown] < len(facts.replay)]
    size = table.block_bytes[some]
    first = columns.since(np.maximum(since, table.alloc_event)[some])
    gone = columns.since(table.free_requested_event[some])
    seen = gone > first
    change = np.zeros(len(columns) + 1, np.int64)
    np.add.at(change, first[seen], size[seen])
    np.subtract.at(change, gone[seen], size[seen])
    return np.cumsum(change)[:-1]


def _keys(facts: Facts, by: str) -> tuple[Sequence[str], Int64]:
    """Keys that mean the same in both runs, and [A] which of them each allocation has."""
    return remembered(facts, "keys", by, lambda: _found_keys(facts, by))


def _found_keys(facts: Facts, by: str) -> tuple[Sequence[str], Int64]:
    if by == "stack":
        # ABSENT is -1: the last
        return (*facts.frames.keys, ""), facts.stack.astype(np.int64) % (len(facts.frames.keys) + 1)
    if by == "phase":
        return folded_births(facts)[0], facts.birth.astype(np.int64)
    if by == "category":
        return CATEGORIES, facts.category.astype(np.int64)
    names, of = (facts.owners, facts.owner) if by == "owner" else (facts.modules, facts.module)
    return [_layers_folded(name) for name in names], of.astype(np.int64)


def _layers_folded(name: str) -> str:
    """``layers.3.mlp`` → ``layers.*.mlp``: thirty layers by themselves would leave all else to the others."""
    return ".".join("*" if part.isdecimal() else part for part in name.split("."))


def _label(facts: Facts, code: int, by: str, key: str) -> str:
    if by != "stack":
        return key or f"(no {by})"
    return stack_label(facts, code) if key else "(no stack)"


def stack_label(facts: Facts, stack: int) -> str:
    """A stack in one line: its innermost Python frame, and the innermost one of the program's own."""
    frames = facts.frames.of(stack).tolist()
    names, kinds = facts.frames.names, dict(facts.frames.files.values())
    of_frame: Callable[[int], tuple[str, str]] = lambda frame: names[int(facts.frames.of_frame[frame])]  # noqa: E731
    inner = next((frame for frame in frames if is_python(of_frame(frame)[0])), frames[0] if frames else None)
    own = next((frame for frame in frames if kinds[of_frame(frame)[0]] == "user"), None)
    told = [_short(*of_frame(frame)) for frame in dict.fromkeys((inner, own)) if frame is not None]
    return " ← ".join(told) or "(no stack)"


def _short(file: str, function: str) -> str:
    return f"{function} ({file.rpartition('/')[2]})"


def _told_apart(labels: Sequence[str]) -> tuple[str, ...]:
    """The same, with a number where one has come before."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} · {seen[label]}")
    return tuple(found)
