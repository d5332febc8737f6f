"""Assertions about a run, for tests in any framework.

Each takes a ``Run`` or a path to one, and raises ``AssertionError`` with what is wrong and who holds the memory.
What cannot be told for certain is an ``AssertionError`` as well: a rank that is broken or missing, a figure that is
a lower bound or an estimate. ``UsageError`` is for what cannot be meant (``12 GB``, a phase that no rank has),
``InputError`` for a path without a run.

``rank`` is ``"max"`` (every rank is judged and the worst is told), ``"all"`` (every rank is judged, and each that is
above the limit is told) or a rank's number (only that one is judged).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from snapviz.analyze.run import AnyPath, Run, load_run
from snapviz.compare.budgets import judge
from snapviz.compare.culprits import culprits_of
from snapviz.compare.spec import Bound, BudgetSpec, Measure, Ranks, parse_budget, rank_number
from snapviz.errors import UsageError
from snapviz.report.budgettext import fault_lines
from snapviz.schema import Budget
from snapviz.units import parse_bytes

__all__ = ["assert_no_dangling", "assert_no_growth", "assert_phase_peak", "assert_within", "faults"]

_WIDTH = 120
"""Columns of a message: a test's output is read in a log."""
_TOP = 10
"""Owners that a message names."""


def assert_phase_peak(
    run: Run | AnyPath, phase: str, limit: str | int, rank: Ranks = "max", measure: Measure = "allocated"
) -> None:
    """The peak of a phase is at most ``limit`` bytes (``"12 GiB"`` or an integer)."""
    __tracebackhide__ = True
    if measure not in get_args(Measure):
        raise UsageError(f"{measure!r} is no measure: use {', '.join(get_args(Measure))}")
    _raise(run, [BudgetSpec("peak", Bound("absolute", parse_bytes(limit)), phase=phase, measure=measure)], rank)


def assert_no_dangling(run: Run | AnyPath, limit: str | int = 0, rank: Ranks = "max") -> None:
    """The parameters that outlive the phase that should have released them hold at most ``limit`` bytes."""
    __tracebackhide__ = True
    _raise(run, [BudgetSpec("dangling", Bound("absolute", parse_bytes(limit)))], rank)


def assert_no_growth(run: Run | AnyPath, tolerance: str | int = 0, rank: Ranks = "max") -> None:
    """No training step leaves more than ``tolerance`` bytes to all later ones, on average from the third step on."""
    __tracebackhide__ = True
    _raise(run, [BudgetSpec("growth", Bound("absolute", parse_bytes(tolerance)))], rank)


def assert_within(run: Run | AnyPath, *specs: str, baseline: Run | AnyPath | None = None, rank: Ranks = "max") -> None:
    """The run keeps budgets as ``--fail-on`` takes them: ``"phase.train.peak:5%"``, ``"dangling:0B"``."""
    __tracebackhide__ = True
    if not specs:
        raise UsageError("no budget to judge: give some, such as 'phase.train.peak:5%'")
    _raise(run, [parse_budget(text) for text in specs], rank, baseline)


def faults(
    run: Run, specs: Sequence[BudgetSpec], rank: Ranks = "max", baseline: Run | None = None
) -> list[tuple[Budget, str]]:
    """Every budget that the run does not surely keep, and what is to be said of it."""
    budgets = judge(baseline, run, specs, rank_number(rank))
    found = []
    for spec, budget in zip(specs, budgets, strict=True):
        if all(one.state == "within" for one in budget.ranks) and budget.state == "within":
            continue
        worst = budget.worst_rank if budget.state == "hit" else None
        culprits = culprits_of(run, spec, worst) if worst is not None else None
        lines = fault_lines(budget, culprits, _WIDTH, _TOP, every=rank == "all")
        found.append((budget, "\n".join("".join(span.text for span in spans).rstrip() for spans in lines)))
    return found


def _raise(run: Run | AnyPath, specs: Sequence[BudgetSpec], rank: Ranks, baseline: Run | AnyPath | None = None) -> None:
    __tracebackhide__ = True
    number = rank_number(rank)
    head = run if isinstance(run, Run) else load_run(run)
    base = baseline if isinstance(baseline, Run) or baseline is None else load_run(baseline)
    if number is not None:
        head.rank(number)
    if found := faults(head, specs, rank, base):
        raise AssertionError("\n\n".join(text for _, text in found))
