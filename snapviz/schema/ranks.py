"""The report of ``snapviz ranks``: the ranks of one run beside each other."""

from __future__ import annotations

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, Dangling, MeasureBytes, RankPoint, RunSummary
from snapviz.schema.rows import MeasureName
from snapviz.schema.trust import Trust

__all__ = [
    "RANKS_VERSION",
    "ForeignBlocks",
    "ForeignMemory",
    "RankFigures",
    "RankPhase",
    "RankWhy",
    "RanksReport",
    "Spread",
]

RANKS_VERSION = 1


class ForeignBlocks(Model):
    """What one stack holds on another device than the rank's own."""

    held_bytes: int
    # block bytes at the end of the file
    held_count: int
    # allocations
    stack: tuple[str, ...]
    # "function (file:line)", innermost first; empty where not known


class ForeignMemory(Model):
    """What a rank's process has on a device that is not the rank's own."""

    device: int
    # ordinal in the process
    events: int
    # allocator events there
    reserved_bytes: int
    # at the end of the file; the device's context is not in it
    allocated_bytes: int
    # at the end of the file
    peak_allocated_bytes: int
    # of the recording
    blocks: tuple[ForeignBlocks, ...]
    # by stack, the largest first; they sum to allocated_bytes


class RankPhase(Model):
    """One folded phase of one rank, or what spans the phases below a name."""

    phase: str
    # folded
    peak: MeasureBytes
    # highest in any of them, each measure by itself
    end: MeasureBytes
    # at the end of the last of them
    trust: Trust
    # how far that is known
    outside_bytes: int | None
    # held on the device outside the allocator at the end of the last of them; none where not recorded
    alloc_retries: int | None
    # in all of them; none where not recorded
    ooms: int | None
    # as alloc_retries


class RankFigures(Model):
    """One rank."""

    rank: int
    # global rank
    device: int
    # slot of device_traces
    source: str
    # file name
    recorded: bool
    # whether a rank record lies beside it
    exact: bool
    # whether every number is certain to the byte
    truncated: bool
    # the recording begins in the middle: peaks are those of the recording
    notes: tuple[str, ...]
    # of the rank
    value_bytes: int | None
    # what ranks are compared by: the peak of the report's measure in its phase; none without that phase
    at_least: bool
    # whether it may have been higher
    deviation_bytes: int | None
    # value minus the median rank's
    outlier: bool
    # as Spread.limit_bytes says
    peak: MeasureBytes
    # of the recording, each measure by itself
    peak_phase: str | None
    # raw phase of the allocated peak; none outside phases
    end: MeasureBytes
    # when the run is over
    dangling_bytes: int | None
    # block bytes of every dangling parameter, gone late or never; none where it cannot be told
    dangling_count: int | None
    # the same in parameters
    outside_bytes: int | None
    # held on the device outside the allocator when that was last read; none where not recorded
    alloc_retries: int | None
    # in the whole run; none where not recorded
    ooms: int | None
    # as alloc_retries
    foreign: tuple[ForeignMemory, ...]
    # devices that are not its own and that its process uses
    phases: tuple[RankPhase, ...]
    # in order of their start


class Spread(Model):
    """The peak of one measure over the ranks that have it."""

    phase: str | None
    # none: of the whole recording
    measure: MeasureName
    # of the peaks
    ranks: int
    # that have the phase
    worst_rank: int
    # the one with the highest peak, the lowest number of several
    max_bytes: int
    # its peak
    best_rank: int
    # the one with the lowest peak, the lowest number of several
    min_bytes: int
    # its peak
    median_rank: int
    # the lowest number of those with the median
    median_bytes: int
    # the (lower) median: one of the values
    spread_bytes: int
    # max − min
    spread_percent: float | None
    # of the median; none where that is 0
    quantiles: dict[str, int]
    # 10%, 25%, 75%, 90%: values of ranks, the nearest below
    mad_bytes: int
    # (lower) median of the distances to the median
    limit_bytes: int
    # an outlier is further from the median than this: 4.4478 × mad (three standard deviations of a normal
    # distribution), and at least 1% of the median and 2 MiB, the allocator's smallest segment
    outliers: tuple[int, ...]
    # ranks, ascending
    at_least: bool
    # whether one of the peaks may have been higher


class RankWhy(Model):
    """Why one rank's peak is another than that of the median rank, in bytes of the report's measure."""

    rank: int
    # the one explained, head of the rows
    median_rank: int
    # base of the rows
    at: str
    # the moment in each of them, as diff's --at
    point: RankPoint
    # rows that sum to its delta_bytes; base is the median rank, head the one explained
    dangling: tuple[Dangling, ...]
    # of both, run says whose


class RanksReport(Model):
    """The ranks of one run beside each other."""

    schema_version: int
    # whole number, RANKS_VERSION when written by this version
    run: RunSummary
    # in short
    notes: tuple[str, ...]
    # of the run
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    phase: str | None
    # that was asked for; none: the whole recording
    measure: MeasureName
    # by which ranks are compared
    ranks: tuple[RankFigures, ...]
    # ascending
    spread: Spread | None
    # of that phase and measure; none where no rank could be read
    phases: tuple[Spread, ...]
    # of every phase, in order of their start on the rank that has most
    why: RankWhy | None
    # none where the rank to explain is the median one, or has no such phase
