"""The rows of one point as the table that ``--by`` and ``--mode`` ask for, or by category, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapviz.compare.holders import keepers_of
from snapviz.report.blocks import Block, Bullets, Inline, Paragraph, Table, amount, change_of, code, prose
from snapviz.report.deeplinks import Href
from snapviz.report.diffsaid import Told, told_before
from snapviz.report.difftables import short_names
from snapviz.report.grouped import Amounts, grouped, kept_of, ranks_grouped, ranks_left
from snapviz.report.keepers import Keepers
from snapviz.report.layout import Column, Span
from snapviz.report.reasontable import reason_table
from snapviz.report.whyblocks import NOTHING, keepers, stack_of, unchanged
from snapviz.report.words import ratio
from snapviz.schema import DiffReport

__all__ = ["row_blocks"]

_PATH = 200
"""Columns of a holder's path."""


def row_blocks(told: Told, before: Sequence[Told], top: int, href: Href | None = None) -> list[Block]:
    """The rows, about ``top`` of them, who keeps those that dangle, and what is not told in the table.

    ``href`` makes the differences of reasons lead to their rows in a dashboard."""
    options = told.report.options
    if options.by == "rank":
        left = ranks_left(told.points[0])
        table = _table(told.report, ranks_grouped(told.report, told.points[0], top))
        return [table, *([Paragraph(prose(left), "faint")] if left else [])]
    if options.by is not None or options.mode != "delta":
        listed = grouped(told.report, told.rank, top)
        return [_table(told.report, listed), *_kept(told, listed)]
    known, _ = told_before(told, before)
    rows = [row for row in told.rank.rows if row not in known]
    return [reason_table(told, before, top, href), *keepers(told.report, told.rank, rows), *unchanged(told.rank)]


def _table(report: DiffReport, listed: Sequence[Amounts]) -> Table:
    by, mode = report.options.by, report.options.mode
    columns = [Column(by or "owner or category", number=False), *(Column(name) for name in short_names(report))]
    columns += {"absolute": [], "delta": [Column("Δ")], "ratio": [Column("Δ"), Column("head/base")]}[mode]
    columns += [Column("besides", number=False)]
    columns += [Column("made in", number=False)] if by in (None, "stack") else []
    rows = tuple(tuple(_cells(one, report)) for one in listed)
    return Table(f"rows by {by}" if by else "rows", tuple(columns), rows)


def _cells(one: Amounts, report: DiffReport) -> Iterator[Inline]:
    base, head = one.base or 0, one.head or 0
    # what stands for a row is a name, what sums several is not
    yield [code(one.label)] if one.row is not None else prose(one.label)
    yield from (NOTHING if side is None else [amount(side)] for side in (one.base, one.head))
    if report.options.mode in ("delta", "ratio"):
        yield [change_of(head - base, arrow=True)]
    if report.options.mode == "ratio":
        yield [ratio(base, head)]
    yield prose(" · ".join(one.tail))
    if report.options.by in (None, "stack"):
        yield stack_of(one.row) if one.row is not None and (one.row.stack or not one.row.owner) else []


def _kept(told: Told, listed: Sequence[Amounts]) -> list[Block]:
    """Who keeps what dangles in the rows that are listed."""
    known = Keepers(told.report.dangling, told.rank.rank)
    items = []
    for one in listed:
        found = kept_of(known, one.row, told.report.options) if one.row is not None else []
        for place, phrase in enumerate(keepers_of(found, _PATH)):
            name = [] if place else [code(one.label), Span(" ")]
            items.append([*name, Span("and by" if place else "kept by", "strong"), Span(" "), *prose(phrase)])
    return [Bullets(tuple(items))] if items else []
