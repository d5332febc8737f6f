"""Original parameters that are live after the phase that should have released them.

Legend: A allocations, E events.

Only a rank record can say so: it names the full parameters before sharding, and the phase that shards
them. Without one there are suspects (``suspects.py``), never these.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import DanglingParameter, Facts, event_at
from snapviz.analyze.names import Live, joint_name, known_boundaries
from snapviz.analyze.phases import phase_of
from snapviz.schema import Boundary, NameRecord

__all__ = ["SHARD", "curve_without", "find_dangling"]

Int64 = npt.NDArray[np.int64]

SHARD = "shard"
"""The phase whose end is the end of every original parameter."""


@dataclass(frozen=True)
class _Release:
    """When the original parameters should be gone: after this event, for the reason in words."""

    event: int
    start_us: int
    phase: str


def find_dangling(facts: Facts) -> Facts:
    """Pass: dangling parameters of a rank with a record, the largest first."""
    if facts.record is None or not facts.replay.has_times:
        return facts
    release = _release(facts)
    if release is None:
        return facts
    known = known_boundaries(facts)
    before = [b for b in known if b.time_us <= release.start_us]
    originals = _allocations(facts, before, {"parameter"})
    # an original that a later boundary still names is the one in use: nothing was left behind
    later = [b for b in known if event_at(facts.replay, b.time_us) >= release.event]
    in_use = _allocations(facts, later, {"parameter", "shard"})
    if not originals:
        return facts.noting("the record names no parameters before sharding: dangling ones cannot be told")
    live = facts.replay.allocations.allocated_after(release.event)
    found = [
        _describe(facts, allocation, names, release)
        for allocation, names in originals.items()
        if live[allocation] and allocation not in in_use
    ]
    found.sort(key=lambda d: (-d.block_bytes, d.name))
    since = facts.dangling_since.copy()
    since[[d.allocation for d in found]] = release.event
    return replace(facts, dangling=tuple(found), dangling_since=since)


def _release(facts: Facts) -> _Release | None:
    for index, name in enumerate(facts.phases.names):
        if name.rpartition("/")[2] == SHARD:
            event = int(facts.phases.stop[index]) - 1
            return _Release(event, int(facts.phases.start_us[index]), name)
    # without that phase, the first moment at which a shard is named
    for boundary in known_boundaries(facts):
        if any(name.kind == "shard" for name in boundary.names):
            where = boundary.phase or "the first boundary with shards"
            return _Release(event_at(facts.replay, boundary.time_us), boundary.time_us - 1, where)
    return None


def _allocations(facts: Facts, boundaries: list[Boundary], kinds: set[str]) -> dict[int, list[NameRecord]]:
    """Allocation → the names of these kinds that lie in it at any of the boundaries."""
    found: dict[int, list[NameRecord]] = defaultdict(list)
    for boundary in boundaries:
        names = [name for name in boundary.names if name.kind in kinds]
        live = Live.after(facts.replay.allocations, event_at(facts.replay, boundary.time_us))
        holding = live.holding(np.array([name.address for name in names], np.int64))
        for name, allocation in zip(names, holding.tolist(), strict=True):
            if allocation >= 0:
                found[allocation].append(name)
    return found


def _describe(facts: Facts, allocation: int, names: list[NameRecord], release: _Release) -> DanglingParameter:
    assert facts.record is not None
    table = facts.replay.allocations
    texts = sorted({name.name for name in names})
    dtype, shape = facts.recorded_shapes.get(allocation, (None, None))
    freed = int(table.free_requested_event[allocation])
    gone = None if freed >= len(facts.replay.time_us) else phase_of(facts.phases, freed) or "outside phases"
    return DanglingParameter(
        allocation=allocation,
        name=texts[0] if len(texts) == 1 else joint_name(texts),
        requested_bytes=int(table.requested_bytes[allocation]),
        block_bytes=int(table.block_bytes[allocation]),
        since_event=release.event,
        should_go_in=release.phase,
        gone_in=gone,
        dtype=dtype,
        shape=shape if len(texts) == 1 else None,
        holders=tuple(h.path for h in facts.record.holders if h.parameter in texts),
    )


def curve_without(facts: Facts) -> tuple[int, Int64]:
    """Allocated bytes at the start, and [E] after each event, had nothing dangled.

    Every dangling allocation is taken out from the event after its release was due until it went.
    """
    table = facts.replay.allocations
    curve = facts.replay.allocated_bytes
    change = np.zeros(len(curve) + 1, np.int64)
    for one in facts.dangling:
        change[one.since_event + 1] -= one.block_bytes
        change[min(int(table.free_requested_event[one.allocation]), len(curve))] += one.block_bytes
    start = int(facts.replay.start.allocated_bytes)
    return start, curve + np.cumsum(change[:-1])
