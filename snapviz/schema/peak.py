"""The report of ``snapviz peak``: what was live at a moment, and what memory would be without some of it."""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, MeasureBytes, Moment, RunSummary

__all__ = ["PEAK_VERSION", "Known", "LiveGroup", "ModuleRow", "PeakReport", "PhaseWithout", "RankPeak"]

PEAK_VERSION = 1


class Known(Model):
    """How much of what is live is explained, and by what. Bytes of blocks."""

    unknown_bytes: int
    # in no category
    recorded_bytes: int
    # named by the recorder
    annotated_bytes: int
    # by annotations in the snapshot
    inferred_bytes: int
    # in a category by their stack, lifetime, size or thread
    owned_bytes: int
    # with an owner or a module


class LiveGroup(Model):
    """What is live and has something in common."""

    label: str
    # what it has in common; "" where that is not known
    category: str
    # one of analyze.facts.CATEGORIES; "" where there are several
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest of them
    why: str
    # what the rule saw, where one rule decided all of them; else ""
    dangling_bytes: int
    # of parameters that should be gone
    live_bytes: int
    # sum of block bytes
    requested_bytes: int
    # what was asked for
    live_count: int
    # allocations
    stack: tuple[str, ...]
    # of the largest of them, "function (file:line)", innermost first


class ModuleRow(Model):
    """A module with all below it, or several alike under one pattern (``layers.*.mlp``)."""

    path: str
    # a part that is a number is * where several of the same shape are folded; (root) is the whole model, "" none
    depth: int
    # parts of the path; 0 for (root) and ""
    modules: int
    # paths that are folded into it
    live_bytes: int
    # of it and all below it
    own_bytes: int
    # of it alone
    live_count: int
    # allocations, of it and all below it
    least_bytes: int
    # of the smallest of the folded
    most_bytes: int
    # of the largest of the folded
    recomputed_bytes: int
    # activations made again in backward
    categories: dict[str, int]
    # category → bytes, of it and all below it, the largest first


class PhaseWithout(Model):
    """A phase's peak as it was, and had some allocations not been there."""

    phase: str
    # folded, or "" for the whole recording
    peak_bytes: int
    # allocated, by replay
    without_bytes: int
    # the highest of the same stretch without them
    saved_bytes: int
    # peak_bytes − without_bytes: less than they are where the peak moves elsewhere


class RankPeak(Model):
    """One rank at one moment."""

    rank: int
    # global rank
    source: str
    # file name
    notes: tuple[str, ...]
    # what is not exact, and all else worth knowing
    moment: Moment
    # when
    measures: MeasureBytes
    # all four then
    known: Known
    # how much is explained
    categories: tuple[LiveGroup, ...]
    # by category, the largest first; they sum to allocated
    modules: tuple[ModuleRow, ...]
    # as a tree, each before those below it; the rows of depth 0 and 1 sum to allocated
    groups: tuple[LiveGroup, ...]
    # by what was asked for, the largest first; they sum to allocated
    removed_bytes: int | None
    # of what --without picks, live then; none without it
    without: tuple[PhaseWithout, ...]
    # every phase, the whole recording first; empty without --without


class PeakReport(Model):
    """What was live at a moment of a run."""

    schema_version: int
    # whole number, PEAK_VERSION when written by this version
    run: RunSummary
    # in short
    at: str
    # end, peak, phase:NAME:peak or phase:NAME:end
    title: str
    # the same in words
    by: str
    # what groups have in common
    without: tuple[str, ...]
    # what was taken out
    notes: tuple[str, ...]
    # of the run
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    ranks: tuple[RankPeak, ...]
    # ascending; those that have the moment
    missing: tuple[int, ...]
    # ranks without the moment
    worst_rank: int | None
    # the one that holds most then
