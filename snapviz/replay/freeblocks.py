"""Free memory over all events of a device: the largest block of a pool, and what could be given back.

What could be given back (``empty_cache``, and the allocator itself before it says that it is out of
memory) are segments in which nothing is live, and of segments that expand whole pages in which nothing is
(c10/cuda/CUDACachingAllocator.cpp of torch 2.11: ``release_cached_blocks``, ``release_block``,
``unmap_block``); those of a private pool only once nothing uses that pool any more. Rules of ``segments``
hold here too.

Legend: E events, K segment events, A allocations, N origins, T followed pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.replay.model import START
from snapviz.replay.origins import LARGE_PAGE, SMALL_PAGE
from snapviz.replay.segments import SegmentHistory
from snapviz.snapshot.columns import ABSENT

__all__ = ["FollowedPool", "FreeCurves", "free_curves", "is_private"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FollowedPool:
    """The memory of the default pool that one stream's large (or small) requests are served from."""

    stream: int
    small: bool = False


@dataclass(frozen=True, eq=False)
class FreeCurves:
    """Bytes at the start, in the first place, and after each of E events."""

    pools: tuple[FollowedPool, ...]
    largest_bytes: Int64  # [T, 1 + E] the largest free block
    free_bytes: Int64  # [T, 1 + E] all free blocks
    whole_bytes: Int64  # [1 + E] what could be given back, without private pools
    private_bytes: Int64  # [1 + E] the same in private pools
    grown_event: Int64  # [g] events by which a followed pool grew
    grown_pool: Int64  # [g] which
    grown_bytes: Int64  # [g] by how much


def is_private(pool: Int32 | Int64, pools: Int64) -> Bool:
    """Of pool ids, which are private: of a CUDA graph or a MemPool. One that nothing tells is not."""
    private = np.append((pools != 0).any(axis=1) if len(pools) else np.zeros(0, bool), False)
    return private[np.where((pool < 0) | (pool >= len(pools)), len(pools), pool)]


def free_curves(history: SegmentHistory, pools: Sequence[FollowedPool]) -> FreeCurves:
    """The curves, with the largest free block of each of ``pools``. Takes O((E + A) log A)."""
    # numba takes a while to import and not everyone who imports this floor replays
    from snapviz.replay import freekernels as kernels
    from snapviz.replay.heap import new_heap

    replay = history.replay
    table, events = replay.allocations, len(replay)
    seen = _origins(history, pools)
    before = history.at(START)
    added = len(before)
    changes = history.events
    came, gone = np.flatnonzero(changes.appears), np.flatnonzero(~changes.appears)
    taken = np.flatnonzero(table.free_completed_event > table.alloc_event)
    given = np.flatnonzero((table.free_completed_event > table.alloc_event) & (table.free_completed_event < events))
    stop = table.address + table.block_bytes
    parts = [
        (kernels.ADD, np.full(added, START), before.address, before.address + before.size_bytes, np.arange(added)),
        (kernels.ADD, changes.event[came], changes.address[came], changes.end[came], added + np.arange(len(came))),
        (kernels.REMOVE, changes.event[gone], changes.address[gone], changes.end[gone], np.zeros(len(gone))),
        (kernels.TAKE, table.alloc_event[taken], table.address[taken], stop[taken], taken),
        (kernels.GIVE, table.free_completed_event[given], table.address[given], stop[given], given),
    ]
    kind = np.concatenate([np.full(len(part[1]), part[0], np.int8) for part in parts])
    event, begin, end, what = (np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(1, 5))
    order = np.lexsort((kind, event))
    address = np.unique(np.concatenate([begin, end, np.zeros(1, np.int64)]))
    leaves = 1 << max(len(address) - 1, 1).bit_length()
    largest, free, whole = kernels.follow(
        *new_heap(len(address)),
        address,
        seen,
        np.zeros((len(pools), 2 * leaves), np.int64),
        kind[order],
        event[order],
        np.searchsorted(address, begin[order]).astype(np.int32),
        np.searchsorted(address, end[order]).astype(np.int32),
        what[order].astype(np.int32),
        np.zeros(len(table), np.int32),
        events,
    )
    pool = seen[added:, kernels.FOLLOWED]
    grew = pool >= 0
    return FreeCurves(
        pools=tuple(pools),
        largest_bytes=largest,
        free_bytes=free,
        whole_bytes=whole[0],
        private_bytes=whole[1],
        grown_event=changes.event[came][grew],
        grown_pool=pool[grew],
        grown_bytes=changes.size_bytes[came][grew],
    )


def _origins(history: SegmentHistory, pools: Sequence[FollowedPool]) -> Int64:
    """[N, 6] the segments at the start, then every one that appears, as the kernels know them."""
    from snapviz.replay import freekernels as kernels

    before = history.at(START)
    born = history.births()
    stream, pool, small, expandable, address, size = (
        np.concatenate([getattr(before, name), getattr(born, name)])
        for name in ("stream", "pool", "small", "expandable", "address", "size_bytes")
    )
    private = is_private(pool, history.columns.pools)
    out = np.zeros((len(stream), 6), np.int64)
    out[:, kernels.FOLLOWED] = -1
    for index, wanted in enumerate(pools):
        out[(stream == wanted.stream) & (small == wanted.small) & ~private, kernels.FOLLOWED] = index
    out[:, kernels.PRIVATE] = private
    out[:, kernels.BYTES] = size
    out[:, kernels.PAGE] = np.where(expandable, np.where(small, SMALL_PAGE, LARGE_PAGE), 0)
    out[:, kernels.START_ADDRESS] = address
    # mapped neighbours of one stream, pool and size class are one segment, any other stands alone
    out[:, kernels.GROUP] = _groups(stream, np.where(private, pool, ABSENT), small, expandable)
    return out


def _groups(stream: Int64, pool: Int64, small: Bool, expandable: Bool) -> Int64:
    groups = np.arange(len(stream), dtype=np.int64)
    mapped = np.flatnonzero(expandable)
    if len(mapped):
        keys = np.stack([stream[mapped], pool[mapped], small[mapped]], axis=1)
        _, inverse = np.unique(keys, axis=0, return_inverse=True)
        groups[mapped] = len(stream) + inverse.reshape(-1)
    return groups
