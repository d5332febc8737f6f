"""Rows of a table as ranges, and values that stand beside few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["joined", "last_of_each", "reindexed"]

Array = npt.NDArray[Any]


def joined(ranges: list[tuple[int, int]]) -> Array | slice:
    """Rows of several ranges, in order: a slice where they follow on."""
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and merged[-1][1] == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    if not merged:
        return slice(0, 0)
    if len(merged) == 1:
        return slice(*merged[0])
    return np.concatenate([np.arange(first, last) for first, last in merged])


def last_of_each(pairs: Array) -> tuple[Array, Array]:
    """Keys and values of [2, n]; a key written twice into one dict holds its last value."""
    keys, values = pairs
    last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
    return keys[last], values[last]


def reindexed(keys: Array, values: Array, rows: Array | slice) -> tuple[Array, Array]:
    """Keys are rows as decoded (ascending); wanted are indices into ``rows``."""
    if isinstance(rows, slice):
        kept = (keys >= rows.start) & (keys < rows.stop)
        return keys[kept] - rows.start, values[kept]
    if len(keys) == 0:
        return keys, values
    at = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
    index = np.flatnonzero(keys[at] == rows)
    return index, values[at[index]]
