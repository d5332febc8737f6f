"""A replay as arrays and a header, so that it can be kept beside the columns it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.replay.model import Allocations, Finding, Measures, Replay
from snapviz.snapshot.columns import Columns
from snapviz.snapshot.stamp import code_stamp

__all__ = ["packed", "replay_version", "unpacked"]

Arrays = dict[str, npt.NDArray[Any]]
_CURVES = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")


def replay_version() -> str:
    """What a kept replay is valid for: the decoder and the rules of replay as they are now."""
    here = Path(__file__).parent
    return code_stamp(here, here.parent / "snapshot")


def packed(replay: Replay) -> tuple[dict[str, Any], Arrays]:
    """Header (JSON) and arrays of a replay, without what the columns hold already."""
    arrays = {name: getattr(replay, name) for name in _CURVES}
    arrays |= {f"allocations.{f.name}": getattr(replay.allocations, f.name) for f in fields(Allocations)}
    header = {
        "start": asdict(replay.start),
        "exact": replay.exact,
        "consistent": replay.consistent,
        "notes": list(replay.notes),
        "findings": [asdict(finding) for finding in replay.findings],
    }
    return header, arrays


def unpacked(header: Mapping[str, Any], arrays: Arrays, columns: Columns, device: int) -> Replay:
    """The replay that was packed; ``columns`` are those it was made from."""
    return Replay(
        device=device,
        time_us=np.ascontiguousarray(columns.trace(device).time_us),
        **{name: arrays[name] for name in _CURVES},
        start=Measures(**header["start"]),
        exact=header["exact"],
        notes=tuple(header["notes"]),
        findings=tuple(Finding(**finding) for finding in header["findings"]),
        consistent=header["consistent"],
        allocations=Allocations(**{f.name: arrays[f"allocations.{f.name}"] for f in fields(Allocations)}),
    )
