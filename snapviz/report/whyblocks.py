"""The sections of a diff that say where and why, as blocks: phases, reasons, steps from base to head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapviz.compare.holders import keepers_of
from snapviz.report.blocks import (
    Block,
    Bullets,
    Folded,
    Inline,
    Paragraph,
    Table,
    amount,
    change_of,
    code,
    prose,
)
from snapviz.report.diffsaid import Told, full_names, savings
from snapviz.report.difftables import short_names
from snapviz.report.keepers import Keepers
from snapviz.report.layout import Column, Span, clean
from snapviz.report.phaserows import Measure, PhaseTable, mark_of
from snapviz.report.reasons import Reason, Reasons, category_in_words, evidence_in_words
from snapviz.report.words import block_counts, frames_in_words, plural
from snapviz.schema import DiffReport, DiffRow, PhaseDelta, RankPoint, Waterfall
from snapviz.units import format_bytes

__all__ = [
    "NOTHING",
    "hints",
    "keepers",
    "made_in",
    "phase_rows",
    "reason_cells",
    "saving",
    "stack_of",
    "unchanged",
    "waterfall_table",
    "waterfall_words",
]

NOTHING: Inline = [Span("–", "faint")]
"""Where a side has no figure, or two figures no difference that means anything."""

_PHASES = 60
"""Phases of one table."""

_SHORT = 90
"""Columns of a stack in a cell."""

_PATH = 200
"""Columns of a holder's path."""

_FRAMES = 60
"""Frames of a stack that a page has; JSON has all."""


# ------------------------------------------------------------------ phases


def phase_rows(report: DiffReport, found: PhaseTable, rows: Sequence[PhaseDelta], measures: Sequence[Measure]) -> Table:
    """Some phases of one rank: base, head and their difference of each measure."""
    names = short_names(report)
    told, more = rows[:_PHASES], len(rows) - _PHASES
    columns = [Column(f"phase{found.who}", number=False)]
    for measure in measures:
        columns += [*(Column(f"{measure.heading} {name}") for name in names), Column("Δ")]
    cells = tuple(([code(row.phase)], *_phase_cells(row, measures)) for row in told)
    legend = [*_legend(told), *([f"{more:,} more are in the JSON report"] if more > 0 else [])]
    return Table(f"phases{found.who}", tuple(columns), cells, prose("; ".join(legend)) if legend else ())


def _phase_cells(row: PhaseDelta, measures: Sequence[Measure]) -> Iterator[Inline]:
    for measure in measures:
        for value, mark in zip(measure.pair(row), measure.marks(row), strict=True):
            yield NOTHING if value is None else [amount(value, mark)]
        delta = measure.delta(row)
        yield NOTHING if delta is None else [change_of(delta, arrow=True)]


def _legend(rows: Sequence[PhaseDelta]) -> Iterator[str]:
    """What the marks in the cells mean, of those there are."""
    marks = {mark for row in rows for trust in (row.base_trust, row.head_trust) for mark in [mark_of(trust)]}
    if "≥ " in marks:
        yield "≥ the recording does not have all of the phase"
    if "~ " in marks:
        yield "(~) not exact"
    if any(not row.comparable for row in rows):
        yield "– not compared, where the sources of a phase differ"


# ------------------------------------------------------------------ reasons


def hints(told: Told) -> list[Block]:
    """What to know of the moments before the rows."""
    return [Paragraph(prose(text), "faint") for text in told.hints]


def reason_cells(group: Reasons, reason: Reason, marked: bool) -> tuple[Inline, Inline, Inline, Inline]:
    """Difference, what it is, blocks and birth of one reason; ``marked`` names the category."""
    what: list[Span] = [code(reason.label)] if reason.label else []
    if marked:
        evidence = [Span(f" · {words}", "faint") for words in evidence_in_words(reason.rows)]
        space = [Span(" ")] * bool(what)
        what = [Span(category_in_words(group.category), "strong"), *space, *what, *evidence]
    birth: Inline = [code(reason.birth)] if reason.birth else []
    return [change_of(reason.delta, arrow=marked)], what, [Span(reason.counts)], birth


def made_in(reason: Reason) -> Inline:
    """Where all rows of a reason were made; nothing where in several places."""
    if not reason.one_stack:
        return []
    return stack_of(reason.rows[0])


def stack_of(row: DiffRow) -> Inline:
    """Where a row was made."""
    return [Folded(frames_in_words(row.stack, _lines(row), _SHORT), "code", _frames(row.stack, _lines(row)))]


def _lines(row: DiffRow) -> tuple[int, ...] | None:
    return row.head_lines if row.head_lines is not None else row.base_lines


def _frames(stack: Sequence[str], lines: Sequence[int] | None) -> tuple[str, ...]:
    shown = [
        clean(f"{frame[:-1]}:{number})" if number is not None and number >= 0 and frame.endswith(")") else frame)
        for frame, number in zip(stack, lines if lines is not None else [None] * len(stack), strict=True)
    ]
    more = len(shown) - _FRAMES
    return (*shown[:_FRAMES], f"… {more:,} more frames …") if more > 0 else tuple(shown)


def keepers(report: DiffReport, rank: RankPoint, rows: Sequence[DiffRow]) -> list[Block]:
    """Who keeps what dangles among some rows."""
    found = Keepers(report.dangling, rank.rank).of(rows)
    phrases = keepers_of(found, _PATH)
    who = f"{plural(len(found), 'dangling parameter')}: kept by" if len(found) > 1 else "kept by"
    items = [
        [Span("and by" if place else who, "strong"), Span(" "), *prose(text)] for place, text in enumerate(phrases)
    ]
    return [Bullets(tuple(items))] if items else []


def unchanged(rank: RankPoint) -> list[Block]:
    """What did not change."""
    if not rank.unchanged.rows:
        return []
    size = format_bytes(rank.unchanged.total_bytes)
    return [Paragraph([Span(f"the rest: {plural(rank.unchanged.rows, 'row')} that did not change ({size})")], "faint")]


def saving(report: DiffReport) -> list[Block]:
    """What it would save."""
    return [Paragraph(prose(text)) for text in savings(report)]


# ------------------------------------------------------------------ the way from base to head


def waterfall_words(found: Waterfall) -> str:
    """What is not in its steps."""
    if not found.moved:
        return ""
    return f"only moved, and sum to nothing: {', '.join(map(category_in_words, found.moved))}"


def waterfall_table(report: DiffReport, found: Waterfall, title: str) -> Table:
    """Its steps with the level after each."""
    base, head = full_names(report)
    rows: list[tuple[Inline, ...]] = [([code(base)], [], [amount(found.from_bytes)], [])]
    for step in found.steps:
        names = f" ({', '.join(map(category_in_words, step.categories))})" if len(step.categories) > 1 else ""
        what = [Span(f"{category_in_words(step.what)}{names}")]
        counts = [Span(block_counts(step.base_count, step.head_count))]
        rows.append((what, [change_of(step.delta_bytes, arrow=True)], [amount(step.to_bytes)], counts))
    total = [change_of(found.to_bytes - found.from_bytes, arrow=True)]
    rows.append(([code(head)], total, [amount(found.to_bytes)], []))
    columns = (Column("step", number=False), Column("Δ"), Column("then"), Column("blocks"))
    return Table(title, columns, tuple(rows), prose(waterfall_words(found)))
