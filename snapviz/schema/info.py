"""The report of ``snapviz info``: what a path holds."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, Dangling, MeasureBytes, RunSummary, Suspect, Without
from snapviz.schema.trust import FindingReport

__all__ = [
    "INFO_VERSION",
    "InfoReport",
    "LiveRow",
    "OutsideInfo",
    "PhaseInfo",
    "RankInfo",
]

INFO_VERSION = 1


class PhaseInfo(Model):
    """One folded phase of one rank."""

    phase: str
    # folded: train/step0 the first step, train/step the later ones
    times: int
    # phases of that name
    peak: MeasureBytes
    # highest in any of them, each measure by itself
    end: MeasureBytes
    # at the end of the last of them
    growth: MeasureBytes | None
    # end minus start of the last of them; none where its start is not in the recording
    whole: bool
    # whether no event of any of them is missing
    exact: bool
    # whether every number here is certain to the byte
    counted: bool
    # of one that is not whole, peak and end are torch's own counters, for the measures it recorded
    at_least: tuple[str, ...]
    # measures (requested, allocated, active, reserved) whose peak may have been higher: not whole, and
    # not counted by torch
    outside_bytes: int | None = None
    # held on the device outside the allocator at the end of the last of them, by contexts, NCCL and other
    # processes; none where not recorded
    alloc_retries: int | None = None
    # times the allocator flushed its cache for want of memory, in all of them; none where not recorded
    ooms: int | None = None
    # times it ran out of memory all the same


class OutsideInfo(Model):
    """Memory of the device that is not the allocator's, at the ends of the first and the last phase."""

    first_phase: str
    # raw
    first_bytes: int
    # total − free − reserved, of the whole device: other processes count
    last_phase: str
    # raw; the first where only one phase knows it
    last_bytes: int
    # as first_bytes


class LiveRow(Model):
    """Allocations of one owner, category, birth phase and stack, live at one moment."""

    owner: str
    # "" where not known
    category: str
    # one of analyze.facts.CATEGORIES
    birth_phase: str
    # folded
    dangling: bool
    # a whole parameter past the phase that should have released it
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest of what owner and category rest on
    live_bytes: int
    # sum of block bytes
    live_count: int
    # allocations
    stack: tuple[str, ...]
    # "function (file:line)", innermost first


class RankInfo(Model):
    """One rank: what its file is, how far it can be trusted, and where its memory went."""

    rank: int
    # global rank, or the device's number where nothing says it
    device: int
    # slot of device_traces
    source: str
    # file name
    container: dict[str, JsonValue]
    # how the file was written: container, protocol, shape
    events: int
    # allocator events of the device
    segments: int
    # segments held at the end
    allocations: int
    # lifetimes, those from before the recording included
    first_us: int | None
    # time of the first event; none without times
    last_us: int | None
    # time of the last event
    recorded: bool
    # whether a rank record lies beside it
    truncated: bool
    # events before the first one may be missing: peak is that of the recording, not of the run. So it
    # is without any event
    exact: bool
    # whether every number is certain to the byte, from the first event on
    consistent: bool
    # whether the file agrees with itself
    findings: tuple[FindingReport, ...]
    # what the replay says of itself, the gravest first
    notes: tuple[str, ...]
    # why not, and all else worth knowing
    ignored: dict[str, int]
    # what the file holds that was not understood → how often
    reading_notes: tuple[str, ...]
    # what reading the file left out or had to choose
    phase_source: str
    # record, annotations, optimizer steps, none
    phases: tuple[PhaseInfo, ...]
    # in order of their start
    peak: MeasureBytes
    # of the whole recording, each measure by itself
    end: MeasureBytes
    # after the last event
    peak_phase: str | None
    # raw phase of the allocated peak; none outside phases
    live_at_peak: tuple[LiveRow, ...]
    # the largest first; all of them: they sum to the allocated peak
    dangling: tuple[Dangling, ...]
    # the largest first
    dangling_known: bool
    # whether those are all; else none found does not mean that none dangles
    dangling_why: str
    # why that cannot be told; "" where it can
    suspects: tuple[Suspect, ...]
    # only where dangling is not known
    without: Without | None
    # the allocated peak had nothing dangled; none where nothing does
    outside: OutsideInfo | None = None
    # none where the record does not know it


class InfoReport(Model):
    """What a path holds."""

    schema_version: int
    # whole number, INFO_VERSION when written by this version
    run: RunSummary
    # in short
    kind: Literal["run directory", "folder of snapshots", "snapshot file"]
    # what the path is
    notes: tuple[str, ...]
    # of the run; those of a rank are with it
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    ranks: tuple[RankInfo, ...]
    # ascending
