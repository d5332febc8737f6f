"""Allocations as rows, a piece of them at a time: what the CSV and the Parquet file have in common.

Legend: A allocations, n of them in a piece, E events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.report.layout import clean
from snapviz.snapshot.columns import ABSENT

__all__ = ["COLUMNS", "Flags", "Names", "Numbers", "Rows", "rows_of"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

COLUMNS = (
    "rank",
    "index",
    "address",
    "requested_bytes",
    "block_bytes",
    "estimated",
    "alloc_event",
    "alloc_us",
    "free_requested_event",
    "free_requested_us",
    "free_completed_event",
    "free_completed_us",
    "stream",
    "pool",
    "category",
    "evidence",
    "owner",
    "module",
    "birth_phase",
    "recomputed",
    "dangling",
    "stack_id",
    "stack",
)
"""Names of the columns, in order."""

_ROWS = 50_000
"""Rows of a piece, and so of a row group in Parquet."""
_STACKS = 4_096
"""Texts of stacks that are kept: neighbours share them."""


@dataclass(frozen=True)
class Numbers:
    """[n] whole numbers, and where there is one."""

    value: Int64
    known: Bool


@dataclass(frozen=True)
class Flags:
    """[n] yes or no, and where that is known."""

    value: Bool
    known: Bool


@dataclass(frozen=True)
class Names:
    """[n] index into names, below 0 where there is none."""

    index: Int64
    names: Sequence[str]


Rows = dict[str, Numbers | Flags | Names]
"""``COLUMNS``, each n long."""


def rows_of(facts: Facts, keep: Bool | None = None, frames: int = 0) -> Iterator[Rows]:
    """The allocations of a rank, or those of a mask [A], in the order of the table.

    ``frames``: how many frames of a stack its text has; of 0 the text is none.
    """
    chosen = np.arange(len(facts.replay.allocations)) if keep is None else np.flatnonzero(keep)
    texts = _Texts(facts, frames)
    for start in range(0, len(chosen), _ROWS):
        yield _piece(facts, chosen[start : start + _ROWS].astype(np.int64), texts)


def _piece(facts: Facts, some: Int64, texts: _Texts) -> Rows:
    table = facts.replay.allocations
    pools = [f"({a}, {b})" for a, b in facts.columns.pools.tolist()]
    moments = ("alloc", "free_requested", "free_completed")
    found: Rows = {
        "rank": _all(np.full(len(some), facts.rank, np.int64)),
        "index": _all(some),
        "stack_id": _present(table.stack[some]),
        "stream": _present(table.stream[some]),
        "pool": Names(table.pool[some].astype(np.int64), pools),
        "category": Names(facts.category[some].astype(np.int64), CATEGORIES),
        "evidence": Names(facts.evidence[some].astype(np.int64), EVIDENCE),
        "owner": _named(facts.owner[some], facts.owners),
        "module": _named(facts.module[some], facts.modules),
        "birth_phase": _named(facts.birth[some], facts.births),
        "estimated": Flags(table.estimated[some], np.ones(len(some), bool)),
        "recomputed": Flags(facts.recomputed[some], np.ones(len(some), bool)),
        "dangling": _dangling(facts, some),
        "stack": texts.of(table.stack[some].astype(np.int64)),
    }
    for key in ("address", "requested_bytes", "block_bytes"):
        found[key] = _all(getattr(table, key)[some])
    for moment in moments:
        found |= _when(facts, moment, getattr(table, f"{moment}_event")[some])
    return {name: found[name] for name in COLUMNS}


def _all(value: Int64) -> Numbers:
    return Numbers(value, np.ones(len(value), bool))


def _present(value: npt.NDArray[np.integer]) -> Numbers:
    return Numbers(value.astype(np.int64), value != ABSENT)


def _when(facts: Facts, moment: str, event: Int64) -> Rows:
    """Number and time of an event: -1 and no time before the first, neither where it was not until the end."""
    count = len(facts.replay)
    inside = (event >= 0) & (event < count)
    times = np.full(len(event), ABSENT, np.int64)
    times[inside] = facts.replay.time_us[event[inside]]
    return {f"{moment}_event": Numbers(event, event < count), f"{moment}_us": _present(times)}


def _named(index: npt.NDArray[np.integer], names: Sequence[str]) -> Names:
    used = np.unique(index)
    texts = {int(one): clean(names[one]) for one in used.tolist()}
    # only those that occur: a run can have as many names as allocations
    place = np.searchsorted(used, index)
    empty = np.array([not texts[one] for one in used.tolist()], bool)
    return Names(np.where(empty[place], ABSENT, place).astype(np.int64), list(texts.values()))


def _dangling(facts: Facts, some: Int64) -> Flags:
    found = facts.dangling_since[some] < len(facts.replay)
    # where nobody could look, not to be found says nothing
    return Flags(found, found | facts.dangling_known)


class _Texts:
    """The texts of one rank's stacks."""

    def __init__(self, facts: Facts, frames: int) -> None:
        self._facts, self._frames = facts, frames
        self._text = lru_cache(maxsize=_STACKS)(self._made)

    def of(self, stack: Int64) -> Names:
        """[n] the text of each: innermost frame first, frames divided by `` | ``."""
        used, place = np.unique(stack, return_inverse=True)
        texts = [self._text(one) if self._frames else "" for one in used.tolist()]
        empty = np.array([not text for text in texts], bool)
        place = place.reshape(-1)
        return Names(np.where(empty[place], ABSENT, place).astype(np.int64), texts)

    def _made(self, stack: int) -> str:
        facts = self._facts
        ids = facts.frames.of(stack)
        left_out = len(ids) - self._frames
        more = [f"… {left_out:,} frame{'s' * (left_out > 1)}"] if left_out > 0 else []
        return " | ".join([clean(facts.frames.text(one)) for one in ids[: self._frames].tolist()] + more)
