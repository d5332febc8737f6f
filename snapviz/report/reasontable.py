"""The rows of one point as one table: a line for each category, below it its largest parts, then what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapviz.report.blocks import Inline, Link, Table, change_of, code, prose
from snapviz.report.deeplinks import Href, reason_key
from snapviz.report.diffsaid import Told, told_before
from snapviz.report.layout import Column, Span
from snapviz.report.reasons import Reason, Reasons, folded_in_words, reasons_of, shares
from snapviz.report.whyblocks import made_in, reason_cells
from snapviz.report.words import plural

__all__ = ["reason_table"]

_NAMED = 60
"""Names of what is not listed."""

_Cells = tuple[Inline, ...]

_COLUMNS = (
    Column("Δ"),
    Column("what", number=False),
    Column("blocks"),
    Column("born in", number=False),
    Column("made in", number=False),
)


def reason_table(told: Told, before: Sequence[Told], top: int, href: Href | None = None) -> Table:
    """About ``top`` lines; rows that were told ``before`` are one, and so are those below the threshold.

    With ``href`` the difference of a reason leads to its rows in a dashboard, that of a category to its step."""
    listed, where = told_before(told, before)
    again = Reason("", tuple(row for row in told.rank.rows if row in listed))
    groups = reasons_of([row for row in told.rank.rows if row not in listed])
    rows: list[_Cells] = []
    if again.rows:
        text = f"the same {plural(len(again.rows), 'row')} as {where}"
        rows.append(([change_of(again.delta, arrow=True)], prose(text), [], [], []))
    for group, room in zip(groups, shares(groups, top), strict=True):
        rows += _group(group, room, _Links(told.points[0].at, href))
    if (below := told.rank.folded) is not None:
        text = folded_in_words(below, told.report.options)
        rows.append(([change_of(below.delta_bytes)], prose(text), [], [], []))
    return Table("what changed, by category", _COLUMNS, tuple(rows))


@dataclass(frozen=True)
class _Links:
    """Where the differences of one point lead."""

    at: str
    href: Href | None

    def on(self, change: Inline, **shown: str) -> Inline:
        """A difference that leads to what is ``shown``."""
        if self.href is None:
            return change
        url = self.href({"at": self.at, **shown})
        return [Link(span.text, span.style, url) for span in change]


def _group(group: Reasons, room: int, links: _Links) -> Iterator[_Cells]:
    if len(group.each) == 1 and room:
        yield _row(group, group.each[0], True, links)
        return
    change, what, blocks, birth = reason_cells(group, group.all, marked=True)
    told = [Span(f" · {group.both_ways}", "faint")] if group.both_ways else []
    yield links.on(change, name=group.category), [*what, *told], blocks, birth, []
    for one in group.each[:room]:
        yield _row(group, one, False, links)
    rest = [row for one in group.each[room:] for row in one.rows]
    if room and rest:
        yield [change_of(sum(row.delta_bytes for row in rest))], _rest(group, room, len(rest)), [], [], []


def _row(group: Reasons, one: Reason, marked: bool, links: _Links) -> _Cells:
    change, what, blocks, birth = reason_cells(group, one, marked)
    if group.all.birth and not marked:
        birth = []
    return links.on(change, row=reason_key(group.category, one)), what, blocks, birth, made_in(one)


def _rest(group: Reasons, room: int, rows: int) -> Inline:
    """How many are not listed; dangling parameters are all named, since each is a fault."""
    spans = [Span(f"in {plural(rows, 'more row')}")]
    if all(row.dangling for row in group.all.rows):
        for place, one in enumerate(group.each[room : room + _NAMED]):
            spans += [Span(", " if place else ": "), code(one.label)]
        more = len(group.each) - room - _NAMED
        spans += [Span(f" and {more:,} more")] if more > 0 else []
    return spans
