"""Groups of equal keys, in integers.

Legend: n members, k columns of a key, g groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["group_keys", "sums"]

Int64 = npt.NDArray[np.int64]


def group_keys(columns: Sequence[npt.NDArray[np.integer]]) -> tuple[Int64, int]:
    """[n] the group of each member, and g. ``columns`` are k arrays [n] of values from 0.

    Groups are in the order of their keys.
    """
    group = np.zeros(len(columns[0]), np.int64)
    count = 1 if len(group) else 0
    for column in columns:
        # renumbered after each column, so that the product never leaves int64
        joint = group * (int(column.max(initial=0)) + 1) + column
        _, inverse = np.unique(joint, return_inverse=True)
        group = inverse.reshape(-1).astype(np.int64)
        count = int(group.max(initial=-1)) + 1
    return group, count


def sums(group: Int64, size: Int64, count: int) -> tuple[Int64, Int64]:
    """[g] sum of the sizes, and [g] number of members: int64, never floats."""
    total = np.zeros(count, np.int64)
    np.add.at(total, group, size)
    return total, np.bincount(group, minlength=count).astype(np.int64)
