"""One replay of a device under one set of rules.

Legend: E events, X distinct addresses or coordinates, S allocations alive at the start, A allocations.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.replay import coordinates, kernels, ledger
from snapviz.replay.final import Final
from snapviz.replay.heap import new_heap
from snapviz.replay.rules import LIMIT, Rules
from snapviz.replay.start import Start, start_allocations
from snapviz.snapshot.columns import ACTIONS, Events

__all__ = ["Attempt", "attempt"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_ALLOC = ACTIONS.index("alloc")


@dataclass(frozen=True)
class Attempt:
    """What came out: curves int64[E], and a ledger (see ``snapviz.replay.ledger``)."""

    rules: Rules
    start: Start
    curves: tuple[Int64, Int64, Int64, Int64]  # requested, allocated, active, reserved
    start_totals: tuple[int, int, int, int]
    table: Int64  # [A, 7]
    counts: Int64
    refused: int  # events out of any sane range, which were passed over
    first_refused: int

    def misfits(self, *kinds: int) -> int:
        """How many misfits of these kinds there were."""
        return sum(int(self.counts[ledger.MISFIT_COUNT + kind]) for kind in kinds)


def attempt(events: Events, final: Final, rules: Rules) -> Attempt:
    """Replays ``events`` so that they end near ``final``."""
    key = np.uint64(secrets.randbits(64))
    addresses, first, last, refused, first_refused = coordinates.collect(
        events.action, events.addr, events.size, rules.pad, rules.shifts, key
    )
    start = start_allocations(events, final, addresses, first, rules)
    begin, end = start.address, start.address + start.block_bytes
    address, rank = _rank(addresses, [begin, end, final.segment_start, final.segment_end])

    def place(values: Int64) -> Int32:
        return np.searchsorted(address, values).astype(np.int32)

    table, counts = ledger.new_ledger(len(start) + int(np.count_nonzero((events.action == _ALLOC) & (first >= 0))))
    _write_start(table, start, len(events))
    state = (*new_heap(len(address)), address, table, counts)
    kernels.place_segments(*state, place(final.segment_start), place(final.segment_end), final.segment_expandable)
    segments = len(final.segment_start)
    grown = int(kernels.undo_segments(*state, events.action, first, last, rank, segments))
    options = rules.options()
    kernels.place_start(*state, place(begin), place(end), start.guessed, options)
    # only segments that lie over one another, which is reported, can come to more than this
    counts[ledger.RESERVED] = min(max(final.reserved_bytes - grown, -2 * LIMIT), 2 * LIMIT)
    totals = counts[: ledger.RESERVED + 1].tolist()
    serial = segments + len(events)
    curves = kernels.run(*state, events.action, events.size, first, last, rank, serial, options)
    for measure, refined in ((ledger.ALLOCATED, ledger.REFINED_ALLOCATED), (ledger.ACTIVE, ledger.REFINED_ACTIVE)):
        if counts[refined]:
            curves[measure][:] += counts[refined]
            totals[measure] += int(counts[refined])
    return Attempt(rules, start, curves, tuple(totals), table, counts, refused, first_refused)


def _rank(addresses: Int64, others: list[Int64]) -> tuple[Int64, Int32]:
    """All distinct addresses in ascending order, and the coordinate of every slot."""
    order = np.argsort(addresses)
    ascending = addresses[order]
    more = np.setdiff1d(np.concatenate(others), ascending)
    every = np.insert(ascending, np.searchsorted(ascending, more), more) if len(more) else ascending
    if len(every) == 0:
        every = np.zeros(1, np.int64)
    rank = np.empty(len(addresses), np.int32)
    rank[order] = np.searchsorted(every, ascending)
    return every, rank


def _write_start(table: Int64, start: Start, events: int) -> None:
    """The first rows of the table; ``place_start`` adds their sizes."""
    rows = table[: len(start)]
    rows[:, ledger.ADDRESS] = start.address
    rows[:, ledger.ALLOC_EVENT] = -1
    rows[:, ledger.REQUESTED_BYTES] = start.requested_bytes
    rows[:, ledger.FREE_REQUESTED] = np.where(start.pending, -1, events)
    rows[:, ledger.FREE_COMPLETED] = events
