"""The rows of a point as reasons: by category, and in it by owner, where names that differ in a number are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from snapviz.report.layout import clean
from snapviz.report.words import block_counts, fold_names, plural, signed
from snapviz.schema import DANGLING, UNUSED, DiffOptions, DiffRow, FoldedRows
from snapviz.units import format_bytes

__all__ = ["Reason", "Reasons", "category_in_words", "evidence_in_words", "folded_in_words", "reasons_of", "shares"]

_WORTH_A_LINE = 20
"""A category with at least one part in this many of the difference has a row shown, however large
the others are."""


@dataclass(frozen=True)
class Reason:
    """One or more rows told on one line: those whose owners differ only in numbers."""

    label: str
    rows: tuple[DiffRow, ...]

    @cached_property
    def delta(self) -> int:
        """Head − base of all of them."""
        return sum(row.delta_bytes for row in self.rows)

    @property
    def counts(self) -> str:
        """``0 → 8 blocks``."""
        return block_counts(sum(row.base_count for row in self.rows), sum(row.head_count for row in self.rows))

    @cached_property
    def birth(self) -> str:
        """The phase they were all born in; "" where there are several, or none is known."""
        births = {row.birth_phase for row in self.rows}
        return births.pop() if len(births) == 1 else ""

    @property
    def one_stack(self) -> bool:
        """Whether they were all made in one place."""
        return len({row.stack for row in self.rows}) == 1


@dataclass(frozen=True)
class Reasons:
    """The rows of one category; of what dangles, whatever its category."""

    category: str
    all: Reason
    each: tuple[Reason, ...]
    # the largest first

    @property
    def moved(self) -> bool:
        """Whether it is the same memory in other stacks, more or less: no row of it explains anything."""
        gross = sum(abs(row.delta_bytes) for row in self.all.rows)
        return abs(self.all.delta) * _WORTH_A_LINE < gross

    @property
    def both_ways(self) -> str:
        """``+8.25 MiB and -12.25 MiB in 22 rows``; "" where all rows go one way."""
        more = sum(row.delta_bytes for row in self.all.rows if row.delta_bytes > 0)
        less = sum(row.delta_bytes for row in self.all.rows if row.delta_bytes < 0)
        told = f"{signed(more)} and {signed(less)} in {plural(len(self.all.rows), 'row')}"
        return told if more and less else ""


def category_in_words(category: str) -> str:
    """A category for people."""
    return {"unknown": "unknown purpose", UNUSED: "reserved, in no block"}.get(category, category)


def evidence_in_words(rows: Sequence[DiffRow]) -> list[str]:
    """What the category rests on, where that is not a record."""
    kinds = {row.evidence for row in rows} - {"recorded"}
    return ["by its stack"] if "inferred" in kinds else ["by annotations"] if kinds else []


def folded_in_words(folded: FoldedRows, options: DiffOptions) -> str:
    """``34 rows below 1% (10.00 MiB): +5.00 MiB and -3.80 MiB``; both directions only where there are both."""
    share = f"{options.threshold} ({format_bytes(folded.limit_bytes)})" if "%" in (options.threshold or "") else ""
    text = f"{plural(folded.rows, 'row')} below {share or format_bytes(folded.limit_bytes)}"
    both = f": {signed(folded.more_bytes)} and {signed(folded.less_bytes)}"
    return clean(text + both * bool(folded.more_bytes and folded.less_bytes))


def reasons_of(rows: Sequence[DiffRow]) -> list[Reasons]:
    """Rows by category, that with the largest sum first."""
    found: dict[str, list[DiffRow]] = {}
    for row in rows:
        found.setdefault(DANGLING if row.dangling else row.category, []).append(row)
    groups = [Reasons(category, Reason("", tuple(some)), _fold(some)) for category, some in found.items()]
    return sorted(groups, key=lambda group: (-abs(group.all.delta), group.category))


def _fold(rows: Sequence[DiffRow]) -> tuple[Reason, ...]:
    """Named rows of one birth phase and one direction folded by name; the others each by itself."""
    shown = [Reason("", (row,)) for row in rows if not row.owner]
    named: dict[tuple[str, bool], list[DiffRow]] = {}
    for row in rows:
        if row.owner:
            named.setdefault((row.birth_phase, row.delta_bytes > 0), []).append(row)
    for some in named.values():
        for label, positions in fold_names([row.owner for row in some]):
            shown.append(Reason(label, tuple(some[i] for i in positions)))
    return tuple(sorted(shown, key=lambda one: (-abs(one.delta), one.label)))


def shares(groups: Sequence[Reasons], top: int) -> list[int]:
    """How many reasons of each category are told: one of all that matter, the others of the largest first."""
    total = sum(abs(group.all.delta) for group in groups)
    # what only moved needs no rows, unless it is all there is
    wanted = [len(group.each) if len(groups) == 1 or not group.moved else 0 for group in groups]
    worth = [abs(group.all.delta) * _WORTH_A_LINE >= total for group in groups]
    found = [min(want, 1 if is_worth else 0) for want, is_worth in zip(wanted, worth, strict=True)]
    left = max(0, top - sum(found))
    for index, want in enumerate(wanted):
        extra = min(left, want - found[index])
        found[index] += extra
        left -= extra
    return found
