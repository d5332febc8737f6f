"""The rows of one point as a table: what ``--by`` groups them by, with the columns that ``--mode`` asks for.

The lines above ``total`` sum to it, whatever is left out of the table: each amount is in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapviz.compare.verdict import judged_of, recorded_of
from snapviz.report.difftables import NOTHING, short_names
from snapviz.report.keepers import Keepers, kept_lines
from snapviz.report.layout import Column, Line, Span, clean, cut_left, line, render_table, width_of, wrapped
from snapviz.report.reasons import category_in_words, evidence_in_words
from snapviz.report.words import block_counts, change, frames_in_words, plural, ratio, signed
from snapviz.schema import UNUSED, Dangling, DiffOptions, DiffReport, DiffRow, Point, RankPoint
from snapviz.units import format_bytes

__all__ = ["Amounts", "grouped", "grouped_lines", "kept_of", "rank_table", "ranks_grouped", "ranks_left"]

_INDENT = 4
"""Columns before what is said below a row."""

_LONGEST = 60
"""Columns of a row's name: the numbers stand near it at every width."""


@dataclass(frozen=True)
class Amounts:
    """One line of the table; a side that has nothing is none."""

    label: str
    base: int | None
    head: int | None
    faint: bool = False
    tail: tuple[str, ...] = ()
    row: DiffRow | None = None
    # whose stack and keepers are told with it; none of a sum


def grouped_lines(report: DiffReport, rank: RankPoint, width: int, top: int) -> list[Line]:
    """The first ``top`` rows, one line for the other ones, those below the threshold, those that did not change,
    and the total."""
    return _table(report, grouped(report, rank, top), Keepers(report.dangling, rank.rank), width)


def grouped(report: DiffReport, rank: RankPoint, top: int) -> list[Amounts]:
    """The same as data."""
    options = report.options
    listed = [_amounts(row, options) for row in rank.rows[:top]]
    listed += _rest(rank.rows[top:])
    listed += _folded(rank, options, "")
    if rank.unchanged.rows:
        same = rank.unchanged.total_bytes
        listed.append(Amounts(f"unchanged: {plural(rank.unchanged.rows, 'row')}", same, same, True))
    return [*listed, Amounts("total", rank.base_total_bytes, rank.head_total_bytes)]


def rank_table(report: DiffReport, point: Point, width: int, top: int) -> list[Line]:
    """One line for each rank that can be compared, the most first as ``mode`` says, and the total of them."""
    lines = _table(report, ranks_grouped(report, point, top), Keepers((), 0), width)
    left = ranks_left(point)
    return lines + (wrapped(left, width, "", "  ", "faint") if left else [])


def ranks_left(point: Point) -> str:
    """``not compared: rank 3``; "" where all are."""
    ranks = judged_of(point) or recorded_of(point)
    left = [str(rank.rank) for rank in point.ranks if rank not in ranks]
    return f"not compared: rank {', '.join(left)}" if left else ""


def ranks_grouped(report: DiffReport, point: Point, top: int) -> list[Amounts]:
    """The same as data."""
    ranks = judged_of(point) or recorded_of(point)
    rows = {rank.rank: row for rank in ranks for row in rank.rows}
    order = sorted(rows, key=lambda number: (_most(rows[number], report.options), number))
    listed = []
    for number in order[:top]:
        one = _amounts(rows[number], report.options)
        listed.append(Amounts(f"rank {number}", one.base, one.head, tail=one.tail))
    listed += _rest([rows[number] for number in order[top:]], "rank")
    for rank in ranks:
        listed += _folded(rank, report.options, f"rank {rank.rank}, ")
    if same := [rank for rank in ranks if not rank.rows and rank.folded is None]:
        held = sum(rank.base_total_bytes or 0 for rank in same)
        listed.append(Amounts(f"unchanged: {plural(len(same), 'rank')}", held, held, True))
    base, head = (sum(total or 0 for total in side) for side in _totals(ranks))
    return [*listed, Amounts("total", base, head)]


def _totals(ranks: Sequence[RankPoint]) -> tuple[list[int | None], list[int | None]]:
    return [rank.base_total_bytes for rank in ranks], [rank.head_total_bytes for rank in ranks]


def _most(row: DiffRow, options: DiffOptions) -> float:
    low, high = sorted((row.base_bytes, row.head_bytes))
    if options.mode == "absolute":
        return -high
    return -abs(row.delta_bytes) if options.mode == "delta" else -(high / low if low > 0 else float("inf"))


def _folded(rank: RankPoint, options: DiffOptions, whose: str) -> list[Amounts]:
    """The rows below the threshold: what it was is told beside their number, and both directions."""
    folded = rank.folded
    if folded is None:
        return []
    limit = format_bytes(folded.limit_bytes)
    share = "%" in (options.threshold or "")
    tail = [f"each below {limit}"] * share
    if folded.more_bytes and folded.less_bytes:
        tail.append(f"{signed(folded.more_bytes)} and {signed(folded.less_bytes)}")
    label = clean(f"{whose}below {options.threshold if share else limit}: {plural(folded.rows, 'row')}")
    return [Amounts(label, folded.base_bytes, folded.head_bytes, True, tuple(tail))]


def _rest(rows: Sequence[DiffRow], what: str = "row") -> list[Amounts]:
    """Rows beyond ``top`` in one sum, which says how much of them dangles."""
    if not rows:
        return []
    dangling = sum(row.head_dangling_bytes or row.base_dangling_bytes for row in rows)
    told = (f"{format_bytes(dangling)} of it dangling",) if dangling else ()
    base, head = sum(row.base_bytes for row in rows), sum(row.head_bytes for row in rows)
    return [Amounts(plural(len(rows), f"more {what}"), base, head, True, told)]


# ------------------------------------------------------------------ rows


def _amounts(row: DiffRow, options: DiffOptions) -> Amounts:
    return Amounts(
        _label(row, options),
        row.base_bytes if row.base_count else None,
        row.head_bytes if row.head_count else None,
        tail=tuple(_besides(row, options)),
        row=row,
    )


def kept_of(keepers: Keepers, row: DiffRow, options: DiffOptions) -> list[Dangling]:
    """What of a row dangles, where something is known of who keeps it."""
    return keepers.all_of(row) if options.by == "category" else keepers.of([row])


def _below(row: DiffRow | None, options: DiffOptions, keepers: Keepers, width: int) -> list[Line]:
    """Who keeps a row, and where it was made."""
    if row is None:
        return []
    below = [each for told in kept_lines(kept_of(keepers, row, options), width, _INDENT) for each in told]
    if options.by in (None, "stack") and (row.stack or not row.owner):
        lines = row.head_lines if row.head_lines is not None else row.base_lines
        below.append(line(" " * _INDENT, Span(frames_in_words(row.stack, lines, width - _INDENT), "faint")))
    return below


def _label(row: DiffRow, options: DiffOptions) -> str:
    # of a category, and of a name, what dangles has a row of its own
    dangling = "dangling " * (row.dangling and options.by not in ("stack", "phase", "rank"))
    category = dangling + (category_in_words(row.category) or "several categories")
    names: dict[str | None, str] = {
        "phase": row.birth_phase or "several phases",
        "module": f"{dangling}{row.module}" if row.module else f"no module: {category}",
        "owner": f"{dangling}{row.owner}" if row.owner else f"no owner: {category}",
        None: f"{dangling}{row.owner}" if row.owner else category,
    }
    return clean(names.get(options.by, category))


def _besides(row: DiffRow, options: DiffOptions) -> list[str]:
    """What is known of a row beside its bytes: which run has it, its blocks, what of it dangles, and why."""
    parts = [f"only in {row.found_in}"] if row.found_in != "both" else []
    # of a side alone there is no other number
    counts = (row.base_count, row.head_count) if row.found_in == "both" else (row.base_count + row.head_count,) * 2
    parts += [block_counts(*counts)] if row.category != UNUSED else []
    if options.by in (None, "stack"):
        parts += [clean(row.category)] if row.owner and row.category and options.by is None else []
        parts += [clean(row.owner)] if row.owner and options.by == "stack" else []
        parts += [f"born {clean(row.birth_phase)}"] if row.birth_phase else []
    if not row.dangling or options.by in ("stack", "phase", "rank"):
        parts += _dangling(row)
    if options.by in (None, "category", "stack") and row.category:
        parts += evidence_in_words([row])
    return parts


def _dangling(row: DiffRow) -> list[str]:
    base, head = row.base_dangling_bytes, row.head_dangling_bytes
    if not base and not head:
        return []
    return [
        f"{format_bytes(head)} of it dangling"
        if base == head
        else f"dangling: {format_bytes(base)} → {format_bytes(head)}"
    ]


# ------------------------------------------------------------------ the table


def _table(report: DiffReport, listed: Sequence[Amounts], keepers: Keepers, width: int) -> list[Line]:
    options = report.options
    columns = [Column(options.by or "owner or category", number=False), *(Column(name) for name in short_names(report))]
    columns += {"absolute": [], "delta": [Column("Δ")], "ratio": [Column("Δ"), Column("head/base")]}[options.mode]
    rows = [_cells(one, options) for one in listed]
    tails = [f"  {' · '.join(one.tail)}" if one.tail else "" for one in listed]
    heading, *lines = render_table(columns, rows, width)
    beside = all(_width(spans) + width_of(tail) <= width for spans, tail in zip(lines, tails, strict=True))
    out = [heading]
    for one, spans, tail in zip(listed, lines, tails, strict=True):
        out.append([*spans, Span(tail, "faint")] if beside and tail else spans)
        if tail and not beside:
            told = wrapped(tail.strip(), width - _INDENT, style="faint")
            out += [[Span(" " * _INDENT), *each] for each in told]
        out += _below(one.row, options, keepers, width)
    return out


def _cells(one: Amounts, options: DiffOptions) -> list[Span]:
    style = "faint" if one.faint else ""
    base, head = one.base or 0, one.head or 0
    cells = [Span(cut_left(one.label, _LONGEST), style)]
    cells += [NOTHING if side is None else Span(format_bytes(side), style) for side in (one.base, one.head)]
    if options.mode in ("delta", "ratio"):
        cells.append(change(head - base))
    if options.mode == "ratio":
        cells.append(ratio(base, head))
    return cells


def _width(spans: Line) -> int:
    return sum(width_of(span.text) for span in spans)
