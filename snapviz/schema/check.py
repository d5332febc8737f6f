"""The report of ``snapviz check``: a run against its budgets, and who holds what is too much."""

from __future__ import annotations

from snapviz.schema.base import Model
from snapviz.schema.budget import Budget
from snapviz.schema.diff import BrokenRank, Dangling, RunSummary
from snapviz.schema.info import LiveRow

__all__ = ["CHECK_VERSION", "CheckReport", "Culprits"]

CHECK_VERSION = 1


class Culprits(Model):
    """Who holds what a budget is about, on one rank."""

    spec: str
    # as in Budget
    rank: int
    # the worst
    held_bytes: int
    # what the rows sum to: of a peak what was allocated then, by replay
    live: tuple[LiveRow, ...]
    # the largest first: at the peak or the end, of the budget's category, or what the steps left
    dangling: tuple[Dangling, ...]
    # of a budget about them, the largest first


class CheckReport(Model):
    """What ``snapviz check`` says of a run."""

    schema_version: int
    # whole number, CHECK_VERSION when written by this version
    run: RunSummary
    # what is judged
    baseline: RunSummary | None
    # what it is compared with; none: limits are absolute
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    notes: tuple[str, ...]
    # what else to know of the run
    budgets: tuple[Budget, ...]
    # in the order they were given
    culprits: tuple[Culprits, ...]
    # of those that are hit
