"""The ranks of a run beside each other, for people. Pure: a finished ``RanksReport`` in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snapviz.report.heading import UNREAD, broken_lines, note_lines, run_lines
from snapviz.report.keepers import Keepers
from snapviz.report.layout import Column, Line, Span, clean, line, render_table, wrapped
from snapviz.report.rows import row_lines
from snapviz.report.words import broken_in_words, change, frames_in_words, plural
from snapviz.schema import BrokenRank, DiffOptions, ForeignMemory, RankFigures, RanksReport, Spread
from snapviz.units import format_bytes, format_exact

__all__ = ["rank_notes", "ranks_in_words", "ranks_lines"]

_ALL = 16
"""Ranks of which each has a row; of more, those that matter."""
_BEST = 2
_PHASES = 60
"""Rows of the table of phases; JSON has all."""
_NAMED = 8
"""Ranks that one line names."""
_STACKS = 3
"""Stacks told of what lies on another device."""
_MISSING = 8
"""Broken ranks with a row."""
_BAR = {80: 8, 100: 16, 120: 24}
"""Columns of a bar, by the width from which it is so long."""


def ranks_lines(report: RanksReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), ``top`` ranks and rows of what differs."""
    width = max(60, width)
    lines = run_lines(report.run, width)
    lines += wrapped(clean(f"{ranks_in_words(report)}{UNREAD if report.broken and report.ranks else ''}"), width)
    lines += broken_lines(report.broken, width)
    lines += note_lines(report.notes, width)
    lines += note_lines(rank_notes(report.ranks), width)
    lines += _rank_table(report, width, top)
    lines += _quantiles(report, width)
    lines += _foreign_lines(report.ranks, width)
    lines += _phase_table(report, width)
    return lines + _why_lines(report, width, top)


# ------------------------------------------------------------------ the verdict


def _what(spread: Spread) -> str:
    """``peak``, ``reserved peak in train/step``."""
    measure = "" if spread.measure == "allocated" else f"{spread.measure} "
    return f"{measure}peak{f' in {spread.phase}' if spread.phase else ''}"


def ranks_in_words(report: RanksReport) -> str:
    """The worst rank, how far it is from the others, and which are outliers."""
    spread = report.spread
    if spread is None:
        return "no rank could be read: there is nothing to compare."
    least = "at least " if spread.at_least else ""
    if spread.ranks == 1:
        return (
            f"rank {spread.worst_rank} is the only one: its {_what(spread)} is {least}{format_bytes(spread.max_bytes)}."
        )
    if spread.spread_bytes == 0:
        every = "both ranks have" if spread.ranks == 2 else f"all {spread.ranks} ranks have"
        return f"{every} the same {_what(spread)}, to the byte: {least}{format_bytes(spread.max_bytes)}."
    of = f" of {spread.ranks:,}" if spread.ranks > 2 else ""
    text = f"rank {spread.worst_rank}{of} has the highest {_what(spread)}, {least}{format_bytes(spread.max_bytes)}: "
    text += f"{_over(spread)}."
    if not spread.outliers:
        return text if spread.ranks < 3 else f"{text} No rank is an outlier."
    outliers = [str(rank) for rank in spread.outliers]
    more = f" and {len(outliers) - _NAMED} more" if len(outliers) > _NAMED else ""
    one = len(outliers) == 1
    return f"{text} {'Outlier is rank' if one else 'Outliers are ranks'} {', '.join(outliers[:_NAMED])}{more}."


def _over(spread: Spread) -> str:
    """How much the worst is above the median, or of two ranks above the other."""
    apart = spread.max_bytes - spread.median_bytes
    percent = f" ({100 * apart / spread.median_bytes:.1f}%)" if spread.median_bytes else ""
    if spread.ranks == 2:
        return f"{format_bytes(apart)}{percent} more than rank {spread.best_rank}"
    if apart == 0:
        return f"the median has as much, and rank {spread.best_rank} {format_bytes(spread.spread_bytes)} less"
    return f"{format_bytes(apart)}{percent} above the median, rank {spread.median_rank}"


def rank_notes(ranks: Sequence[RankFigures]) -> list[str]:
    """Notes of ranks, each once, with the ranks that have it."""
    found: dict[str, list[int]] = {}
    for one in ranks:
        for note in one.notes:
            found.setdefault(note, []).append(one.rank)
    several = len(ranks) > 1
    return [f"{f'{_ranks(who, len(ranks))}: ' if several else ''}{note}" for note, who in found.items()]


def _ranks(who: Sequence[int], of: int) -> str:
    if len(who) == of:
        return "both ranks" if of == 2 else f"all {of} ranks"
    more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
    return f"rank{'s' if len(who) > 1 else ''} {', '.join(map(str, who[:_NAMED]))}{more}"


# ------------------------------------------------------------------ the table


def _rank_table(report: RanksReport, width: int, top: int) -> list[Line]:
    spread = report.spread
    shown, left_out = _chosen(report.ranks, spread, top)
    measure = "" if report.measure == "allocated" else f"{report.measure} "
    columns = [Column(f"{measure}peak, by rank", number=False)]
    extra = [column for column in _COLUMNS if column.shown(report.ranks)]
    # what is left of the line is the bar's, and it is no number
    against = f"to rank {spread.best_rank}" if spread and spread.ranks == 2 else "to median"
    columns += [Column("peak"), Column(against), Column("end"), *(Column(one.heading) for one in extra)]
    bar = max((size for least, size in _BAR.items() if width >= least + 8 * max(0, len(extra) - 1)), default=0)
    columns += [Column("", number=False)] if bar else []
    rows = [_rank_row(one, report, extra, bar) for one in shown]
    rows += [_broken_row(one, len(columns)) for one in report.broken[:_MISSING]]
    lines = [line(), *render_table(columns, rows, width)] if rows else []
    if more := len(report.broken) - _MISSING:
        lines += [line(Span(f"{more:,} more that could not be read", "warning"))] if more > 0 else []
    if left_out:
        text = f"{plural(left_out, 'more rank')} between these: --top N shows more, --format json all"
        lines += wrapped(text, width, style="faint")
    return lines


class _Extra:
    """A column that is only there where a rank has something to say in it."""

    def __init__(self, heading: str, field: str, size: bool, least: int) -> None:
        self.heading, self._field, self._size, self._least = heading, field, size, least

    def _value(self, one: RankFigures) -> int | None:
        value: int | None = getattr(one, self._field)
        return value

    def shown(self, ranks: Iterable[RankFigures]) -> bool:
        return any((value := self._value(one)) is not None and value >= self._least for one in ranks)

    def cell(self, one: RankFigures) -> Span:
        value = self._value(one)
        if value is None:
            return Span("–", "faint")
        text = format_bytes(value) if self._size and value else f"{value:,}"
        # of these any is a fault
        return Span(text, "warning" if value and self._least else "")


_COLUMNS = (
    _Extra("dangling", "dangling_bytes", True, 1),
    _Extra("outside", "outside_bytes", True, 0),
    _Extra("retries", "alloc_retries", False, 1),
    _Extra("OOMs", "ooms", False, 1),
)


def _chosen(ranks: Sequence[RankFigures], spread: Spread | None, top: int) -> tuple[list[RankFigures], int]:
    """The ranks with a row, and how many have none: of many the worst, outliers, the median and the best."""
    if len(ranks) <= max(_ALL, top) or spread is None:
        return list(ranks), 0
    known = [one for one in ranks if one.value_bytes is not None]
    ordered = sorted(known, key=lambda one: (-(one.value_bytes or 0), one.rank))
    outliers = [one for one in ordered if one.outlier]
    chosen = [*ordered[: max(1, top)], *outliers[:top], *(outliers[-top:] if top else [])]
    chosen += [one for one in known if one.rank == spread.median_rank]
    chosen += ordered[-_BEST:]
    kept = list({one.rank: one for one in sorted(chosen, key=lambda o: (-(o.value_bytes or 0), o.rank))}.values())
    return kept, len(ranks) - len(kept)


def _rank_row(one: RankFigures, report: RanksReport, extra: Sequence[_Extra], bar: int) -> list[Span]:
    spread = report.spread
    if one.value_bytes is None or spread is None:
        row = [Span(f"rank {one.rank}"), Span("–", "faint"), Span("–", "faint")]
    else:
        least = "≥ " if one.at_least else ""
        row = [Span(f"rank {one.rank}{_mark(one, spread)}"), Span(f"{least}{format_bytes(one.value_bytes)}")]
        row.append(change(one.deviation_bytes or 0))
    row += [Span(format_bytes(_end(one, report))), *(column.cell(one) for column in extra)]
    if bar:
        full = spread.max_bytes if spread else 0
        row.append(Span(_bar(one.value_bytes or 0, full, bar), "more" if one.outlier else ""))
    return row


def _mark(one: RankFigures, spread: Spread) -> str:
    if spread.ranks < 2 or spread.spread_bytes == 0:
        return ""
    parts = ["worst"] * (one.rank == spread.worst_rank) + ["outlier"] * one.outlier
    parts += ["median"] * (one.rank == spread.median_rank and spread.ranks > 2)
    return f" ({', '.join(parts)})" if parts else ""


def _end(one: RankFigures, report: RanksReport) -> int:
    end = one.end
    if report.phase is not None:
        end = next((row.end for row in one.phases if row.phase == report.phase), end)
    value: int = getattr(end, f"{report.measure}_bytes")
    return value


_EIGHTHS = " ▏▎▍▌▋▊▉█"


def _bar(value: int, full: int, columns: int) -> str:
    """A bar from nothing, in eighths of a column."""
    eighths = value * columns * 8 // full if full else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _broken_row(one: BrokenRank, columns: int) -> list[Span]:
    name = clean(broken_in_words(one) or "other ranks")
    return [Span(name, "warning"), Span("unread", "warning"), *[Span("–", "faint")] * (columns - 3), Span("")][:columns]


def _quantiles(report: RanksReport, width: int) -> list[Line]:
    spread = report.spread
    if spread is None or spread.ranks < 3 or spread.spread_bytes == 0:
        return []
    percent = f", {spread.spread_percent:.1f}% of the median" if spread.spread_percent is not None else ""
    text = (
        f"spread {format_bytes(spread.spread_bytes)}{percent}; an outlier is more than "
        f"{format_bytes(spread.limit_bytes)} from the median (4.4478 × MAD, at least 1% of the median and 2 MiB)"
    )
    lines = [line(), *wrapped(text, width)]
    if spread.ranks < 5:
        return lines
    values = {"lowest": spread.min_bytes, "median": spread.median_bytes, "highest": spread.max_bytes}
    values |= {at: size for at, size in spread.quantiles.items() if at in ("25%", "75%") or width >= _WIDE}
    ordered = sorted(values, key=_QUANTILES.index)
    columns = [Column(at, number=index > 0) for index, at in enumerate(ordered)]
    return [*lines, *render_table(columns, [[Span(format_bytes(values[at])) for at in ordered]], width)]


_QUANTILES = ("lowest", "10%", "25%", "median", "75%", "90%", "highest")
_WIDE = 90
"""Columns from which all quantiles have room."""


# ------------------------------------------------------------------ other devices


def _foreign_lines(ranks: Sequence[RankFigures], width: int) -> list[Line]:
    found = [(one, memory) for one in ranks for memory in one.foreign]
    if not found:
        return []
    lines = [line(), line(Span("memory on a device that is not the rank's own", "strong"))]
    for one, memory in found[:_NAMED]:
        lines += _foreign_line(one, memory, width)
    if len(found) > _NAMED:
        lines.append(line(f"  and {plural(len(found) - _NAMED, 'more rank')}: --format json has them"))
    return lines


def _foreign_line(one: RankFigures, memory: ForeignMemory, width: int) -> list[Line]:
    text = (
        f"rank {one.rank} (device {one.device}) has {format_bytes(memory.reserved_bytes)} reserved on device "
        f"{memory.device}, {format_bytes(memory.allocated_bytes)} of it allocated at the end"
    )
    if memory.peak_allocated_bytes > memory.allocated_bytes:
        text += f" and {format_bytes(memory.peak_allocated_bytes)} at its peak"
    lines = wrapped(
        f"{text}. It is in no figure above; the context that it takes there is in none at all.", width, "  "
    )
    for block in memory.blocks[:_STACKS]:
        size = f"    {format_bytes(block.held_bytes)} in {plural(block.held_count, 'block')}  "
        lines.append(line(size, Span(frames_in_words(block.stack, None, max(20, width - len(size))), "faint")))
    return lines


# ------------------------------------------------------------------ phases, and why


def _phase_table(report: RanksReport, width: int) -> list[Line]:
    if len(report.ranks) < 2 or not report.phases:
        return []
    measure = "" if report.measure == "allocated" else f"{report.measure} "
    columns = [Column(f"{measure}peak, by phase", number=False), *map(Column, ("worst", "highest", "median"))]
    columns += [Column("lowest"), Column("spread"), Column("")]
    apart = [one for one in report.phases if one.spread_bytes]
    rows = []
    for one in apart[:_PHASES]:
        least = "≥ " if one.at_least else ""
        percent = f"{one.spread_percent:.1f}%" if one.spread_percent is not None else ""
        row = [Span(clean(one.phase or "")), Span(f"rank {one.worst_rank}")]
        row += [Span(f"{least}{format_bytes(one.max_bytes)}"), Span(format_bytes(one.median_bytes))]
        row += [Span(format_bytes(one.min_bytes)), change(one.spread_bytes), Span(percent, "faint")]
        rows.append(row)
    lines = [line(), *(render_table(columns, rows, width) if rows else [])]
    if len(apart) > _PHASES:
        more = plural(len(apart) - _PHASES, "more phase")
        lines.append(line(Span(f"{more}: --format json has them", "faint")))
    return lines + _alike(report, width)


def _alike(report: RanksReport, width: int) -> list[Line]:
    """The phases in which all ranks peak at the same, in one line."""
    names = [
        f"{clean(one.phase or '')}{'' if one.ranks == len(report.ranks) else f' (on {one.ranks:,})'}"
        for one in report.phases
        if not one.spread_bytes
    ]
    if not names:
        return []
    more = f" and {len(names) - _PHASES:,} more" if len(names) > _PHASES else ""
    every = "both ranks" if len(report.ranks) == 2 else "all ranks"
    return wrapped(f"the same on {every}: {', '.join(names[:_PHASES])}{more}", width, "", "  ", "faint")


def _why_lines(report: RanksReport, width: int, top: int) -> list[Line]:
    why = report.why
    delta = why.point.delta_bytes if why is not None else None
    if why is None or delta is None:
        return []
    point = why.point
    at = "at the peak" if report.phase is None else f"at the peak of {report.phase}"
    who = f"rank {why.rank} against rank {why.median_rank}"
    who += " (the median)" if report.spread and report.spread.ranks > 2 else ""
    of = "" if report.measure == "allocated" else f" {report.measure}"
    title = f"why, {at}, {who}: {format_exact(delta, signed=True)}{of}"
    lines = [line(), *wrapped(clean(title), width, style="strong")]
    moments = (("base", why.median_rank, point.base_moment), ("head", why.rank, point.head_moment))
    found = [(rank, when.phase) for _, rank, when in moments if when is not None and when.phase not in (None, "run")]
    text = " · ".join(f"rank {rank} peaks in {phase}" for rank, phase in found)
    if len({phase for _, phase in found}) == 1 and len(found) == 2:
        text = f"both peak in {found[0][1]}"
    lines += wrapped(clean(text), width, "  ", "  ", "faint") if text else []
    uncertain = [rank for _, rank, when in moments if when is not None and not when.trust.whole]
    if uncertain:
        text = (
            f"the recording of {_ranks(uncertain, 0)} begins in the middle: the rows are those of what is left of it."
        )
        lines += wrapped(text, width, "~ ", "  ")
    return lines + row_lines(
        DiffOptions(measure=report.measure), point, width, top, keepers=Keepers(why.dangling, why.rank)
    )
