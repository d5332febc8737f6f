"""Ranks put beside each other, by number."""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.run import Rank, Run
from snapviz.errors import UsageError

__all__ = ["Ranks", "align_ranks"]


@dataclass(frozen=True)
class Ranks:
    """R aligned ranks as (number, base, head), and the numbers that only one run has."""

    pairs: tuple[tuple[int, Rank, Rank], ...]
    only_base: tuple[int, ...]
    only_head: tuple[int, ...]
    notes: tuple[str, ...]


def align_ranks(base: Run, head: Run, only: int | None = None) -> Ranks:
    """Ranks by number. Raises ``UsageError`` where ``only`` names a rank that neither run has."""
    left, right = {r.rank: r for r in base.ranks}, {r.rank: r for r in head.ranks}
    notes: tuple[str, ...] = ()
    if len(left) == len(right) == 1 and not _numbered(base) and not _numbered(head):
        (one,), (other,) = left.values(), right.values()
        left = {other.rank: one}
        if one.rank != other.rank:
            told = f"rank {one.rank} of {base.name} is compared with rank {other.rank} of {head.name}"
            notes = (f"{told}: each is the only one",)
    broken = [{f.rank for f in run.failures} for run in (base, head)]
    if only is not None:
        if only not in left.keys() | right.keys() | broken[0] | broken[1]:
            known = ", ".join(map(str, sorted(left.keys() | right.keys())))
            raise UsageError(f"--rank {only}: neither run has it (there is: {known})")
        left, right = ({k: v for k, v in side.items() if k == only} for side in (left, right))
    return Ranks(
        pairs=tuple((n, left[n], right[n]) for n in sorted(left.keys() & right.keys())),
        only_base=tuple(sorted(left.keys() - right.keys() - broken[1])),
        only_head=tuple(sorted(right.keys() - left.keys() - broken[0])),
        notes=notes,
    )


def _numbered(run: Run) -> bool:
    """Whether its one rank's number means anything: it has a record, or others beside it failed."""
    return run.manifest is not None or bool(run.failures) or run.recorded
