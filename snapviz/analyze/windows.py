"""Windows over events: the highest value in each, and which of them holds an event.

Legend: E events, P windows (first and one past the last event), g stretches between two edges.

Both take time that is near-linear in E + P however the windows overlap: a file can hold a hundred
thousand scopes that each last nearly as long as the recording.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["highest", "painted"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def highest(curve: Int64, first: Int64, stop: Int64) -> Int64:
    """[P] the highest value of ``curve`` [E] in each window; the lowest int64 where it holds no event."""
    lowest = np.iinfo(np.int64).min
    out = np.full(len(first), lowest, np.int64)
    filled = np.flatnonzero(stop > first)
    if len(filled) == 0:
        return out
    edges = np.unique(np.concatenate([first[filled], stop[filled]]))
    level = np.maximum.reduceat(np.append(curve, lowest), edges)[:-1]
    left, right = np.searchsorted(edges, first[filled]), np.searchsorted(edges, stop[filled])
    length, width = right - left, 1
    # a sparse table, one level at a time: level[i] is the highest of ``width`` stretches from i on
    while True:
        here = np.flatnonzero((length >= width) & (length < 2 * width))
        out[filled[here]] = np.maximum(level[left[here]], level[right[here] - width])
        if length.max() < 2 * width:
            return out
        level = np.maximum(level[:-width], level[width:])
        width *= 2


def painted(first: Int64, stop: Int64, value: Int64, length: int, nothing: int) -> Int32:
    """[E] the value of the last window that holds each of ``length`` events; ``nothing`` where none does."""
    out = np.full(length, nothing, np.int32)
    filled = np.flatnonzero(stop > first)
    if len(filled) == 0:
        return out
    edges = np.unique(np.concatenate([first[filled], stop[filled]]))
    colour = np.full(len(edges) - 1, nothing, np.int32)
    left, right = np.searchsorted(edges, first[filled]).tolist(), np.searchsorted(edges, stop[filled]).tolist()
    values = value[filled].tolist()
    # the next stretch from each on that has no colour yet: the last window is painted first
    free = list(range(len(edges)))
    for index in range(len(filled) - 1, -1, -1):
        at = _next_free(free, left[index])
        while at < right[index]:
            colour[at] = values[index]
            free[at] = at + 1
            at = _next_free(free, at)
    out[edges[0] : edges[-1]] = np.repeat(colour, np.diff(edges))
    return out


def _next_free(free: list[int], at: int) -> int:
    while free[at] != at:
        # halves the path for whoever comes next
        free[at] = free[free[at]]
        at = free[at]
    return at
