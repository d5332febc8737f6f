"""Memory over a stretch of time, reduced to as many columns as a picture has, with every event counted.

Legend: E events of the stretch, C columns, A allocations, G groups, R rows of pixels, X allocations that a column
shows, L of them in each column that does.

A column stands for some neighbouring events and shows one of them: the one with the most bytes allocated. So the true
peak of every stretch is in its picture, however few columns it has. Columns of equal time (``axis.py``) may hold no
event: they show what was live before, of which event ``START`` is what was live before the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import methodcaller

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.replay.model import Replay

__all__ = [
    "Bands",
    "Columns",
    "Crossing",
    "bands",
    "columns_between",
    "columns_of",
    "extremes",
    "stacked",
    "values_after",
]

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_LONG = 1_000
"""Events of a stretch from which on a call for each costs less than comparing all events at once."""

_CELLS = 2_000_000
"""Allocations in columns that are looked at together."""


@dataclass(frozen=True)
class Crossing:
    """The allocations that at least one column shows: most live shorter than a column lasts."""

    allocation: Int64  # [X] rising
    born: Int64  # [X] the first column that shows each
    gone: Int64  # [X] one past the last


@dataclass(frozen=True)
class Columns:
    """C columns over events ``first`` to ``stop``."""

    replay: Replay
    first: Int64  # [C] first event of each
    stop: Int64  # [C] one past its last; ``first`` where it has none
    before: Bool  # [C] whether what was live just before its first event lasts into it
    shown: Int64  # [C] the event it shows, at which most is allocated; at least START

    def __len__(self) -> int:
        return len(self.first)

    def since(self, events: Int64) -> Int64:
        """The first column that shows each of some events, or one after it; C where none does."""
        return np.searchsorted(self.shown, events, side="left")

    @cached_property
    def crossing(self) -> Crossing:
        """What all that is drawn of allocations is made of."""
        table = self.replay.allocations
        # the table is in order of birth: a column is the first to show those born since the one before
        stops = np.searchsorted(table.alloc_event, self.shown, side="right")
        first_shown = np.repeat(self.shown, np.diff(stops, prepend=0))
        crosses = np.flatnonzero(table.free_requested_event[: len(first_shown)] > first_shown)
        born = np.searchsorted(stops, crosses, side="right")
        return Crossing(crosses, born, self.since(table.free_requested_event[crosses]))


def columns_of(replay: Replay, first: int, stop: int, most: int) -> Columns:
    """At most ``most`` columns of as many events each, one more or less; none for an empty stretch."""
    count = max(0, min(most, stop - first))
    edges = first + np.arange(count + 1, dtype=np.int64) * (stop - first) // max(count, 1)
    return columns_between(replay, edges, np.zeros(count, bool))


def columns_between(replay: Replay, edges: Int64, before: Bool) -> Columns:
    """The columns between C + 1 events, each of which begins one; ``before`` [C] as ``Columns`` has it."""
    nothing = np.zeros(0, np.int64)
    columns = Columns(replay, edges[:-1], edges[1:], before, nothing)
    start = replay.start.allocated_bytes
    return replace(columns, shown=_utmost(replay.allocated_bytes, start, columns, np.maximum))


def values_after(replay: Replay, measure: str, events: Int64) -> Int64:
    """Bytes of a measure just after each of some events, ``START`` among them."""
    return _after(replay.curve(measure), int(getattr(replay.start, f"{measure}_bytes")), events)


def _after(curve: Int64, start: int, events: Int64) -> Int64:
    if len(curve) == 0:
        return np.full(len(events), start, np.int64)
    return np.where(events < 0, start, curve[np.maximum(events, 0)])


def _utmost(curve: Int64, start: int, columns: Columns, better: np.ufunc) -> Int64:
    """[C] the first event of the highest (``np.maximum``) or lowest value in each column."""
    found = columns.first - 1
    some = np.flatnonzero(columns.stop > columns.first)
    if len(some):
        inside = _first_of(curve, columns.first[some], int(columns.stop[some[-1]]), better)
        carried = _after(curve, start, found[some])
        keeps = columns.before[some] & (better(carried, curve[inside]) == carried)
        found[some] = np.where(keeps, found[some], inside)
    return found


def _first_of(curve: Int64, first: Int64, stop: int, better: np.ufunc) -> Int64:
    """The first event of the utmost value in each stretch; each ends where the next begins."""
    if stop - first[0] > _LONG * len(first):
        utmost = methodcaller("argmax" if better is np.maximum else "argmin")
        edges = [*first.tolist(), stop]
        return np.array([low + int(utmost(curve[low:high])) for low, high in pairwise(edges)], np.int64)
    part = curve[first[0] : stop]
    top = better.reduceat(part, first - first[0])
    is_top = np.flatnonzero(part == np.repeat(top, np.diff(np.append(first, stop)))) + first[0]
    found: Int64 = is_top[np.searchsorted(is_top, first)]
    return found


def extremes(curve: Int64, columns: Columns, start: int = 0) -> Int64:
    """Events [at most 2 C] at which a curve [E] is lowest and highest in each column, in order: what a line needs.

    ``start`` is its value before the first event.
    """
    found = [_utmost(curve, start, columns, better) for better in (np.minimum, np.maximum)]
    return np.unique(np.concatenate(found))


# ------------------------------------------------------------------ by group


def stacked(facts: Facts, columns: Columns, group: Int64, groups: int) -> Int64:
    """[G, C] allocated bytes of each group at the event that each column shows; ``group`` [A] is from 0 to G.

    A column's sum over the groups is what is allocated then, to the byte.
    """
    out = np.zeros((groups, len(columns) + 1), np.int64)
    seen = columns.crossing
    size = facts.replay.allocations.block_bytes[seen.allocation]
    np.add.at(out, (group[seen.allocation], seen.born), size)
    np.subtract.at(out, (group[seen.allocation], seen.gone), size)
    return np.cumsum(out, axis=1)[:, :-1]


# ------------------------------------------------------------------ every allocation as a band


@dataclass(frozen=True)
class Bands:
    """A picture of R × C cells: which allocation lies at each height at each time, the oldest at the bottom."""

    allocation: Int32  # [R, C] index into the allocation table, -1 above all of them; row 0 is the bottom
    row_bytes: int  # of one row; the last may show less
    columns: Columns


def bands(facts: Facts, columns: Columns, rows: int, low_bytes: int = 0, high_bytes: int | None = None) -> Bands:
    """The bands between two heights in ``rows`` rows of equal bytes.

    A cell shows the allocation at its middle; an allocation smaller than a row may fall between two, and is in the
    heights of those above it all the same.
    """
    curve = values_after(facts.replay, "allocated", columns.shown)
    high = int(curve.max(initial=0)) if high_bytes is None else high_bytes
    row_bytes = max(1, -(-(high - low_bytes) // max(rows, 1)))
    out = np.empty((len(columns), max(rows, 0)), np.int32)
    for first, stop in _parts(columns):
        allocation, column = _cells(columns, first, stop)
        size = np.append(facts.replay.allocations.block_bytes, 0)[allocation]
        last = np.flatnonzero(np.diff(column, append=stop) > 0)
        upto = np.cumsum(size)
        upto -= np.repeat(np.append(0, upto[last[:-1]]), np.diff(last, prepend=-1))
        # a row is whose it is at its middle: how many rows have theirs below the top of each
        below = np.clip(-(-(upto - low_bytes - row_bytes // 2) // row_bytes), 0, rows)
        below[last] = rows
        own = np.diff(below, prepend=0)
        own[last[:-1] + 1] = below[last[:-1] + 1]
        out[first:stop] = np.repeat(allocation, own).reshape(stop - first, rows)
    return Bands(np.ascontiguousarray(out.T), row_bytes, columns)


def _parts(columns: Columns) -> list[tuple[int, int]]:
    """Neighbouring columns, few enough to be looked at together."""
    seen, count = columns.crossing, len(columns)
    change = np.bincount(seen.born, minlength=count + 1) - np.bincount(seen.gone, minlength=count + 1)
    most = int(np.cumsum(change).max(initial=0))
    step = max(1, _CELLS // max(most, 1))
    return [(first, min(first + step, count)) for first in range(0, count, step)]


def _cells(columns: Columns, first: int, stop: int) -> tuple[Int64, Int64]:
    """[sum of L + 1] what each of some columns shows, from the oldest, then -1; and the column of each."""
    seen = columns.crossing
    here = (seen.born < stop) & (seen.gone > first)
    born = np.maximum(seen.born[here], first)
    length = np.minimum(seen.gone[here], stop) - born
    begins = np.cumsum(length) - length
    column = np.repeat(born - begins, length) + np.arange(int(length.sum()))
    column = np.append(column, np.arange(first, stop))
    allocation = np.append(np.repeat(seen.allocation[here], length), np.full(stop - first, -1))
    # so many columns fit into 16 bits, which are sorted in a few passes
    order = np.argsort(column.astype(np.int16) if len(columns) < 1 << 15 else column, kind="stable")
    return allocation[order], column[order]
