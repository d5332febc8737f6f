"""The parts of the Ranks page: pure functions of finished reports to components and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html

from snapviz.app.controls import link, notice, table
from snapviz.app.state import State
from snapviz.compare.rankgrid import MISSING, WHOLE, Drawn, beside, drawn, from_median, grid_of, merged
from snapviz.report.layout import clean, cut
from snapviz.report.plots import colours
from snapviz.report.plots.base import Figure
from snapviz.report.plots.ranks import column_labels, phase_labels, spreads, uncertain
from snapviz.report.rankstext import rank_notes, ranks_in_words
from snapviz.report.words import broken_in_words, frames_in_words, plural
from snapviz.schema import BrokenRank, DiffRow, RankFigures, RanksReport, Spread
from snapviz.units import format_bytes, format_exact

__all__ = [
    "Pair",
    "Shown",
    "drawn_grid",
    "foreign",
    "grid_table",
    "rank_table",
    "spread_figure",
    "spread_table",
    "words",
]

_ROWS = 40
_BROKEN = 16
_REASONS = 4
_PHASES = 60


@dataclass(frozen=True)
class Pair:
    """The reports of base and head, or of one of them."""

    base: RanksReport | None
    head: RanksReport | None
    base_name: str
    head_name: str
    public: Callable[[str], str]
    # messages without where runs lie on the server

    @property
    def sides(self) -> list[tuple[str, str, RanksReport]]:
        """Side, name and report of the runs there are."""
        found = (("base", self.base_name, self.base), ("head", self.head_name, self.head))
        return [(side, name, report) for side, name, report in found if report is not None]

    @property
    def shown(self) -> tuple[str, str, RanksReport]:
        """Head, or where there is none base."""
        return self.sides[-1]


# ------------------------------------------------------------------ words


def words(pair: Pair, state: State, prefix: str) -> list[Any]:
    """The worst rank of each run in words, after who could not be read and what is not certain."""
    told = [html.H1([html.Div(_verdict(side, name, report)) for side, name, report in pair.sides])]
    for _, name, report in pair.sides:
        for one in report.broken[:_BROKEN]:
            who = clean(broken_in_words(one))
            told.append(
                notice(f"{clean(name)}: {who} is not in these numbers: {clean(pair.public(one.message))}", grave=True)
            )
        if len(report.broken) > _BROKEN:
            told.append(notice(f"{clean(name)}: {len(report.broken) - _BROKEN:,} more could not be read", grave=True))
        notes = [clean(note) for note in (*report.notes, *rank_notes(report.ranks))]
        told += [notice(f"{clean(name)}: {note}") for note in notes[:4]]
        if len(notes) > 4:
            more = [html.P(note) for note in notes[4:40]]
            told.append(html.Details([html.Summary(plural(len(notes) - 4, "more note")), *more]))
    for _, name, report in pair.sides:
        told += _why(name, report, state, prefix)
    return told


def _verdict(side: str, name: str, report: RanksReport) -> list[Any]:
    return [html.Span(side, className=f"tag {side}"), f" {clean(name)}: {clean(ranks_in_words(report))}"]


def _why(name: str, report: RanksReport, state: State, prefix: str) -> list[Any]:
    """What makes the worst rank larger than the median one."""
    why = report.why
    delta = why.point.delta_bytes if why is not None else None
    if why is None or not delta:
        return []
    rows = [row for row in why.point.rows if row.delta_bytes][:_REASONS]
    told = [
        html.Li(
            [
                html.Span(
                    f"{'▲' if row.delta_bytes > 0 else '▼'} {format_bytes(row.delta_bytes, signed=True)}",
                    className="more" if row.delta_bytes > 0 else "less",
                    title=format_exact(row.delta_bytes, signed=True),
                ),
                f" {_row_words(row)}",
            ]
        )
        for row in rows
    ]
    rest = delta - sum(row.delta_bytes for row in rows)
    if rest:
        told.append(html.Li(f"{format_bytes(rest, signed=True)} in all other rows"))
    title = f"{clean(name)}: why rank {why.rank} has {format_bytes(delta, signed=True)} against rank {why.median_rank}"
    there = link(f"all that is live on rank {why.rank}", state.to("live", rank=why.rank, at=""), prefix)
    return [html.Details([html.Summary(title), html.Ul(told), html.P(there)], open=True)]


def _row_words(row: DiffRow) -> str:
    lines = row.head_lines if row.head_lines is not None else row.base_lines
    parts = [f"{'dangling ' if row.dangling else ''}{row.category or ''} {row.owner or ''}".strip()]
    parts += [f"born {row.birth_phase}"] if row.birth_phase else []
    parts += [frames_in_words(row.stack, lines, 80)] if row.stack else []
    return clean(" · ".join(part for part in parts if part))


# ------------------------------------------------------------------ the grid


@dataclass(frozen=True)
class Shown:
    """A grid as it is drawn."""

    cells: Drawn
    delta: bool
    outliers: tuple[tuple[int, int], ...]  # rows and columns
    title: str


def drawn_grid(pair: Pair, show: str) -> Shown:
    """Head − base, one of them, or how far head's ranks are from their median."""
    _, name, report = pair.shown
    of = f"{'' if report.measure == 'allocated' else report.measure + ' '}peak"
    if pair.base is not None and pair.head is not None and show not in ("head", "base", "spread"):
        _, _, delta = beside(grid_of(pair.base), grid_of(pair.head))
        cells = drawn(delta)
        same = "" if (delta.known & (delta.value_bytes != 0)).any() else ": no cell differs by a byte"
        return Shown(cells, True, (), f"{of.capitalize()} by phase and rank, head − base{same}{_left_out(cells)}")
    if show == "base" and pair.base is not None:
        name, report = pair.base_name, pair.base
    grid = grid_of(report)
    if show == "spread":
        cells = drawn(from_median(grid))
        title = f"{of.capitalize()} minus the median rank's, {clean(name)}{_left_out(cells)}"
        return Shown(cells, True, _outliers(cells, report), title)
    cells = drawn(grid)
    title = f"{of.capitalize()} by phase and rank, {clean(name)}{_left_out(cells)}"
    return Shown(cells, False, _outliers(cells, report), title)


def _left_out(cells: Drawn) -> str:
    several = any(first != last for first, last in cells.columns)
    told = ["neighbouring ranks share a column, which shows the one furthest from 0"] if several else []
    told += [f"{plural(cells.more, 'phase')} with the smallest values left out"] if cells.more else []
    return f" ({'; '.join(told)})" if told else ""


def _outliers(cells: Drawn, report: RanksReport) -> tuple[tuple[int, int], ...]:
    by_phase = {one.phase: set(one.outliers) for one in report.phases}
    if report.spread is not None:
        by_phase[WHOLE] = set(report.spread.outliers)
    return tuple(
        (row, column)
        for row, phase in enumerate(cells.phases)
        for column, rank in enumerate(cells.rank[row].tolist())
        if rank in by_phase.get(phase, ()) and cells.value_bytes[row, column] != MISSING
    )


def grid_table(shown: Shown) -> Any:
    """The grid in figures; of many columns the first ones, since the table of ranks has all."""
    cells, delta = shown.cells, shown.delta
    columns = column_labels(cells.columns)[:16]
    rows = [
        [label, *(_cell(*one, delta) for one in _first(cells, row, len(columns)))]
        for row, label in enumerate(phase_labels(cells.phases))
    ]
    more = f" (of {len(cells.columns):,} columns the first {len(columns)})" if len(cells.columns) > len(columns) else ""
    return table(f"{shown.title}{more}", ("phase", *columns), rows, range(1, len(columns) + 1))


def _first(cells: Drawn, row: int, count: int) -> Iterable[tuple[int, bool]]:
    """The first values of a row, and whether each may have been higher."""
    return zip(cells.value_bytes[row, :count].tolist(), cells.at_least[row, :count].tolist(), strict=True)


def _cell(value: int, least: bool, delta: bool) -> Any:
    if value == MISSING:
        return html.Span("–", title="no such phase, or the rank could not be read")
    style = ("more" if value > 0 else "less" if value < 0 else "faint") if delta else ""
    sign = ("▲ " if value > 0 else "▼ " if value < 0 else "") if delta else ""
    return html.Span(
        f"{uncertain(least, delta)}{sign}{format_bytes(value, signed=delta)}",
        title=format_exact(value, signed=delta),
        className=style,
    )


# ------------------------------------------------------------------ the table of ranks


def rank_table(pair: Pair, state: State, prefix: str) -> Any:
    """A row for each rank, those that could not be read among them; of many those that matter."""
    _, name, report = pair.shown
    base = {one.rank: one for one in pair.base.ranks} if pair.base is not None and pair.head is not None else {}
    chosen, left_out = _chosen(report)
    rows = [_rank_row(one, base, bool(base), report, state, prefix) for one in chosen]
    rows += [_broken_row(one, bool(base), pair.public) for one in report.broken[:_ROWS]]
    against = "to the other" if report.spread is not None and report.spread.ranks == 2 else "to median"
    head = ["rank", f"{report.measure} peak", against, *(["base", "head − base"] if base else []), "end"]
    head += ["dangling", "outside", "retries", "OOMs", "peaks in"]
    numbers = range(1, len(head) - 1)
    caption = f"ranks of {clean(name)}" + (f": {plural(left_out, 'more rank')} between these" if left_out else "")
    return table(caption, head, rows, numbers) if rows else html.P("no rank could be read")


def _chosen(report: RanksReport) -> tuple[list[RankFigures], int]:
    """Of many ranks the worst, outliers, the median and the best."""
    if len(report.ranks) <= _ROWS or report.spread is None:
        return list(report.ranks), 0
    ordered = sorted(report.ranks, key=lambda one: (-(one.value_bytes or 0), one.rank))
    some = {one.rank: one for one in (*ordered[:12], *[one for one in ordered if one.outlier][:20], *ordered[-4:])}
    some |= {one.rank: one for one in ordered if one.rank == report.spread.median_rank}
    kept = sorted(some.values(), key=lambda one: (-(one.value_bytes or 0), one.rank))
    return kept, len(report.ranks) - len(kept)


def _rank_row(
    one: RankFigures, base: dict[int, RankFigures], both: bool, report: RanksReport, state: State, prefix: str
) -> list[Any]:
    spread, value = report.spread, one.value_bytes
    marks = ["worst"] * (spread is not None and spread.spread_bytes > 0 and one.rank == spread.worst_rank)
    marks += ["outlier"] * one.outlier
    name = link(f"rank {one.rank}", state.to("timeline", rank=one.rank), prefix)
    least = "≥ " if one.at_least else ""
    row: list[Any] = [[name, html.Span(f" {', '.join(marks)}", className="more") if marks else ""]]
    row += [_size(value, least), _change(one.deviation_bytes)]
    if both:
        other = base.get(one.rank)
        before = other.value_bytes if other is not None else None
        sure = not (one.at_least or (other is not None and other.at_least))
        row.append(_size(before, "≥ " if other is not None and other.at_least else ""))
        row.append(_change(value - before if value is not None and before is not None else None, not sure))
    row += [_size(getattr(one.end, f"{report.measure}_bytes")), _size(one.dangling_bytes, style="dangling")]
    row += [_size(one.outside_bytes), _count(one.alloc_retries), _count(one.ooms), clean(one.peak_phase or "–")]
    return row


def _size(size: int | None, least: str = "", style: str = "") -> Any:
    if size is None:
        return html.Span("–", title="not known")
    return html.Span(f"{least}{format_bytes(size)}", title=format_exact(size), className=style if size else "")


def _change(size: int | None, unsure: bool = False) -> Any:
    return _cell(size if size is not None else MISSING, unsure, delta=True)


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _broken_row(one: BrokenRank, both: bool, public: Callable[[str], str]) -> list[Any]:
    name = html.Span(clean(broken_in_words(one) or "other ranks"), className="more")
    blank, why = ["–"] * (8 if both else 6), cut(clean(public(one.message)), 120)
    return [name, html.Span("unread", className="more"), *blank, why]


# ------------------------------------------------------------------ how far apart


def spread_figure(pair: Pair) -> tuple[Figure | None, str]:
    """The figure and what it shows in words; none where a run has one rank."""
    several = [(side, name, report) for side, name, report in pair.sides if len(report.ranks) > 1]
    if not several:
        return None, "There is one rank: nothing to be apart from."
    phases = _spread_phases([report for _, _, report in several])
    looks = {"base": colours.BASE, "head": colours.HEAD}
    sides = [(f"{side}: {name}", looks[side], _spreads(report)) for side, name, report in several]
    limits = [
        f"{side}: an outlier is more than {format_bytes(report.spread.limit_bytes)} from the median"
        for side, _, report in several
        if report.spread is not None and report.spread.ranks > 2
    ]
    told = "From the lowest rank to the highest, with the median as a dot and ◆ where there are outliers. "
    return spreads(sides, phases), told + "; ".join(limits)


def _spreads(report: RanksReport) -> list[Spread]:
    return [*([report.spread] if report.spread is not None else []), *report.phases]


def _spread_phases(reports: Sequence[RanksReport]) -> list[str]:
    """The whole run, and the phases that are furthest apart in any run, in their order."""
    apart: dict[str, int] = {}
    for report in reports:
        for one in _spreads(report):
            apart[one.phase or WHOLE] = max(apart.get(one.phase or WHOLE, 0), one.spread_bytes)
    most = set(sorted(apart, key=lambda phase: (phase != WHOLE, -apart[phase]))[:_PHASES])
    first, last = ([one.phase or WHOLE for one in _spreads(report)] for report in (reports[0], reports[-1]))
    return [phase for phase in merged(first, last) if phase in most]


def spread_table(pair: Pair) -> list[Any]:
    """For each run and phase its worst, highest, median and lowest rank."""
    head = ("phase", "worst rank", "highest", "median", "lowest", "spread", "of the median", "outliers")
    return [
        table(
            f"spread of {clean(name)}",
            head,
            [_spread_row(one) for one in _spreads(report)[:_PHASES]],
            range(1, 7),
        )
        for _, name, report in pair.sides
        if len(report.ranks) > 1
    ]


def _spread_row(one: Spread) -> list[Any]:
    least = "≥ " if one.at_least else ""
    percent = f"{one.spread_percent:.1f}%" if one.spread_percent is not None else "–"
    outliers = ", ".join(map(str, one.outliers[:8])) + (
        f" and {len(one.outliers) - 8} more" if len(one.outliers) > 8 else ""
    )
    sizes = (_size(one.max_bytes, least), _size(one.median_bytes), _size(one.min_bytes), _size(one.spread_bytes))
    return [clean(one.phase or "the whole run"), f"{one.worst_rank}", *sizes, percent, outliers or "none"]


# ------------------------------------------------------------------ other devices


def foreign(pair: Pair) -> list[Any]:
    """Memory of ranks on devices that are not theirs."""
    rows = [
        [
            clean(name),
            f"rank {one.rank}",
            f"{memory.device}",
            _size(memory.reserved_bytes),
            _size(memory.allocated_bytes),
        ]
        for _, name, report in pair.sides
        for one in report.ranks
        for memory in one.foreign
    ]
    if not rows:
        return []
    head = ("run", "rank", "on device", "reserved", "allocated at the end")
    caption = "in no figure above; the context that it takes there is in none at all"
    return [html.H2("Memory on a device that is not the rank's own"), table(caption, head, rows[:_ROWS], (2, 3, 4))]
