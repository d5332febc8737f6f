"""What was alive when the recording began, worked out from what it says later.

One ring holds a device's events and the oldest are overwritten, so most recordings begin in the
middle. Alive at the start: active blocks at the end that no event touches, and what the trace frees
without having allocated it.

Legend: E events, S allocations alive at the start, L active blocks at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.replay import kernels
from snapviz.replay.final import Final
from snapviz.replay.rules import Rules
from snapviz.snapshot.columns import ABSENT, ACTIONS, Events

__all__ = ["Start", "start_allocations"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_FREE_REQUESTED = ACTIONS.index("free_requested")
_FREE_COMPLETED = ACTIONS.index("free_completed")


@dataclass(frozen=True)
class Start:
    """S allocations alive at the start, by address, none over another."""

    address: Int64  # [S]
    block_bytes: Int64  # [S] without a remainder where guessed
    requested_bytes: Int64  # [S]
    guessed: Bool  # [S] block_bytes is the rounded request
    pending: Bool  # [S] its free had been asked for already
    stack: Int32  # [S]
    stream: Int64  # [S]
    pool: Int32  # [S] or ABSENT
    conflicts: int  # left out since they lie over another
    unasked: int  # free_completed events in the trace that had no free_requested

    def __len__(self) -> int:
        return len(self.address)


def start_allocations(events: Events, final: Final, addresses: Int64, first: Int32, rules: Rules) -> Start:
    """Finds them. ``addresses`` int64[X] by slot and ``first`` int32[E] as ``collect`` gives them."""
    state, open_orphan, orphans, unasked = kernels.last_seen(events.action, first, len(addresses))
    slot = _slots_of(addresses, final.address)
    touched = slot >= 0
    last = np.where(touched, state[slot], kernels.UNTOUCHED) if len(state) else np.zeros(len(slot), np.uint8)
    orphan = np.where(touched, open_orphan[slot], -1) if len(state) else np.full(len(slot), -1)
    # an orphan that is still pending at the end has its exact size in the final block
    held = (last == kernels.UNTOUCHED) | ((last == kernels.PENDING_FREE) & (orphan >= 0))
    rest = np.setdiff1d(orphans, orphan[held & (orphan >= 0)], assume_unique=False)

    block_stack = final.stack[held]
    asked = orphan[held]
    own_stack = np.where(block_stack == ABSENT, _at(events.stack, asked), block_stack)
    unasked_pending = final.pending[held] & (asked < 0)
    # written without free_requested (older and filtered traces are): then it says nothing that one is missing
    filtered = unasked and not (events.action == _FREE_REQUESTED).any()
    rest_pending = (events.action[rest] == _FREE_COMPLETED) & (not filtered)
    found = Start(
        address=np.concatenate([final.address[held], events.addr[rest]]),
        block_bytes=np.concatenate([final.block_bytes[held], rules.rounded(events.size[rest])]),
        requested_bytes=np.concatenate([final.requested_bytes[held], events.size[rest]]),
        guessed=np.concatenate([np.zeros(int(held.sum()), bool), np.ones(len(rest), bool)]),
        pending=np.concatenate([unasked_pending, rest_pending]),
        stack=np.concatenate([own_stack, events.stack[rest]]).astype(np.int32),
        stream=np.concatenate([final.stream[held], events.stream[rest]]),
        pool=np.concatenate([_at(events.pool, asked), events.pool[rest]]).astype(np.int32),
        conflicts=0,
        unasked=int(unasked),
    )
    return _disjoint(found)


def _slots_of(addresses: Int64, wanted: Int64) -> Int64:
    """Slot of each wanted address, -1 where the trace never names it."""
    if len(addresses) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(addresses)
    at = np.minimum(np.searchsorted(addresses, wanted, sorter=order), len(addresses) - 1)
    return np.where(addresses[order[at]] == wanted, order[at], -1)


def _at(values: npt.NDArray[np.generic], index: Int64) -> npt.NDArray[np.generic]:
    """``values[index]``, ``ABSENT`` where the index is negative."""
    if len(values) == 0:
        return np.full(len(index), ABSENT)
    return np.where(index >= 0, values[np.maximum(index, 0)], ABSENT)


def _disjoint(found: Start) -> Start:
    """By address, without those that reach into the next; what is known goes before what is guessed."""
    order = np.lexsort((found.guessed, found.address))
    ends = found.address + found.block_bytes
    chosen = order
    if (ends[order[:-1]] > found.address[order[1:]]).any():
        chosen = _without_overlap(order, found.address, ends, found.guessed)
    fields = ("address", "block_bytes", "requested_bytes", "guessed", "pending", "stack", "stream", "pool")
    kept = {name: getattr(found, name)[chosen] for name in fields}
    return Start(**kept, conflicts=len(order) - len(chosen), unasked=found.unasked)


def _without_overlap(order: Int64, address: Int64, ends: Int64, guessed: Bool) -> Int64:
    keep: list[int] = []
    stop = -1
    for i in order.tolist():
        if address[i] < stop:
            if guessed[i] or not guessed[keep[-1]]:
                continue
            keep.pop()
        keep.append(i)
        stop = int(ends[i])
    return np.array(keep, np.int64)
