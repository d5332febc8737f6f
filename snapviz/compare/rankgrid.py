"""Peaks of ranks in phases as a grid: of one run, of two and their difference, and how far each is from the median.

Legend: P phases, the whole run first; R ranks; C columns, each of one rank or of several neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.schema import RanksReport

__all__ = ["MISSING", "WHOLE", "Drawn", "RankGrid", "beside", "drawn", "from_median", "grid_of", "merged"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

WHOLE = ""
"""The phase that stands for the whole run."""

MISSING = np.iinfo(np.int64).min
"""In a cell of a rank that has no such phase, or could not be read."""

_CELLS = 24_000
"""Cells that are drawn one by one: 512 ranks × 40 phases are."""

_PHASES = 60


@dataclass(frozen=True, eq=False)
class RankGrid:
    """Values of R ranks in P phases."""

    phases: tuple[str, ...]
    ranks: tuple[int, ...]  # ascending, those that could not be read among them
    value_bytes: Int64  # [P, R] or MISSING
    at_least: Bool  # [P, R] the value may have been higher
    unread: dict[int, str]  # rank → why

    @property
    def known(self) -> Bool:
        """[P, R] which cells have a value."""
        found: Bool = self.value_bytes != MISSING
        return found


def grid_of(report: RanksReport) -> RankGrid:
    """The peaks of a report's measure: first of the whole run, then in each folded phase."""
    field = f"{report.measure}_bytes"
    unread = {one.rank: one.message for one in report.broken if one.rank is not None}
    ranks = tuple(sorted({one.rank for one in report.ranks} | set(unread)))
    column = {rank: at for at, rank in enumerate(ranks)}
    phases = (WHOLE, *(one.phase for one in report.phases if one.phase is not None))
    row = {phase: at for at, phase in enumerate(phases)}
    value = np.full((len(phases), len(ranks)), MISSING, np.int64)
    least = np.zeros(value.shape, bool)
    for one in report.ranks:
        at = column[one.rank]
        value[0, at], least[0, at] = getattr(one.peak, field), one.truncated
        for phase in one.phases:
            place = row[phase.phase], at
            value[place], least[place] = getattr(phase.peak, field), report.measure in phase.trust.at_least
    return RankGrid(phases, ranks, value, least, unread)


def beside(base: RankGrid, head: RankGrid) -> tuple[RankGrid, RankGrid, RankGrid]:
    """Base, head and head − base with the same phases and ranks; the difference where both have a value."""
    phases = merged(base.phases, head.phases)
    ranks = tuple(sorted({*base.ranks, *head.ranks}))
    one, two = (_spread_out(grid, phases, ranks) for grid in (base, head))
    both = one.known & two.known
    delta = np.where(both, two.value_bytes - np.where(both, one.value_bytes, 0), MISSING)
    return one, two, RankGrid(phases, ranks, delta, one.at_least | two.at_least, one.unread | two.unread)


def merged(base: Sequence[str], head: Sequence[str]) -> tuple[str, ...]:
    """Head's phases in its order, each followed by those that only base has there."""
    known, last = set(head), None
    after: dict[str | None, list[str]] = {}
    for name in base:
        if name in known:
            last = name
        else:
            after.setdefault(last, []).append(name)
    return (*after.get(None, ()), *(each for name in head for each in (name, *after.get(name, ()))))


def _spread_out(grid: RankGrid, phases: Sequence[str], ranks: tuple[int, ...]) -> RankGrid:
    row = {name: at for at, name in enumerate(phases)}
    place = np.ix_(np.array([row[name] for name in grid.phases], np.int64), np.searchsorted(ranks, grid.ranks))
    value = np.full((len(phases), len(ranks)), MISSING, np.int64)
    least = np.zeros(value.shape, bool)
    value[place], least[place] = grid.value_bytes, grid.at_least
    return RankGrid(tuple(phases), ranks, value, least, grid.unread)


def from_median(grid: RankGrid) -> RankGrid:
    """Each value minus the (lower) median of its phase."""
    value = grid.value_bytes.copy()
    for row, known in zip(value, grid.known, strict=True):
        if known.any():
            ordered = np.sort(row[known])
            row[known] -= ordered[(len(ordered) - 1) // 2]
    return RankGrid(grid.phases, grid.ranks, value, grid.at_least, grid.unread)


# ------------------------------------------------------------------ as many cells as a picture can have


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some phases, and columns of one rank or several: of several a cell is the one that is furthest from 0."""

    phases: tuple[str, ...]
    columns: tuple[tuple[int, int], ...]  # [C] first and last rank
    value_bytes: Int64  # [P, C] or MISSING
    rank: Int64  # [P, C] whose value it is
    at_least: Bool  # [P, C]
    unread: tuple[int, ...]  # columns in which no rank could be read
    more: int  # phases that are not drawn: those with the smallest values


def drawn(grid: RankGrid, most_phases: int = _PHASES, most_cells: int = _CELLS) -> Drawn:
    """The phases with the largest values in their order, and neighbouring ranks together where there are too many."""
    size = np.where(grid.known, np.abs(np.where(grid.known, grid.value_bytes, 0)), -1)
    rows = _largest(size, most_phases)
    each = max(1, -(-len(grid.ranks) // max(1, most_cells // len(rows))))
    edges = list(range(0, len(grid.ranks), each))
    best = np.empty((len(rows), len(edges)), np.int64)
    for column, begin in enumerate(edges):
        best[:, column] = begin + np.argmax(size[rows, begin : begin + each], axis=1)
    at = rows[:, None], best
    columns = tuple((grid.ranks[edge], grid.ranks[min(edge + each, len(grid.ranks)) - 1]) for edge in edges)
    broken = [all(rank in grid.unread for rank in grid.ranks[edge : edge + each]) for edge in edges]
    value = grid.value_bytes[at]
    return Drawn(
        phases=tuple(grid.phases[row] for row in rows.tolist()),
        columns=columns,
        value_bytes=value,
        rank=np.array(grid.ranks, np.int64)[best],
        at_least=grid.at_least[at] & (value != MISSING),
        unread=tuple(column for column, one in enumerate(broken) if one and (value[:, column] == MISSING).all()),
        more=len(grid.phases) - len(rows),
    )


def _largest(size: Int64, most: int) -> Int64:
    """The rows with the largest values, the whole run always, in their order."""
    if len(size) <= most:
        return np.arange(len(size))
    top = size.max(axis=1, initial=-1)
    top[0] = np.iinfo(np.int64).max
    return np.sort(np.argsort(-top, kind="stable")[:most])
