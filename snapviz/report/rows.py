"""The rows of one point: by category, the largest first, every line of them part of an exact sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from snapviz.report.keepers import Keepers, kept_lines
from snapviz.report.layout import Line, Span, clean, cut_left, line, pad, width_of, wrapped
from snapviz.report.words import arrow, block_counts, change, fold_names, frames_in_words, plural, signed
from snapviz.schema import UNUSED, DiffOptions, DiffRow, FoldedRows, RankPoint
from snapviz.units import format_bytes

__all__ = ["category_in_words", "evidence_in_words", "folded_in_words", "row_lines"]

_WIDE = 120
"""Columns from which a row's stack goes beside it instead of below."""

_AMOUNT = 12
_INDENT = 2 + _AMOUNT + 2
"""Columns of an amount, and of all that stands before what it is for."""

_WORTH_A_LINE = 20
"""A category with at least one part in this many of the difference has a row shown, however large
the others are."""


@dataclass(frozen=True)
class _Shown:
    """One or more rows on one line: those whose owners differ only in numbers."""

    label: str
    rows: tuple[DiffRow, ...]

    @property
    def delta(self) -> int:
        return sum(row.delta_bytes for row in self.rows)

    @property
    def counts(self) -> str:
        return block_counts(sum(row.base_count for row in self.rows), sum(row.head_count for row in self.rows))


@dataclass(frozen=True)
class _Group:
    """The rows of one category."""

    category: str
    all: _Shown
    shown: tuple[_Shown, ...]

    @property
    def moved(self) -> bool:
        """Whether it is the same memory in other stacks, more or less: no row of it explains anything."""
        gross = sum(abs(row.delta_bytes) for row in self.all.rows)
        return abs(self.all.delta) * _WORTH_A_LINE < gross

    @property
    def birth(self) -> str:
        """The phase they were all born in; "" where there are several."""
        births = {row.birth_phase for row in self.all.rows}
        return births.pop() if len(births) == 1 else ""


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
    groups = _by_category([row for row in rank.rows if row not in told])
    lines = [_again(_Shown("", again), told_at)] if again else []
    for group, room in zip(groups, _shares(groups, top), strict=True):
        lines += _group_lines(group, room, width, keepers)
    return lines + _below(options, rank, width) + _unchanged(rank)


def _by_category(rows: Sequence[DiffRow]) -> list[_Group]:
    found: dict[str, list[DiffRow]] = {}
    for row in rows:
        found.setdefault("dangling parameter" if row.dangling else row.category, []).append(row)
    groups = [_Group(category, _Shown("", tuple(some)), _fold(some)) for category, some in found.items()]
    return sorted(groups, key=lambda group: (-abs(group.all.delta), group.category))


def _fold(rows: Sequence[DiffRow]) -> tuple[_Shown, ...]:
    """Named rows of one birth phase and one direction folded by name; the others each by itself."""
    shown = [_Shown("", (row,)) for row in rows if not row.owner]
    named: dict[tuple[str, bool], list[DiffRow]] = {}
    for row in rows:
        if row.owner:
            named.setdefault((row.birth_phase, row.delta_bytes > 0), []).append(row)
    for some in named.values():
        for label, positions in fold_names([row.owner for row in some]):
            shown.append(_Shown(label, tuple(some[i] for i in positions)))
    return tuple(sorted(shown, key=lambda one: (-abs(one.delta), one.label)))


def _shares(groups: Sequence[_Group], top: int) -> list[int]:
    """Lines each category gets: one for all that matter, the others to the largest first."""
    total = sum(abs(group.all.delta) for group in groups)
    # what only moved needs no rows, unless it is all there is
    wanted = [len(group.shown) if len(groups) == 1 or not group.moved else 0 for group in groups]
    worth = [abs(group.all.delta) * _WORTH_A_LINE >= total for group in groups]
    shares = [min(want, 1 if is_worth else 0) for want, is_worth in zip(wanted, worth, strict=True)]
    left = max(0, top - sum(shares))
    for index, want in enumerate(wanted):
        extra = min(left, want - shares[index])
        shares[index] += extra
        left -= extra
    return shares


def _group_lines(group: _Group, room: int, width: int, keepers: Keepers) -> list[Line]:
    together = kept_lines(keepers.of(group.all.rows), width, _INDENT)
    if len(group.shown) == 1 and room:
        return _single(group, width, chain.from_iterable(together))
    # what keeps all of them is told once, above them
    each = len(together) > 1 and room > 0
    lines = _category_lines(group, width) + ([] if each else list(chain.from_iterable(together)))
    for one in group.shown[:room]:
        first, *below = _row(one, width, told_birth=group.birth)
        kept = chain.from_iterable(kept_lines(keepers.of(one.rows), width, _INDENT)) if each else ()
        lines += [first, *kept, *below]
    return lines + (_rest(group.shown[room:], width) if room else [])


def _amount(delta: int, marked: bool = False) -> Line:
    mark = arrow(delta) if marked else Span(" ")
    return line(mark, " ", Span(pad(signed(delta), _AMOUNT, right=True), change(delta).style), "  ")


def _again(shown: _Shown, told_at: str) -> Line:
    return [*_amount(shown.delta, marked=True), Span(f"the same {plural(len(shown.rows), 'row')} as {told_at}")]


def _category_lines(group: _Group, width: int) -> list[Line]:
    rows = group.all.rows
    more = sum(row.delta_bytes for row in rows if row.delta_bytes > 0)
    less = sum(row.delta_bytes for row in rows if row.delta_bytes < 0)
    parts = [group.all.counts]
    parts += [f"{signed(more)} and {signed(less)} in {plural(len(rows), 'row')}"] if more and less else []
    parts += [f"born {clean(group.birth)}"] if group.birth else []
    parts += evidence_in_words(rows)
    first = [*_amount(group.all.delta, marked=True), Span(category_in_words(group.category), "strong")]
    return _with_tail(first, "  " + " · ".join(parts), width)


def _with_tail(first: Line, tail: str, width: int) -> list[Line]:
    """A line and what is said of it: behind it where that fits, else below."""
    if sum(width_of(span.text) for span in first) + width_of(tail) <= width:
        return [[*first, Span(tail, "faint")]]
    return [first, *([Span(" " * _INDENT), *part] for part in wrapped(tail.strip(), width - _INDENT, style="faint"))]


def category_in_words(category: str) -> str:
    """A category for people."""
    return {"unknown": "unknown purpose", UNUSED: "reserved, in no block"}.get(category, category)


def evidence_in_words(rows: Sequence[DiffRow]) -> list[str]:
    """What the category rests on, where that is not a record."""
    kinds = {row.evidence for row in rows} - {"recorded"}
    return ["by its stack"] if "inferred" in kinds else ["by annotations"] if kinds else []


def _single(group: _Group, width: int, kept: Iterable[Line]) -> list[Line]:
    """A category with one line: both on it, then who keeps it, and where it was made."""
    one = group.shown[0]
    row = one.rows[0]
    name = Span(category_in_words(group.category), "strong")
    owner = f" {clean(one.label)}" if one.label else ""
    parts = [f"born {clean(row.birth_phase)}"] * bool(row.birth_phase) + [one.counts, *evidence_in_words(one.rows)]
    lines = _with_tail([*_amount(one.delta, marked=True), name, Span(owner)], "  " + " · ".join(parts), width)
    lines += kept
    return [*lines, _stack_line(row, width)] if _same_stack(one) else lines


def _row(one: _Shown, width: int, told_birth: str) -> list[Line]:
    birth = one.rows[0].birth_phase
    parts = [f"born {clean(birth)}"] * bool(birth and not told_birth) + [one.counts]
    tail = Span(f"  {' · '.join(parts)}", "faint")
    if not one.label:
        return _unnamed(one.rows[0], one.delta, tail, width)
    room = width - _INDENT - width_of(tail.text)
    label = pad(cut_left(clean(one.label), max(16, room)), min(room, 44))
    first = [*_amount(one.delta), Span(label), tail]
    left = width - sum(width_of(span.text) for span in first) - 3
    if not _same_stack(one):
        return [first]
    if width >= _WIDE and left > 30:
        return [[*first, Span(f"   {_stack(one.rows[0], left)}", "faint")]]
    return [first] if len(one.rows) > 1 else [first, _stack_line(one.rows[0], width)]


def _unnamed(row: DiffRow, delta: int, tail: Span, width: int) -> list[Line]:
    if width >= _WIDE:
        return [[*_amount(delta), Span(_stack(row, width - _INDENT - width_of(tail.text))), tail]]
    below = line(" " * _INDENT, Span(tail.text.strip(), "faint"))
    return [[*_amount(delta), Span(_stack(row, width - _INDENT))], below]


def _same_stack(one: _Shown) -> bool:
    return len({row.stack for row in one.rows}) == 1


def _stack(row: DiffRow, width: int) -> str:
    return frames_in_words(row.stack, row.head_lines if row.head_lines is not None else row.base_lines, width)


def _stack_line(row: DiffRow, width: int) -> Line:
    return line(" " * _INDENT, Span(_stack(row, width - _INDENT), "faint"))


def _rest(shown: Sequence[_Shown], width: int) -> list[Line]:
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


def folded_in_words(folded: FoldedRows, options: DiffOptions) -> str:
    """``34 rows below 1% (10.00 MiB): +5.00 MiB and -3.80 MiB``; both directions only where there are both."""
    share = f"{options.threshold} ({format_bytes(folded.limit_bytes)})" if "%" in (options.threshold or "") else ""
    text = f"{plural(folded.rows, 'row')} below {share or format_bytes(folded.limit_bytes)}"
    both = f": {signed(folded.more_bytes)} and {signed(folded.less_bytes)}"
    return clean(text + both * bool(folded.more_bytes and folded.less_bytes))


def _unchanged(rank: RankPoint) -> list[Line]:
    if not rank.unchanged.rows:
        return []
    size = format_bytes(rank.unchanged.total_bytes)
    text = f"the rest: {plural(rank.unchanged.rows, 'row')} that did not change ({size})"
    return [[*_amount(0), Span(text, "faint")]]
