"""The report of a diff. All bytes are integers; what a side does not have is none, not zero."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from snapviz.schema.base import Metrics, Model, Settings
from snapviz.schema.beside import Benchmark, OutsideDelta
from snapviz.schema.budget import Budget
from snapviz.schema.rows import DiffOptions, DiffRow, FoldedRows, Unchanged
from snapviz.schema.run import GitState
from snapviz.schema.trust import RankTrust, Trust
from snapviz.schema.waterfall import Waterfall

__all__ = [
    "DIFF_VERSION",
    "BrokenRank",
    "Dangling",
    "DiffReport",
    "EnvironmentChange",
    "MeasureBytes",
    "MeasureDelta",
    "Moment",
    "PhaseDelta",
    "Point",
    "RankDelta",
    "RankPoint",
    "RunSummary",
    "Suspect",
    "Without",
]

DIFF_VERSION = 1


class MeasureBytes(Model):
    """The four measures at one moment, or the four peaks of one stretch."""

    requested_bytes: int
    # what the program asked for
    allocated_bytes: int
    # rounded blocks in use: torch.cuda.memory_allocated
    active_bytes: int
    # allocated, and freed blocks another stream may still read
    reserved_bytes: int
    # what the allocator took from the device: torch.cuda.memory_reserved


class RunSummary(Model):
    """One side of a diff."""

    name: str
    # for people
    ranks: tuple[int, ...]
    # those that could be read, ascending
    world_size: int | None = None
    # none where nothing says it
    torch: str | None = None
    # none where nothing says it
    device: str | None = None
    # none where nothing says it
    git: GitState | None = None
    # none where nothing says it
    settings: Settings = {}
    # allocator settings
    recorded: bool = False
    # whether every rank has a record (names and exact phases)
    fake_process_group: bool | None = None
    # whether torch's fake process group stood in for the other ranks: its metrics of time say nothing
    metrics: Metrics = {}
    # as in the manifest


class EnvironmentChange(Model):
    """Something around the runs that differs and can move memory, or what a recording says of it."""

    what: str
    # such as torch, device, world size, allocator max_split_size, git commit, command, history max_entries
    base: JsonValue
    # none where base does not have it
    head: JsonValue
    # none where head does not have it


class MeasureDelta(Model):
    """One moment or stretch in both runs."""

    base: MeasureBytes
    # four measures in base
    head: MeasureBytes
    # the same in head
    delta: MeasureBytes
    # head − base


class RankDelta(Model):
    """One rank as a whole in both runs."""

    rank: int
    # as in PhaseDelta
    base: RankTrust
    # how far base's side is known
    head: RankTrust
    # as base
    peak: MeasureDelta
    # of the whole recording, each measure by itself; a truncated side's is a lower bound
    end: MeasureDelta
    # after the last event


class PhaseDelta(Model):
    """One folded phase of one rank in both runs. A side that lacks it is none, not zero."""

    rank: int
    # aligned by number; two runs of one rank each are aligned whatever it is, under head's
    phase: str
    # folded: train/step0 the first step, train/step the later ones
    spans: bool
    # made of the phases below it, gaps included: nothing recorded it by this name
    comparable: bool
    # false: phases of the two sides come from different sources, and need not mean the same stretch
    note: str
    # why not; "" where they are comparable
    base_trust: Trust | None
    # none where base lacks the phase
    head_trust: Trust | None
    # as base_trust
    base_peak: MeasureBytes | None
    # highest in any of base's phases of that name, each measure by itself
    base_end: MeasureBytes | None
    # at the end of the last of them
    head_peak: MeasureBytes | None
    # as base_peak
    head_end: MeasureBytes | None
    # as base_end
    peak_delta: MeasureBytes | None
    # head − base; none where a side lacks the phase
    end_delta: MeasureBytes | None
    # head − base


class Without(Model):
    """A peak recomputed from the curve with every dangling allocation taken out while it dangled."""

    peak_bytes: int
    # highest allocated of the same stretch of time
    saved_bytes: int
    # today's peak minus that; can be less than what dangles, when the peak moves elsewhere


class Moment(Model):
    """When a point is in one side of one rank."""

    event: int
    # the last event before it, -1: before the first
    time_us: int | None
    # of that event; none before the first, and where events carry no times
    phase: str | None
    # the raw phase it lies in; none outside
    trust: Trust
    # of what is held then; counted: a peak or end of a phase that torch counted
    counted_bytes: int | None
    # by torch's counter, where the record has it and the history is cut


class RankPoint(Model):
    """One rank at one point. base_total + Σ delta_bytes of the rows, and of what is folded = head_total, exactly.

    All bytes are of ``options.measure``. Where a side has no such point there is no total, no delta and no row.
    """

    rank: int
    # as in PhaseDelta
    base_moment: Moment | None
    # none where base lacks the point
    head_moment: Moment | None
    # as base_moment
    comparable: bool
    # false: a side lacks the point, or what is called so is another stretch there
    base_total_bytes: int | None
    # at base's moment, by replay
    head_total_bytes: int | None
    # at head's moment, by replay
    delta_bytes: int | None
    # head − base
    rows: tuple[DiffRow, ...]
    # those that changed, the largest |delta_bytes| first; in mode ratio the largest factor first, in mode
    # absolute all there are, the largest side first
    unchanged: Unchanged
    # the others
    folded: FoldedRows | None = None
    # those below the threshold; none without one
    before_training_bytes: int | None = None
    # part of delta_bytes in allocations older than the first training step; none where no record says when
    # that began
    training_bytes: int | None = None
    # the rest of delta_bytes: what was allocated from the first training step on
    base_without: Without | None = None
    # only at peaks of allocated bytes, where something dangles
    head_without: Without | None = None
    # as base_without


class Point(Model):
    """A moment that is compared."""

    at: str
    # end, peak, phase:NAME:peak or phase:NAME:end: what --at takes
    title: str
    # the same in words
    ranks: tuple[RankPoint, ...]
    # ascending by rank
    worst_rank: int | None
    # the rank with the largest growth; none where no rank has the point on both sides


class Dangling(Model):
    """An original parameter that is live after the phase that should have released it."""

    run: Literal["base", "head"] | None
    # which side; none where there is only one
    rank: int
    # in that run
    name: str
    # of the parameter, for people; several that share the allocation are told in short
    names: tuple[str, ...]
    # all that share the allocation, sorted: tied weights, parameters of one buffer
    allocation: int
    # its index among the rank's allocations: tells two of one name apart, within one file
    requested_bytes: int
    # what was asked for
    block_bytes: int
    # what it holds
    birth_phase: str
    # raw
    should_go_in: str
    # the phase that should have released it
    gone_in: str | None
    # the phase it really went in; none: live at the end
    dtype: str | None
    # none where not recorded
    shape: tuple[int, ...] | None
    # none where not recorded
    stack: tuple[str, ...]
    # "function (file:line)" of its creation, innermost first
    holders: tuple[str, ...]
    # what keeps it, where the recorder looked; what it could not explain comes last
    holder_kinds: tuple[str, ...] = ()
    # of each holder: module, optimizer, frame, view, unexplained, …; "" where not said


class Suspect(Model):
    """What may dangle in a bare file. Never certain; the evidence is all there is."""

    run: Literal["base", "head"] | None
    # which side; none where there is only one
    rank: int
    # in that run
    count: int
    # allocations with this stack and size
    requested_bytes: int
    # of all of them
    block_bytes: int
    # of all of them
    birth_phase: str
    # raw
    evidence: tuple[str, ...]
    # in words
    stack: tuple[str, ...]
    # as in Dangling


class BrokenRank(Model):
    """A rank that could not be read, or is missing. Never silently left out."""

    run: Literal["base", "head"] | None
    # which side; none where there is only one
    rank: int | None
    # none where even that is not known
    source: str
    # file name
    message: str
    # what is wrong with it


class DiffReport(Model):
    """Two runs compared. ``base`` first, everywhere."""

    schema_version: int
    # whole number, DIFF_VERSION when written by this version
    base: RunSummary
    # what head is compared with
    head: RunSummary
    # what is judged
    verdict: str
    # one or two sentences
    caveats: tuple[str, ...]
    # why numbers here are not exact or not comparable: before all else, and never cut
    notes: tuple[str, ...]
    # what else is inferred or left out: read before the numbers
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    environment: tuple[EnvironmentChange, ...]
    # empty: nothing around them differs, as far as is known
    unmatched_base_ranks: tuple[int, ...]
    # ranks only base has; one that is broken in head is in broken instead
    unmatched_head_ranks: tuple[int, ...]
    # as unmatched_base_ranks
    ranks: tuple[RankDelta, ...]
    # those compared, ascending
    phases: tuple[PhaseDelta, ...]
    # rank after rank, in order of head's phases
    points: tuple[Point, ...]
    # in the order asked for
    dangling: tuple[Dangling, ...]
    # of both runs, largest first within a rank
    suspects: tuple[Suspect, ...]
    # of both runs, only of ranks without a record
    outside: tuple[OutsideDelta, ...] = ()
    # of every rank and phase where both records know it, whether it differs or not
    benchmark: Benchmark | None = None
    # where both manifests have tokens_per_s
    options: DiffOptions = DiffOptions()
    # how the rows were made
    budgets: tuple[Budget, ...] = ()
    # those of --fail-on, judged, in the order they were given
    waterfall: tuple[Waterfall, ...] = ()
    # of every point and rank that can be compared, in the order of points
