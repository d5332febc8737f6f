"""The numbers of the live page's tables: base, head and what lies between them; of one run alone bytes and a share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dash import html

from snapviz.app.amounts import amount, counts, delta, exactly
from snapviz.app.pages.live_look import Look
from snapviz.units import format_bytes

__all__ = ["Columns", "columns_of"]


@dataclass(frozen=True)
class Columns:
    """How the weights of a branch are told."""

    alone: int | None  # the side that is there alone: 0 base, 1 head; none: both are
    whole_bytes: int  # what shares are of
    marks: tuple[str, str]  # before all that base, and head, hold: ``≥`` where it may have been more

    @property
    def heads(self) -> list[str]:
        """Of the columns."""
        return ["base", "head", "Δ", "allocations"] if self.alone is None else ["bytes", "share", "allocations"]

    def numbers(self, first: int = 1) -> list[int]:
        """Which columns of a table they are, where ``first`` is the first of them."""
        return list(range(first, first + len(self.heads)))

    def of(self, weights: Iterable[int], whole: bool = False) -> list[Any]:
        """The cells of a row; ``whole``: of all that is held."""
        base, head, base_count, head_count = _four(weights)
        marks = self.marks if whole else ("", "")
        if self.alone is None:
            cells = [_marked(mark, amount(count)) for mark, count in zip(marks, (base, head), strict=True)]
            return [*cells, delta(head - base), counts(base_count, head_count)]
        size, count = ((base, base_count), (head, head_count))[self.alone]
        return [_marked(marks[self.alone], amount(size)), self.share(size), f"{count:,}"]

    def words(self, weights: Iterable[int]) -> list[Any]:
        """Parts of a sentence, to the byte."""
        base, head, base_count, head_count = _four(weights)
        if self.alone is None:
            told = f", {_allocations(counts(base_count, head_count), head_count)}"
            return ["base ", exactly(base), ", head ", exactly(head), ", ", delta(head - base), told]
        size, count = ((base, base_count), (head, head_count))[self.alone]
        return [exactly(size), f", {self.share(size)} of all, {_allocations(f'{count:,}', count)}"]

    def short(self, weights: Iterable[int]) -> list[Any]:
        """The same, rounded, before a name."""
        base, head, base_count, head_count = _four(weights)
        if self.alone is None:
            blocks = _allocations(counts(base_count, head_count), head_count)
            told = f" {format_bytes(base)} → {format_bytes(head)}, {blocks}: "
            return [delta(head - base), html.Span(told, className="faint")]
        size, count = ((base, base_count), (head, head_count))[self.alone]
        return [
            amount(size),
            html.Span(f" {self.share(size)}, {_allocations(f'{count:,}', count)}: ", className="faint"),
        ]

    def share(self, size: int) -> str:
        """``12.3%`` of all that is held."""
        tenths = size * 1000 // max(1, self.whole_bytes)
        return "<0.1%" if size and not tenths else f"{tenths // 10}.{tenths % 10}%"


def columns_of(look: Look) -> Columns:
    """Those of what a page shows."""
    base, head = (when.mark if when else "" for when in look.when)
    whole = look.live.paths.sums(look.way[0]).tolist()
    return Columns(look.alone, int(whole[look.alone or 0]), (base, head))


def _four(weights: Iterable[int]) -> tuple[int, int, int, int]:
    base, head, base_count, head_count = map(int, islice(weights, 4))
    return base, head, base_count, head_count


def _marked(mark: str, cell: Any) -> Any:
    return html.Span([mark, cell]) if mark else cell


def _allocations(told: str, count: int) -> str:
    return f"{told} allocation{'' if count == 1 else 's'}"
