"""What dangles in a run, for people. Pure: a finished ``DanglingReport`` in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from snapviz.compare.holders import short_path
from snapviz.report.difftext import suspect_lines
from snapviz.report.heading import UNREAD, broken_lines, note_lines, run_lines, told_once
from snapviz.report.keepers import kept_lines
from snapviz.report.layout import Column, Line, Span, clean, cut_left, line, pad, render_table, width_of, wrapped
from snapviz.report.words import change, fold_names, frames_in_words, plural
from snapviz.schema import Dangling, DanglingPhase, DanglingReport, RankDangling
from snapviz.units import format_bytes, format_exact

__all__ = ["dangling_lines", "dangling_verdict", "tensor_in_words"]

_PHASES = 60
_NARROWEST = 24
"""Columns a path keeps."""
_INDENT = 14


def dangling_lines(report: DanglingReport, width: int = 100, top: int | None = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60).

    ``top`` rows of what dangles, those whose names differ in a number on one; none: one for every parameter.
    """
    width = max(60, width)
    lines = run_lines(report.run, width)
    lines += wrapped(clean(f"{dangling_verdict(report)}{UNREAD if report.broken and report.ranks else ''}"), width)
    lines += broken_lines(report.broken, width)
    lines += note_lines(report.notes, width)
    several = len(report.ranks) > 1
    return lines + told_once(report.ranks, _likeness, lambda rank: _rank(rank, width, top, several))


def _likeness(rank: RankDangling) -> object:
    """What is told of a rank, without what always differs."""
    same = {"rank": 0, "dangling": tuple(d.model_copy(update={"rank": 0, "allocation": 0}) for d in rank.dangling)}
    same |= {"suspects": tuple(s.model_copy(update={"rank": 0}) for s in rank.suspects)}
    return rank.model_copy(update=same).model_dump_json()


# ------------------------------------------------------------------ the verdict


def dangling_verdict(report: DanglingReport) -> str:
    """What dangles, on how many ranks, and what the peak would be without it, in a sentence or two."""
    ranks = report.ranks
    if not ranks:
        return "no rank could be read."
    worst = ranks[0]
    if not worst.dangling:
        unknown = [one for one in ranks if not one.dangling_known]
        if not unknown:
            return "nothing dangles: every original parameter was gone once it was sharded."
        if len(unknown) < len(ranks):
            told = ", ".join(str(one.rank) for one in unknown[:8])
            return f"nothing dangles on the other ranks, and on rank {told} it cannot be told."
        suspects = sum(len(one.suspects) for one in ranks)
        found = "There are suspects, none of them certain." if suspects else "Nothing is suspected."
        return f"what dangles cannot be told: {worst.dangling_why}. {found}"
    return f"{_amount(worst)}{_where(report)}.{_saves(worst)}"


def _amount(rank: RankDangling) -> str:
    count, lasting = len(rank.dangling), sum(one.gone_in is None for one in rank.dangling)
    text = f"{plural(count, 'parameter')} ({format_bytes(rank.dangling_bytes)}) {'dangles' if count == 1 else 'dangle'}"
    if lasting == 0:
        return f"{text} and {'is' if count == 1 else 'are'} released late"
    if lasting < count:
        return f"{text}, {lasting} of them to the end ({format_bytes(rank.lasting_bytes)})"
    return f"{text} to the end"


def _where(report: DanglingReport) -> str:
    ranks = report.ranks
    if len(ranks) == 1:
        return ""
    worst = ranks[0]
    same = [
        one for one in ranks if (one.dangling_bytes, len(one.dangling)) == (worst.dangling_bytes, len(worst.dangling))
    ]
    if len(same) == len(ranks):
        return " on both ranks" if len(ranks) == 2 else f" on each of {len(ranks)} ranks"
    return f" on rank {worst.rank}, the worst of {len(ranks)}"


def _saves(rank: RankDangling) -> str:
    if rank.without is None:
        return ""
    it = "it" if len(rank.dangling) == 1 else "them"
    peak, rest = format_bytes(rank.peak_bytes), format_bytes(rank.without.peak_bytes)
    if rank.without.saved_bytes == 0:
        return f" The peak, {peak}, would be the same without {it}."
    return f" Without {it} the peak would be {rest} instead of {peak}."


# ------------------------------------------------------------------ one rank


def _rank(rank: RankDangling, width: int, top: int | None, several: bool) -> list[Line]:
    lines = [line(), line(Span(f"rank {rank.rank}", "strong"))] if several else []
    lines += note_lines(rank.notes, width)
    if several and not rank.dangling:
        told = "nothing dangles" if rank.dangling_known else f"what dangles cannot be told: {rank.dangling_why}"
        lines += wrapped(clean(told), width)
    left = top
    for (should, gone), found in _by_release(rank.dangling).items():
        some, used = _group(should, gone, found, width, left)
        lines += some
        left = None if left is None else max(0, left - used)
    lines += _phase_table(rank, width)
    lines += _advice(rank, width)
    if rank.suspects:
        title = "suspects of dangling (none is certain)"
        lines += [line(), *wrapped(title, width, style="strong"), *suspect_lines(rank.suspects, width)]
    return lines


def _by_release(found: Sequence[Dangling]) -> dict[tuple[str, str | None], list[Dangling]]:
    groups: dict[tuple[str, str | None], list[Dangling]] = {}
    for one in found:
        groups.setdefault((one.should_go_in, one.gone_in), []).append(one)
    return groups


def _group(should: str, gone: str | None, found: list[Dangling], width: int, top: int | None) -> tuple[list[Line], int]:
    """At most ``top`` rows, the largest first, with a line for the others; and how many rows there are."""
    when = "live at the end" if gone is None else f"released late, in {gone}"
    total = format_exact(sum(one.block_bytes for one in found))
    title = f"should have gone in {should}, {when}: {plural(len(found), 'parameter')}, {total}"
    lines = [line(), *wrapped(clean(title), width, style="strong")]
    together = kept_lines(found, width, 2)
    # what keeps all of them is told once, above them
    each = len(together) != 1 or len(found) == 1
    lines += [] if each else together[0]
    rows = _rows(found, folded=top is not None)
    shown, rest = (rows, []) if top is None else (rows[:top], rows[top:])
    for name, some in shown:
        lines += _row(name, some, width)
        lines += chain.from_iterable(kept_lines(some, width, _INDENT)) if each else []
        lines += _stack(some, width) if len(found) == 1 or top is None else []
    if rest:
        left = [one for _, some in rest for one in some]
        size = format_bytes(sum(one.block_bytes for one in left))
        lines.append(line(pad(size, 12, right=True), f"  in {plural(len(left), 'more parameter')}: --all lists each"))
    return lines, len(shown)


def _rows(found: Sequence[Dangling], folded: bool) -> list[tuple[str, list[Dangling]]]:
    """Name and members of each row: with ``folded`` what differs in a number only is one."""
    if not folded:
        return [(one.name, [one]) for one in found]
    rows = [(name, [found[i] for i in positions]) for name, positions in fold_names([one.name for one in found])]
    return sorted(rows, key=lambda row: -sum(one.block_bytes for one in row[1]))


def _row(name: str, some: Sequence[Dangling], width: int) -> list[Line]:
    size = format_bytes(sum(one.block_bytes for one in some))
    births = dict.fromkeys(one.birth_phase for one in some)
    parts = [*tensor_in_words(some), plural(len(some), "block"), f"born {clean(next(iter(births)))}"]
    parts += (
        [f"also named {', '.join(map(clean, _others(some[0])))}"] if len(some) == 1 and len(some[0].names) > 1 else []
    )
    tail = " · ".join(parts)
    shown = cut_left(clean(name), width - _INDENT)
    head = line(pad(size, 12, right=True), "  ", Span(shown, "strong"))
    if _INDENT + width_of(shown) + 2 + width_of(tail) <= width:
        return [[*head, Span(f"  {tail}", "faint")]]
    return [head, *([Span(" " * _INDENT), *part] for part in wrapped(tail, width - _INDENT, style="faint"))]


_ALSO = 4
"""Further names of one allocation that are told."""


def _others(one: Dangling) -> list[str]:
    names = [name for name in one.names if name != one.name]
    return [*names[:_ALSO], *([f"{len(names) - _ALSO} more"] if len(names) > _ALSO else [])]


def tensor_in_words(some: Sequence[Dangling]) -> list[str]:
    """``1024×1024 float32`` where all of them are that."""
    kinds = {(one.shape, one.dtype) for one in some}
    if len(kinds) != 1:
        return []
    ((shape, dtype),) = kinds
    sizes = "×".join(map(str, shape)) or "scalar" if shape is not None else ""
    text = f"{sizes} {(dtype or '').removeprefix('torch.')}".strip()
    return [f"{'each ' if len(some) > 1 else ''}{clean(text)}"] if text else []


def _stack(some: Sequence[Dangling], width: int) -> list[Line]:
    return [line(" " * _INDENT, Span(frames_in_words(some[0].stack, None, width - _INDENT), "faint"))]


# ------------------------------------------------------------------ what it costs, and what to do


def _phase_table(rank: RankDangling, width: int) -> list[Line]:
    changed = [one for one in rank.phases if one.saved_bytes != 0]
    if not changed:
        return []
    columns = [Column("peak, by phase", number=False), *map(Column, ("as it was", "without", "Δ"))]
    lines = [line(), *render_table(columns, [_phase_row(one) for one in changed[:_PHASES]], width)]
    if len(changed) > _PHASES:
        more = plural(len(changed) - _PHASES, "more phase")
        lines.append(line(Span(f"{more}: --format json has them", "faint")))
    same = [clean(one.phase) for one in rank.phases if one.saved_bytes == 0]
    if same:
        more = f" and {len(same) - _PHASES:,} more" if len(same) > _PHASES else ""
        lines += wrapped(f"the same without: {', '.join(same[:_PHASES])}{more}", width, "", "  ", "faint")
    if any(one.saved_bytes is None for one in changed):
        text = "– began before the first event that is left, so that nobody knows it without"
        lines += wrapped(text, width, "", "  ", "faint")
    return lines


def _phase_row(one: DanglingPhase) -> list[Span]:
    row = [Span(clean(one.phase)), Span(f"{'' if one.exact else '~ '}{format_bytes(one.peak_bytes)}")]
    if one.without_bytes is None or one.saved_bytes is None:
        return [*row, Span("–", "faint"), Span("–", "faint")]
    return [*row, Span(format_bytes(one.without_bytes)), change(-one.saved_bytes)]


def _advice(rank: RankDangling, width: int) -> list[Line]:
    known = [one for one in rank.holders if one.advice]
    lines: list[Line] = []
    if known:
        lines += [line(), line(Span("what to do", "strong"))]
    for one in known:
        what = f"{one.kind.replace('_', ' ')}, {plural(one.parameters, 'parameter')}, "
        what += "" if one.parameters == 1 else "such as "
        path = short_path(clean(one.example), max(_NARROWEST, width - 4 - width_of(what)), width_of)
        lines += [line("  ", Span(what, "faint"), path), *wrapped(one.advice, width, "    ", "    ")]
    if rank.unheld:
        who = plural(rank.unheld, "parameter")
        text = f"of {who} no holder is known: record with 'snapviz record', which looks for them when sharding is over."
        lines += [*([] if known else [line()]), *wrapped(text, width, "  ", "    ")]
    return lines
