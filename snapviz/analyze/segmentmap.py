"""Where the segments of a moment are drawn, and the bars they are drawn as: every byte in one, however many there are.

Legend: G segments, P pieces, S segments that are drawn, D bars, K codes of colour.

A picture has rows of equal bytes. Segments that go together (pool, size class, stream, kind) are a group with a row
for its name. Of few segments each has rows of its own; of many, those that fit share one. A place is one number, row ×
``row_bytes`` + bytes from the left, so that a segment larger than a row goes on in the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.fragmentationparts import BUSY, MOSTLY_FREE, Pieces
from snapviz.analyze.groups import group_keys
from snapviz.replay.final import ranges
from snapviz.replay.origins import LARGE_PAGE
from snapviz.snapshot.columns import ABSENT

__all__ = ["ORDERS", "Bars", "Group", "Layout", "bars_of", "laid_out", "row_bytes_for", "row_px"]

Int64 = npt.NDArray[np.int64]

ORDERS = ("size", "free", "address")
"""What segments of a group are sorted by: size, free bytes that are held (both descending), or address."""

_ALONE = 44
"""Segments that each have a row of their own."""

_MOST_ROWS = 400
"""Rows of a picture; what would come after them is counted."""

_ROW_PX, _LEAST_PX, _FULL_PX = 18, 5, 560
"""Height of a row where there are few, where there are many, and of a picture between the two."""

_WRAPPED = 24
"""Rows that all of what expands takes, about."""

_GAP = 240
"""Between two segments of a row there is one part in so many of it."""

_PIXELS = 1_400
"""Columns of pixels that a picture has at most: what is smaller than one is drawn with its neighbours."""


@dataclass(frozen=True)
class Group:
    """Segments of one pool, size class, stream and kind."""

    row: int  # first of its name; its segments follow after ``Layout.head_rows``
    first: int  # of its segments, an index into ``Layout.segment``
    segment: int  # one of them
    segments: int
    size_bytes: int


@dataclass(frozen=True, eq=False)
class Layout:
    """S segments in the order they are drawn, and where each begins."""

    segment: Int64  # [S] index into the table of segments
    place: Int64  # [S]
    row_bytes: int
    rows: int
    groups: tuple[Group, ...]
    more: int  # segments that have no place
    more_bytes: int  # their size
    head_rows: int  # rows of a group's name: as many as a line of text is high


def row_px(rows: int) -> int:
    """Height of a row of a picture that has so many."""
    return _ROW_PX if rows * _ROW_PX <= _FULL_PX else max(_LEAST_PX, _FULL_PX // rows)


def row_bytes_for(pieces: Pieces) -> int:
    """Bytes of a row that suit a moment: its largest segment, of those that expand whole pages, in about 24 rows."""
    table = pieces.table
    fixed = int(table.size_bytes[~table.expandable].max(initial=0))
    expands = int(table.size_bytes[table.expandable].sum())
    pages = -(-expands // (_WRAPPED * LARGE_PAGE)) * LARGE_PAGE
    return max(fixed, min(pages, int(table.size_bytes.max(initial=0))), 1)


def laid_out(pieces: Pieces, row_bytes: int, order: str = "size", only: int | None = None) -> Layout:
    """The segments of a moment in rows of ``row_bytes``; ``only`` one of them, in a picture of its own."""
    table = pieces.table
    chosen = np.arange(len(table), dtype=np.int64) if only is None else np.array([only], np.int64)
    if len(chosen) == 0:
        return Layout(chosen, chosen, row_bytes, 0, (), 0, 0, 0)
    group, count = _groups(pieces, chosen)
    total = np.zeros(count, np.int64)
    np.add.at(total, group, table.size_bytes[chosen])
    key = {"size": -table.size_bytes, "free": -_held(pieces), "address": table.address}[order][chosen]
    ordered = np.lexsort((table.address[chosen], key, group, -total[group]))
    chosen, group = chosen[ordered], group[ordered]
    shared = len(chosen) + count > _ALONE
    head = int(only is None)
    sizes, groups_of = table.size_bytes[chosen].tolist(), group.tolist()
    place, heads, rows = _placed(sizes, groups_of, row_bytes, shared, head)
    while head and head * row_px(rows) < _ROW_PX:
        head = -(-_ROW_PX // row_px(rows))
        place, heads, rows = _placed(sizes, groups_of, row_bytes, shared, head)
    placed = len(place)
    groups = tuple(
        Group(
            row=row,
            first=first,
            segment=int(chosen[first]),
            segments=int((group == group[first]).sum()),
            size_bytes=int(total[group[first]]),
        )
        for row, first in heads
    )
    rest = chosen[placed:]
    return Layout(
        segment=chosen[:placed],
        place=np.array(place, np.int64),
        row_bytes=row_bytes,
        rows=rows,
        groups=groups if only is None else (),
        more=len(rest),
        more_bytes=int(table.size_bytes[rest].sum()),
        head_rows=head,
    )


def _groups(pieces: Pieces, chosen: Int64) -> tuple[Int64, int]:
    table = pieces.table
    pool = np.where(pieces.private, table.pool, ABSENT)[chosen]
    stream = np.unique(table.stream[chosen], return_inverse=True)[1].reshape(-1)
    small, expands = table.small[chosen].astype(np.int8), table.expandable[chosen].astype(np.int8)
    return group_keys([np.unique(pool, return_inverse=True)[1].reshape(-1), small, stream, expands])


def _held(pieces: Pieces) -> Int64:
    held = np.where((pieces.kind == BUSY) | (pieces.kind == MOSTLY_FREE), pieces.size_bytes, 0)
    out = np.zeros(len(pieces.table), np.int64)
    np.add.at(out, pieces.segment, held)
    return out


def _placed(
    sizes: list[int], groups: list[int], row_bytes: int, shared: bool, head: int
) -> tuple[list[int], list[tuple[int, int]], int]:
    """Places of as many segments as there are rows for; row and first segment of each group; and rows. The name of a
    group has ``head`` rows."""
    gap = row_bytes // _GAP
    place: list[int] = []
    heads: list[tuple[int, int]] = []
    row, left, last = 0, 0, -1
    for at, (size, group) in enumerate(zip(sizes, groups, strict=True)):
        new = group != last
        if left and (new or not shared or left + gap + size > row_bytes):
            row, left = row + 1, 0
        if row + new * head >= _MOST_ROWS and at:
            return place, heads, row
        if new and head:
            heads.append((row, at))
            row += head
        start = left + gap if left else 0
        place.append(row * row_bytes + start)
        last = group
        row, left = row + (start + size) // row_bytes, (start + size) % row_bytes
        if size >= row_bytes and left:
            row, left = row + 1, 0
    return place, heads, row + (left > 0)


# ------------------------------------------------------------------ bars


@dataclass(frozen=True, eq=False)
class Bars:
    """D bars, in the order of their places; their sizes sum to those of the segments that have a place."""

    row: Int64  # [D]
    left_bytes: Int64  # [D]
    size_bytes: Int64  # [D]
    code: Int64  # [D] what most of it is
    first: Int64  # [D] first piece of it
    last: Int64  # [D] its last piece, the same where it is one

    def __len__(self) -> int:
        return len(self.row)


def bars_of(pieces: Pieces, layout: Layout, code: npt.NDArray[np.integer], most: int = 4_000) -> Bars:
    """The bars of a layout, at most about ``most``: neighbours too small to be seen are one. ``code`` is [P]."""
    place, size, piece = _cut(pieces, layout)
    cell = max(1, layout.row_bytes // _PIXELS)
    while True:
        bar = _joined(pieces, layout, (place, size, piece), cell)
        count = int(bar[-1]) + 1 if len(bar) else 0
        if count <= most or cell >= layout.row_bytes:
            break
        cell = min(2 * cell, layout.row_bytes)
    first = np.searchsorted(bar, np.arange(count))
    last = np.append(first[1:], len(bar))[:count] - 1
    total = np.zeros(count, np.int64)
    np.add.at(total, bar, size)
    return Bars(
        row=place[first] // layout.row_bytes,
        left_bytes=place[first] % layout.row_bytes,
        size_bytes=total,
        code=_mostly(bar, np.asarray(code, np.int64)[piece], size, count),
        first=piece[first],
        last=piece[last],
    )


def _cut(pieces: Pieces, layout: Layout) -> tuple[Int64, Int64, Int64]:
    """Place, bytes and piece of what is drawn, cut where a row ends."""
    bounds = np.searchsorted(pieces.segment, np.arange(len(pieces.table) + 1))
    begin, count = bounds[layout.segment], np.diff(bounds)[layout.segment]
    piece = ranges(begin, count).astype(np.int64)
    of = np.repeat(np.arange(len(layout.segment)), count)
    place = layout.place[of] + pieces.start[piece] - pieces.table.address[layout.segment[of]]
    stop = place + pieces.size_bytes[piece]
    rows = (stop - 1) // layout.row_bytes - place // layout.row_bytes + 1
    part = np.repeat(np.arange(len(piece)), rows)
    number = np.arange(len(part)) - np.repeat(np.cumsum(rows) - rows, rows)
    edge = (place[part] // layout.row_bytes + number) * layout.row_bytes
    start = np.maximum(place[part], edge)
    end = np.minimum(stop[part], edge + layout.row_bytes)
    return start, end - start, piece[part]


def _joined(pieces: Pieces, layout: Layout, parts: tuple[Int64, Int64, Int64], cell: int) -> Int64:
    """[parts] the bar of each: one that is smaller than a cell is joined with such neighbours in the same cell."""
    place, size, piece = parts
    small = size < cell
    row, segment = place // layout.row_bytes, pieces.segment[piece]
    column = place % layout.row_bytes // cell
    with_last = small[1:] & small[:-1]
    for key in (row, segment, column):
        with_last &= key[1:] == key[:-1]
    joined: Int64 = np.cumsum(np.append(False, ~with_last)[: len(place)]).astype(np.int64)
    return joined


def _mostly(bar: Int64, code: Int64, size: Int64, count: int) -> Int64:
    """[D] the code that has most bytes in each bar, the lowest of several."""
    pair, of = np.unique(bar * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    total = np.zeros(len(pair), np.int64)
    np.add.at(total, of.reshape(-1), size)
    owner, which = np.divmod(pair, int(code.max(initial=0)) + 1)
    order = np.lexsort((-which, total, owner))
    out = np.zeros(count, np.int64)
    # the last written is the one with most
    out[owner[order]] = which[order]
    return out
