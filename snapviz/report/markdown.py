"""A diff as the comment of a pull request, in GitHub's Markdown.

A hidden marker comes first, by which a bot finds its comment and edits it. Then the verdict, what is not
certain, where, why, and the rest folded away. A comment has at most 65,536 characters: a longer one is cut
between two rows, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from snapviz.errors import UsageError
from snapviz.report import danglingblocks, diffblocks, whyblocks
from snapviz.report.blocks import Block, Details, Heading, prose
from snapviz.report.budgetblocks import budget_blocks
from snapviz.report.deeplinks import Href, linked_phases, linked_verdict, ways_in
from snapviz.report.diffsaid import Told, told_points
from snapviz.report.groupedblocks import row_blocks
from snapviz.report.layout import Span
from snapviz.report.markdownout import LIMIT, Writer
from snapviz.report.phaserows import measures_of, phase_table
from snapviz.report.words import plural
from snapviz.schema import DiffReport

__all__ = ["check_marker", "marker_line", "to_markdown"]

_MARKER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")

_NOTES = 6
"""Notes above the numbers; the others are folded away."""

_RANKS = 16
"""Ranks whose phases are told one by one, where ranks differ."""

_ALL = 2_500
"""Reasons where all are told: more than fit into a comment."""

_LISTED = 200
"""Dangling parameters and suspects that are listed."""


def check_marker(name: str) -> None:
    """Raises ``UsageError`` for a name that could end the hidden comment, or is not one."""
    # two hyphens end a comment
    if _MARKER.fullmatch(name) is None or "--" in name:
        raise UsageError(
            f"marker {name!r}: use letters, digits, '.', '_' and single '-', beginning and ending with a letter or "
            "digit, at most 64"
        )


def marker_line(name: str = "diff") -> str:
    """The first line of a comment: ``<!-- snapviz:diff -->``. Raises ``UsageError``."""
    check_marker(name)
    return f"<!-- snapviz:{name} -->"


def to_markdown(
    report: DiffReport, top: int = 10, marker: str = "diff", limit: int = LIMIT, href: Href | None = None
) -> str:
    """The comment, of at most ``limit`` characters (at least 2,000), with about ``top`` reasons to a point.

    ``marker`` is the name by which a bot tells its comments apart: one for each diff of a pull request. ``href``
    makes the links into a dashboard (``report.deeplinks``); without it there are none.
    Raises ``UsageError`` for a name that cannot be one.
    """
    writer = Writer(max(2_000, limit), marker_line(marker))
    for block in (*_told(report, top, href), *_folded_away(report, top)):
        if not writer.write(block):
            break
    return writer.text()


def _told(report: DiffReport, top: int, href: Href | None) -> Iterator[Block]:
    yield Heading([Span("snapviz: "), *diffblocks.title(report)])
    yield linked_verdict(report, href) if href else diffblocks.verdict(report)
    yield diffblocks.facts(report)
    if href:
        yield from ways_in(report, href)
    yield from diffblocks.warnings(report, _NOTES)
    yield from budget_blocks(report)
    yield from diffblocks.around(report)
    yield from _phases(report, href)
    yield from diffblocks.beside(report)
    yield from diffblocks.ranks(report)
    told = told_points(report)
    for place, one in enumerate(told):
        yield from _why(one, told[:place], top, href)
    yield from diffblocks.not_told(report)
    yield from diffblocks.origin(report)
    yield from whyblocks.saving(report)
    yield from diffblocks.outside(report)
    yield from diffblocks.metrics(report)


def _phases(report: DiffReport, href: Href | None) -> Iterator[Block]:
    # reserved memory has a line of its own: a comment is no wider than two groups of columns
    measures = measures_of(report)[:2]
    found = phase_table(report, measures)
    if found is not None and found.changed:
        table = whyblocks.phase_rows(report, found, found.changed, measures)
        yield linked_phases(table, found.changed, href) if href else table


def _why(told: Told, before: list[Told], top: int, href: Href | None) -> Iterator[Block]:
    yield Heading(prose(told.title), 4)
    yield from whyblocks.hints(told)
    yield from row_blocks(told, before, top, href)


# ------------------------------------------------------------------ folded away


def _folded_away(report: DiffReport, top: int) -> Iterator[Block]:
    """The rest, the longest last: where it is cut, that goes first."""
    yield from _steps(report)
    yield from _same_phases(report)
    yield from _phases_of_ranks(report)
    if dangling := danglingblocks.dangling_table(report, _LISTED):
        yield Details(prose(danglingblocks.dangling_title(report)), tuple(dangling))
    yield from danglingblocks.suspect_table(report, _LISTED)
    yield from diffblocks.runs(report)
    yield from diffblocks.every_note(report, _NOTES)
    told = told_points(report)
    for place, one in enumerate(told):
        every = row_blocks(one, told[:place], _ALL)
        if every[0] != row_blocks(one, told[:place], top)[0]:
            yield Details(prose(f"all {plural(len(one.rank.rows), 'row')}: {one.title}"), (every[0],))


def _steps(report: DiffReport) -> Iterator[Block]:
    for told in told_points(report):
        found = told.steps
        if found is not None and len(found.steps) > 1:
            title = next(point.title for point in told.points if point.at == found.at)
            steps = whyblocks.waterfall_table(report, found, "steps")
            yield Details(prose(f"from base to head in steps, {title}, rank {found.rank}"), (steps,))


def _same_phases(report: DiffReport) -> Iterator[Block]:
    measures = measures_of(report)[:2]
    found = phase_table(report, measures)
    if found is not None and found.same:
        title = f"{plural(len(found.same), 'phase')} that did not change{found.who}"
        yield Details([Span(title)], (whyblocks.phase_rows(report, found, found.same, measures),))


def _phases_of_ranks(report: DiffReport) -> Iterator[Block]:
    measures = measures_of(report)[:2]
    shown = phase_table(report, measures)
    if shown is None or shown.who != f" (rank {shown.rank})":
        return
    for rank in [one.rank for one in report.ranks if one.rank != shown.rank][:_RANKS]:
        found = phase_table(report, measures, rank)
        if found is not None and found.changed:
            yield Details(
                [Span(f"phases of rank {rank}")], (whyblocks.phase_rows(report, found, found.changed, measures),)
            )
