"""The windows of modules that a record has, as arrays.

Legend: W windows, in order of their start; an outer one comes before those that lie in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.schema import RECOMPUTED, RankRecord

__all__ = ["ModuleWindows", "module_windows"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ModuleWindows:
    """When the forwards of modules ran: a window for each call, with both of its times in it."""

    names: tuple[str, ...]  # paths; "" is the whole model
    name: Int64  # [W] index into names
    start_us: Int64  # [W]
    stop_us: Int64  # [W] not before start_us
    recomputed: Bool  # [W] ran again, in a backward
    complete: bool  # whether no call was left out

    def __len__(self) -> int:
        return len(self.name)


def module_windows(record: RankRecord | None) -> ModuleWindows | None:
    """The windows of a rank; None where nobody noted any."""
    if record is None or record.modules is None:
        return None
    rows = np.array(record.modules.windows, np.int64).reshape(-1, 4)
    rows = rows[np.argsort(rows[:, 1], kind="stable")]  # in a file of somebody else's they may lie as they like
    name, start_us, stop_us, flags = rows.T
    return ModuleWindows(
        names=record.modules.names,
        name=name,
        start_us=start_us,
        stop_us=np.maximum(start_us, stop_us),
        recomputed=(flags & RECOMPUTED) != 0,
        complete=record.modules.complete is not False,
    )
