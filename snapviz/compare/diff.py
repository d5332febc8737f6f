"""Two runs in, a ``DiffReport`` out: every byte between them in a row, rank by rank, point by point."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from snapviz.analyze.describe import allocator_settings, broken_ranks, known, summary_of
from snapviz.analyze.run import Run, load_run
from snapviz.compare.align import DEFAULT_POINTS, At, align_ranks, parse_at
from snapviz.compare.notes import caveats_of, notes_of
from snapviz.compare.rank import RankDiff
from snapviz.compare.verdict import verdict
from snapviz.errors import UsageError
from snapviz.schema import DIFF_VERSION, BrokenRank, DiffReport, EnvironmentChange, Point

__all__ = ["diff"]


def diff(
    base: Run | str | os.PathLike[str],
    head: Run | str | os.PathLike[str],
    at: Sequence[str] = DEFAULT_POINTS,
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> DiffReport:
    """Compares two runs, or what is at two paths, base first.

    ``at`` names the points (``end``, ``peak``, ``phase:NAME[:peak|:end]``), ``rank`` limits it to one.
    Raises ``UsageError`` for a point or a rank that neither run has, ``InputError`` for a path without a run.
    """
    base = base if isinstance(base, Run) else load_run(base, progress=progress)
    head = head if isinstance(head, Run) else load_run(head, progress=progress)
    points = [parse_at(text) for text in dict.fromkeys(at)]
    ranks = align_ranks(base, head, rank)
    say = progress or (lambda text: None)
    compared = []
    for number, one, other in ranks.pairs:
        say(f"comparing rank {number}")
        compared.append(RankDiff(number, one.facts(say), other.facts(say)))
    _check_points(points, compared)
    broken = _broken(base, head, rank)
    shown = [_point(at_point, compared) for at_point in points]
    dangling = [d for c in compared for d in c.dangling()]
    return DiffReport(
        schema_version=DIFF_VERSION,
        base=summary_of(base),
        head=summary_of(head),
        verdict=verdict(base.name, head.name, shown, dangling, broken),
        caveats=caveats_of(base, head, compared, points),
        notes=notes_of(base, head, ranks, compared),
        broken=broken,
        environment=tuple(_environment(base, head)),
        unmatched_base_ranks=ranks.only_base,
        unmatched_head_ranks=ranks.only_head,
        ranks=tuple(c.whole() for c in compared),
        phases=tuple(row for c in compared for row in c.phases()),
        points=tuple(shown),
        dangling=tuple(dangling),
        suspects=tuple(s for c in compared for s in c.suspects()),
    )


def _check_points(points: Sequence[At], compared: Sequence[RankDiff]) -> None:
    """Raises ``UsageError`` for a phase that no rank of either run has."""
    stretches = [side for c in compared for side in c.stretches]
    for at in points:
        if stretches and at.phase is not None and not any(side.named(at.phase) for side in stretches):
            known = ", ".join(dict.fromkeys(name for side in stretches for name in side.folded))
            raise UsageError(f"--at phase:{at.phase}: no such phase in either run (there is: {known})")


def _point(at: At, compared: Sequence[RankDiff]) -> Point:
    ranks = [c.point(at) for c in compared]
    grown = [(r.delta_bytes, -r.rank) for r in ranks if r.delta_bytes is not None]
    return Point(at=at.text, title=at.title, ranks=tuple(ranks), worst_rank=-max(grown)[1] if grown else None)


def _broken(base: Run, head: Run, only: int | None) -> tuple[BrokenRank, ...]:
    found = [*broken_ranks(base, "base"), *broken_ranks(head, "head")]
    return tuple(one for one in found if only is None or one.rank is None or one.rank == only)


def _environment(base: Run, head: Run) -> list[EnvironmentChange]:
    """Differences of what is known on both sides: what only one side knows is no difference."""
    pairs: list[tuple[str, JsonValue, JsonValue]] = [
        ("torch", known(base, "torch"), known(head, "torch")),
        ("device", known(base, "device"), known(head, "device")),
        ("world size", base.world_size, head.world_size),
    ]
    found = [pair for pair in pairs if pair[1] is not None and pair[2] is not None and pair[1] != pair[2]]
    found += _changes("allocator", allocator_settings(base), allocator_settings(head))
    if base.manifest and head.manifest:
        found += _changes("package", dict(base.manifest.packages), dict(head.manifest.packages))
        found += _changes("setting", base.manifest.settings, head.manifest.settings)
    return [EnvironmentChange(what=what, base=b, head=h) for what, b, h in found]


def _changes(
    kind: str, base: dict[str, JsonValue], head: dict[str, JsonValue]
) -> list[tuple[str, JsonValue, JsonValue]]:
    if not base or not head:
        return []
    keys = sorted(base.keys() | head.keys())
    return [(f"{kind} {key}", base.get(key), head.get(key)) for key in keys if base.get(key) != head.get(key)]
