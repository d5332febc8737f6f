"""The report of ``snapviz leaks``: what each step of a run leaves behind."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, RunSummary

__all__ = [
    "LEAKS_VERSION",
    "FullDevice",
    "GrowingGroup",
    "LeaksReport",
    "RankLeaks",
    "StepGrowth",
    "StepShare",
]

LEAKS_VERSION = 1


class StepGrowth(Model):
    """One step. It lasts until the next begins, the last until the run is over."""

    step: str
    # raw name of the phase, such as train/step3
    end_bytes: int
    # allocated at the end of that phase
    delta_bytes: int | None
    # end minus that of the step before; none for the first
    exact: bool
    # whether the end is known to the byte, by replay or by torch's counter
    whole: bool
    # whether no event of it is missing; else it may have made more of what is left than is counted here
    left_after_bytes: int | None
    # block bytes made in it that are live at the end of the step ``after`` steps later; none where there is none
    left_after_count: int | None
    # the same in allocations
    left_bytes: int
    # block bytes made in it that are live at the end of the run
    left_count: int
    # the same in allocations
    growing_bytes: int
    # that part of left_bytes which belongs to groups that grow, or may grow


class StepShare(Model):
    """What one group left behind of one step."""

    step: str
    # raw
    kept_bytes: int
    # block bytes
    kept_count: int
    # allocations


class GrowingGroup(Model):
    """Allocations of one stack that steps leave behind."""

    way: Literal["grows", "may grow", "stopped"]
    # may grow: in every step that could show it, which are fewer than ``times``. stopped: longer ago than
    # any pause before
    owners: tuple[str, ...]
    # the first few distinct ones that are known, the largest first
    categories: tuple[str, ...]
    # of analyze.facts.CATEGORIES, the largest first
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest of what owner and category rest on
    modules: tuple[str, ...]
    # modules that were running, the first few, the largest first
    birth_phases: tuple[str, ...]
    # folded, the largest first
    stack: tuple[str, ...]
    # "function (file:line)" of the largest, innermost first; lines may differ within the group
    kept_bytes: int
    # all that was left behind, in block bytes
    kept_count: int
    # allocations
    step_bytes: int
    # the (lower) median of the steps that left something behind
    step_count: int
    # the same in allocations
    every: int | None
    # steps from one that left something behind to the next; none where that differs
    since: str
    # the first step that left something behind, raw
    until: str
    # the last
    last_judged: str
    # the last step whose allocations are old enough to count
    oldest_freed: int
    # highest age, in steps begun, at which one of the same stack was freed
    steps: tuple[StepShare, ...]
    # those that left something behind, in order


class FullDevice(Model):
    """When the device would be full, inferred: growth goes on as it was, and nothing else changes."""

    phase: str
    # raw: at its end free and reserved bytes were read
    free_bytes: int
    # of the device then
    cached_bytes: int
    # reserved and not in use at that phase's peak, as if all of it could be used: it may be in pieces
    more_steps: int
    # whole steps from the end of ``phase`` on that still fit, at ``rate_bytes`` a step


class RankLeaks(Model):
    """One rank."""

    rank: int
    # global rank
    status: Literal["leak", "may leak", "rises", "no leak", "too few steps", "no steps", "no events"]
    # rises: ends of steps grow, and nothing that steps make stays: what lives at their ends is made anew
    notes: tuple[str, ...]
    # what the numbers below cannot say
    step_source: str
    # record, annotations, optimizer steps, none
    steps: tuple[StepGrowth, ...]
    # in order
    median_delta_bytes: int | None
    # (lower) median growth of the ends, the last step left out: it ends where the recording of it does
    rate_bytes: int
    # what the groups that grow, or may grow, leave behind a step on average, each rounded down
    groups: tuple[GrowingGroup, ...]
    # those that grow before those that may and those that stopped, each the largest first
    full: FullDevice | None
    # none where nothing grows, or no record knows the device


class LeaksReport(Model):
    """What the steps of a run leave behind."""

    schema_version: int
    # whole number, LEAKS_VERSION when written by this version
    run: RunSummary
    # in short
    notes: tuple[str, ...]
    # of the run; those of a rank are with it
    broken: tuple[BrokenRank, ...]
    # none where one rank was asked for; any makes the exit code 2
    after: int
    # steps that have to begin in an allocation's life before it counts as left behind
    times: int
    # steps in which a group has to leave something behind
    ranks: tuple[RankLeaks, ...]
    # the one with the largest rate first
