"""Why a request could not be served: what there was, in which pieces, and what could help.

Before the allocator gives up it has looked for a block, has asked the device for a segment, has given back all it can
and has asked once more (c10/cuda/CUDACachingAllocator.cpp of torch 2.11, ``malloc``). So the state at its ``oom`` event
holds nothing more that could be given back in the default pool, and what the device had free by then was not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.fragmentationparts import BUSY, MOSTLY_FREE, WHOLE, Pieces, pieces_of
from snapviz.analyze.fragmentationpins import pins_of
from snapviz.analyze.fragmentationpoints import device_free_at, moment_at, oom_events
from snapviz.replay.origins import LARGE_PAGE, SMALL_PAGE
from snapviz.replay.rules import SMALL_SIZE
from snapviz.replay.segments import FREE, SegmentHistory
from snapviz.schema import Advice, OutOfMemory
from snapviz.snapshot.columns import ABSENT, ACTIONS

__all__ = ["MOST_OOMS", "out_of_memory"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_Why = Literal["limit", "fragmented", "full", "unknown"]

MOST_OOMS = 8
"""Times that are told, the last ones: an error that ends the program is among them."""

_PINS = 3
_RETURNS = (ACTIONS.index("segment_free"), ACTIONS.index("segment_unmap"))
_LARGE_SEGMENT = 10 << 20
"""kMinLargeAlloc: requests from this on have a segment of their own size, in steps of 2 MiB."""


def out_of_memory(facts: Facts, history: SegmentHistory) -> tuple[OutOfMemory, ...]:
    """The last ``MOST_OOMS`` times at which the allocator gave up, in their order."""
    events = oom_events(facts)
    first = max(0, len(events) - MOST_OOMS)
    return tuple(_one(facts, history, number + 1, int(events[number])) for number in range(first, len(events)))


@dataclass(frozen=True)
class _Case:
    """What there was when a request was refused."""

    asked: int
    expandable: bool  # whether segments expand
    device_free: int | None
    outside: int | None
    whole: int  # free and whole, in the default pool
    pending: int
    other: int  # free in other pools
    pool_free: int  # free in the pool of the request
    pool_largest: int
    pool_pages: int  # free in that pool in whole pages' worth of bytes, had segments expanded
    pool_mostly: int  # free in mostly free segments of that pool
    sizes: int  # different sizes of what is live in that pool

    @property
    def needed(self) -> int:
        """What the device has to give for it: a segment, or pages."""
        if self.asked <= SMALL_SIZE:
            return SMALL_PAGE
        if self.expandable:
            return -(-self.asked // LARGE_PAGE) * LARGE_PAGE
        if self.asked < _LARGE_SEGMENT:
            return LARGE_PAGE
        return -(-self.asked // SMALL_PAGE) * SMALL_PAGE

    @property
    def missing(self) -> int | None:
        """How much more the device would have had to have free; none where it had enough, or nobody knows."""
        if self.device_free is None:
            return None
        lacks = self.needed - self.device_free
        return lacks if lacks > 0 else None


def _one(facts: Facts, history: SegmentHistory, number: int, event: int) -> OutOfMemory:
    replay, trace = facts.replay, facts.columns.trace(facts.replay.device)
    pieces = pieces_of(history.at(event), facts.columns)
    stream = int(trace.stream[event])
    asked = max(0, int(trace.size[event]))
    totals = replay.after(event)
    case = _case(facts, pieces, event, (asked, stream, int(trace.pool[event])))
    private = pieces.private[pieces.segment]
    free = pieces.kind >= BUSY
    why, advice = _explained(case)
    return OutOfMemory(
        number=number,
        moment=moment_at(facts, event),
        asked_bytes=asked,
        stream=stream if stream != ABSENT else None,
        size_class="small" if asked <= SMALL_SIZE else "large",
        stack=facts.stack_lines(int(trace.stack[event])),
        allocated_bytes=totals.allocated_bytes,
        reserved_bytes=totals.reserved_bytes,
        free_bytes=int(pieces.size_bytes[free].sum()),
        free_in_pool_bytes=case.pool_free,
        largest_free_bytes=case.pool_largest,
        pending_bytes=case.pending,
        private_bytes=int(pieces.size_bytes[free & private].sum()),
        given_back_bytes=_given_back(facts, event),
        device_free_bytes=case.device_free,
        outside_bytes=case.outside,
        missing_bytes=case.missing,
        why=why,
        advice=advice,
        pins=pins_of(facts, pieces, _PINS).rows,
    )


def _case(facts: Facts, pieces: Pieces, event: int, request: tuple[int, int, int]) -> _Case:
    asked, stream, pool = request
    table, replay = pieces.table, facts.replay
    small = asked <= SMALL_SIZE
    # a request of a private pool is served from there; where no event tells one, from the default pool
    pools = facts.columns.pools
    private = 0 <= pool < len(pools) and bool(pools[pool].any())
    there = (table.pool == pool) if private else ~pieces.private
    mine = there & (table.small == small) & (table.stream == stream)
    blocks = (table.block_state == FREE) & mine[table.segment_of_block]
    sizes = table.block_bytes[blocks]
    live = table.allocation[(table.block_state != FREE) & mine[table.segment_of_block]]
    of = pieces.segment
    device_free = device_free_at(facts, event)
    total = _device_total(facts)
    free_of_mine = pieces.sum_of(MOSTLY_FREE, mine[of])
    outside = None
    if device_free is not None and total is not None:
        held = total - device_free - replay.after(event).reserved_bytes
        outside = held if held >= 0 else None
    page = SMALL_PAGE if small else LARGE_PAGE
    all_free = sum(pieces.sum_of(kind) for kind in (BUSY, MOSTLY_FREE, WHOLE))
    totals = replay.after(event)
    return _Case(
        asked=asked,
        expandable=bool(table.expandable[mine].any()) or _expands(facts) is True,
        device_free=device_free,
        outside=outside,
        whole=pieces.sum_of(WHOLE, ~pieces.private[of]),
        pending=totals.active_bytes - totals.allocated_bytes,
        other=all_free - int(sizes.sum()),
        pool_free=int(sizes.sum()),
        pool_largest=int(sizes.max(initial=0)),
        pool_pages=int((sizes // page * page).sum()),
        pool_mostly=free_of_mine,
        sizes=len(np.unique(replay.allocations.requested_bytes[live])),
    )


def _explained(case: _Case) -> tuple[_Why, tuple[Advice, ...]]:
    """Why it was refused, and what could have helped, each with the most that it could have brought."""
    if case.device_free is None:
        return "unknown", ()
    if case.missing is None:
        return "limit", (Advice(kind="limit", bytes=case.device_free),)
    had = case.pool_free + case.device_free
    why: _Why = "fragmented" if had >= case.asked else "full"
    found = []
    if case.pending:
        found.append(Advice(kind="pending", bytes=case.pending))
    if case.other:
        found.append(Advice(kind="other_pools", bytes=case.other))
    if case.outside:
        found.append(Advice(kind="outside", bytes=case.outside))
    if not case.expandable and case.pool_pages:
        found.append(Advice(kind="expandable_segments", bytes=case.pool_pages))
    if not case.expandable and case.pool_mostly:
        found.append(Advice(kind="unsplit_large", bytes=case.pool_mostly))
    if case.pool_free and case.sizes > 1:
        found.append(Advice(kind="fewer_sizes", bytes=case.pool_free))
    # what could not have brought as much as was missing by itself is no way out
    helps = [one for one in found if one.bytes >= case.missing]
    helps.sort(key=lambda one: -one.bytes)
    return why, tuple(helps) or (Advice(kind="less", bytes=case.missing),)


def _given_back(facts: Facts, event: int) -> int:
    """What went back to the device in the events just before, one after another."""
    trace = facts.columns.trace(facts.replay.device)
    first = event
    while first > 0 and trace.action[first - 1] in _RETURNS:
        first -= 1
    reserved = facts.replay.after(first - 1).reserved_bytes
    return max(0, reserved - facts.replay.after(event).reserved_bytes)


def _device_total(facts: Facts) -> int | None:
    counters = (phase.counters for phase in (facts.record.phases if facts.record is not None else ()))
    return next((c.device_total_bytes for c in counters if c is not None and c.device_total_bytes is not None), None)


def _expands(facts: Facts) -> bool | None:
    value = facts.columns.settings.get("expandable_segments")
    return bool(value) if isinstance(value, (bool, int)) else None
