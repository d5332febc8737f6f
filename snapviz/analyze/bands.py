"""Memory over a stretch of time, reduced to as many columns as a picture has, with every event counted.

Legend: E events of the stretch, C columns, A allocations, G groups, R rows of pixels, L live allocations.

A column stands for some neighbouring events and shows one of them: the one with the most bytes allocated. So the true
peak of every stretch is in its picture, however few columns it has. Columns of equal time (``axis.py``) may hold no
event: they show what was live before, of which event ``START`` is what was live before the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import methodcaller

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.replay.model import Replay

__all__ = ["Bands", "Columns", "bands", "columns_between", "columns_of", "extremes", "stacked", "values_after"]

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_LONG = 1_000
"""Events of a stretch from which on a call for each costs less than comparing all events at once."""


@dataclass(frozen=True)
class Columns:
    """C columns over events ``first`` to ``stop``."""

    first: Int64  # [C] first event of each
    stop: Int64  # [C] one past its last; ``first`` where it has none
    before: Bool  # [C] whether what was live just before its first event lasts into it
    shown: Int64  # [C] the event it shows, at which most is allocated; at least START

    def __len__(self) -> int:
        return len(self.first)

    def since(self, events: Int64) -> Int64:
        """The first column that shows each of some events, or one after it; C where none does."""
        return np.searchsorted(self.shown, events, side="left")


def columns_of(replay: Replay, first: int, stop: int, most: int) -> Columns:
    """At most ``most`` columns of as many events each, one more or less; none for an empty stretch."""
    count = max(0, min(most, stop - first))
    edges = first + np.arange(count + 1, dtype=np.int64) * (stop - first) // max(count, 1)
    return columns_between(replay, edges, np.zeros(count, bool))


def columns_between(replay: Replay, edges: Int64, before: Bool) -> Columns:
    """The columns between C + 1 events, each of which begins one; ``before`` [C] as ``Columns`` has it."""
    nothing = np.zeros(0, np.int64)
    columns = Columns(edges[:-1], edges[1:], before, nothing)
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
    table = facts.replay.allocations
    out = np.zeros((groups, len(columns) + 1), np.int64)
    born, gone = columns.since(table.alloc_event), columns.since(table.free_requested_event)
    seen = gone > born
    np.add.at(out, (group[seen], born[seen]), table.block_bytes[seen])
    np.subtract.at(out, (group[seen], gone[seen]), table.block_bytes[seen])
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
    middle = low_bytes + np.arange(rows, dtype=np.int64) * row_bytes + row_bytes // 2
    out = np.full((rows, len(columns)), -1, np.int32)
    for column, live in enumerate(_live(facts, columns)):
        top = np.cumsum(facts.replay.allocations.block_bytes[live])
        place = np.searchsorted(top, middle, side="right")
        inside = place < len(live)
        out[inside, column] = live[place[inside]]
    return Bands(out, row_bytes, columns)


def _live(facts: Facts, columns: Columns) -> Iterator[Int64]:
    """[L] what is live at the event of each column, in order of age."""
    table = facts.replay.allocations
    born, gone = table.alloc_event, table.free_requested_event
    live, upto = np.zeros(0, np.int64), 0
    # the table is in order of birth: each column adds those born since the last
    stops = np.searchsorted(born, columns.shown, side="right")
    for event, stop in zip(columns.shown.tolist(), stops.tolist(), strict=True):
        new = np.arange(upto, stop, dtype=np.int64)
        live = np.concatenate([live[gone[live] > event], new[gone[new] > event]])
        upto = stop
        yield live
