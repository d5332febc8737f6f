"""A diff for people: verdict, what is not certain, where, why, and what it would save.

Pure: a finished ``DiffReport`` in, lines out. Nothing that did not change takes up room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from snapviz.compare.verdict import is_cut, judged_of, told_apart, worst_of
from snapviz.report.difftables import (
    environment_lines,
    metric_lines,
    outside_lines,
    phase_lines,
    rank_lines,
    reserved_lines,
)
from snapviz.report.keepers import Keepers, kept_lines
from snapviz.report.layout import Line, Span, clean, line, wrapped
from snapviz.report.rows import row_lines
from snapviz.report.training import benchmark_lines, origin_lines
from snapviz.report.words import block_counts, broken_in_words, fold_names, plural
from snapviz.schema import Dangling, DiffReport, DiffRow, Point, RankPoint, Suspect
from snapviz.units import format_bytes, format_exact

__all__ = ["diff_lines", "suspect_lines"]

_NOTES = 6
_SUSPECTS = 3
"""Shown of each; JSON has all."""


def diff_lines(report: DiffReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), ``top`` rows to a point."""
    width = max(60, width)
    lines = _header(report, width)
    lines += _warnings(report, width)
    phases, reserved = phase_lines(report, width), reserved_lines(report, width)
    lines += [*phases, *([] if phases or not reserved else [line()]), *reserved]
    lines += rank_lines(report, width)
    lines += outside_lines(report, width)
    lines += _why(report, width, top)
    lines += origin_lines(report, width)
    lines += _saving(report, width)
    lines += _lasting(report, width)
    lines += _suspects(report, width)
    lines += metric_lines(report, width)
    lines += benchmark_lines(report, width)
    return lines


def _header(report: DiffReport, width: int) -> list[Line]:
    names = " → ".join(_names(report))
    facts = " · ".join(_shared_facts(report))
    first = [line(Span(names, "strong"), "   ", Span(facts, "faint"))]
    if len(names) + len(facts) + 3 > width:
        first = [*wrapped(names, width, style="strong"), *wrapped(facts, width, style="faint")]
    return [*first, *wrapped(clean(report.verdict), width), *environment_lines(report, width)]


def _names(report: DiffReport) -> tuple[str, str]:
    base, head = told_apart(report.base.name, report.head.name)
    return clean(base), clean(head)


def _shared_facts(report: DiffReport) -> Iterator[str]:
    base, head = report.base, report.head
    compared = [rank.rank for rank in report.points[0].ranks] if report.points else []
    world = head.world_size if head.world_size == base.world_size else None
    if len(compared) == 1 and world and world > 1:
        yield f"rank {compared[0]} of {world}"
    elif world and 0 < len(compared) < world:
        yield f"{len(compared)} of {world} ranks"
    else:
        yield plural(len(compared), "rank")
    if head.torch and head.torch == base.torch:
        yield f"torch {clean(head.torch)}"
    if head.device and head.device == base.device:
        yield clean(head.device)
    for name, run in zip(_names(report), (base, head), strict=True):
        if run.git is not None:
            dirty = ", dirty" if run.git.dirty else ""
            yield f"{name} at {clean(run.git.commit[:7])}{dirty}"


def _warnings(report: DiffReport, width: int) -> list[Line]:
    """Above every table: what could not be read, what is not exact (all of it), and what else to know."""
    lines: list[Line] = []
    base, head = _names(report)
    for broken in report.broken:
        which = f"{broken_in_words(broken)} is not in these numbers: " if broken.source else ""
        text = f"{base if broken.run == 'base' else head}: {clean(f'{which}{broken.message}')}"
        lines += _bullet(text, width, "warning")
    for note in (*report.caveats, *report.notes[:_NOTES]):
        lines += _bullet(clean(note), width, "")
    if len(report.notes) > _NOTES:
        lines += _bullet(f"{plural(len(report.notes) - _NOTES, 'more note')} (--format json has all)", width, "")
    return [line(), *lines] if lines else []


def _bullet(text: str, width: int, style: str) -> list[Line]:
    return wrapped(text, width, "! " if style == "warning" else "~ ", "  ", style)


# ------------------------------------------------------------------ why


def _why(report: DiffReport, width: int, top: int) -> list[Line]:
    lines: list[Line] = []
    told: dict[int, tuple[frozenset[DiffRow], str]] = {}
    for points in _merged(report.points):
        rank = _worst(points[0])
        if rank is None or not rank.rows:
            continue
        rows, where = told.get(rank.rank, (frozenset(), ""))
        lines += [line(), *wrapped(_why_title(points, rank), width, style="strong")]
        if len(_phases_of_peak(points)) == 2 and _share_phases(report, rank.rank):
            hint = "these are two different moments: --at phase:NAME compares one phase"
            lines += wrapped(hint, width, "  ", "  ", "faint")
        lines += row_lines(rank, width, top, rows, where, Keepers(report.dangling, rank.rank))
        told.setdefault(rank.rank, (frozenset(rank.rows), clean(points[0].title)))
    return lines + _not_explained(report, width, bool(lines))


def _not_explained(report: DiffReport, width: int, others: bool) -> list[Line]:
    """A line for a point that is not compared, and for one without a change beside ``others`` that have one."""
    lines: list[Line] = []
    for point in report.points:
        sure, known = judged_of(point), [rank for rank in point.ranks if rank.delta_bytes is not None]
        if known and not sure:
            lines += wrapped(f"{clean(point.title)}: not compared. {_remedy(report, known)}", width, "", "  ")
        elif others and sure and not any(rank.rows or rank.delta_bytes for rank in sure):
            lines += wrapped(f"{clean(point.title.removeprefix('at the '))}: did not change", width, "", "  ", "faint")
    return [line(), *lines] if lines else []


def _remedy(report: DiffReport, ranks: Sequence[RankPoint]) -> str:
    """Why nothing can be compared, and what would let it be."""
    cut = [[is_cut(when) for when in (rank.base_moment, rank.head_moment)] for rank in ranks]
    names = [name for side, name in enumerate(_names(report)) if any(one[side] for one in cut)]
    if not names:
        return "Its phases come from another source on each side: record both runs alike."
    has = "have" if len(names) > 1 else "has"
    return f"{' and '.join(names)} {has} no recording of the start: begin recording before the first allocation."


def _merged(points: Sequence[Point]) -> list[list[Point]]:
    """Points whose worst rank has the same rows are told once."""
    groups: list[list[Point]] = []
    for point in points:
        other = _worst(point)
        if other is None:
            continue
        for group in groups:
            one = _worst(group[0])
            if one is not None and one.rank == other.rank and one.rows == other.rows:
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _why_title(points: Sequence[Point], rank: RankPoint) -> str:
    first = points[0]
    titles = " and ".join(point.title for point in points)
    if all(point.at in ("end", "peak") for point in points):
        titles = " and ".join(f"at the {point.at}" for point in points) + " of the run"
    phases = _phases_of_peak(points)
    if phases and (first.at == "peak" or len(phases) == 2):
        titles += f" ({' → '.join(phases)})"
    if any(_is_partial(point, rank.rank) for point in points):
        titles += ", as far as it is recorded"
    same, sure = [r.rank for r in first.ranks if r.rows == rank.rows], judged_of(first)
    if len(first.ranks) == 1:
        who = ""
    elif len(same) == len(first.ranks):
        who = ", both ranks" if len(same) == 2 else f", all {len(same)} ranks"
    else:
        who = f", rank {rank.rank}{f' (worst of {len(sure)})' if len(sure) > 1 else ''}"
    return f"why, {clean(titles)}{who}: {format_exact(rank.delta_bytes or 0, signed=True)}"


def _phases_of_peak(points: Sequence[Point]) -> list[str]:
    """The phases that base and head of the run's peak are in: one where it is the same, none where none is known."""
    rank = next((_worst(point) for point in points if point.at == "peak"), None)
    moments = [rank.base_moment, rank.head_moment] if rank is not None else []
    phases = [when.phase for when in moments if when is not None]
    if all(phase in (None, "run") for phase in phases):
        return []
    return list(dict.fromkeys("no phase" if phase in (None, "run") else phase for phase in phases))


def _share_phases(report: DiffReport, number: int) -> bool:
    """Whether a rank has a phase that can be compared: names from different sources may be one moment."""
    rows = (row for row in report.phases if row.rank == number and row.comparable)
    return any(row.base_peak is not None and row.head_peak is not None for row in rows)


def _is_partial(point: Point, number: int) -> bool:
    """Whether a side of a rank's peak lost its beginning, counted by torch or not."""
    moments = (m for r in point.ranks if r.rank == number for m in (r.base_moment, r.head_moment))
    return any(moment is not None and not moment.trust.whole for moment in moments)


def _worst(point: Point) -> RankPoint | None:
    """The worst rank of those that can be compared."""
    sure = judged_of(point)
    return next((r for r in sure if r.rank == point.worst_rank), worst_of(sure) if sure else None)


# ------------------------------------------------------------------ what it would save


def _saving(report: DiffReport, width: int) -> list[Line]:
    lines: list[Line] = []
    base, head = _names(report)
    for point in report.points:
        rank = _worst(point)
        # where nothing changed there is nothing to save against base
        if rank is None or not rank.rows or rank.base_total_bytes is None or _is_partial(point, rank.rank):
            continue
        if rank.head_without is not None and rank.head_without.saved_bytes:
            against = rank.head_without.peak_bytes - rank.base_total_bytes
            way = "above" if against > 0 else "below"
            than = f"the same as {base}" if against == 0 else f"{format_bytes(abs(against))} {way} {base}"
            text = f"without what dangles, and nothing else changed, {head} would peak at "
            text += format_bytes(rank.head_without.peak_bytes) + ("" if _makes_more(rank) else f": {than}")
            where = "" if point.at == "peak" else f" {clean(point.title)}"
            lines += wrapped(f"{text}{where}.", width)
    return [line(), *lines] if lines else []


def _makes_more(rank: RankPoint) -> bool:
    """Whether base makes an optimizer's state and head none: what head saved it would need once it did."""
    rows = [row for row in rank.rows if row.category == "optimizer state"]
    return bool(rows) and not any(row.head_count for row in rows)


def _lasting(report: DiffReport, width: int) -> list[Line]:
    """What dangles in both runs, or went late: no part of the growth, and worth a line all the same."""
    lines: list[Line] = []
    for rank in sorted({d.rank for d in report.dangling}):
        sides = [[d for d in report.dangling if d.rank == rank and d.run == side] for side in ("base", "head")]
        keys = [{(d.name, d.block_bytes) for d in side} for side in sides]
        both = [d for d in sides[1] if (d.name, d.block_bytes) in keys[0]]
        late = [d for d in sides[1] if d.gone_in is not None]
        lines += _dangling_line(f"rank {rank}: dangling in both runs", both, width)
        for phase in dict.fromkeys(d.gone_in for d in late):
            some = [d for d in late if d.gone_in == phase]
            what = f"rank {rank}: in {_names(report)[1]} released late, in {phase}"
            lines += _dangling_line(what, some, width)
    return [line(), *lines] if lines else []


def _dangling_line(what: str, found: Sequence[Dangling], width: int) -> list[Line]:
    if not found:
        return []
    total = format_bytes(sum(d.block_bytes for d in found))
    names = ", ".join(clean(name) for name, _ in fold_names([d.name for d in found]))
    lines = wrapped(f"{clean(what)}: {plural(len(found), 'parameter')}, {total}: {names}", width, "", "  ")
    return lines + list(chain.from_iterable(kept_lines(found, width, 2)))


def _suspects(report: DiffReport, width: int) -> list[Line]:
    """Suspects that only one run has; what both have is no difference and gets one line."""
    lines: list[Line] = []
    of = {side: [s for s in report.suspects if s.run == side] for side in ("base", "head")}
    keys = {side: {_suspect_key(s) for s in found} for side, found in of.items()}
    base, head = _names(report)
    for side, other, name in (("base", "head", base), ("head", "base", head)):
        if found := [s for s in of[side] if _suspect_key(s) not in keys[other]]:
            title = f"suspects in {name} (no record says what they are: none is certain)"
            lines += [line(), *wrapped(title, width, style="strong"), *suspect_lines(found, width)]
    if both := [s for s in of["head"] if _suspect_key(s) in keys["base"]]:
        total = format_bytes(sum(s.block_bytes for s in both))
        lines += [line(), *wrapped(f"suspects in both runs, none certain: {plural(len(both), 'kind')}, {total}", width)]
    return lines


def _suspect_key(one: Suspect) -> tuple[object, ...]:
    return one.rank, one.count, one.requested_bytes, one.evidence, len(one.stack)


def suspect_lines(found: Sequence[Suspect], width: int) -> list[Line]:
    """The largest suspects with their evidence, and a line for the rest."""
    lines: list[Line] = []
    for one in found[:_SUSPECTS]:
        size = f"{format_bytes(one.block_bytes)} in {block_counts(one.count, one.count)}"
        lines += wrapped(f"{size}: {clean('; '.join(one.evidence))}", width, "  ", "    ")
    rest = found[_SUSPECTS:]
    if rest:
        total = format_bytes(sum(s.block_bytes for s in rest))
        lines += wrapped(f"{len(rest)} more kinds, {total}, on the same evidence", width, "  ", "    ")
    return lines
