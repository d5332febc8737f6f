"""A finished diff as blocks, section by section: what the pages of a diff are put together from.

Pure, as all reports. Each function is one section and gives no block where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from snapviz.report.blocks import Block, Bullets, Details, Inline, Paragraph, Table, Warnings, code, prose
from snapviz.report.diffsaid import broken_sentences, full_names, not_explained, shared_facts
from snapviz.report.difftables import metric_lines, outside_lines, rank_lines, reserved_lines, short_names
from snapviz.report.environment import differences
from snapviz.report.layout import Column, Line, Span, clean, cut
from snapviz.report.training import benchmark_lines, origin_lines
from snapviz.report.words import plural
from snapviz.schema import DiffReport, RunSummary

__all__ = [
    "around",
    "beside",
    "every_note",
    "facts",
    "from_lines",
    "metrics",
    "not_told",
    "origin",
    "outside",
    "ranks",
    "runs",
    "title",
    "verdict",
    "warnings",
]

_WIDE = 1_000_000
"""Columns: a sentence is one line, and no cell is cut."""

_CHANGES = 40
"""Differences around the runs, and settings, that are listed."""

_VALUE = 120
"""Characters of a setting's value."""


def title(report: DiffReport) -> list[Span]:
    """Both names."""
    base, head = full_names(report)
    return [code(base), Span(" → "), code(head)]


def verdict(report: DiffReport) -> Paragraph:
    """The sentence that says it all."""
    return Paragraph(prose(report.verdict), "lead")


def facts(report: DiffReport) -> Paragraph:
    """What both runs have in common."""
    return Paragraph(list(chain.from_iterable(_between(map(prose, shared_facts(report))))), "faint")


def _between(parts: Iterable[Inline]) -> Iterator[Inline]:
    for place, part in enumerate(parts):
        yield [Span(" · ")] if place else []
        yield part


def warnings(report: DiffReport, notes: int) -> list[Block]:
    """What stands above the numbers: what could not be read, all caveats, and the first ``notes`` notes."""
    blocks: list[Block] = []
    if report.broken:
        blocks.append(Warnings(tuple(prose(text) for text in broken_sentences(report)), grave=True))
    told = [*report.caveats, *report.notes[:notes]]
    if len(report.notes) > notes:
        told.append(f"{plural(len(report.notes) - notes, 'more note')} below")
    if told:
        blocks.append(Warnings(tuple(map(prose, told))))
    return blocks


def every_note(report: DiffReport, told: int) -> list[Block]:
    """Notes after the first ``told``, folded away."""
    rest = report.notes[told:]
    if not rest:
        return []
    return [Details([Span(plural(len(rest), "more note"))], (Bullets(tuple(map(prose, rest))),))]


# ------------------------------------------------------------------ around the runs


def around(report: DiffReport) -> list[Block]:
    """What differs around the runs."""
    base, head = short_names(report)
    known = differences(report)
    rows = tuple((prose(what), _told(one), _told(other)) for what, one, other in known[:_CHANGES])
    if not rows:
        return []
    more = len(known) - len(rows)
    columns = (Column("", number=False), Column(base, number=False), Column(head, number=False))
    return [Table("different around the runs", columns, rows, prose(f"{more:,} more differ") if more else ())]


def _told(text: str) -> Inline:
    return [Span(text, "faint") if text in ("–", "(empty)") else code(text)]


def _value(value: object) -> Inline:
    if value is None:
        return [Span("–", "faint")]
    return [code(cut(str(value), _VALUE))] if value != "" else [Span("(empty)", "faint")]


def runs(report: DiffReport) -> list[Block]:
    """All that is known of both runs."""
    base, head = short_names(report)
    sides = [dict(_known(run)) for run in (report.base, report.head)]
    keys = dict.fromkeys((*sides[0], *sides[1]))
    rows = tuple((prose(key), _value(sides[0].get(key)), _value(sides[1].get(key))) for key in keys)
    columns = (Column("", number=False), Column(base, number=False), Column(head, number=False))
    return [Details([Span("the two runs")], (Table("what is known of both runs", columns, rows),))]


def _known(run: RunSummary) -> Iterator[tuple[str, object]]:
    yield "name", run.name
    yield "ranks read", ", ".join(map(str, run.ranks)) or None
    yield "world size", run.world_size
    yield "torch", run.torch
    yield "device", run.device
    if run.git is not None:
        yield "commit", f"{run.git.commit}{', dirty' if run.git.dirty else ''}"
    yield "records of names and phases", "yes" if run.recorded else "no"
    if run.fake_process_group is not None:
        yield "process group", "fake" if run.fake_process_group else "real"
    for name, value in list(run.settings.items())[:_CHANGES]:
        yield f"allocator {clean(name)}", value


# ------------------------------------------------------------------ sentences and tables that the text report has too


def from_lines(lines: Sequence[Line], caption: str = "") -> list[Block]:
    """Lines of the text report, laid out without a bound, as blocks: its tables and its sentences."""
    blocks: list[Block] = []
    heading: Line | None = None
    rows: list[tuple[Inline, ...]] = []
    for spans in [*lines, []]:
        # a table's line has a gap between each two cells, a sentence is one span
        cells = [Span(span.text.strip(), span.style) for span in spans[::2]]
        if len(cells) > 1 and heading is None:
            heading = cells
        elif len(cells) > 1:
            rows.append((prose(cells[0].text), *([cell] for cell in cells[1:])))
        else:
            if heading is not None:
                blocks.append(_table(heading, rows, caption))
            heading, rows = None, []
            blocks += [Paragraph(prose(" ".join(cells[0].text.split())), "faint")] if cells and cells[0].text else []
    return blocks


def _table(heading: Line, rows: Sequence[tuple[Inline, ...]], caption: str) -> Table:
    first, *others = (cell.text for cell in heading)
    columns = (Column(first, number=False), *map(Column, others))
    return Table(first or caption, columns, tuple(rows))


def ranks(report: DiffReport) -> list[Block]:
    """Totals of every rank, where ranks differ."""
    return from_lines(rank_lines(report, _WIDE))


def beside(report: DiffReport) -> list[Block]:
    """Reserved memory, where it differs."""
    return from_lines(reserved_lines(report, _WIDE))


def outside(report: DiffReport) -> list[Block]:
    """Memory outside the allocator, where it differs."""
    return from_lines(outside_lines(report, _WIDE))


def origin(report: DiffReport) -> list[Block]:
    """Whether the difference comes from the training step."""
    return from_lines(origin_lines(report, _WIDE))


def metrics(report: DiffReport) -> list[Block]:
    """Metrics of both runs, and the figures that trainers quote."""
    blocks = from_lines(metric_lines(report, _WIDE), "metrics")
    return blocks + from_lines(benchmark_lines(report, _WIDE), "tokens and memory")


def not_told(report: DiffReport) -> list[Block]:
    """Points that are not compared or did not change."""
    return [Paragraph(prose(text), "" if grave else "faint") for text, grave in not_explained(report)]
