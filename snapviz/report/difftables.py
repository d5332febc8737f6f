"""The tables of a diff: phases, ranks, metrics. Only what changed has a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from snapviz.compare.benchmark import METRIC
from snapviz.compare.verdict import figures, is_cut, measured
from snapviz.report.layout import Column, Line, Span, clean, line, render_table, width_of, wrapped
from snapviz.report.phaserows import Measure, mark_of, measures_of, phase_table, whose
from snapviz.report.words import change, is_of_memory, number, signed
from snapviz.schema import (
    DiffReport,
    MeasureDelta,
    Moment,
    PhaseDelta,
    RankDelta,
    RankPoint,
)
from snapviz.units import format_bytes

__all__ = [
    "NOTHING",
    "metric_lines",
    "outside_lines",
    "percent",
    "phase_lines",
    "rank_lines",
    "reserved_lines",
    "short_names",
    "times_are_real",
]

_WIDE = 150
"""Columns from which reserved memory has a place too."""

_HEADING = 12
"""Columns of a run's name in a heading; a longer one is ``base`` or ``head`` there."""

_RANKS = 16
"""Rows of the table of ranks."""

_PHASES = 60
"""Rows of a table of phases, and names of those that did not change; JSON has all."""

NOTHING = Span("–", "faint")
"""Where a side has no figure, or two figures no difference that means anything."""


def short_names(report: DiffReport) -> tuple[str, str]:
    """The runs' names as headings have room for them."""
    names = clean(report.base.name), clean(report.head.name)
    return names if all(len(name) <= _HEADING for name in names) and names[0] != names[1] else ("base", "head")


# ------------------------------------------------------------------ phases


def phase_lines(report: DiffReport, width: int) -> list[Line]:
    """Phases whose allocated peak or end changed (reserved too, where there is room), of the ranks that
    differ: all alike once, else the worst rank's. One table, or one below the other where it is narrow."""
    known = measures_of(report)
    measures = [*known[:2], *(known[2:] if width >= _WIDE else [])]
    found = phase_table(report, measures)
    if found is None or not found.changed:
        return []
    changed, names = found.changed, short_names(report)
    measures = [m for m in measures if m in known[:2] or any(m.changed(row) for row in changed)]
    lines = [line(), *_phase_table(changed, measures, names, found.who, width)]
    if _widest(lines) > width:
        lines = []
        for measure in measures:
            if some := [row for row in changed if measure.changed(row)]:
                lines += [line(), *_phase_table(some, [measure], names, found.who, width)]
            else:
                lines += [line(), line(Span(f"{measure.heading}: did not change in any phase", "faint"))]
    if found.same:
        same = [row.phase for row in found.same]
        names_of_same = ", ".join(map(clean, same[:_PHASES])) + _and_more(len(same) - _PHASES)
        lines += wrapped(f"not changed: {names_of_same}", width, "", "  ", "faint")
    return lines + _legend(changed, width)


def _legend(rows: Sequence[PhaseDelta], width: int) -> list[Line]:
    """What the marks in the cells mean, of those there are."""
    marks = {mark_of(trust) for row in rows for trust in (row.base_trust, row.head_trust)}
    parts = ["≥ the recording does not have all of the phase"] * ("≥ " in marks)
    parts += ["~ not exact"] * ("~ " in marks)
    if apart := [row.phase for row in rows if not row.comparable]:
        told = ", ".join(map(clean, apart[:_PHASES])) + _and_more(len(apart) - _PHASES)
        parts.append(f"not compared, their sources differ: {told}")
    return wrapped("; ".join(parts), width, "", "  ", "faint") if parts else []


def _and_more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _widest(lines: list[Line]) -> int:
    return max(sum(width_of(span.text) for span in spans) for spans in lines)


def _phase_table(
    rows: Sequence[PhaseDelta], measures: Sequence[Measure], names: tuple[str, str], who: str, width: int
) -> list[Line]:
    columns = [Column(f"phase{who}", number=False)]
    for measure in measures:
        columns += [*(Column(f"{measure.heading} {name}") for name in names), Column("Δ")]
    lines = render_table(columns, [_phase_row(row, measures) for row in rows[:_PHASES]], width)
    more = len(rows) - _PHASES
    if more > 0:
        phases = "phase" if more == 1 else "phases"
        lines.append(line(Span(f"{more:,} more {phases}: --format json has them", "faint")))
    return lines


def _phase_row(row: PhaseDelta, measures: Sequence[Measure]) -> list[Span]:
    cells = [Span(clean(row.phase))]
    for measure in measures:
        (base, head), marks, delta = measure.pair(row), measure.marks(row), measure.delta(row)
        cells += [_cell(base, marks[0]), _cell(head, marks[1]), NOTHING if delta is None else change(delta)]
    return cells


def _delta(base: int | None, head: int | None) -> Span:
    return NOTHING if base is None or head is None else change(head - base)


def _cell(value: int | None, mark: str = "") -> Span:
    return NOTHING if value is None else Span(f"{mark}{format_bytes(value)}")


# ------------------------------------------------------------------ reserved and requested


def reserved_lines(report: DiffReport, width: int) -> list[Line]:
    """Of the run, what torch reserved from the device, for no table of phases has room for it everywhere, and
    what the program requested, where that differs by another amount than what is allocated for it.
    Of the rank that the phases are shown of, else of the one where it changed most."""
    what = report.options.measure
    shown = (("requested", _tells_more), ("reserved", lambda one: True))
    return [each for name, worth in shown if name != what for each in _measure_lines(report, width, name, worth)]


_ROUNDING = 20
"""Requested bytes have a line where their difference is at least one part in this many off that of blocks."""


def _tells_more(measure: MeasureDelta) -> bool:
    requested, allocated = measure.delta.requested_bytes, measure.delta.allocated_bytes
    return abs(requested - allocated) * _ROUNDING >= max(abs(requested), abs(allocated), 1)


def _measure_lines(report: DiffReport, width: int, name: str, worth: Callable[[MeasureDelta], bool]) -> list[Line]:
    if not report.ranks:
        return []
    first = report.points[0].worst_rank if report.points else None
    told = {rank.rank: _of_run(rank, f"{name}_bytes", worth) for rank in report.ranks}
    changed = [rank for rank in report.ranks if told[rank.rank]]
    if not changed:
        return []
    most = max(changed, key=lambda rank: (rank.rank == first, abs(getattr(rank.end.delta, f"{name}_bytes"))))
    parts = told[most.rank]
    alone = len(report.ranks) == 1 or all(one == parts for one in told.values())
    title = f"{name}{'' if alone else f' (rank {most.rank})'}   "
    together = title + " · ".join(parts)
    if width_of(together) <= width:
        return [line(together)]
    return [line(title if index == 0 else " " * len(title), part) for index, part in enumerate(parts)]


def _of_run(rank: RankDelta, field: str, worth: Callable[[MeasureDelta], bool]) -> list[str]:
    """``peak 534.00 MiB → 592.00 MiB (+58.00 MiB)``, and the same of the end; only what changed, and is known."""
    late = rank.base.truncated, rank.head.truncated
    # two recordings that begin late have highest values each, and no difference that means anything
    peak = _from_to(rank.peak, field, late) if worth(rank.peak) and late[0] == late[1] else ""
    end = _from_to(rank.end, field, (False, False)) if worth(rank.end) else ""
    if peak and peak == end:
        return [f"peak and end {peak}"]
    return [f"peak {peak}"] * bool(peak) + [f"end {end}"] * bool(end)


def _from_to(measure: MeasureDelta, field: str, late: tuple[bool, bool]) -> str:
    base, head, delta = (int(getattr(one, field)) for one in (measure.base, measure.head, measure.delta))
    marks = ["≥ " * begins for begins in late]
    told = f"{marks[0]}{format_bytes(base)} → {marks[1]}{format_bytes(head)}"
    return (told if any(late) else f"{told} ({signed(delta)})") if delta else ""


# ------------------------------------------------------------------ outside the allocator

_WORTH = 1 << 20
"""Bytes by which memory outside the allocator has to differ: less is noise of the driver's."""


def outside_lines(report: DiffReport, width: int) -> list[Line]:
    """What the device held outside the allocator at the end of the last phase that knows it, where that differs by
    more than 1 MiB: of the rank where it differs most. It is the whole device's, so that a line is enough."""
    changed = [row for row in report.outside if abs(row.delta_bytes) > _WORTH]
    if not changed:
        return []
    rank = max(changed, key=lambda row: (abs(row.delta_bytes), -row.rank)).rank
    last = [row for row in changed if row.rank == rank][-1]
    who = whose(rank, report.outside)
    text = (
        f"outside the allocator{who}, at the end of {last.phase}: {format_bytes(last.base_bytes)} → "
        f"{format_bytes(last.head_bytes)} ({signed(last.delta_bytes)}); of the whole device: contexts, NCCL and other "
        "processes count"
    )
    return [line(), *wrapped(clean(text), width, "", "  ", "faint")]


# ------------------------------------------------------------------ ranks


def rank_lines(report: DiffReport, width: int) -> list[Line]:
    """Totals of every rank, where ranks differ from each other."""
    base, head = short_names(report)
    lines: list[Line] = []
    # by rank, the rows are that table
    for point in report.points if report.options.by != "rank" else ():
        both = [r for r in point.ranks if r.delta_bytes is not None]
        if len({figures(r) for r in both}) < 2:
            continue
        ordered = sorted(both, key=lambda r: (-(r.delta_bytes or 0), r.rank))
        rows = [_rank_row(r, r.rank == point.worst_rank) for r in ordered[:_RANKS]]
        title = clean(f"{point.title}{measured(report.options.measure)}")
        columns = [Column(title, number=False), Column(base), Column(head), Column("Δ")]
        lines += [line(), *render_table(columns, rows, width)]
        if len(ordered) > _RANKS:
            lines.append(line(Span(f"{len(ordered) - _RANKS} more ranks, none of them worse", "faint")))
    return lines


def _rank_row(rank: RankPoint, worst: bool) -> list[Span]:
    base, head = figures(rank)
    moments = (rank.base_moment, rank.head_moment)
    sure = rank.comparable and not any(map(is_cut, moments))
    return [
        Span(f"rank {rank.rank}{' (worst)' if worst else ''}"),
        _cell(base, _mark_of(moments[0])),
        _cell(head, _mark_of(moments[1])),
        _delta(base, head) if sure else NOTHING,
    ]


def _mark_of(when: Moment | None) -> str:
    return mark_of(when.trust if when is not None else None)


# ------------------------------------------------------------------ around the runs


def metric_lines(report: DiffReport, width: int) -> list[Line]:
    """Metrics of either run, but for what the table of the benchmark has."""
    base, head = report.base.metrics, report.head.metrics
    names = [name for name in {**base, **head} if not (report.benchmark is not None and name == METRIC)]
    if not names:
        return []
    real = times_are_real(report)
    rows = [_metric_row(name, base.get(name), head.get(name), real or is_of_memory(name)) for name in names]
    columns = [Column("", number=False), *(Column(name) for name in short_names(report)), Column("")]
    lines = [line(), *render_table(columns, rows, width)]
    if any(not (real or is_of_memory(name)) for name in names):
        told = "not compared: with a fake process group values are wrong and times say nothing"
        lines += wrapped(f"– {told}", width, "", "  ", "faint")
    return lines


def _metric_row(name: str, base: float | None, head: float | None, holds: bool) -> list[Span]:
    change = percent(base, head) if base is not None and head is not None and holds else NOTHING
    return [Span(clean(name)), *(NOTHING if one is None else Span(number(one)) for one in (base, head)), change]


def times_are_real(report: DiffReport) -> bool:
    """Whether neither run had a fake process group, as far as is known."""
    return not (report.base.fake_process_group or report.head.fake_process_group)


def percent(base: float, head: float) -> Span:
    """The relative change: ``-0.1%``, ``×3000``, nothing where it is the same."""
    if base == head or (_is_nan(base) and _is_nan(head)):
        return Span("")
    if not base:
        return Span("from 0")
    try:
        ratio = (head - base) / abs(base)
    except OverflowError:
        ratio = math.inf
    if not math.isfinite(ratio):
        return NOTHING
    return Span(f"{ratio:+.1%}" if abs(ratio) < _MANY_TIMES else f"×{head / base:.3g}")


_MANY_TIMES = 1000


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
