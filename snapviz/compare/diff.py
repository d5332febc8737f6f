"""Two runs in, a ``DiffReport`` out: every byte between them in a row, rank by rank, point by point."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from snapviz.analyze.describe import (
    allocator_settings,
    broken_ranks,
    dangling_of,
    known,
    measures,
    summary_of,
    suspects_of,
    without_dangling,
)
from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import folded_phases
from snapviz.analyze.run import Run, load_run
from snapviz.compare.align import DEFAULT_POINTS, At, Moment, Ranks, align_ranks, moment, parse_at
from snapviz.compare.rows import basis_of, group_rows
from snapviz.compare.stacks import JointStacks
from snapviz.compare.verdict import verdict
from snapviz.errors import UsageError
from snapviz.schema import (
    DIFF_VERSION,
    BrokenRank,
    Dangling,
    DiffReport,
    EnvironmentChange,
    MeasureBytes,
    PhaseDelta,
    Point,
    RankPoint,
    Suspect,
    Without,
)

__all__ = ["diff"]

Int64 = npt.NDArray[np.int64]

_Side = Literal["base", "head"]


def diff(
    base: Run | str | os.PathLike[str],
    head: Run | str | os.PathLike[str],
    at: Sequence[str] = DEFAULT_POINTS,
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> DiffReport:
    """Compares two runs, or what is at two paths, base first.

    ``at`` names the points (``end``, ``peak``, ``phase:NAME[:peak|:end]``), ``rank`` limits it to one.
    Raises ``UsageError`` for a point or a rank that neither run has, ``InputError`` for a path without a run.
    """
    base = base if isinstance(base, Run) else load_run(base, progress=progress)
    head = head if isinstance(head, Run) else load_run(head, progress=progress)
    points = [parse_at(text) for text in dict.fromkeys(at)]
    ranks = align_ranks(base, head, rank)
    say = progress or (lambda text: None)
    compared = []
    for number, one, other in ranks.pairs:
        say(f"comparing rank {number}")
        compared.append(_RankDiff(number, one.facts(say), other.facts(say)))
    _check_points(points, compared)
    broken = _broken(base, head, rank)
    shown = [_point(at_point, compared) for at_point in points]
    dangling = [d for c in compared for d in c.dangling()]
    return DiffReport(
        schema_version=DIFF_VERSION,
        base=summary_of(base),
        head=summary_of(head),
        verdict=verdict(base.name, head.name, shown, dangling, broken),
        notes=_notes(base, head, ranks, compared, points),
        broken=broken,
        environment=tuple(_environment(base, head)),
        unmatched_base_ranks=ranks.only_base,
        unmatched_head_ranks=ranks.only_head,
        phases=tuple(row for c in compared for row in c.phases()),
        points=tuple(shown),
        dangling=tuple(dangling),
        suspects=tuple(s for c in compared for s in c.suspects()),
    )


class _RankDiff:
    """One aligned rank."""

    def __init__(self, number: int, base: Facts, head: Facts) -> None:
        self.number, self.base, self.head = number, base, head
        self._stacks = JointStacks(base.frames, head.frames)
        self.basis = basis_of(base, head)

    def sides(self) -> tuple[tuple[_Side, Facts], tuple[_Side, Facts]]:
        return ("base", self.base), ("head", self.head)

    def point(self, at: At) -> RankPoint:
        moments = [moment(facts, at) for _, facts in self.sides()]
        events = [m.event if m is not None else None for m in moments]
        rows = group_rows(self.base, self.head, events[0], events[1], self._stacks, self.basis)
        without = [_without(facts, at, m) for (_, facts), m in zip(self.sides(), moments, strict=True)]
        return RankPoint(
            rank=self.number,
            base_phase=moments[0].phase if moments[0] else None,
            head_phase=moments[1].phase if moments[1] else None,
            base_total_bytes=rows.base_total,
            head_total_bytes=rows.head_total,
            delta_bytes=rows.head_total - rows.base_total,
            rows=rows.changed,
            unchanged=rows.unchanged,
            base_without=without[0],
            head_without=without[1],
        )

    def phases(self) -> list[PhaseDelta]:
        folded = [folded_phases(facts.phases) for _, facts in self.sides()]
        names = dict.fromkeys((*folded[1], *folded[0]))
        return [self._phase(name, folded) for name in names]

    def _phase(self, name: str, folded: list[dict[str, Int64]]) -> PhaseDelta:
        values = [
            _peak_and_end(facts, indices[name]) if name in indices else (None, None)
            for (_, facts), indices in zip(self.sides(), folded, strict=True)
        ]
        (base_peak, base_end), (head_peak, head_end) = values
        return PhaseDelta(
            rank=self.number,
            phase=name,
            base_peak=base_peak,
            base_end=base_end,
            head_peak=head_peak,
            head_end=head_end,
            peak_delta=_minus(head_peak, base_peak),
            end_delta=_minus(head_end, base_end),
        )

    def dangling(self) -> list[Dangling]:
        return [d for side, facts in self.sides() for d in dangling_of(facts, side, self.number)]

    def suspects(self) -> list[Suspect]:
        return [s for side, facts in self.sides() for s in suspects_of(facts, side, self.number)]


def _without(facts: Facts, at: At, when: Moment | None) -> Without | None:
    """What the peak would be without what dangles; none at ends, and where the rank has no such point."""
    if not at.peak or when is None:
        return None
    phases = None if at.phase is None else folded_phases(facts.phases)[at.phase]
    return without_dangling(facts, phases, int(facts.replay.after(when.event).allocated_bytes))


def _peak_and_end(facts: Facts, indices: Int64) -> tuple[MeasureBytes, MeasureBytes]:
    """Each measure's highest over the phases of one folded name, and all four at the end of the last."""
    return measures(facts.phases.peak[indices].max(axis=0)), measures(facts.phases.end[indices[-1]])


def _minus(one: MeasureBytes | None, other: MeasureBytes | None) -> MeasureBytes | None:
    if one is None or other is None:
        return None
    return measures(getattr(one, name) - getattr(other, name) for name in MeasureBytes.model_fields)


def _check_points(points: Sequence[At], compared: Sequence[_RankDiff]) -> None:
    """Raises ``UsageError`` for a phase that no rank of either run has."""
    known = dict.fromkeys(name for c in compared for _, f in c.sides() for name in folded_phases(f.phases))
    for at in points:
        if compared and at.phase is not None and at.phase not in known:
            raise UsageError(f"--at phase:{at.phase}: no such phase in either run (there is: {', '.join(known)})")


def _point(at: At, compared: Sequence[_RankDiff]) -> Point:
    ranks = [c.point(at) for c in compared]
    worst = max(ranks, key=lambda r: (r.delta_bytes, -r.rank)).rank if ranks else None
    return Point(at=at.text, title=at.title, ranks=tuple(ranks), worst_rank=worst)


def _broken(base: Run, head: Run, only: int | None) -> tuple[BrokenRank, ...]:
    found = [*broken_ranks(base, "base"), *broken_ranks(head, "head")]
    return tuple(one for one in found if only is None or one.rank is None or one.rank == only)


def _environment(base: Run, head: Run) -> list[EnvironmentChange]:
    """Differences of what is known on both sides: what only one side knows is no difference."""
    pairs: list[tuple[str, JsonValue, JsonValue]] = [
        ("torch", known(base, "torch"), known(head, "torch")),
        ("device", known(base, "device"), known(head, "device")),
        ("world size", base.world_size, head.world_size),
    ]
    found = [pair for pair in pairs if pair[1] is not None and pair[2] is not None and pair[1] != pair[2]]
    found += _changes("allocator", allocator_settings(base), allocator_settings(head))
    if base.manifest and head.manifest:
        found += _changes("package", dict(base.manifest.packages), dict(head.manifest.packages))
        found += _changes("setting", base.manifest.settings, head.manifest.settings)
    return [EnvironmentChange(what=what, base=b, head=h) for what, b, h in found]


def _changes(
    kind: str, base: dict[str, JsonValue], head: dict[str, JsonValue]
) -> list[tuple[str, JsonValue, JsonValue]]:
    if not base or not head:
        return []
    keys = sorted(base.keys() | head.keys())
    return [(f"{kind} {key}", base.get(key), head.get(key)) for key in keys if base.get(key) != head.get(key)]


# ------------------------------------------------------------------ what is not certain


def _notes(base: Run, head: Run, ranks: Ranks, compared: Sequence[_RankDiff], points: Sequence[At]) -> tuple[str, ...]:
    notes = list(ranks.notes)
    for run, only, other in ((base, ranks.only_base, head), (head, ranks.only_head, base)):
        if only:
            which = f"rank{'s' if len(only) > 1 else ''} {', '.join(map(str, only))}"
            notes.append(f"{which} of {run.name}: not in {other.name}, so not compared")
    notes += [f"{run.name}: {note}" for run in (base, head) for note in run.notes]
    for c in compared:
        notes += _basis_notes(c, base.name, head.name)
        for at in points:
            notes += [
                f"{run.name} has no phase {at.phase}: it counts as 0 bytes there"
                for run, (_, facts) in zip((base, head), c.sides(), strict=True)
                if moment(facts, at) is None
            ]
    said: dict[str, list[tuple[str, int]]] = {}
    for c in compared:
        for run, (_, facts) in zip((base, head), c.sides(), strict=True):
            for note in facts.notes:
                said.setdefault(note, []).append((run.name, c.number))
    notes += [f"{_who(where, len(compared))}: {note}" for note, where in said.items()]
    return tuple(dict.fromkeys(notes))


def _basis_notes(c: _RankDiff, base: str, head: str) -> list[str]:
    notes = []
    if not c.basis.names:
        lacking = base if c.base.record is None else head
        notes.append(f"{lacking} has no record of names: both are compared by what their stacks say, without owners")
    if not c.basis.births:
        notes.append(
            f"phases come from {c.base.phases.source} in {base} and from {c.head.phases.source} in {head}: "
            "rows are not told apart by phase of birth"
        )
    return notes


def _who(where: list[tuple[str, int]], ranks: int) -> str:
    """``main rank 0``, ``main, every rank``, ``both runs``."""
    runs: dict[str, list[int]] = {}
    for run, rank in where:
        runs.setdefault(run, []).append(rank)
    words = []
    for run, numbers in runs.items():
        which = "" if len(numbers) == ranks else f" rank {', '.join(map(str, numbers))}"
        words.append(f"{run}{which}")
    return "both runs" if len(words) == 2 and all(len(n) == ranks for n in runs.values()) else " and ".join(words)
