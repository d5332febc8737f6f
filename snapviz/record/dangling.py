"""What keeps the parameters that dangle: hands them to the search, and words what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snapviz.record.census import Original
from snapviz.record.phases import now_us
from snapviz.schema import UNEXPLAINED, HolderRecord

__all__ = ["look_for_holders"]


def look_for_holders(
    dangling: Sequence[Original], device_type: str, ignore: Sequence[Any], deadline_s: float
) -> list[HolderRecord]:
    """A record for each way in which each of the originals is kept; ``ignore``: the recorder's own objects."""
    if not dangling:
        return []
    from snapviz.record.holders import Target, find_holders

    targets = [Target(one.name, one.address, one.nbytes) for one in dangling]
    found = find_holders(
        targets,
        device_type=device_type,
        deadline_s=deadline_s,
        ignore={id(one) for one in (*ignore, dangling, *dangling)},
    )
    time_us = now_us()
    records = [
        HolderRecord(parameter=holder.parameter, path=holder.path, kind=holder.kind, time_us=time_us)
        for holder in found.holders
    ]
    explained = {holder.parameter for holder in found.holders}
    words = f"nothing was found that keeps it, in {found.searched_us / 1e6:.1f} s"
    words += "" if found.complete else "; the search was cut short"
    records += [
        HolderRecord(parameter=one.name, path=words, kind=UNEXPLAINED, time_us=time_us)
        for one in dangling
        if one.name not in explained
    ]
    return records
