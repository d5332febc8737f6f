"""Why a diff's points differ: for each the worst rank's rows, or a line on why they are not told."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.compare.verdict import is_cut, judged_of, measured, recorded_of, told_apart, worst_of
from snapviz.report.grouped import grouped_lines, rank_table
from snapviz.report.keepers import Keepers
from snapviz.report.layout import Line, clean, line, wrapped
from snapviz.report.rows import row_lines
from snapviz.schema import DiffReport, DiffRow, Point, RankPoint
from snapviz.units import format_exact

__all__ = ["full_names", "is_partial", "why_lines", "worst_rank"]


def full_names(report: DiffReport) -> tuple[str, str]:
    """The runs' names as sentences use them, told apart."""
    base, head = told_apart(report.base.name, report.head.name)
    return clean(base), clean(head)


def why_lines(report: DiffReport, width: int, top: int) -> list[Line]:
    """The rows of each point that has some, at most about ``top`` of them."""
    lines: list[Line] = []
    told: dict[int, tuple[frozenset[DiffRow], str]] = {}
    for points in [[point] for point in report.points] if report.options.by == "rank" else _merged(report.points):
        rank = worst_rank(points[0])
        # in a table of ranks one that shrank is told where the worst did not change
        rows = points[0].ranks if report.options.by == "rank" else [rank]
        if rank is None or not any(one and (one.rows or one.folded) for one in rows):
            continue
        lines += [line(), *wrapped(_why_title(report, points, rank), width, style="strong")]
        lines += [each for hint in _hints(report, points, rank) for each in wrapped(hint, width, "  ", "  ", "faint")]
        if report.options.by == "rank":
            lines += rank_table(report, points[0], width, top)
        elif report.options.by is not None or report.options.mode != "delta":
            lines += grouped_lines(report, rank, width, top)
        else:
            again = told.get(rank.rank, (frozenset(), ""))
            lines += row_lines(report.options, rank, width, top, again, Keepers(report.dangling, rank.rank))
            told.setdefault(rank.rank, (frozenset(rank.rows), clean(points[0].title)))
    return lines + _not_explained(report, width, bool(lines))


def _hints(report: DiffReport, points: Sequence[Point], rank: RankPoint) -> list[str]:
    """What to know before the rows: whose moments they are."""
    hints = []
    if len(_phases_of_peak(points)) == 2 and _share_phases(report, rank.rank):
        hints.append("these are two different moments: --at phase:NAME compares one phase")
    if not any(rank in judged_of(point) for point in points):
        hints.append(
            "both recordings begin in the middle: this compares what they hold, and either run may have peaked "
            "higher before; begin recording before the first allocation to compare the runs"
        )
    return hints


def _not_explained(report: DiffReport, width: int, others: bool) -> list[Line]:
    """A line for a point that is not compared, and for one without a change beside ``others`` that have one."""
    lines: list[Line] = []
    for point in report.points:
        sure, known = judged_of(point), [rank for rank in point.ranks if rank.delta_bytes is not None]
        if known and not sure and not recorded_of(point):
            lines += wrapped(f"{clean(point.title)}: not compared. {_remedy(report, known)}", width, "", "  ")
        elif others and sure and not any(rank.rows or rank.folded or rank.delta_bytes for rank in sure):
            lines += wrapped(f"{clean(point.title.removeprefix('at the '))}: did not change", width, "", "  ", "faint")
    return [line(), *lines] if lines else []


def _remedy(report: DiffReport, ranks: Sequence[RankPoint]) -> str:
    """Why nothing can be compared, and what would let it be."""
    cut = [[is_cut(when) for when in (rank.base_moment, rank.head_moment)] for rank in ranks]
    names = [name for side, name in enumerate(full_names(report)) if any(one[side] for one in cut)]
    if not names:
        return "Its phases come from another source on each side: record both runs alike."
    has = "have" if len(names) > 1 else "has"
    return f"{' and '.join(names)} {has} no recording of the start: begin recording before the first allocation."


def _merged(points: Sequence[Point]) -> list[list[Point]]:
    """Points whose worst rank has the same rows are told once."""
    groups: list[list[Point]] = []
    for point in points:
        other = worst_rank(point)
        if other is None:
            continue
        for group in groups:
            one = worst_rank(group[0])
            if one is not None and (one.rank, one.rows, one.folded) == (other.rank, other.rows, other.folded):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _why_title(report: DiffReport, points: Sequence[Point], rank: RankPoint) -> str:
    first, options = points[0], report.options
    titles = " and ".join(point.title for point in points)
    if all(point.at in ("end", "peak") for point in points):
        titles = " and ".join(f"at the {point.at}" for point in points) + " of the run"
    phases = _phases_of_peak(points)
    if phases and (first.at == "peak" or len(phases) == 2):
        titles += f" ({' → '.join(phases)})"
    if any(is_partial(point, rank.rank) for point in points):
        titles += ", as far as it is recorded"
    same = [r.rank for r in first.ranks if (r.rows, r.folded) == (rank.rows, rank.folded)]
    sure = judged_of(first) or recorded_of(first)
    if len(first.ranks) == 1 or options.by == "rank":
        who = ""
    elif len(same) == len(first.ranks):
        who = ", both ranks" if len(same) == 2 else f", all {len(same)} ranks"
    else:
        who = f", rank {rank.rank}{f' (worst of {len(sure)})' if len(sure) > 1 else ''}"
    of = measured(options.measure)
    how = f", by {options.by}" * bool(options.by) + f",{of}" * bool(of)
    if options.mode == "absolute":
        held = " → ".join(format_exact(total or 0) for total in (rank.base_total_bytes, rank.head_total_bytes))
        return f"what is held, {clean(titles)}{who}{how}{'' if options.by == 'rank' else f': {held}'}"
    delta = "" if options.by == "rank" else f": {format_exact(rank.delta_bytes or 0, signed=True)}"
    return f"why, {clean(titles)}{who}{how}{delta}"


def _phases_of_peak(points: Sequence[Point]) -> list[str]:
    """The phases that base and head of the run's peak are in: one where it is the same, none where none is known."""
    rank = next((worst_rank(point) for point in points if point.at == "peak"), None)
    moments = [rank.base_moment, rank.head_moment] if rank is not None else []
    phases = [when.phase for when in moments if when is not None]
    if all(phase in (None, "run") for phase in phases):
        return []
    return list(dict.fromkeys("no phase" if phase in (None, "run") else phase for phase in phases))


def _share_phases(report: DiffReport, number: int) -> bool:
    """Whether a rank has a phase that can be compared: names from different sources may be one moment."""
    rows = (row for row in report.phases if row.rank == number and row.comparable)
    return any(row.base_peak is not None and row.head_peak is not None for row in rows)


def is_partial(point: Point, number: int) -> bool:
    """Whether a side of a rank's peak lost its beginning, counted by torch or not."""
    moments = (m for r in point.ranks if r.rank == number for m in (r.base_moment, r.head_moment))
    return any(moment is not None and not moment.trust.whole for moment in moments)


def worst_rank(point: Point) -> RankPoint | None:
    """The worst rank of those that can be compared, where there is none of those whose recordings can."""
    sure = judged_of(point)
    if not sure:
        late = recorded_of(point)
        return max(late, key=lambda rank: (rank.delta_bytes or 0, -rank.rank)) if late else None
    return next((r for r in sure if r.rank == point.worst_rank), worst_of(sure))
