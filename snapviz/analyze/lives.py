"""Some allocations of one rank: when each came and went, what is like them, and the peak without all that is.

Legend: A allocations, n of them chosen, E events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, RECORDED, Facts
from snapviz.analyze.groups import group_keys
from snapviz.analyze.phases import folded_births, phase_of
from snapviz.analyze.select import Remaining
from snapviz.analyze.stretches import Stretches

__all__ = ["Life", "Saved", "alike", "lives_of", "saved", "sizes_of"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Life:
    """One allocation. An event or time is none where it lies outside the recording, or nothing says it."""

    allocation: int
    block_bytes: int
    requested_bytes: int
    category: str
    owner: str
    born_event: int | None
    born_us: int | None  # since the first event
    born_in: str  # raw phase, or one of BEFORE and OUTSIDE
    freed_event: int | None
    freed_us: int | None
    freed_in: str | None
    dangling: bool


def lives_of(facts: Facts, chosen: Int64, most: int = 200) -> list[Life]:
    """The largest of some allocations, of one size the oldest first."""
    table = facts.replay.allocations
    order = np.lexsort((chosen, -table.block_bytes[chosen]))[:most]
    return [_life(facts, int(one)) for one in chosen[order].tolist()]


def _life(facts: Facts, one: int) -> Life:
    table = facts.replay.allocations
    born, gone = int(table.alloc_event[one]), int(table.free_requested_event[one])
    events = len(facts.replay)
    freed = gone if gone < events else None
    return Life(
        allocation=one,
        block_bytes=int(table.block_bytes[one]),
        requested_bytes=int(table.requested_bytes[one]),
        category=CATEGORIES[int(facts.category[one])],
        owner=facts.owners[int(facts.owner[one])],
        born_event=born if born >= 0 else None,
        born_us=_since_start(facts, born),
        born_in=facts.births[int(facts.birth[one])],
        freed_event=freed,
        freed_us=None if freed is None else _since_start(facts, freed),
        freed_in=None if freed is None else phase_of(facts.phases, freed),
        dangling=bool(facts.dangling_since[one] < events),
    )


def _since_start(facts: Facts, event: int) -> int | None:
    replay = facts.replay
    return int(replay.time_us[event] - replay.time_us[0]) if event >= 0 and replay.has_times else None


def sizes_of(facts: Facts, chosen: Int64) -> list[tuple[int, int]]:
    """(block bytes, how many) of each size, those that hold most first."""
    size, count = np.unique(facts.replay.allocations.block_bytes[chosen], return_counts=True)
    order = np.lexsort((-size, -size * count))
    return [(int(size[i]), int(count[i])) for i in order]


# ------------------------------------------------------------------ without them


def alike(facts: Facts, chosen: Int64, by: str = "") -> Bool:
    """[A] all allocations of the recording that are like one of the chosen.

    Like in what rows are told apart by: ``by`` as ``--by`` takes it, "": owner, category, birth phase, and where
    nothing recorded names it stack.
    """
    found = np.ones(len(facts.category), bool)
    columns = _columns(facts, by)
    for column in columns:
        known = np.zeros(int(column.max(initial=0)) + 1, bool)
        known[column[chosen]] = True
        found &= known[column]
    # like in each: few enough to be told apart by all of them together
    near = np.flatnonzero(found)
    if len(columns) > 1 and len(near):
        group, count = group_keys([column[near] for column in columns])
        wanted = np.zeros(count, bool)
        wanted[group[np.isin(near, chosen)]] = True
        found[near] = wanted[group]
    return found


def _columns(facts: Facts, by: str) -> Sequence[npt.NDArray[np.integer]]:
    stack = facts.stack + 1  # ABSENT is -1, and keys count from 0
    birth = folded_births(facts)[1][facts.birth]
    if by in ("owner", "module"):
        named = facts.owner if by == "owner" else facts.module
        return [named, np.where(named == 0, facts.category, 0)]
    known: dict[str, Sequence[npt.NDArray[np.integer]]] = {
        "stack": [stack],
        "phase": [birth],
        "category": [facts.category],
        "rank": [],
    }
    nameless = np.where(facts.evidence == RECORDED, 0, stack)
    return known.get(by, [facts.owner, facts.category, birth, nameless])


@dataclass(frozen=True)
class Saved:
    """The peak of a stretch as it was and without some allocations."""

    phase: str  # folded, "": the whole recording
    peak_bytes: int
    without_bytes: int

    @property
    def saved_bytes(self) -> int:
        """Less than they are where the peak moves elsewhere."""
        return self.peak_bytes - self.without_bytes


def saved(facts: Facts, gone: Bool, only_dangling: bool = False) -> list[Saved]:
    """The whole recording, then each phase whose peak would be another without the allocations ``gone`` [A].

    ``only_dangling``: each is taken out only from where its release was due.
    """
    replay = facts.replay
    since = facts.dangling_since if only_dangling else replay.allocations.alloc_event - 1
    since = np.where(gone, since, len(replay)).astype(np.int64)
    remaining = Remaining(facts, since)
    windows = {"": [(0, len(replay))]}
    windows |= {name: [(one.first, one.stop) for one in some] for name, some in Stretches(facts).folded.items()}
    found = []
    for name, some in windows.items():
        peak = max(replay.peak("allocated", first, stop)[0] for first, stop in some)
        found.append(Saved(name, peak, remaining.peak(some)))
    return [one for one in found if not one.phase or one.saved_bytes]
