"""The ranks of a run one after the other, without the replays of all of them in memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from snapviz.analyze.facts import Facts
from snapviz.analyze.run import Rank

__all__ = ["each_rank"]

_KEPT = 16
"""Ranks whose facts stay with them; of more, each lets go of its replay once the next one is looked at."""


def each_rank(ranks: Sequence[Rank], progress: Callable[[str], None] | None = None) -> Iterator[tuple[Rank, Facts]]:
    """Each rank, or where there are many a copy of it, with its facts."""
    for rank in ranks:
        if progress is not None:
            progress(f"analysing rank {rank.rank}")
        one = rank if len(ranks) <= _KEPT else replace(rank, snapshot=replace(rank.snapshot), _facts=None)
        yield one, one.facts(progress)
