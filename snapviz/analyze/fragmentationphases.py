"""Free memory over a rank's phases: how small the largest free block got, what could not be given back, and growth
of reserved memory that came while as much was free.

Legend: E events, P phases of one folded name, T streams, g growths.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import folded_phases
from snapviz.analyze.windows import highest
from snapviz.replay.freeblocks import FollowedPool, FreeCurves, free_curves, is_private
from snapviz.replay.model import START
from snapviz.replay.segments import SegmentHistory
from snapviz.schema import PhaseFragmentation
from snapviz.snapshot.columns import ABSENT

__all__ = ["STREAMS", "curves_of", "held_free", "phases_of", "streams_of"]

Int64 = npt.NDArray[np.int64]

STREAMS = 3
"""Streams whose large segments are followed."""


def streams_of(history: SegmentHistory) -> tuple[int, ...]:
    """The streams with most large segments in the default pool, by all bytes that they ever had."""
    before, born = history.at(START), history.births()
    parts = []
    for one in (before, born):
        mine = ~one.small & ~is_private(one.pool, history.columns.pools) & (one.stream != ABSENT)
        parts.append((one.stream[mine], one.size_bytes[mine]))
    stream, size = (np.concatenate([part[i] for part in parts]) for i in range(2))
    found, of = np.unique(stream, return_inverse=True)
    # as floats: what came and went over a long run can be more than an int64 holds
    total = np.bincount(of.reshape(-1), weights=size.astype(np.float64), minlength=len(found))
    return tuple(int(found[i]) for i in np.lexsort((found, -total))[:STREAMS])


def curves_of(history: SegmentHistory, streams: tuple[int, ...]) -> FreeCurves:
    """The curves of free memory, with the largest block of each of the streams."""
    return free_curves(history, [FollowedPool(stream) for stream in streams])


def held_free(facts: Facts, curves: FreeCurves) -> Int64:
    """[1 + E] free bytes that could not be given back, before the first event and after each."""
    replay = facts.replay
    start = replay.start.reserved_bytes - replay.start.active_bytes
    free = np.append(np.int64(start), replay.reserved_bytes - replay.active_bytes)
    held: Int64 = free - curves.whole_bytes - curves.private_bytes
    return held


def phases_of(facts: Facts, curves: FreeCurves) -> tuple[PhaseFragmentation, ...]:
    """The folded phases, in order of their start."""
    phases, held = facts.phases, held_free(facts, curves)
    # the value just before a phase counts, as it does for torch's own peaks
    first, stop = phases.first, phases.stop + 1
    most = highest(held, first, stop)
    largest = curves.largest_bytes[0] if len(curves.pools) else np.zeros(len(held), np.int64)
    least = -highest(-largest, first, stop)
    beside = _beside_free(facts, curves)
    grown = np.concatenate([np.zeros(1, np.int64), np.cumsum(curves.grown_bytes)])
    grown_beside = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(beside, curves.grown_bytes, 0))])
    begin, end = (np.searchsorted(curves.grown_event, edge) for edge in (phases.first, phases.stop))
    found = []
    order = np.argsort(held, kind="stable")
    ascending = held[order]
    for name, some in folded_phases(phases).items():
        worst = int(some[np.argmax(most[some])])
        equal = slice(*(np.searchsorted(ascending, most[worst], side) for side in ("left", "right")))
        place = int(order[equal][np.searchsorted(order[equal], first[worst])])
        found.append(
            PhaseFragmentation(
                phase=name,
                times=len(some),
                whole=bool(phases.whole[some].all()),
                reserved_peak_bytes=int(phases.peak[some, 3].max()),
                held_free_bytes=int(most[worst]),
                held_free_event=place - 1,
                lowest_largest_bytes=int(least[some].min()),
                grown_bytes=int((grown[end[some]] - grown[begin[some]]).sum()),
                grown_beside_free_bytes=int((grown_beside[end[some]] - grown_beside[begin[some]]).sum()),
            )
        )
    return tuple(found)


def _beside_free(facts: Facts, curves: FreeCurves) -> npt.NDArray[np.bool_]:
    """[g] which growths came while as much was free in the same pool as the next request on its stream took."""
    table = facts.replay.allocations
    born = np.flatnonzero(table.alloc_event >= 0)
    if len(born) == 0 or len(curves.grown_event) == 0:
        return np.zeros(len(curves.grown_event), bool)
    next_one = np.searchsorted(table.alloc_event[born], curves.grown_event, "right")
    asked = born[np.minimum(next_one, len(born) - 1)]
    streams = np.array([pool.stream for pool in curves.pools], np.int64)[curves.grown_pool]
    # the state before the growth is the one after the event before it
    free = curves.free_bytes[curves.grown_pool, curves.grown_event]
    served = (next_one < len(born)) & (table.stream[asked] == streams)
    beside: npt.NDArray[np.bool_] = served & (free >= table.block_bytes[asked])
    return beside
