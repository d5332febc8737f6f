"""Two runs in, a ``DiffReport`` out: every byte between them in a row, rank by rank, point by point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from snapviz.analyze.describe import broken_ranks, summary_of
from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.moments import DEFAULT_POINTS, At, parse_at
from snapviz.analyze.run import AnyPath, RankFailure, Run, load_run
from snapviz.analyze.stretches import Stretch
from snapviz.compare.align import align_ranks
from snapviz.compare.benchmark import benchmark_of
from snapviz.compare.environment import environment_of
from snapviz.compare.notes import caveats_of, notes_of
from snapviz.compare.order import folded
from snapviz.compare.outside import outside_of
from snapviz.compare.rank import RankDiff
from snapviz.compare.verdict import Besides, told_apart, verdict
from snapviz.compare.view import View, view_of
from snapviz.compare.waterfall import waterfalls
from snapviz.errors import RunError, UsageError
from snapviz.schema import DIFF_VERSION, BrokenRank, DiffReport, PhaseDelta, Point

__all__ = ["diff"]

_NAMED = 60
"""Phases that a message names."""


def diff(  # noqa: PLR0913 - each is an option of the command as well
    base: Run | AnyPath,
    head: Run | AnyPath,
    at: str | Sequence[str] | None = None,
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    by: str | None = None,
    mode: str = "delta",
    measure: str = "allocated",
    threshold: str | int | None = None,
    mask: str | Sequence[str] = (),
) -> DiffReport:
    """Compares two runs, or what is at two paths, base first.

    ``at`` names the points (``end``, ``peak``, ``phase:NAME[:peak|:end]``), one or several, and none means
    the end and the peak of the run; ``rank`` limits it to one.

    ``by`` groups the rows by ``stack``, ``phase``, ``category``, ``owner``, ``module`` or ``rank``, none by all
    but the last two. ``mode`` lists what changed by its difference (``delta``) or its factor (``ratio``), or
    everything by its size (``absolute``). ``measure`` is whose bytes they are: ``requested``, ``allocated``,
    ``active`` or ``reserved``. ``threshold`` (``"1%"``, ``"10 MiB"``) folds smaller rows into one sum. ``mask``
    is a regular expression, or several: frames and parts of names that match it take no part in matching.

    Raises ``UsageError`` for a point or a rank that neither run has, and for a value that is not allowed,
    ``InputError`` for a path without a run.
    """
    view = view_of(by, mode, measure, threshold, mask)
    base = base if isinstance(base, Run) else load_run(base, progress=progress)
    head = head if isinstance(head, Run) else load_run(head, progress=progress)
    # sentences need two names, and a run keeps its own
    summaries = {"base": summary_of(base), "head": summary_of(head)}
    names = told_apart(base.name, head.name)
    base, head = replace(base, name=names[0]), replace(head, name=names[1])
    try:
        report = _report(base, head, _points(at), rank, view, progress or (lambda text: None))
    except MemoryError:
        raise RunError(f"comparing {base.name} and {head.name} needs more memory than there is") from None
    return report.model_copy(update=summaries)


def _report(
    base: Run, head: Run, points: Sequence[At], rank: int | None, view: View, say: Callable[[str], None]
) -> DiffReport:
    ranks = align_ranks(base, head, rank)
    compared = []
    for number, one, other in ranks.pairs:
        say(f"comparing rank {number}")
        compared.append(RankDiff(number, one.facts(say), other.facts(say), view))
    _check_points(points, compared)
    broken = _broken(base, head, rank)
    # what is judged is the same however it is looked at
    shown = [_point(at_point, compared, view.plain) for at_point in points]
    dangling = [d for c in compared for d in c.dangling()]
    return DiffReport(
        schema_version=DIFF_VERSION,
        base=summary_of(base),
        head=summary_of(head),
        verdict=verdict(base.name, head.name, shown, dangling, _besides(points, compared, broken, view)),
        caveats=caveats_of(base, head, compared, points),
        notes=notes_of(base, head, ranks, compared),
        broken=tuple(one for one, _ in broken),
        environment=environment_of(base, head),
        unmatched_base_ranks=ranks.only_base,
        unmatched_head_ranks=ranks.only_head,
        ranks=tuple(c.whole() for c in compared),
        phases=tuple(row for c in compared for row in _in_order(c)),
        points=tuple(_seen(at, one, compared, view) for at, one in zip(points, shown, strict=True)),
        dangling=tuple(dangling),
        suspects=tuple(s for c in compared for s in c.suspects()),
        outside=outside_of(compared),
        benchmark=benchmark_of(base, head, compared),
        options=view.options,
        waterfall=waterfalls(shown),
    )


def _points(at: str | Sequence[str] | None) -> list[At]:
    named = [at] if isinstance(at, str) else at
    return list(dict.fromkeys(parse_at(text) for text in named or DEFAULT_POINTS))


def _check_points(points: Sequence[At], compared: Sequence[RankDiff]) -> None:
    """Raises ``UsageError`` for a phase that no rank of either run has."""
    stretches = [side for c in compared for side in c.stretches]
    for at in points:
        if stretches and at.phase is not None and not any(side.named(at.phase) for side in stretches):
            known = list(dict.fromkeys(name for side in stretches for name in side.folded))
            more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
            told = ", ".join(known[:_NAMED]) + more
            raise UsageError(f"--at phase:{at.phase}: no such phase in either run (there is: {told})")


def _seen(at: At, point: Point, compared: Sequence[RankDiff], view: View) -> Point:
    """A point as ``view`` asks for it."""
    return folded(
        point
        if view.plain.options == view.options.model_copy(update={"threshold": None})
        else _point(at, compared, view),
        view,
    )


def _point(at: At, compared: Sequence[RankDiff], view: View) -> Point:
    ranks = [c.point(at, view) for c in compared]
    grown = [(r.delta_bytes, -r.rank) for r in ranks if r.delta_bytes is not None]
    return Point(at=at.text, title=at.title, ranks=tuple(ranks), worst_rank=-max(grown)[1] if grown else None)


def _besides(
    points: Sequence[At], compared: Sequence[RankDiff], broken: Sequence[tuple[BrokenRank, RankFailure]], view: View
) -> Besides:
    measure = view.options.measure
    silent = [{c.number for c in compared if not len(c.sides()[i][1].replay)} for i in (0, 1)]
    return Besides(
        unread=sum(failure.ranks for _, failure in broken),
        silent=(frozenset(silent[0]), frozenset(silent[1])),
        rounding=frozenset(at.text for at in points if measure == "allocated" and _only_rounding(at, compared)),
        stateless=_stateless(compared),
        measure=measure,
    )


def _stateless(compared: Sequence[RankDiff]) -> tuple[bool, bool]:
    """Of base and of head, whether its optimizers never made a state where the other's did, on every rank.

    Only where names tell on both sides: what is not named may be anything.
    """
    if not compared or not all(all(c.names) for c in compared):
        return False, False
    made = [[bool((facts.category == _STATE).any()) for c in compared for facts in (c.sides()[i][1],)] for i in (0, 1)]
    return (not any(made[0]) and all(made[1])), (not any(made[1]) and all(made[0]))


_STATE = CATEGORIES.index("optimizer state")


def _only_rounding(at: At, compared: Sequence[RankDiff]) -> bool:
    """Whether no rank requested more or fewer bytes at a point, on either side by replay."""
    for c in compared:
        base, head = c.moments(at)
        if base is None or head is None:
            return False
        before, after = c.base.replay.after(base.event), c.head.replay.after(head.event)
        if before.requested_bytes != after.requested_bytes:
            return False
    return bool(compared)


def _in_order(c: RankDiff) -> list[PhaseDelta]:
    """A rank's phases as they began in head; one that only base has comes after that before it in base."""
    base, head = (_begun(side.folded) for side in c.stretches)
    known, after = set(head), dict[str, list[str]]()
    last = ""  # before all of head's
    for name in base:
        if name in known:
            last = name
        else:
            after.setdefault(last, []).append(name)
    order = [*after.get("", ())]
    for name in head:
        order += [name, *after.get(name, ())]
    rows = {row.phase: row for row in c.phases()}
    return [rows[name] for name in order]


def _begun(found: Mapping[str, Sequence[Stretch]]) -> list[str]:
    """Names in the order they began; what spans others comes before them."""

    def begins(name: str) -> tuple[int, bool, int, int]:
        first, stop = min(one.first for one in found[name]), max(one.stop for one in found[name])
        # one without events was over when the next began
        return first, stop > first, -stop, name.count("/")

    return sorted(found, key=begins)


def _broken(base: Run, head: Run, only: int | None) -> list[tuple[BrokenRank, RankFailure]]:
    found = [*zip(broken_ranks(base, "base"), base.failures, strict=True)]
    found += zip(broken_ranks(head, "head"), head.failures, strict=True)
    # where one rank is asked for, those that are missing without a name are others
    return [both for both in found if only is None or both[0].rank == only or (both[0].rank is None and both[0].source)]
