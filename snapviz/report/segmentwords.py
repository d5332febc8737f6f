"""The address space in words: segments, groups of them, allocations and free memory. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.facts import Facts
from snapviz.analyze.fragmentationparts import BUSY, MOSTLY_FREE, Pieces, pool_name
from snapviz.analyze.segmentblocks import FreePlace, LiveBlock, allocation_of, words_of
from snapviz.analyze.segmentmap import Bars, Layout
from snapviz.report.layout import clean, cut
from snapviz.report.words import frames_in_words, plural
from snapviz.snapshot.columns import ABSENT
from snapviz.units import format_bytes

__all__ = ["block_words", "free_words", "group_heads", "hover_words", "segment_words", "stack_words", "when_words"]

_NAME = 60
_HOVERED = 1_000
"""Bars that each say who they are; of more, a name would make the page heavy."""

_FREE = {BUSY: "free, in a busy {0}", MOSTLY_FREE: "free, and pinned by the little that is live in its {0}"}
_WHOLE = "free, and could be given back"


def segment_words(space: AddressSpace, pieces: Pieces, segment: int) -> str:
    """``large pool, expandable · default · stream 0``."""
    table = pieces.table
    kind = "small" if table.small[segment] else "large"
    parts = [f"{kind} pool{', expandable' if table.expandable[segment] else ''}"]
    pool = int(table.pool[segment])
    parts.append(pool_name(space.facts.columns, pool) + (" (assumed)" if pool == ABSENT else ""))
    parts.append(_stream_words(space, int(table.stream[segment])))
    return clean(" · ".join(parts))


def _stream_words(space: AddressSpace, stream: int) -> str:
    """A stream by its place among those of the rank: its address is another in each run, and means nothing."""
    if stream == ABSENT:
        return "stream not known"
    place = space.side_streams.get(stream)
    return f"stream {stream:x}" if place is None else f"side stream {place}"


def group_heads(space: AddressSpace, pieces: Pieces, layout: Layout) -> list[str]:
    """A name for each group of a layout."""
    sizes = [f"{plural(one.segments, 'segment')}, {format_bytes(one.size_bytes)}" for one in layout.groups]
    names = [segment_words(space, pieces, one.segment) for one in layout.groups]
    return [f"{name} · {size}" for name, size in zip(names, sizes, strict=True)]


def block_words(one: LiveBlock) -> str:
    """An allocation in short: ``dangling parameter p1 · 4.00 MiB · born materialize``."""
    what = f"dangling parameter {one.dangling}" if one.dangling else _named(one.category, one.owner or one.module)
    parts = [what, format_bytes(one.block_bytes), f"born {one.birth_phase}"]
    return clean(" · ".join([*parts, *(["freed, pending"] if one.pending else [])]))


def _named(category: str, name: str) -> str:
    return f"{'unknown purpose' if category == 'unknown' else category} {cut(name, _NAME)}".strip()


def free_words(one: FreePlace) -> str:
    """What kind of free memory it is."""
    return _FREE.get(one.kind, _WHOLE).format("page" if one.paged else "segment")


def hover_words(facts: Facts, pieces: Pieces, bars: Bars) -> list[str] | None:
    """What each bar says; none where there are too many."""
    if len(bars) > _HOVERED:
        return None
    allocation = allocation_of(pieces).tolist()
    return [
        _bar_words(facts, pieces, allocation, int(first), int(last), int(size))
        for first, last, size in zip(bars.first, bars.last, bars.size_bytes, strict=True)
    ]


def _bar_words(facts: Facts, pieces: Pieces, allocation: Sequence[int], first: int, last: int, size: int) -> str:
    if last > first:
        live = sum(1 for at in range(first, last + 1) if allocation[at] != ABSENT)
        return f"{plural(last + 1 - first, 'piece')} ({live:,} live), {format_bytes(size)}: click to list"
    whole = format_bytes(int(pieces.size_bytes[first]))
    if allocation[first] == ABSENT:
        paged = bool(pieces.table.expandable[pieces.segment[first]])
        return f"{whole} {_FREE.get(int(pieces.kind[first]), _WHOLE).format('page' if paged else 'segment')}"
    category, owner, birth = words_of(facts, int(allocation[first]))
    return clean(f"{whole} {_named(category, owner)} · born {birth}")


def when_words(space: AddressSpace, event: int | None) -> str:
    """An event of a rank, and its time."""
    replay = space.facts.replay
    if event is None:
        return "never in the recording"
    if event < 0:
        return "before the recording"
    if not replay.has_times:
        return f"event {event:,}"
    seconds = int(replay.time_us[event] - replay.time_us[0]) / 1e6
    return f"event {event:,}, {seconds:,.3f} s after the first"


def stack_words(one: LiveBlock, width: int = 90) -> str:
    """Where it was made, in a line."""
    return frames_in_words(one.stack, None, width)
