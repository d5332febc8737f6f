"""Bytes by module, as a tree, with layers of one shape folded.

Legend: L live allocations.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, ROOT, Facts
from snapviz.schema import ModuleRow

__all__ = ["module_rows"]

Int64 = npt.NDArray[np.int64]

_DEEPEST = 12
"""Parts of a path that are told apart; what lies deeper counts for the module above."""


@dataclass
class _Node:
    """A module, or several alike."""

    depth: int
    own: int = 0
    total: int = 0
    count: int = 0
    recomputed: int = 0
    of_path: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    categories: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, path: str, sums: _Sums, own: bool) -> None:
        """Counts what a module at ``path`` has, itself or below it."""
        self.total += sums.size
        self.count += sums.count
        self.own += sums.size if own else 0
        self.recomputed += sums.size if sums.recomputed else 0
        self.of_path[path] += sums.size
        self.categories[sums.category] += sums.size


@dataclass(frozen=True)
class _Sums:
    """Allocations of one module and category, recomputed or not."""

    module: str
    category: str
    recomputed: bool
    size: int
    count: int


def module_rows(facts: Facts, live: Int64, fold: bool = True, depth: int | None = None) -> tuple[ModuleRow, ...]:
    """Rows of a tree, each before those below it, siblings by size; ``live`` [L] indexes the allocation table.

    ``fold`` puts modules that differ in a number under one pattern (``layers.*.mlp``); ``depth`` is how many parts
    of a path are told apart. The rows of depth 0 and 1 sum to all of it.
    """
    nodes: dict[tuple[str, ...], _Node] = {}
    deepest = _DEEPEST if depth is None else min(depth, _DEEPEST)
    for sums in _sums(facts, live):
        parts = () if sums.module in ("", ROOT) else tuple(sums.module.split(".")[:deepest])
        if not parts:
            nodes.setdefault((sums.module,), _Node(0)).add(sums.module, sums, own=True)
        for length in range(1, len(parts) + 1):
            concrete = parts[:length]
            pattern = tuple("*" if fold and part.isdecimal() else part for part in concrete)
            nodes.setdefault(pattern, _Node(length)).add(".".join(concrete), sums, own=length == len(parts))
    return tuple(_ordered(nodes))


def _sums(facts: Facts, live: Int64) -> list[_Sums]:
    key = (facts.module[live].astype(np.int64) * len(CATEGORIES) + facts.category[live]) * 2 + facts.recomputed[live]
    values, inverse = np.unique(key, return_inverse=True)
    total = np.zeros(len(values), np.int64)
    np.add.at(total, inverse.reshape(-1), facts.replay.allocations.block_bytes[live])
    counts = np.bincount(inverse.reshape(-1), minlength=len(values))
    found = []
    for value, size, count in zip(values.tolist(), total.tolist(), counts.tolist(), strict=True):
        rest, again = divmod(value, 2)
        module, category = divmod(rest, len(CATEGORIES))
        found.append(_Sums(facts.modules[module], CATEGORIES[category], bool(again), size, count))
    return found


def _ordered(nodes: dict[tuple[str, ...], _Node]) -> list[ModuleRow]:
    children: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for pattern, node in nodes.items():
        children[pattern[:-1] if node.depth else ()].append(pattern)
    rows: list[ModuleRow] = []
    todo = sorted(children[()], key=lambda one: nodes[one].total)
    while todo:
        pattern = todo.pop()
        node = nodes[pattern]
        rows.append(_row(pattern, node))
        if node.depth:
            todo += sorted(children[pattern], key=lambda one: nodes[one].total)
    return rows


def _row(pattern: tuple[str, ...], node: _Node) -> ModuleRow:
    sizes = node.of_path.values()
    return ModuleRow(
        path=".".join(pattern) if len(node.of_path) > 1 else next(iter(node.of_path)),
        depth=node.depth,
        modules=len(node.of_path),
        live_bytes=node.total,
        own_bytes=node.own,
        live_count=node.count,
        least_bytes=min(sizes),
        most_bytes=max(sizes),
        recomputed_bytes=node.recomputed,
        categories=dict(sorted(node.categories.items(), key=lambda one: (-one[1], one[0]))),
    )
