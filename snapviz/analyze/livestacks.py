"""What is allocated at one moment, by stack: what a flame graph of memory is drawn from.

Legend: A allocations, L of them live, g groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.schema import Moment

__all__ = ["ROOTS", "LiveStacks", "live_stacks"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

ROOTS = ("category", "owner", "module", "phase")
"""What the stacks can be divided by."""


@dataclass(frozen=True)
class LiveStacks:
    """g groups, the largest first; their bytes sum to what is allocated at the moment."""

    when: Moment
    stack: Int64  # [g] stack id, or ABSENT
    root: Int64  # [g] index into roots
    roots: tuple[str, ...]  # one that is "" where nothing divides them
    block_bytes: Int64  # [g]
    count: Int64  # [g] allocations

    @property
    def total_bytes(self) -> int:
        """Allocated bytes at the moment."""
        return int(self.block_bytes.sum())


def live_stacks(facts: Facts, when: Moment, by: str | None = None) -> LiveStacks:
    """What is allocated at a moment of one rank, by stack and by one of ``ROOTS``."""
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(when.event))
    names, of = _divided(facts, by)
    stack, root = table.stack[live].astype(np.int64), of[live].astype(np.int64)
    group, count = group_keys((stack + 1, root))
    total, members = sums(group, table.block_bytes[live], count)
    first = np.zeros(count, np.int64)
    # the first member of each group stands for it
    first[group[::-1]] = np.arange(len(live))[::-1]
    order = np.lexsort((root[first], stack[first], -total))
    return LiveStacks(when, stack[first][order], root[first][order], tuple(names), total[order], members[order])


def _divided(facts: Facts, by: str | None) -> tuple[Sequence[str], npt.NDArray[np.integer]]:
    """Names, and [A] which of them each allocation has."""
    if by is None:
        return ("",), np.zeros(len(facts.replay.allocations), np.int64)
    divided: dict[str, tuple[Sequence[str], npt.NDArray[np.integer]]] = {
        "category": (CATEGORIES, facts.category),
        "owner": (facts.owners, facts.owner),
        "module": (facts.modules, facts.module),
        "phase": (facts.births, facts.birth),
    }
    names, of = divided[by]
    return tuple(name or f"(no {by})" for name in names), of
