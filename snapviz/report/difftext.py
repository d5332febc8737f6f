"""A diff for people: verdict, what is not certain, where, why, and what it would save.

Pure: a finished ``DiffReport`` in, lines out. Nothing that did not change takes up room.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from snapviz.report.budgettext import budget_lines
from snapviz.report.diffsaid import broken_sentences, full_names, savings, shared_facts
from snapviz.report.difftables import (
    metric_lines,
    outside_lines,
    phase_lines,
    rank_lines,
    reserved_lines,
)
from snapviz.report.environment import environment_lines
from snapviz.report.keepers import kept_lines
from snapviz.report.layout import Line, Span, clean, line, wrapped
from snapviz.report.training import benchmark_lines, origin_lines
from snapviz.report.why import why_lines
from snapviz.report.words import block_counts, fold_names, plural
from snapviz.schema import Dangling, DiffReport, Suspect
from snapviz.units import format_bytes

__all__ = ["diff_lines", "suspect_lines"]

_NOTES = 6
_SUSPECTS = 3
"""Shown of each; JSON has all."""


def diff_lines(report: DiffReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), ``top`` rows to a point."""
    width = max(60, width)
    lines = _header(report, width)
    lines += _warnings(report, width)
    lines += budget_lines(report.budgets, width)
    phases, reserved = phase_lines(report, width), reserved_lines(report, width)
    lines += [*phases, *([] if phases or not reserved else [line()]), *reserved]
    lines += rank_lines(report, width)
    lines += why_lines(report, width, top)
    lines += origin_lines(report, width)
    lines += _saving(report, width)
    # of the whole device, other programs and all: it explains no row, and must not be taken for the answer
    lines += outside_lines(report, width)
    lines += _lasting(report, width)
    lines += _suspects(report, width)
    lines += metric_lines(report, width)
    lines += benchmark_lines(report, width)
    return lines


def _header(report: DiffReport, width: int) -> list[Line]:
    names = " → ".join(full_names(report))
    facts = " · ".join(shared_facts(report))
    first = [line(Span(names, "strong"), "   ", Span(facts, "faint"))]
    if len(names) + len(facts) + 3 > width:
        first = [*wrapped(names, width, style="strong"), *wrapped(facts, width, style="faint")]
    return [*first, *wrapped(clean(report.verdict), width), *environment_lines(report, width)]


def _warnings(report: DiffReport, width: int) -> list[Line]:
    """Above every table: what could not be read, what is not exact (all of it), and what else to know."""
    lines: list[Line] = []
    for text in broken_sentences(report):
        lines += _bullet(text, width, "warning")
    for note in (*report.caveats, *report.notes[:_NOTES]):
        lines += _bullet(clean(note), width, "")
    if len(report.notes) > _NOTES:
        lines += _bullet(f"{plural(len(report.notes) - _NOTES, 'more note')} (--format json has all)", width, "")
    return [line(), *lines] if lines else []


def _bullet(text: str, width: int, style: str) -> list[Line]:
    return wrapped(text, width, "! " if style == "warning" else "~ ", "  ", style)


# ------------------------------------------------------------------ what it would save


def _saving(report: DiffReport, width: int) -> list[Line]:
    lines = [each for text in savings(report) for each in wrapped(text, width)]
    return [line(), *lines] if lines else []


def _lasting(report: DiffReport, width: int) -> list[Line]:
    """What dangles in both runs, or went late: no part of the growth, and worth a line all the same."""
    lines: list[Line] = []
    for rank in sorted({d.rank for d in report.dangling}):
        sides = [[d for d in report.dangling if d.rank == rank and d.run == side] for side in ("base", "head")]
        keys = [{(d.name, d.block_bytes) for d in side} for side in sides]
        both = [d for d in sides[1] if (d.name, d.block_bytes) in keys[0]]
        late = [d for d in sides[1] if d.gone_in is not None]
        lines += _dangling_line(f"rank {rank}: dangling in both runs", both, width)
        for phase in dict.fromkeys(d.gone_in for d in late):
            some = [d for d in late if d.gone_in == phase]
            what = f"rank {rank}: in {full_names(report)[1]} released late, in {phase}"
            lines += _dangling_line(what, some, width)
    return [line(), *lines] if lines else []


def _dangling_line(what: str, found: Sequence[Dangling], width: int) -> list[Line]:
    if not found:
        return []
    total = format_bytes(sum(d.block_bytes for d in found))
    names = ", ".join(clean(name) for name, _ in fold_names([d.name for d in found]))
    lines = wrapped(f"{clean(what)}: {plural(len(found), 'parameter')}, {total}: {names}", width, "", "  ")
    return lines + list(chain.from_iterable(kept_lines(found, width, 2)))


def _suspects(report: DiffReport, width: int) -> list[Line]:
    """Suspects that only one run has; what both have is no difference and gets one line."""
    lines: list[Line] = []
    of = {side: [s for s in report.suspects if s.run == side] for side in ("base", "head")}
    keys = {side: {_suspect_key(s) for s in found} for side, found in of.items()}
    base, head = full_names(report)
    for side, other, name in (("base", "head", base), ("head", "base", head)):
        if found := [s for s in of[side] if _suspect_key(s) not in keys[other]]:
            title = f"suspects in {name} (no record says what they are: none is certain)"
            lines += [line(), *wrapped(title, width, style="strong"), *suspect_lines(found, width)]
    if both := [s for s in of["head"] if _suspect_key(s) in keys["base"]]:
        total = format_bytes(sum(s.block_bytes for s in both))
        lines += [line(), *wrapped(f"suspects in both runs, none certain: {plural(len(both), 'kind')}, {total}", width)]
    return lines


def _suspect_key(one: Suspect) -> tuple[object, ...]:
    return one.rank, one.count, one.requested_bytes, one.evidence, len(one.stack)


def suspect_lines(found: Sequence[Suspect], width: int) -> list[Line]:
    """The largest suspects with their evidence, and a line for the rest."""
    lines: list[Line] = []
    for one in found[:_SUSPECTS]:
        size = f"{format_bytes(one.block_bytes)} in {block_counts(one.count, one.count)}"
        lines += wrapped(f"{size}: {clean('; '.join(one.evidence))}", width, "  ", "    ")
    rest = found[_SUSPECTS:]
    if rest:
        total = format_bytes(sum(s.block_bytes for s in rest))
        lines += wrapped(f"{len(rest)} more kinds, {total}, on the same evidence", width, "  ", "    ")
    return lines
