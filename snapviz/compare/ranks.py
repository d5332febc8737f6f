"""The ranks of one run compared: which is worst, which are outliers, and what makes the worst one larger."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapviz.analyze.describe import broken_ranks, fake_group_of, summary_of
from snapviz.analyze.each import each_rank
from snapviz.analyze.imbalance import figures_of, spread_of
from snapviz.analyze.moments import At
from snapviz.analyze.run import Run
from snapviz.compare.rank import RankDiff
from snapviz.compare.view import View, view_of
from snapviz.errors import UsageError
from snapviz.schema import RANKS_VERSION, MeasureName, RankFigures, RanksReport, RankWhy, Spread

__all__ = ["ranks"]

_NAMED = 20
"""Phases that a message names."""


def ranks(
    run: Run,
    phase: str | None = None,
    measure: str = "allocated",
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> RanksReport:
    """The report of a run. ``rank`` is the one whose difference to the median is explained (the worst).

    Raises ``UsageError`` for a phase that no rank has or an unknown measure, ``RunError`` for a ``rank``
    that could not be read.
    """
    view = view_of(measure=measure)
    by = view.options.measure
    if rank is not None:
        run.rank(rank)
    # where one file is several ranks, each of its devices is one of theirs
    own: dict[str, set[int]] = {}
    for one in run.ranks:
        own.setdefault(one.source, set()).add(one.device)
    figures = [figures_of(one, facts, phase, by, own[one.source]) for one, facts in each_rank(run.ranks, progress)]
    _check_phase(phase, figures)
    values = {one.rank: one.value_bytes for one in figures if one.value_bytes is not None}
    spread = spread_of(values, phase, by, any(one.at_least for one in figures))
    return RanksReport(
        schema_version=RANKS_VERSION,
        run=summary_of(run),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None)),
        phase=phase,
        measure=by,
        ranks=tuple(_placed(one, spread) for one in figures),
        spread=spread,
        phases=_phases(figures, by),
        why=_why(run, spread, rank, view) if spread is not None else None,
    )


def _check_phase(phase: str | None, figures: Sequence[RankFigures]) -> None:
    if phase is None or not figures or any(one.value_bytes is not None for one in figures):
        return
    names = list(dict.fromkeys(row.phase for one in figures for row in one.phases))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    raise UsageError(f"--at phase:{phase}: no such phase (there is: {', '.join(names[:_NAMED])}{more})")


def _placed(one: RankFigures, spread: Spread | None) -> RankFigures:
    """The same with how it stands to the others."""
    if spread is None or one.value_bytes is None:
        return one
    deviation = one.value_bytes - spread.median_bytes
    return one.model_copy(update={"deviation_bytes": deviation, "outlier": one.rank in set(spread.outliers)})


def _phases(figures: Sequence[RankFigures], measure: MeasureName) -> tuple[Spread, ...]:
    """Of each phase that any rank has: in the order of the rank that has most."""
    most = max(figures, key=lambda one: len(one.phases), default=None)
    order = dict.fromkeys(row.phase for row in most.phases) if most else {}
    values: dict[str, dict[int, int]] = {name: {} for name in order}
    least: dict[str, bool] = {}
    for one in figures:
        for row in one.phases:
            values.setdefault(row.phase, {})[one.rank] = getattr(row.peak, f"{measure}_bytes")
            least[row.phase] = least.get(row.phase, False) or measure in row.trust.at_least
    found = (spread_of(ranks, name, measure, least[name]) for name, ranks in values.items())
    return tuple(one for one in found if one is not None)


def _why(run: Run, spread: Spread, rank: int | None, view: View) -> RankWhy | None:
    number = spread.worst_rank if rank is None else rank
    if number == spread.median_rank:
        return None
    base, head = (run.rank(one).facts() for one in (spread.median_rank, number))
    both = RankDiff(number, base, head, view)
    at = At(spread.phase, peak=True)
    point = both.point(at)
    if point.delta_bytes is None:
        return None
    dangling = tuple(
        one for one in both.dangling() if any(row.dangling and row.owner == one.name for row in point.rows)
    )
    return RankWhy(rank=number, median_rank=spread.median_rank, at=at.text, point=point, dangling=dangling)
