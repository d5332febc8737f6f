"""The order of rows, and the small ones in one sum: what a reader sees first, and what not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from snapviz.compare.view import View
from snapviz.schema import DiffRow, FoldedRows, Mode, Point, RankPoint

__all__ = ["folded", "in_order", "sum_of"]


def in_order(rows: Iterable[DiffRow], mode: Mode) -> tuple[DiffRow, ...]:
    """Rows by what ``mode`` shows, the most first; ties by their names, so that swapped sides have one order.

    ``delta``: by |head − base|. ``absolute``: by the larger side. ``ratio``: by the factor between the
    sides, up or down, so that what is new or gone (∞ and 0) comes first, and within one factor by |head − base|.
    """
    return tuple(sorted(rows, key=lambda row: (*_most(row, mode), *_names(row))))


def _names(row: DiffRow) -> tuple[object, ...]:
    return row.owner, row.category, row.birth_phase, row.dangling, row.stack, row.module


def _most(row: DiffRow, mode: Mode) -> tuple[int | Fraction, ...]:
    low, high = sorted((row.base_bytes, row.head_bytes))
    if mode == "absolute":
        return (-high, -abs(row.delta_bytes))
    if mode == "delta":
        return (-abs(row.delta_bytes),)
    endless = low <= 0 < high
    factor = Fraction(high, low) if low > 0 else Fraction(1)
    return (not endless, -factor, -abs(row.delta_bytes))


def folded(point: Point, view: View) -> Point:
    """A point whose rows below the threshold are in one sum for each rank; the same without a threshold.

    A share is of all that changed at this point on the rank, up and down added, so that what cancels
    counts; in mode ``absolute`` of the larger of its totals, and grouped by rank of all ranks together.
    """
    if view.threshold is None:
        return point
    together = sum(_whole(rank, view.options.mode) for rank in point.ranks)
    ranks = []
    for rank in point.ranks:
        whole = together if view.options.by == "rank" else _whole(rank, view.options.mode)
        ranks.append(_fold(rank, view.threshold.of(whole), view.options.mode))
    return point.model_copy(update={"ranks": tuple(ranks)})


def _whole(rank: RankPoint, mode: Mode) -> int:
    if mode == "absolute":
        return max(rank.base_total_bytes or 0, rank.head_total_bytes or 0)
    return sum(abs(row.delta_bytes) for row in rank.rows)


def _fold(rank: RankPoint, limit: int, mode: Mode) -> RankPoint:
    small = [row for row in rank.rows if _is_small(row, limit, mode)]
    if not small:
        return rank
    # not by equality: two rows may read alike where names are cut
    left = tuple(row for row in rank.rows if not _is_small(row, limit, mode))
    return rank.model_copy(update={"rows": left, "folded": sum_of(small, limit)})


def _is_small(row: DiffRow, limit: int, mode: Mode) -> bool:
    if row.dangling or row.base_dangling_bytes or row.head_dangling_bytes:
        return False
    size = max(row.base_bytes, row.head_bytes) if mode == "absolute" else abs(row.delta_bytes)
    return size < limit


def sum_of(rows: Sequence[DiffRow], limit: int) -> FoldedRows:
    """Rows in one sum."""
    deltas = [row.delta_bytes for row in rows]
    return FoldedRows(
        rows=len(rows),
        limit_bytes=limit,
        base_bytes=sum(row.base_bytes for row in rows),
        base_count=sum(row.base_count for row in rows),
        head_bytes=sum(row.head_bytes for row in rows),
        head_count=sum(row.head_count for row in rows),
        delta_bytes=sum(deltas),
        more_bytes=sum(delta for delta in deltas if delta > 0),
        less_bytes=sum(delta for delta in deltas if delta < 0),
        base_requested_bytes=sum(row.base_requested_bytes for row in rows),
        head_requested_bytes=sum(row.head_requested_bytes for row in rows),
    )
