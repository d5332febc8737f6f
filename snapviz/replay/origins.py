"""Where a segment comes from: its stream, its pool and its size class, from whatever names them.

A segment event tells the stream, and from torch 2.12 on the pool. Before that only the file's own
segments tell a pool, so that one of which nothing is left in the end has none. The size class follows
from sizes: c10/cuda/CUDACachingAllocator.cpp of torch 2.11 (``get_allocation_size``,
``kSmallBuffer``), where the pool for small requests grows by 2 MiB at a time and the other never does.

Legend: K segment events, G segments at a moment, S at the start, L lives (see ``lives``), X coordinates:
all addresses where one begins or ends, ascending.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from snapviz.snapshot.columns import ABSENT, ACTIONS, Columns

__all__ = [
    "APPEARS",
    "LARGE_PAGE",
    "SEGMENT_ACTIONS",
    "SMALL_PAGE",
    "Births",
    "Lives",
    "SegmentEvents",
    "last_over",
    "lives_at",
    "names_of",
    "told_small",
]

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SEGMENT_ACTIONS: Final = tuple(
    ACTIONS.index(name) for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
)
_MAP: Final = ACTIONS.index("segment_map")
_UNMAP: Final = ACTIONS.index("segment_unmap")
APPEARS: Final = (ACTIONS.index("segment_alloc"), _MAP)
"""Codes of the actions that touch segments, and of those by which one comes."""

SMALL_PAGE: Final = 2 << 20
"""kSmallBuffer: bytes of a segment of the small pool, and of its pages where it expands."""

LARGE_PAGE: Final = 20 << 20
"""kLargeBuffer: bytes of a page of an expanding segment of the large pool."""


@dataclass(frozen=True, eq=False)
class SegmentEvents:
    """The K events of a device that touch segments and are within sane ranges."""

    event: Int64  # [K] ascending
    action: Int8  # [K]
    address: Int64  # [K]
    size_bytes: Int64  # [K] above 0
    stream: Int64  # [K] or ABSENT
    pool: Int32  # [K] or ABSENT

    @property
    def end(self) -> Int64:
        """[K] where each ends."""
        return self.address + self.size_bytes

    @property
    def appears(self) -> Bool:
        """[K] by which of them a segment, or a stretch of one, comes."""
        return np.isin(self.action, APPEARS)

    @property
    def maps(self) -> Bool:
        """[K] by which of them a stretch is mapped."""
        mapped: Bool = self.action == _MAP
        return mapped


@dataclass(frozen=True, eq=False)
class Lives:
    """What is known of each life."""

    part_of: Int32  # [L] the life that it is part of
    touched: Int32  # [K] the life that an event touches, or -1
    stream: Int64  # [L] or ABSENT, as the next two only for those that are part of no other
    pool: Int32  # [L] or ABSENT
    small: Bool  # [L]


@dataclass(frozen=True, eq=False)
class Births:
    """The k segments, or mapped stretches, that appear within the trace, in the order of their events."""

    event: Int64  # [k]
    address: Int64  # [k]
    size_bytes: Int64  # [k]
    stream: Int64  # [k] or ABSENT
    pool: Int32  # [k] or ABSENT where nothing tells it
    small: Bool  # [k]
    expandable: Bool  # [k]


def told_small(columns: Columns) -> Int8:
    """[segments of the file] 1 of the small pool, 0 of the large one, ``ABSENT`` where it does not say."""
    words, inverse = np.unique(np.asarray(columns.segments.segment_type), return_inverse=True)
    codes = {"large": 0, "small": 1}
    each = [codes.get(columns.strings.text(word, 8), ABSENT) for word in words.tolist()]
    return np.array(each, np.int8)[inverse.reshape(-1)]


def names_of(events: SegmentEvents, lives: tuple[Int32, Int32], of_file: Int64, row: Int64, columns: Columns) -> Lives:
    """What is known of each life. ``lives`` are as ``find_lives`` gives them; ``of_file`` are lives that last to the
    end, and ``row`` the segments of the file which they are."""
    part_of, touched = lives
    count = len(part_of)
    rows = np.flatnonzero(touched >= 0)
    life = part_of[touched[rows]]
    file = columns.segments
    stream = _told(count, (life, events.stream[rows]), (of_file, file.stream[row]))
    pool = _told(count, (life, events.pool[rows]), (of_file, file.pool[row]))
    # how much it grew by at a time, and of one that never grew how much it shrank by
    step = np.full((2, count), np.iinfo(np.int64).max)
    grew = events.appears[rows]
    np.minimum.at(step[0], life[grew], events.size_bytes[rows][grew])
    # pages that go side by side go as one
    pages = np.where(events.size_bytes[rows] % LARGE_PAGE != 0, SMALL_PAGE, LARGE_PAGE)
    np.minimum.at(step[1], life, np.where(events.action[rows] == _UNMAP, pages, events.size_bytes[rows]))
    guessed = np.where(step[0] == np.iinfo(np.int64).max, step[1], step[0]) == SMALL_PAGE
    told = _told(count, (of_file, told_small(columns)[row]))
    return Lives(part_of, touched, stream, pool.astype(np.int32), np.where(told == ABSENT, guessed, told == 1))


def _told(count: int, *sources: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]) -> Int64:
    """[count] what the sources tell of each life, the first that tells something counting most."""
    out = np.full(count, ABSENT, np.int64)
    for life, value in reversed(sources):
        known = np.flatnonzero(np.asarray(value) != ABSENT)
        out[life[known]] = value[known]
    return out


def last_over(first: npt.NDArray[np.integer], stop: npt.NDArray[np.integer], value: Int64, length: int) -> Int64:
    """[length] the highest value of the windows ``first`` to ``stop`` that hold each place, ``ABSENT`` for none.

    Takes O((windows + length) log length), however the windows overlap.
    """
    out = np.full(length, ABSENT, np.int64)
    width = stop - first
    level = int(width.max(initial=0)).bit_length() - 1
    # two windows of a power of two cover each; every level hands its values down to the next
    for power in range(level, -1, -1):
        half = 1 << power
        if power < level:
            lower = out.copy()
            np.maximum(lower[half:], out[: max(length - half, 0)], out=lower[half:])
            out = lower
        here = np.flatnonzero((width >= half) & (width < 2 * half))
        np.maximum.at(out, first[here], value[here])
        np.maximum.at(out, stop[here] - half, value[here])
    return out


def lives_at(
    events: SegmentEvents, upto: int, coordinate: Int64, address: Int64, end: Int64, start: Int64
) -> npt.NDArray[np.int64]:
    """[G] a life of each segment that lies at ``address`` to ``end`` after the first ``upto`` of the events.

    It is begun by the last event that came over it, or else one of the S segments that were there at the
    start, at the addresses ``start`` int64[S], ascending. They do not overlap, and ascend.
    """
    if len(address) == 0:
        return np.zeros(0, np.int64)
    rows = np.flatnonzero(events.appears[:upto])
    first, stop = (np.searchsorted(coordinate, edge) for edge in (events.address[rows], events.end[rows]))
    over = last_over(first, stop, rows, len(coordinate))
    # disjoint and ascending, as reduceat takes them: every second stretch is a segment
    edges = np.stack([np.searchsorted(coordinate, edge) for edge in (address, end)], axis=1).reshape(-1)
    last = np.maximum.reduceat(np.append(over, ABSENT), edges)[::2]
    older = np.searchsorted(start, address, "right") - 1
    return np.where(last >= 0, len(start) + last, np.maximum(older, 0))
