"""A diff as one page that needs nothing else: no script, no font, no request to any host.

Its style is in it, and its content security policy allows that style by its hash and nothing more, so that
even what escaped escaping could do nothing. Drawings are SVG in the page. It is the same for the same report:
there is no date in it.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from snapviz.analyze.timeline import Timeline
from snapviz.compare.verdict import figures, judged_of
from snapviz.report import danglingblocks, diffblocks, whyblocks
from snapviz.report.blocks import (
    Block,
    Details,
    Drawing,
    Figure,
    Inline,
    Table,
    amount,
    change_of,
    code,
    prose,
)
from snapviz.report.budgetblocks import budget_blocks
from snapviz.report.deeplinks import Href, linked_phases, linked_verdict, ways_in
from snapviz.report.diffsaid import Told, full_names, told_points
from snapviz.report.difftables import short_names
from snapviz.report.groupedblocks import row_blocks
from snapviz.report.htmlout import elements, inline
from snapviz.report.htmlsvg import bars, curves, waterfall
from snapviz.report.layout import Column, Span
from snapviz.report.phaserows import Measure, PhaseTable, mark_of, measures_of, phase_table
from snapviz.report.words import plural
from snapviz.schema import DiffReport, PhaseDelta, RankPoint
from snapviz.units import format_bytes

__all__ = ["to_html"]

_NOTES = 20
"""Notes above the numbers; the others are folded away."""

_RANKS = 16
"""Ranks whose phases are told one by one, where ranks differ."""

_LISTED = 500
"""Dangling parameters and suspects that are listed."""

_REASONS = 300
"""Reasons of one point, where names that differ in a number are one; JSON has every row."""

_Section = tuple[str, str, Inline, list[Block]]
"""Anchor, its name among the links, title and content."""


def to_html(
    report: DiffReport,
    timelines: tuple[Timeline, Timeline] | None = None,
    top: int = 10,
    href: Href | None = None,
) -> str:
    """The page, with about ``top`` reasons to a point before the others, which are folded away.

    ``timelines`` are base's and head's, of one rank, for curves over time. ``href`` makes the links into a dashboard
    (``report.deeplinks``); without it there are none.
    """
    told = told_points(report)
    sections = [
        _named("phases", "Where", [*_phases(report, href), *diffblocks.beside(report)]),
        _named("time", "Over time", _over_time(report, timelines)),
        *(_why(told, place, top, href) for place in range(len(told))),
        _named("follows", "What follows", _follows(report)),
        _named("dangling", "What dangles", _dangling(report)),
        _named("ranks", "Ranks", [*diffblocks.ranks(report), *_ranks(report)]),
        _named("metrics", "Metrics", diffblocks.metrics(report)),
        _named("runs", "The runs", _runs(report)),
    ]
    return _page(report, [section for section in sections if section[3]], href)


def _named(anchor: str, title: str, blocks: list[Block]) -> _Section:
    return anchor, title, [Span(title)], blocks


# ------------------------------------------------------------------ the page around them


def _page(report: DiffReport, sections: Sequence[_Section], href: Href | None) -> str:
    from snapviz import __version__

    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    links = "".join(f'<a href="#{anchor}">{html.escape(name)}</a>' for anchor, name, *_ in _linked(sections))
    verdict = linked_verdict(report, href) if href else diffblocks.verdict(report)
    ways = ways_in(report, href) if href else []
    top = [verdict, diffblocks.facts(report), *ways, *diffblocks.warnings(report, _NOTES)]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{html.escape(' → '.join(full_names(report)))} · snapviz</title>",
            f"<style>{style}</style></head>",
            f"<body><header><h1>{inline(diffblocks.title(report))}</h1>",
            elements([*top, *budget_blocks(report), *diffblocks.around(report)]),
            f'<nav aria-label="sections">{links}</nav></header>\n<main>',
            *map(_section, sections),
            f"</main>\n<footer>snapviz {__version__} · ▲ more, ▼ less · exact bytes: in each figure's tooltip</footer>",
            "</body></html>\n",
        ]
    )


def _linked(sections: Sequence[_Section]) -> Iterator[_Section]:
    """The first section of each name."""
    names: set[str] = set()
    for section in sections:
        if section[1] not in names:
            yield section
        names.add(section[1])


def _section(section: _Section) -> str:
    anchor, _, title, blocks = section
    heading = f'<h2 id="{anchor}">{inline(title)}</h2>'
    return f'<section aria-labelledby="{anchor}">{heading}\n{elements(blocks)}\n</section>'


@cache
def _style() -> str:
    return files("snapviz.report").joinpath("page.css").read_text(encoding="utf-8").replace("\r\n", "\n")


# ------------------------------------------------------------------ sections


def _phases(report: DiffReport, href: Href | None) -> list[Block]:
    measures = measures_of(report)[:2]
    found = phase_table(report, measures)
    if found is None:
        return []
    top = max((value or 0 for row in (*found.changed, *found.same) for value in measures[0].pair(row)), default=0)
    blocks: list[Block] = []
    if found.changed:
        table = whyblocks.phase_rows(report, found, found.changed, measures)
        table = linked_phases(table, found.changed, href) if href else table
        blocks.append(_with_bars(table, found.changed, measures[0], top))
    if found.same:
        title = f"{plural(len(found.same), 'phase')} that did not change{found.who}"
        table = whyblocks.phase_rows(report, found, found.same, measures)
        blocks.append(Details([Span(title)], (_with_bars(table, found.same, measures[0], top),)))
    return [*blocks, *_reserved(report)]


def _reserved(report: DiffReport) -> Iterator[Block]:
    measures = measures_of(report)[2:]
    found = phase_table(report, measures)
    if found is not None and found.changed:
        table = whyblocks.phase_rows(report, found, found.changed, measures)
        yield Details([Span(f"reserved peaks, {plural(len(found.changed), 'phase')} changed{found.who}")], (table,))


def _with_bars(table: Table, rows: Sequence[PhaseDelta], peak: Measure, top: int) -> Table:
    """Peaks drawn beside each phase, all against one scale."""
    drawn = [[Drawing("", svg=bars(*peak.pair(row), top))] for row in rows[: len(table.rows)]]
    cells = tuple((row[0], bar, *row[1:]) for row, bar in zip(table.rows, drawn, strict=True))
    heading = Column("peaks", number=False)
    return replace(table, columns=(table.columns[0], heading, *table.columns[1:]), rows=cells)


def _over_time(report: DiffReport, timelines: tuple[Timeline, Timeline] | None) -> list[Block]:
    if timelines is None:
        return []
    told = "allocated memory over time, base above head, on one scale of bytes and each over its own time"
    bands = " · shaded: phases" if any(one.bands for one in timelines) else ""
    bands += "" if all(one.times_are_real for one in timelines) else " · with a fake process group times say nothing"
    return [Figure(curves(timelines, full_names(report)), [Span(f"{told}{bands}")]), _peaks(report, timelines)]


def _peaks(report: DiffReport, timelines: tuple[Timeline, Timeline]) -> Table:
    rows: list[tuple[Inline, ...]] = []
    for name, one in zip(full_names(report), timelines, strict=True):
        least = "" if one.whole else "≥ "
        curve = one.allocated
        cells = [amount(curve.peak_bytes, least)], [amount(curve.trough_bytes)], [amount(curve.end_bytes)]
        rows.append((prose(f"{name}, rank {one.rank}"), *cells))
    columns = (Column("", number=False), Column("peak"), Column("trough"), Column("end"))
    return Table("allocated over time", columns, tuple(rows))


def _why(told: Sequence[Told], place: int, top: int, href: Href | None) -> _Section:
    one, before = told[place], told[:place]
    few, every = (row_blocks(one, before, count, href) for count in (top, max(top, _REASONS)))
    blocks: list[Block] = [*whyblocks.hints(one), *_steps(one), *few]
    if few[0] != every[0]:
        blocks.append(Details([Span(f"all of them: {plural(len(one.rank.rows), 'row')}")], (every[0],)))
    return f"why-{place + 1}", one.title.partition(",")[0].capitalize(), _title(one), blocks


def _title(told: Told) -> Inline:
    return prose(told.title[0].upper() + told.title[1:])


def _follows(report: DiffReport) -> list[Block]:
    said = [*diffblocks.not_told(report), *diffblocks.origin(report), *whyblocks.saving(report)]
    return [*said, *diffblocks.outside(report)]


def _runs(report: DiffReport) -> list[Block]:
    return [*diffblocks.runs(report), *diffblocks.every_note(report, _NOTES), *_trust(report)]


def _steps(told: Told) -> Iterator[Block]:
    """The steps; of points that are told together, which have the same ones, those of the peak."""
    found = told.steps
    if found is None or not found.steps:
        return
    report = told.report
    title = next(point.title for point in told.points if point.at == found.at)
    svg, begins = waterfall(found, full_names(report))
    caption = f"{title}, rank {found.rank}: from base to head"
    caption += f"; its axis begins at {format_bytes(begins)}" if begins else ""
    yield Figure(svg, prose(caption), (whyblocks.waterfall_table(report, found, f"steps {title}"),))


def _dangling(report: DiffReport) -> list[Block]:
    return danglingblocks.dangling_table(report, _LISTED) + danglingblocks.suspect_table(report, _LISTED)


def _ranks(report: DiffReport) -> Iterator[Block]:
    """The steps of every rank, and the phases of those that are not shown above."""
    yield from _every_rank(report)
    measures = measures_of(report)[:2]
    shown = phase_table(report, measures)
    if shown is None or shown.who != f" (rank {shown.rank})":
        return
    for rank in [one.rank for one in report.ranks if one.rank != shown.rank][:_RANKS]:
        found: PhaseTable | None = phase_table(report, measures, rank)
        if found is not None and found.changed:
            table = whyblocks.phase_rows(report, found, found.changed, measures)
            yield Details([Span(f"phases of rank {rank}")], (table,))


def _every_rank(report: DiffReport) -> Iterator[Block]:
    names = short_names(report)
    for point in report.points:
        known = [rank for rank in point.ranks if rank.delta_bytes is not None]
        if len(known) < 2:
            continue
        sure = {rank.rank for rank in judged_of(point)}
        rows = tuple(_rank_cells(rank, rank.rank in sure) for rank in known[:_LISTED])
        columns = (Column("rank", number=False), *map(Column, names), Column("Δ"))
        more = len(known) - len(rows)
        table = Table(point.title, columns, rows, prose(f"{more:,} more are in the JSON report") if more else ())
        yield Details(prose(f"every rank {point.title}"), (table,))


def _rank_cells(rank: RankPoint, sure: bool) -> tuple[Inline, ...]:
    base, head = figures(rank)
    marks = [mark_of(when.trust if when is not None else None) for when in (rank.base_moment, rank.head_moment)]
    change: Inline = [change_of(head - base, arrow=True)] if sure else whyblocks.NOTHING
    return [Span(str(rank.rank))], [amount(base, marks[0])], [amount(head, marks[1])], change


def _trust(report: DiffReport) -> Iterator[Block]:
    """How far the figures of each rank can be trusted, and what was found when it was replayed."""
    rows: list[tuple[Inline, ...]] = []
    for rank in report.ranks[:_LISTED]:
        for name, trust in zip(full_names(report), (rank.base, rank.head), strict=True):
            found = prose("; ".join(f"{one.severity}: {one.message}" for one in trust.findings)) or whyblocks.NOTHING
            exact = "exact" if trust.exact else "not exact"
            whole = "its beginning is gone" if trust.truncated else "whole"
            dangling = "known" if trust.dangling_known else trust.dangling_why
            rows.append(([Span(str(rank.rank))], [code(name)], prose(exact), prose(whole), prose(dangling), found))
    headings = ("rank", "run", "figures", "recording", "what dangles", "found in the replay")
    table = Table("trust", tuple(Column(heading, number=False) for heading in headings), tuple(rows))
    if rows:
        yield Details([Span("how far each rank can be trusted")], (table,))
