"""Judged budgets on a page: a table of all of them, and why one could not be judged."""

from __future__ import annotations

from snapviz.report.blocks import Block, Inline, Table, Warnings, code, prose
from snapviz.report.budgettext import figures_in_words, not_judged_sentences
from snapviz.report.layout import Column, Span
from snapviz.schema import Budget, DiffReport

__all__ = ["budget_blocks"]

_STATES = {"hit": "▲ exceeded", "not judged": "not judged", "within": "within"}


def budget_blocks(report: DiffReport) -> list[Block]:
    """Every budget and what became of it, those that are hit first; nothing where there is none."""
    if not report.budgets:
        return []
    columns = (Column("budgets", number=False), Column("", number=False), Column("worst rank", number=False))
    ordered = sorted(report.budgets, key=lambda one: list(_STATES).index(one.state))
    unjudged = [sentence for one in ordered for sentence in not_judged_sentences(one)]
    blocks: list[Block] = [Table("budgets", columns, tuple(map(_row, ordered)))]
    # what could not be judged is no pass, and is said before the numbers
    return [Warnings(tuple(prose(text) for text in unjudged), grave=True), *blocks] if unjudged else blocks


def _row(budget: Budget) -> tuple[Inline, ...]:
    style = {"hit": "more", "not judged": "warning"}.get(budget.state, "faint")
    return [code(budget.spec)], [Span(_STATES[budget.state], style)], prose(figures_in_words(budget) or "–")
