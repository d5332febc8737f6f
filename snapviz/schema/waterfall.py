"""The way from base's bytes at a point to head's, in steps that sum to the byte."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model

__all__ = ["BELOW", "DANGLING", "OTHER", "Waterfall", "WaterfallStep"]

DANGLING = "dangling parameter"
"""Name of the step of what dangles, whatever its category: it is a fault, and stands alone."""

OTHER = "other"
"""Name of the step in which the small ones are taken together."""


BELOW = "below the threshold"
"""Name among the categories of OTHER of the rows that a report folds, of whatever category they are."""


class WaterfallStep(Model):
    """What one category adds or takes."""

    what: str
    # one of analyze.facts.CATEGORIES, DANGLING or OTHER
    categories: tuple[str, ...]
    # those it sums, the largest first: one, or several in OTHER
    delta_bytes: int
    # head − base of its rows; never 0
    from_bytes: int
    # where it begins: the end of the step before, base's total for the first
    to_bytes: int
    # from_bytes + delta_bytes; head's total for the last
    base_count: int
    # allocations in its rows, in base
    head_count: int
    # the same in head
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest that a row's category rests on


class Waterfall(Model):
    """One rank at one point. from_bytes + Σ delta_bytes of the steps = to_bytes, exactly."""

    at: str
    # of the point, as --at takes it
    rank: int
    # as in RankPoint
    base_phase: str | None
    # the raw phase that base's moment lies in; none outside
    head_phase: str | None
    # as base_phase: where they differ, two different moments are compared
    whole: bool
    # false: a side's recording begins later, and its peak is that of what is left
    from_bytes: int
    # base's total
    to_bytes: int
    # head's total
    steps: tuple[WaterfallStep, ...]
    # the largest |delta_bytes| first, OTHER last
    moved: tuple[str, ...]
    # categories whose rows changed and sum to nothing: what only moved between stacks or owners
