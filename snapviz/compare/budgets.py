"""Budgets judged on every rank of a run, or of two: within, hit, or not to be judged, and why.

A budget is hit where one rank surely has more than it may. What is a lower bound can hit a budget and never lies
within one; what is an estimate does neither. A rank that is broken, missing or without the figure is not judged,
and is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from snapviz.analyze.describe import broken_ranks, fake_group_of, summary_of
from snapviz.analyze.run import Rank, RankFailure, Run
from snapviz.compare.align import align_ranks
from snapviz.compare.culprits import culprits_of
from snapviz.compare.keys import has_names
from snapviz.compare.measuring import Measured, Meter
from snapviz.compare.spec import BudgetSpec
from snapviz.compare.verdict import told_apart
from snapviz.errors import UsageError
from snapviz.schema import CHECK_VERSION, Budget, BudgetRank, CheckReport

__all__ = ["check", "exit_code", "judge"]

_NAMED = 60
"""Phases that a message names."""

Say = Callable[[str], None]


def judge(
    base: Run | None, head: Run, specs: Sequence[BudgetSpec], rank: int | None = None, progress: Say | None = None
) -> tuple[Budget, ...]:
    """Every budget, judged on every rank of ``head`` (or on ``rank``), against the same rank of ``base``.

    Raises ``UsageError`` for a budget to a base where there is none, and for a phase that no rank has;
    ``RunError`` and ``UsageError`` for a ``rank`` that is not there.
    """
    if not specs:
        return ()
    if base is None and (wanting := [str(spec) for spec in specs if spec.bound.relative]):
        raise UsageError(f"{wanting[0]}: a limit to another run, and there is none to compare with: give a baseline")
    if base is not None:
        names = told_apart(base.name, head.name)
        base, head = replace(base, name=names[0]), replace(head, name=names[1])
    sides = _sides(base, head, rank, progress or (lambda text: None))
    for spec in specs:
        _check_phase(spec, sides)
    return tuple(_budget(spec, [_judged(spec, side) for side in sides]) for spec in specs)


def check(
    head: Run,
    specs: Sequence[BudgetSpec],
    base: Run | None = None,
    rank: int | None = None,
    progress: Say | None = None,
) -> CheckReport:
    """The report of ``snapviz check``. Raises what ``judge`` raises."""
    budgets = judge(base, head, specs, rank, progress)
    broken = broken_ranks(head, "head" if base else None) + (broken_ranks(base, "base") if base else [])
    fake = [(run.name, words) for run in (base, head) if run is not None and (words := fake_group_of(run))]
    return CheckReport(
        schema_version=CHECK_VERSION,
        run=summary_of(head),
        baseline=summary_of(base) if base is not None else None,
        broken=tuple(one for one in broken if rank is None or one.rank == rank),
        notes=tuple(f"{name} was {words}" for name, words in fake),
        budgets=budgets,
        culprits=tuple(
            culprits_of(head, spec, budget.worst_rank)
            for spec, budget in zip(specs, budgets, strict=True)
            if budget.state == "hit" and budget.worst_rank is not None
        ),
    )


def exit_code(budgets: Sequence[Budget]) -> int:
    """0 where every budget is within its limit on every rank; 2 where one cannot be judged on one; else 1."""
    states = {rank.state for budget in budgets for rank in budget.ranks}
    states |= {budget.state for budget in budgets}
    return 2 if "not judged" in states else int("hit" in states)


# ------------------------------------------------------------------ ranks


@dataclass(frozen=True)
class _Side:
    """One rank to be judged: what is measured in head and in base, or why it cannot be."""

    rank: int | None
    head: Meter | str
    base: Meter | str  # "" where there is no base at all

    @property
    def by_stack(self) -> bool:
        """Whether only one of the two has names, so that categories are what stacks say on both."""
        if isinstance(self.head, str) or isinstance(self.base, str):
            return False
        return has_names(self.head.facts) != has_names(self.base.facts)


def _sides(base: Run | None, head: Run, rank: int | None, say: Say) -> list[_Side]:
    def meter(run: Run, one: Rank) -> Meter:
        say(f"judging rank {one.rank}")
        return Meter(run.name, one.facts(say))

    if base is None:
        ranks = head.ranks if rank is None else (head.rank(rank),)
        found = [_Side(one.rank, meter(head, one), "") for one in ranks]
        return found + [_Side(one.rank, _broken(head, one), "") for one in _others(head, rank)]
    aligned = align_ranks(base, head, rank)
    found = [_Side(number, meter(head, other), meter(base, one)) for number, one, other in aligned.pairs]
    paired = {number for number, _, _ in aligned.pairs}
    for one in head.ranks:
        if one.rank not in paired and rank in (None, one.rank):
            found.append(_Side(one.rank, meter(head, one), _absent(base, one.rank)))
    found += [_Side(one.rank, _broken(head, one), _absent(base, one.rank)) for one in _others(head, rank)]
    for number in aligned.only_base:
        found.append(_Side(number, f"{head.name} has no rank {number}", _absent(base, number)))
    return sorted(found, key=lambda side: (side.rank is None, side.rank or 0))


def _others(run: Run, rank: int | None) -> list[RankFailure]:
    """What could not be read; where one rank is asked for, those that are missing without a name are others."""
    return [one for one in run.failures if rank is None or one.rank == rank or (one.rank is None and one.source)]


def _broken(run: Run, failure: RankFailure) -> str:
    which = f"could not be read: {failure.message}"
    return f"{run.name}: {failure.source} {which}" if failure.source else f"{run.name}: {failure.message}"


def _absent(run: Run, rank: int | None) -> str:
    for failure in run.failures:
        if failure.rank == rank and rank is not None:
            return _broken(run, failure)
    return f"{run.name} has no rank {rank} to compare with"


def _check_phase(spec: BudgetSpec, sides: Sequence[_Side]) -> None:
    """Raises ``UsageError`` for a phase that no rank has; where no rank could be read nobody knows."""
    meters = [one for side in sides for one in (side.base, side.head) if isinstance(one, Meter)]
    if spec.phase is None or not meters or any(one.stretches.named(spec.phase) for one in meters):
        return
    known = list(dict.fromkeys(name for one in meters for name in one.stretches.folded))
    more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
    raise UsageError(f"{spec}: no rank has a phase {spec.phase} (there is: {', '.join(known[:_NAMED])}{more})")


# ------------------------------------------------------------------ budgets


def _judged(spec: BudgetSpec, side: _Side) -> BudgetRank:
    if isinstance(side.head, str):
        return _not_judged(side.rank, side.head)
    by_stack = spec.bound.relative and side.by_stack
    head = side.head.measure(spec, by_stack)
    if not spec.bound.relative:
        return _against(spec, side.rank, None, head)
    if isinstance(side.base, str):
        return _not_judged(side.rank, side.base, head=head)
    base = side.base.measure(spec, by_stack)
    if spec.phase is not None and side.base.facts.phases.source != side.head.facts.phases.source:
        return _not_judged(side.rank, "phases come from another source on each side", base, head)
    return _against(spec, side.rank, base, head)


def _against(spec: BudgetSpec, rank: int | None, base: Measured | None, head: Measured) -> BudgetRank:
    for one in (head, base):
        if one is not None and one.certainty == "not known":
            return _not_judged(rank, one.why, base, head)
    assert head.count is not None
    limit = spec.bound.limit(base.count if base is not None else None)
    assert limit is not None
    over = head.count - limit
    # of a lower bound more is sure, and of a limit to one less
    if over > 0 and base is not None and base.at_least:
        return _not_judged(rank, "base's figure is a lower bound: its recording begins later", base, head, limit)
    if over <= 0 and head.at_least:
        return _not_judged(rank, "its figure is a lower bound: the recording begins later", base, head, limit)
    return _rank(rank, base, head, limit, state="hit" if over > 0 else "within")


def _not_judged(
    rank: int | None, why: str, base: Measured | None = None, head: Measured | None = None, limit: int | None = None
) -> BudgetRank:
    return _rank(rank, base, head, limit, state="not judged", why=why)


def _rank(
    rank: int | None, base: Measured | None, head: Measured | None, limit: int | None, *, state: str, why: str = ""
) -> BudgetRank:
    count = head.count if head is not None else None
    return BudgetRank.model_validate(
        {
            "rank": rank,
            "state": state,
            "base_bytes": base.count if base is not None else None,
            "base_at_least": base is not None and base.at_least,
            "head_bytes": count,
            "head_at_least": head is not None and head.at_least,
            "inferred": head is not None and head.inferred,
            "limit_bytes": limit,
            "over_bytes": count - limit if count is not None and limit is not None else None,
            "why": why,
        }
    )


def _budget(spec: BudgetSpec, ranks: Sequence[BudgetRank]) -> Budget:
    states = [one.state for one in ranks]
    state = next((s for s in ("hit", "not judged") if s in states), "within" if ranks else "not judged")
    sure = [one for one in ranks if one.state == ("hit" if state == "hit" else "within") and one.over_bytes is not None]
    worst = max(sure, key=lambda one: (one.over_bytes or 0, -(one.rank or 0)), default=None)
    return Budget.model_validate(
        {
            "spec": str(spec),
            "figure": spec.figure,
            "phase": spec.phase,
            "measure": spec.measure,
            "category": spec.category,
            "bound": str(spec.bound),
            "relative": spec.bound.relative,
            "state": state,
            "worst_rank": worst.rank if worst is not None else None,
            "ranks": tuple(ranks),
        }
    )
