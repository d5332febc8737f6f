"""What one rank holds after an event, by each of the four measures: allocations whose bytes sum to its curve.

Legend: A allocations, n of them held.

Sources: torch's ``requested_bytes`` and ``active_bytes`` fall when a free is completed, and
``allocated_bytes`` when it is asked for (c10/cuda/CUDACachingAllocator.cpp, ``free`` and ``free_block``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.schema import MeasureName

__all__ = ["held", "total_at", "unused_bytes"]

Int64 = npt.NDArray[np.int64]


def held(facts: Facts, event: int, measure: MeasureName) -> tuple[Int64, Int64]:
    """[n] into the allocation table, and [n] bytes. With ``reserved`` those of active blocks, which are not all
    of it: the rest is ``unused_bytes``."""
    table = facts.replay.allocations
    mask = table.allocated_after(event) if measure == "allocated" else table.active_after(event)
    live = np.flatnonzero(mask)
    return live, (table.requested_bytes if measure == "requested" else table.block_bytes)[live]


def total_at(facts: Facts, event: int, measure: MeasureName) -> int:
    """The measure's bytes after an event, by replay."""
    return int(getattr(facts.replay.after(event), f"{measure}_bytes"))


def unused_bytes(facts: Facts, event: int) -> int:
    """Reserved, and in no active block."""
    after = facts.replay.after(event)
    return after.reserved_bytes - after.active_bytes
