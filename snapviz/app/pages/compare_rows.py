"""The rows of one point as the page lists them, each or by numbered names, and what adds up to the total."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from snapviz.app.sides import shown_point
from snapviz.app.state import State
from snapviz.compare.rowkeys import row_keys
from snapviz.compare.verdict import judged_of, recorded_of
from snapviz.report.deeplinks import reason_key
from snapviz.report.diffsaid import worst_rank
from snapviz.report.grouped import grouped
from snapviz.report.reasons import folded_in_words, reasons_of
from snapviz.report.words import frames_in_words, plural
from snapviz.schema import DANGLING, OTHER, DiffReport, DiffRow, Point, RankPoint

__all__ = ["Item", "Listing", "Sum", "found_row", "listing_of", "picked", "shown_rank"]

_SHORT = 90
"""Columns of a stack in a cell."""


@dataclass(frozen=True)
class Item:
    """One line of the table: a row of the report, or several whose names differ in a number."""

    key: str
    label: str
    # owner, or what the rows are grouped by; "" where nothing names it
    step: str
    # its step of the waterfall: a category, or DANGLING
    rows: tuple[DiffRow, ...]
    besides: str = ""
    rank: int | None = None
    # only where rows are grouped by rank

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Bytes in base and in head."""
        return sum(row.base_bytes for row in self.rows), sum(row.head_bytes for row in self.rows)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Allocations in base and in head."""
        return sum(row.base_count for row in self.rows), sum(row.head_count for row in self.rows)

    @property
    def delta(self) -> int:
        """Head − base."""
        return self.sizes[1] - self.sizes[0]

    @property
    def factor(self) -> Fraction:
        """Head by base, of what is new more than of anything else."""
        base, head = self.sizes
        return Fraction(head, base) if base > 0 else Fraction(1 << 80 if head else 0)

    @property
    def birth(self) -> str:
        """The phase they were all born in; "" where there are several, or none is known."""
        births = {row.birth_phase for row in self.rows}
        return births.pop() if len(births) == 1 else ""

    @cached_property
    def made_in(self) -> str:
        """Where they were made, in short; "" where in several places."""
        first = self.rows[0]
        if len({row.stack for row in self.rows}) > 1 or not (first.stack or len(self.rows) == 1):
            return ""
        lines = first.head_lines if first.head_lines is not None else first.base_lines
        return frames_in_words(first.stack, lines, _SHORT) if first.stack else ""

    @property
    def dangling(self) -> bool:
        """Whether all of it should have been gone."""
        return self.step == DANGLING


@dataclass(frozen=True)
class Sum:
    """One line of what adds up to the total."""

    what: str
    base_bytes: int
    head_bytes: int

    @property
    def delta(self) -> int:
        """Head − base."""
        return self.head_bytes - self.base_bytes


@dataclass(frozen=True)
class Listing:
    """All that a point's table is made of."""

    point: Point
    ranks: tuple[RankPoint, ...]
    # one, or where rows are grouped by rank all that can be compared
    items: tuple[Item, ...]
    rest: tuple[Sum, ...]
    # what is not listed: below the threshold, unchanged
    total: Sum

    def sums(self, shown: Sequence[Item]) -> list[Sum]:
        """What is shown, what a filter hides, what is not listed; they add up to the total, which is last."""
        seen = {item.key for item in shown}
        hidden = [item for item in self.items if item.key not in seen]
        found = [_sum_of(shown, "listed")] if self.items else []
        found += [_sum_of(hidden, "not shown by the filter")] if hidden else []
        return [*found, *self.rest, self.total]

    def find(self, key: str) -> Item | None:
        """The item of a key: also one row of those that are told as one."""
        for item in self.items:
            if item.key == key:
                return item
        for item in self.items:
            for row, name in zip(item.rows, row_keys(item.rows), strict=True):
                if name == key:
                    return replace(item, key=key, label=row.owner, rows=(row,))
        return None


def _sum_of(items: Sequence[Item], what: str) -> Sum:
    rows = sum(len(item.rows) for item in items)
    lines = f" in {plural(len(items), 'line')}" if rows != len(items) else ""
    return Sum(
        f"{what}: {plural(rows, 'row')}{lines}",
        sum(item.sizes[0] for item in items),
        sum(item.sizes[1] for item in items),
    )


# ------------------------------------------------------------------ of a report


def shown_rank(point: Point, number: int | None) -> RankPoint | None:
    """The rank that is asked for, where it has the point on both sides; else the worst."""
    if number is not None:
        return next((rank for rank in point.ranks if rank.rank == number and rank.delta_bytes is not None), None)
    return worst_rank(point)


def listing_of(report: DiffReport, state: State) -> Listing | None:
    """The table of a state; none where no rank has the point on both sides."""
    point = shown_point(report, state.at)
    if point is None:
        return None
    if report.options.by == "rank":
        ranks = judged_of(point) or recorded_of(point)
        return _of_ranks(report, point, ranks) if ranks else None
    rank = shown_rank(point, state.rank)
    if rank is None:
        return None
    by_names = report.options.by in (None, "owner") and state.view != "each"
    items = _by_name(rank) if by_names else _each(report, rank)
    return Listing(point, (rank,), tuple(items), tuple(_rest(report, (rank,))), _total((rank,)))


def picked(report: DiffReport, listing: Listing, name: str) -> frozenset[str]:
    """The categories of a step of the waterfall: one, or all that are taken together in OTHER; none of "", all."""
    where = listing.point.at, listing.ranks[0].rank
    steps = [step for one in report.waterfall if (one.at, one.rank) == where for step in one.steps]
    found = next((step.categories for step in steps if step.what == name and name == OTHER), (name,))
    return frozenset(found) if name else frozenset()


def found_row(report: DiffReport, state: State) -> tuple[Listing, Item] | None:
    """The row that a state opens: at its own point, else at the first other one that has it."""
    points = [point.at for point in report.points]
    for at in (state.at, *points):
        for view in (state.view, "each"):
            listing = listing_of(report, state.with_(at=at, view=view))
            item = listing.find(state.row) if listing is not None else None
            if listing is not None and item is not None:
                return listing, item
    return None


def _of_ranks(report: DiffReport, point: Point, ranks: tuple[RankPoint, ...]) -> Listing:
    items = [
        replace(item, key=f"rank{rank.rank}", label=f"rank {rank.rank}", rank=rank.rank)
        for rank in ranks
        for item in _each(report, rank)
    ]
    return Listing(point, ranks, tuple(items), tuple(_rest(report, ranks)), _total(ranks))


def _each(report: DiffReport, rank: RankPoint) -> list[Item]:
    told = grouped(report, rank, len(rank.rows))
    named = report.options.by is not None
    return [
        Item(
            key,
            amounts.label if named else row.owner,
            DANGLING if row.dangling else row.category,
            (row,),
            " · ".join(amounts.tail) if named else "",
        )
        for row, key, amounts in zip(rank.rows, row_keys(rank.rows), told, strict=False)
    ]


def _by_name(rank: RankPoint) -> list[Item]:
    found = [
        Item(reason_key(group.category, one), one.label, group.category, one.rows)
        for group in reasons_of(rank.rows)
        for one in group.each
    ]
    found.sort(key=lambda item: -abs(item.delta))
    places: dict[str, int] = {}
    for at, item in enumerate(found):
        # two rows may read alike, and each has a line of its own
        places[item.key] = places.get(item.key, 0) + 1
        if places[item.key] > 1:
            found[at] = replace(item, key=f"{item.key}-{places[item.key]}")
    return found


def _rest(report: DiffReport, ranks: Sequence[RankPoint]) -> Iterator[Sum]:
    for rank in ranks:
        if (folded := rank.folded) is not None:
            whose = f"rank {rank.rank}, " if len(ranks) > 1 else ""
            yield Sum(whose + folded_in_words(folded, report.options), folded.base_bytes, folded.head_bytes)
    same = [rank.unchanged for rank in ranks]
    rows = sum(one.rows for one in same)
    if rows:
        size = sum(one.total_bytes for one in same)
        yield Sum(f"unchanged: {plural(rows, 'row')}, not listed", size, size)


def _total(ranks: Sequence[RankPoint]) -> Sum:
    base, head = (sum(total or 0 for total in side) for side in zip(*_totals(ranks), strict=True))
    return Sum("total", base, head)


def _totals(ranks: Sequence[RankPoint]) -> list[tuple[int | None, int | None]]:
    return [(rank.base_total_bytes, rank.head_total_bytes) for rank in ranks]
