"""The report of ``snapviz dangling``: parameters that outlived their sharding, in one run."""

from __future__ import annotations

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, Dangling, RunSummary, Suspect, Without

__all__ = ["DANGLING_VERSION", "DanglingPhase", "DanglingReport", "HolderKind", "RankDangling"]

DANGLING_VERSION = 1


class DanglingPhase(Model):
    """One folded phase with and without what dangles, in allocated bytes."""

    phase: str
    # folded
    peak_bytes: int
    # highest in any of them
    without_bytes: int | None
    # had everything that dangles gone when it was due; none where the phase is not whole in the recording
    saved_bytes: int | None
    # peak − without
    exact: bool
    # whether both are certain to the byte


class HolderKind(Model):
    """What one kind of holder keeps. Of several kinds that keep one parameter, each counts it."""

    kind: str
    # module, optimizer, frame, global, …; "" where the recorder did not say
    parameters: int
    # dangling parameters with a holder of the kind
    held_bytes: int
    # their block bytes
    example: str
    # the path of one such holder
    advice: str
    # what to do about it, one sentence


class RankDangling(Model):
    """One rank."""

    rank: int
    # global rank
    dangling_known: bool
    # whether ``dangling`` is all that dangles; else none found does not mean that none dangles
    dangling_why: str
    # why that cannot be told; "" where it can
    notes: tuple[str, ...]
    # what the numbers below cannot say
    dangling: tuple[Dangling, ...]
    # the largest first
    dangling_bytes: int
    # block bytes of all of them
    lasting_bytes: int
    # of those that are live at the end
    peak_bytes: int
    # allocated, of the recording
    without: Without | None
    # that peak had nothing dangled; none where nothing does
    phases: tuple[DanglingPhase, ...]
    # in order of their start; empty where nothing dangles
    holders: tuple[HolderKind, ...]
    # the kind that keeps most first
    unheld: int
    # dangling parameters of which no holder is known
    suspects: tuple[Suspect, ...]
    # only where dangling is not known; none of them is certain


class DanglingReport(Model):
    """What dangles in a run."""

    schema_version: int
    # whole number, DANGLING_VERSION when written by this version
    run: RunSummary
    # in short
    notes: tuple[str, ...]
    # of the run; those of a rank are with it
    broken: tuple[BrokenRank, ...]
    # none where one rank was asked for; any makes the exit code 2
    ranks: tuple[RankDangling, ...]
    # the one with the most dangling bytes first
