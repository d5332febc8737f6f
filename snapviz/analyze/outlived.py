"""What dangles in a run, as one report: every parameter, its holders, and each phase without it.

Legend: E events, P phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from snapviz.analyze.advice import advice_for
from snapviz.analyze.describe import broken_ranks, dangling_of, fake_group_of, summary_of, suspects_of
from snapviz.analyze.each import each_rank
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.phases import folded_phases
from snapviz.analyze.run import Rank, Run
from snapviz.analyze.select import Remaining
from snapviz.schema import (
    DANGLING_VERSION,
    UNEXPLAINED,
    Dangling,
    DanglingPhase,
    DanglingReport,
    HolderKind,
    RankDangling,
    Without,
)

__all__ = ["dangling", "holder_kinds", "without_only"]

_ALLOCATED = MEASURES.index("allocated")


def dangling(run: Run, rank: int | None = None, progress: Callable[[str], None] | None = None) -> DanglingReport:
    """The report of a run. Raises ``RunError`` for a ``rank`` that could not be read."""
    ranks = run.ranks if rank is None else (run.rank(rank),)
    found = [_rank(one, facts) for one, facts in each_rank(ranks, progress)]
    found.sort(key=lambda one: (-one.dangling_bytes, one.rank))
    return DanglingReport(
        schema_version=DANGLING_VERSION,
        run=summary_of(run),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None, rank)),
        ranks=tuple(found),
    )


def _rank(rank: Rank, facts: Facts) -> RankDangling:
    found = tuple(dangling_of(facts, None, rank.rank))
    peak = facts.replay.peak("allocated", 0, len(facts.replay))[0]
    without, phases = _without(facts, peak, facts.dangling_since) if found else (None, ())
    return RankDangling(
        rank=rank.rank,
        dangling_known=facts.dangling_known,
        dangling_why=facts.dangling_why,
        notes=facts.notes,
        dangling=found,
        dangling_bytes=sum(one.block_bytes for one in found),
        lasting_bytes=sum(one.block_bytes for one in found if one.gone_in is None),
        peak_bytes=peak,
        without=without,
        phases=phases,
        holders=holder_kinds(found),
        unheld=sum(not one.holders for one in found),
        suspects=tuple(suspects_of(facts, None, rank.rank)),
    )


def without_only(facts: Facts, allocations: Sequence[int]) -> tuple[Without, tuple[DanglingPhase, ...]]:
    """The peak, and that of every folded phase, had some of what dangles gone when it was due."""
    chosen = np.asarray(allocations, np.int64)
    since = np.full(len(facts.dangling_since), len(facts.replay), np.int64)
    since[chosen] = facts.dangling_since[chosen]
    return _without(facts, facts.replay.peak("allocated", 0, len(facts.replay))[0], since)


def _without(facts: Facts, peak: int, since: npt.NDArray[np.int64]) -> tuple[Without, tuple[DanglingPhase, ...]]:
    """The peak, and that of every folded phase, without some allocations from an event of each on."""
    phases = facts.phases
    remaining = Remaining(facts, since)
    saved = remaining.peak([(0, len(facts.replay))])
    lowered = remaining.peaks(phases.first, phases.stop)
    rows = []
    for name, indices in folded_phases(phases).items():
        whole = bool(phases.whole[indices].all())
        top = int(phases.peak[indices, _ALLOCATED].max())
        # a counter stands for events that the curve does not have
        rest = int(lowered[indices].max()) if whole else None
        rows.append(
            DanglingPhase(
                phase=name,
                peak_bytes=top,
                without_bytes=rest,
                saved_bytes=None if rest is None else top - rest,
                exact=bool(phases.exact[indices].all()),
            )
        )
    return Without(peak_bytes=saved, saved_bytes=peak - saved), tuple(rows)


def holder_kinds(found: Iterable[Dangling]) -> tuple[HolderKind, ...]:
    """What each kind of holder keeps, the one that keeps most first; what is not explained last."""
    kinds: dict[str, list[Dangling]] = {}
    paths: dict[str, str] = {}
    for one in found:
        pairs = zip(one.holders, (*one.holder_kinds, *[""] * len(one.holders)), strict=False)
        first: dict[str, str] = {}
        for path, kind in pairs:
            first.setdefault(kind, path)
        for kind, path in first.items():
            kinds.setdefault(kind, []).append(one)
            paths.setdefault(kind, path)
    rows = [
        HolderKind(
            kind=kind,
            parameters=len(some),
            held_bytes=sum(one.block_bytes for one in some),
            example=paths[kind],
            advice=advice_for(kind),
        )
        for kind, some in kinds.items()
    ]
    # the recorder tells the plainest holder first
    return tuple(sorted(rows, key=lambda row: (row.kind == UNEXPLAINED, -row.held_bytes)))
