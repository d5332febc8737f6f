"""Why a diff's points differ: for each the worst rank's rows, or a line on why they are not told."""

from __future__ import annotations

from snapviz.report.diffsaid import Told, not_explained, told_before, told_points
from snapviz.report.grouped import grouped_lines, rank_table
from snapviz.report.keepers import Keepers
from snapviz.report.layout import Line, line, wrapped
from snapviz.report.reasons import category_in_words
from snapviz.report.rows import row_lines
from snapviz.report.words import signed
from snapviz.schema import DiffReport
from snapviz.units import format_bytes

__all__ = ["why_lines"]


def why_lines(report: DiffReport, width: int, top: int) -> list[Line]:
    """The rows of each point that has some, at most about ``top`` of them."""
    lines: list[Line] = []
    told = told_points(report)
    for place, one in enumerate(told):
        lines += [line(), *wrapped(one.title, width, style="strong")]
        lines += [each for hint in one.hints for each in wrapped(hint, width, "  ", "  ", "faint")]
        lines += _steps(one, told[:place], width)
        lines += _rows(one, told[:place], width, top)
    return lines + _not_explained(report, width)


def _steps(told: Told, before: list[Told], width: int) -> list[Line]:
    """The way from base to head by category, where the rows below do not show it: they were listed before."""
    again, _ = told_before(told, before)
    found = told.steps
    plain = told.report.options.by is None and told.report.options.mode == "delta"
    if not plain or found is None or len(found.steps) < 2 or not again & set(told.rank.rows):
        return []
    steps = ", ".join(f"{signed(step.delta_bytes)} {category_in_words(step.what)}" for step in found.steps)
    return wrapped(f"{format_bytes(found.from_bytes)} → {format_bytes(found.to_bytes)}: {steps}", width, "  ", "  ")


def _rows(told: Told, before: list[Told], width: int, top: int) -> list[Line]:
    report, rank = told.report, told.rank
    if report.options.by == "rank":
        return rank_table(report, told.points[0], width, top)
    if report.options.by is not None or report.options.mode != "delta":
        return grouped_lines(report, rank, width, top)
    return row_lines(report.options, rank, width, top, told_before(told, before), Keepers(report.dangling, rank.rank))


def _not_explained(report: DiffReport, width: int) -> list[Line]:
    lines: list[Line] = []
    for text, grave in not_explained(report):
        lines += wrapped(text, width, "", "  ", "" if grave else "faint")
    return [line(), *lines] if lines else []
