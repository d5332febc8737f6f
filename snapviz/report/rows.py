"""The rows of one point: by category, the largest first, every line of them part of an exact sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from snapviz.report.keepers import Keepers, kept_lines
from snapviz.report.layout import Line, Span, clean, cut_left, line, pad, width_of, wrapped
from snapviz.report.reasons import (
    Reason,
    Reasons,
    category_in_words,
    evidence_in_words,
    folded_in_words,
    reasons_of,
    shares,
)
from snapviz.report.words import arrow, change, frames_in_words, plural, signed
from snapviz.schema import DiffOptions, DiffRow, RankPoint
from snapviz.units import format_bytes

__all__ = ["row_lines"]

_WIDE = 120
"""Columns from which a row's stack goes beside it instead of below."""

_AMOUNT = 12
_INDENT = 2 + _AMOUNT + 2
"""Columns of an amount, and of all that stands before what it is for."""

_NOBODY = Keepers((), 0)


def row_lines(
    options: DiffOptions,
    rank: RankPoint,
    width: int,
    top: int,
    before: tuple[Collection[DiffRow], str] = ((), ""),
    keepers: Keepers = _NOBODY,
) -> list[Line]:
    """The rows that changed, at most about ``top`` lines of them, then those below the threshold and what did
    not change. Rows that were told ``before`` are one line here, with where they were.
    """
    told, told_at = before
    again = tuple(row for row in rank.rows if row in told)
    groups = reasons_of([row for row in rank.rows if row not in told])
    lines = [_again(Reason("", again), told_at)] if again else []
    for group, room in zip(groups, shares(groups, top), strict=True):
        lines += _group_lines(group, room, width, keepers)
    return lines + _below(options, rank, width) + _unchanged(rank)


def _group_lines(group: Reasons, room: int, width: int, keepers: Keepers) -> list[Line]:
    together = kept_lines(keepers.of(group.all.rows), width, _INDENT)
    if len(group.each) == 1 and room:
        return _single(group, width, chain.from_iterable(together))
    # what keeps all of them is told once, above them
    each = len(together) > 1 and room > 0
    lines = _category_lines(group, width) + ([] if each else list(chain.from_iterable(together)))
    for one in group.each[:room]:
        first, *below = _row(one, width, told_birth=group.all.birth)
        kept = chain.from_iterable(kept_lines(keepers.of(one.rows), width, _INDENT)) if each else ()
        lines += [first, *kept, *below]
    return lines + (_rest(group.each[room:], width) if room else [])


def _amount(delta: int, marked: bool = False) -> Line:
    mark = arrow(delta) if marked else Span(" ")
    return line(mark, " ", Span(pad(signed(delta), _AMOUNT, right=True), change(delta).style), "  ")


def _again(shown: Reason, told_at: str) -> Line:
    return [*_amount(shown.delta, marked=True), Span(f"the same {plural(len(shown.rows), 'row')} as {told_at}")]


def _category_lines(group: Reasons, width: int) -> list[Line]:
    parts = [group.all.counts, *([group.both_ways] if group.both_ways else [])]
    parts += [f"born {clean(group.all.birth)}"] if group.all.birth else []
    parts += evidence_in_words(group.all.rows)
    first = [*_amount(group.all.delta, marked=True), Span(category_in_words(group.category), "strong")]
    return _with_tail(first, "  " + " · ".join(parts), width)


def _with_tail(first: Line, tail: str, width: int) -> list[Line]:
    """A line and what is said of it: behind it where that fits, else below."""
    if sum(width_of(span.text) for span in first) + width_of(tail) <= width:
        return [[*first, Span(tail, "faint")]]
    return [first, *([Span(" " * _INDENT), *part] for part in wrapped(tail.strip(), width - _INDENT, style="faint"))]


def _single(group: Reasons, width: int, kept: Iterable[Line]) -> list[Line]:
    """A category with one line: both on it, then who keeps it, and where it was made."""
    one = group.each[0]
    row = one.rows[0]
    name = Span(category_in_words(group.category), "strong")
    owner = f" {clean(one.label)}" if one.label else ""
    parts = [f"born {clean(row.birth_phase)}"] * bool(row.birth_phase) + [one.counts, *evidence_in_words(one.rows)]
    lines = _with_tail([*_amount(one.delta, marked=True), name, Span(owner)], "  " + " · ".join(parts), width)
    lines += kept
    return [*lines, _stack_line(row, width)] if one.one_stack else lines


def _row(one: Reason, width: int, told_birth: str) -> list[Line]:
    birth = one.rows[0].birth_phase
    parts = [f"born {clean(birth)}"] * bool(birth and not told_birth) + [one.counts]
    tail = Span(f"  {' · '.join(parts)}", "faint")
    if not one.label:
        return _unnamed(one.rows[0], one.delta, tail, width)
    room = width - _INDENT - width_of(tail.text)
    label = pad(cut_left(clean(one.label), max(16, room)), min(room, 44))
    first = [*_amount(one.delta), Span(label), tail]
    left = width - sum(width_of(span.text) for span in first) - 3
    if not one.one_stack:
        return [first]
    if width >= _WIDE and left > 30:
        return [[*first, Span(f"   {_stack(one.rows[0], left)}", "faint")]]
    return [first] if len(one.rows) > 1 else [first, _stack_line(one.rows[0], width)]


def _unnamed(row: DiffRow, delta: int, tail: Span, width: int) -> list[Line]:
    if width >= _WIDE:
        return [[*_amount(delta), Span(_stack(row, width - _INDENT - width_of(tail.text))), tail]]
    below = line(" " * _INDENT, Span(tail.text.strip(), "faint"))
    return [[*_amount(delta), Span(_stack(row, width - _INDENT))], below]


def _stack(row: DiffRow, width: int) -> str:
    return frames_in_words(row.stack, row.head_lines if row.head_lines is not None else row.base_lines, width)


def _stack_line(row: DiffRow, width: int) -> Line:
    return line(" " * _INDENT, Span(_stack(row, width - _INDENT), "faint"))


def _rest(shown: Sequence[Reason], width: int) -> list[Line]:
    """What is not listed, in one sum; dangling parameters are all named, since each is a fault."""
    if not shown:
        return []
    rows = [row for one in shown for row in one.rows]
    text = f"in {plural(len(rows), 'more row')}"
    if all(row.dangling for row in rows):
        text += f": {', '.join(clean(one.label) for one in shown)}"
    first, *others = wrapped(text, width - _INDENT)
    delta = sum(one.delta for one in shown)
    return [[*_amount(delta), *first], *([Span(" " * _INDENT), *other] for other in others)]


def _below(options: DiffOptions, rank: RankPoint, width: int) -> list[Line]:
    if rank.folded is None:
        return []
    first, *others = wrapped(folded_in_words(rank.folded, options), width - _INDENT, style="faint")
    return [[*_amount(rank.folded.delta_bytes), *first], *([Span(" " * _INDENT), *other] for other in others)]


def _unchanged(rank: RankPoint) -> list[Line]:
    if not rank.unchanged.rows:
        return []
    size = format_bytes(rank.unchanged.total_bytes)
    text = f"the rest: {plural(rank.unchanged.rows, 'row')} that did not change ({size})"
    return [[*_amount(0), Span(text, "faint")]]
