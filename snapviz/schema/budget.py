"""Budgets of memory, judged: what ``--fail-on``, ``snapviz check`` and the pytest plugin say of each."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model

__all__ = ["Budget", "BudgetRank", "State"]

State = Literal["within", "hit", "not judged"]
"""What became of a budget. What cannot be told for certain is not judged, and never within."""


class BudgetRank(Model):
    """A budget on one rank."""

    rank: int | None
    # as in PhaseDelta; none for what is missing or broken without a number
    state: State
    # of this rank alone
    base_bytes: int | None
    # base's figure; none where the budget needs none, or it is not known
    base_at_least: bool
    # base's figure may have been higher: its recording begins later
    head_bytes: int | None
    # head's figure, which is judged; none where it is not known
    head_at_least: bool
    # as base_at_least
    inferred: bool
    # of a category: some of head's rests on what stacks say alone
    limit_bytes: int | None
    # what head may have at most, rounded down; none where base's figure is missing
    over_bytes: int | None
    # head − limit: more than 0 hits the budget
    why: str
    # why it is not judged; "" where it is


class Budget(Model):
    """One budget, judged on every rank."""

    spec: str
    # in its shortest form, as --fail-on takes it
    figure: Literal["peak", "end", "dangling", "growth"]
    # what is measured
    phase: str | None
    # of this phase; none: of the run
    measure: Literal["requested", "allocated", "active", "reserved"]
    # of peaks and ends
    category: str | None
    # only allocations of this category, at that moment; none: all
    bound: str
    # 5%, +512MiB or 12GiB: of base, above base, or whatever base has
    relative: bool
    # whether the limit is one to base
    state: State
    # hit where any rank hits it; else not judged where any rank is not; else within
    worst_rank: int | None
    # the rank with the most over the limit, or the least below it; none where no rank is judged
    ranks: tuple[BudgetRank, ...]
    # ascending, those without a number last
