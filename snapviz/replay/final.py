"""The state at the end as the file tells it: segments and active blocks of one device, checked.

Legend: G segments, L active blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.replay.rules import LIMIT
from snapviz.snapshot.columns import ABSENT, BLOCK_STATES, Columns

__all__ = ["Final", "exact_sum", "final_state", "ranges"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_INACTIVE = BLOCK_STATES.index("inactive")
_PENDING = BLOCK_STATES.index("active_pending_free")


@dataclass(frozen=True)
class Final:
    """Segments and active blocks within sane ranges, in the order of the file, and the rest counted."""

    segment: Int64  # [G] index into the file's segments
    segment_start: Int64  # [G] bytes
    segment_end: Int64  # [G]
    segment_pool: Int32  # [G]
    segment_expandable: Bool  # [G]
    address: Int64  # [L]
    block_bytes: Int64  # [L]
    requested_bytes: Int64  # [L] block_bytes where the file has none
    pending: Bool  # [L] freed, but not yet usable again
    stack: Int32  # [L]
    stream: Int64  # [L]
    refused: int  # segments and active blocks whose address or size cannot be
    unknown_requests: int  # active blocks without a requested size
    capped_requests: int  # active blocks that say they hold more than their size

    @property
    def reserved_bytes(self) -> int:
        """Sum of the segments' sizes."""
        return exact_sum(self.segment_end - self.segment_start)

    def pool_of(self, address: Int64) -> Int32:
        """Pool of the segment that holds each address, or ``ABSENT``."""
        if len(self.segment_start) == 0:
            return np.full(len(address), ABSENT, np.int32)
        order = np.argsort(self.segment_start, kind="stable")
        at = np.maximum(np.searchsorted(self.segment_start[order], address, "right") - 1, 0)
        holds = (self.segment_start[order][at] <= address) & (address < self.segment_end[order][at])
        return np.where(holds, self.segment_pool[order][at], ABSENT).astype(np.int32)


def exact_sum(values: Int64) -> int:
    """The sum of int64 values as a Python int, which cannot overflow."""
    high = int((values >> np.int64(32)).sum())
    return (high << 32) + int((values & np.int64(0xFFFFFFFF)).sum())


def final_state(columns: Columns, device: int) -> Final:
    """What ``segments`` says about one device."""
    segments, blocks = columns.segments, columns.blocks
    chosen = np.flatnonzero(np.asarray(segments.device) == device)
    sane = _sane(segments.address[chosen], segments.total_size[chosen])
    kept = chosen[sane]

    counts = np.diff(segments.block_offsets)[chosen]
    owner = np.repeat(chosen, counts)
    block = ranges(np.asarray(segments.block_offsets)[:-1][chosen], counts)
    active = np.asarray(blocks.state)[block] != _INACTIVE
    block, owner = block[active], owner[active]
    fits = _sane(blocks.address[block], blocks.size[block]) & (blocks.size[block] > 0)
    block, owner = block[fits], owner[fits]

    size, requested = blocks.size[block], blocks.requested_size[block]
    unknown = requested < 0
    return Final(
        segment=kept,
        segment_start=segments.address[kept],
        segment_end=segments.address[kept] + segments.total_size[kept],
        segment_pool=segments.pool[kept],
        segment_expandable=segments.is_expandable[kept] == 1,
        address=blocks.address[block],
        block_bytes=size,
        requested_bytes=np.where(unknown, size, np.minimum(requested, size)),
        pending=blocks.state[block] == _PENDING,
        stack=blocks.stack[block],
        stream=segments.stream[owner],
        refused=int((~sane).sum() + (~fits).sum()),
        unknown_requests=int(unknown.sum()),
        capped_requests=int((requested > size).sum()),
    )


def _sane(address: Int64, size: Int64) -> Bool:
    sane: Bool = (address >= 0) & (address <= LIMIT) & (size >= 0) & (size <= LIMIT)
    return sane


def ranges(starts: Int64, counts: Int64) -> Int64:
    """``starts[0], starts[0] + 1, ...`` for every start, ``counts`` numbers each."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: Int64 = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return places
