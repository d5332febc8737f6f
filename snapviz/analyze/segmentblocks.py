"""What lies at a place of the address space: an allocation and what is known of it, or free memory and what keeps it.

Legend: G segments, B blocks, P pieces, K codes, A allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.facts import CATEGORIES, EVIDENCE, RECORDED, Facts
from snapviz.analyze.fragmentationparts import BUSY, HELD_BACK, LIVE, MOSTLY_FREE, WHOLE, Pieces, holders_of
from snapviz.analyze.groups import sums
from snapviz.analyze.phases import fold, folded_births
from snapviz.replay.segments import FREE
from snapviz.snapshot.columns import ABSENT

__all__ = [
    "BY",
    "DANGLING",
    "Codes",
    "FreePlace",
    "LiveBlock",
    "SegmentFigures",
    "allocation_of",
    "codes_of",
    "dangling_at",
    "lies_at",
    "segments",
    "words_of",
]

Int64 = npt.NDArray[np.int64]

DANGLING = "dangling"
"""The label of parameters that should have been gone, in place of their category."""

BY = ("category", "owner", "phase", "module")
"""What live blocks can be coloured by."""

_GROUPS = 14
"""Groups with a colour of their own: the largest; the others are one."""

_HOLDERS = 8


def allocation_of(pieces: Pieces) -> Int64:
    """[P] the allocation that each piece is, ABSENT of what is free."""
    table = pieces.table
    block = np.searchsorted(table.block_address, pieces.start, "right") - 1
    found: Int64 = np.where(pieces.kind <= HELD_BACK, table.allocation[block], ABSENT)
    return found


# ------------------------------------------------------------------ colours


@dataclass(frozen=True, eq=False)
class Codes:
    """What each piece is, for a legend: labels of what is live, then pending, and the three kinds of free."""

    code: Int64  # [P]
    labels: tuple[str, ...]  # [K − 4] of what is live, the largest first; "" is what nobody names
    size_bytes: Int64  # [K]
    rest: bool  # the last label stands for all others

    @property
    def pending(self) -> int:
        """The code of what is freed and held back; busy, mostly free and whole follow."""
        return len(self.labels)


def codes_of(facts: Facts, pieces: Pieces, by: str = "category") -> Codes:
    """The pieces of a moment by what they are. The sizes sum to what lies in segments."""
    allocation = allocation_of(pieces)
    live = np.flatnonzero(pieces.kind == LIVE)
    names, value = _values(facts, allocation[live], by, pieces.table.event)
    found, group = np.unique(value, return_inverse=True)
    total, _ = sums(group.reshape(-1).astype(np.int64), pieces.size_bytes[live], len(found))
    order = np.argsort(-total, kind="stable")
    rest = len(order) > _GROUPS
    kept = order[:_GROUPS]
    place = np.full(len(found), len(kept), np.int64)
    place[kept] = np.arange(len(kept))
    labels = tuple(names[int(found[g])] for g in kept) + (("other",) if rest else ())
    # pending, busy, mostly free, whole: in the order of the pieces' kinds
    code = len(labels) + pieces.kind.astype(np.int64) - HELD_BACK
    code[live] = place[group.reshape(-1)]
    return Codes(code, labels, sums(code, pieces.size_bytes, len(labels) + WHOLE)[0], rest)


def _values(facts: Facts, allocation: Int64, by: str, event: int) -> tuple[Sequence[str], npt.NDArray[np.integer]]:
    if by == "owner":
        return facts.owners, facts.owner[allocation]
    if by == "module":
        return facts.modules, facts.module[allocation]
    if by == "phase":
        names, first = folded_births(facts)
        return names, first[facts.birth[allocation]]
    dangles = facts.dangling_since[allocation] <= event
    return (*CATEGORIES, DANGLING), np.where(dangles, len(CATEGORIES), facts.category[allocation])


def dangling_at(facts: Facts, event: int) -> int:
    """Block bytes of what is allocated just after an event and should have been gone."""
    table = facts.replay.allocations
    dangles = np.flatnonzero(facts.dangling_since <= event)
    return int(table.block_bytes[dangles][table.allocated_after(event)[dangles]].sum())


# ------------------------------------------------------------------ the table


@dataclass(frozen=True, eq=False)
class SegmentFigures:
    """The G segments of a moment. Of each, allocated, pending and the kinds of free sum to its size."""

    size_bytes: Int64  # [G]
    allocated_bytes: Int64  # [G]
    pending_bytes: Int64  # [G]
    busy_bytes: Int64  # [G]
    mostly_free_bytes: Int64  # [G]
    whole_bytes: Int64  # [G]
    largest_free_bytes: Int64  # [G]
    blocks: Int64  # [G] that are live or pending
    largest: Int64  # [G] the allocation of the largest of those, ABSENT where there is none

    @property
    def free_bytes(self) -> Int64:
        """[G] free, of all kinds."""
        return self.busy_bytes + self.mostly_free_bytes + self.whole_bytes


def segments(pieces: Pieces) -> SegmentFigures:
    """The segments of a moment in figures."""
    table, count = pieces.table, len(pieces.table)
    kinds = [
        sums(pieces.segment[pieces.kind == k], pieces.size_bytes[pieces.kind == k], count)[0] for k in range(WHOLE + 1)
    ]
    of, free = table.segment_of_block, table.block_state == FREE
    largest_free = np.zeros(count, np.int64)
    np.maximum.at(largest_free, of[free], table.block_bytes[free])
    live = np.flatnonzero(~free)
    largest = np.full(count, ABSENT, np.int64)
    ordered = live[np.argsort(table.block_bytes[live], kind="stable")]
    # the last written is the largest
    largest[of[ordered]] = table.allocation[ordered]
    return SegmentFigures(
        table.size_bytes,
        kinds[LIVE],
        kinds[HELD_BACK],
        kinds[BUSY],
        kinds[MOSTLY_FREE],
        kinds[WHOLE],
        largest_free,
        np.bincount(of[live], minlength=count).astype(np.int64),
        largest,
    )


# ------------------------------------------------------------------ one place


@dataclass(frozen=True)
class LiveBlock:
    """An allocation, and where it lies."""

    allocation: int
    segment: int
    offset_bytes: int  # from the start of its segment
    block_bytes: int
    requested_bytes: int
    pending: bool  # freed, and held back for another stream
    owner: str  # "" where not known
    category: str
    module: str
    birth_phase: str  # folded
    evidence: str
    why: str  # what the category was taken from, "" where somebody named it
    alloc_event: int  # START: before the recording
    free_event: int | None  # none: never
    dangling: str  # the parameter that it is and that should have been gone, or ""
    estimated: bool
    stack: tuple[str, ...]  # innermost first


@dataclass(frozen=True)
class FreePlace:
    """Free memory: a block of it, or the part of one that is in the page which was picked."""

    kind: int  # BUSY, MOSTLY_FREE or WHOLE
    segment: int
    offset_bytes: int
    size_bytes: int  # of what was picked
    block_bytes: int  # of the free block that it is in
    before: LiveBlock | None  # what lies before the free block in its segment; none: it begins there
    after: LiveBlock | None
    unit_bytes: int  # of the segment or page that keeps it; 0 where nothing does
    unit_free_bytes: int
    paged: bool  # a page, and not a segment
    holders: tuple[LiveBlock, ...]  # what is live in it, the largest first
    holder_count: int
    holder_bytes: int


def lies_at(space: AddressSpace, pieces: Pieces, piece: int) -> LiveBlock | FreePlace:
    """What a piece is. Raises ``IndexError`` for one that is not there."""
    if not 0 <= piece < len(pieces.start):
        raise IndexError(f"piece {piece} of {len(pieces.start)}")
    table = pieces.table
    block = int(np.searchsorted(table.block_address, pieces.start[piece], "right")) - 1
    if pieces.kind[piece] <= HELD_BACK:
        return _live(space.facts, pieces, block)
    segment, unit = int(pieces.segment[piece]), int(pieces.unit[piece])
    held = holders_of(pieces, np.array([unit], np.int64))[1] if unit != ABSENT else np.zeros(0, np.int64)
    order = held[np.argsort(-table.block_bytes[held], kind="stable")]
    first, stop = (int(edge) for edge in table.block_offsets[segment : segment + 2])
    return FreePlace(
        kind=int(pieces.kind[piece]),
        segment=segment,
        offset_bytes=int(pieces.start[piece] - table.address[segment]),
        size_bytes=int(pieces.size_bytes[piece]),
        block_bytes=int(table.block_bytes[block]),
        before=_live(space.facts, pieces, block - 1) if block > first else None,
        after=_live(space.facts, pieces, block + 1) if block + 1 < stop else None,
        unit_bytes=int(pieces.unit_bytes[unit]) if unit != ABSENT else 0,
        unit_free_bytes=int(pieces.unit_free_bytes[unit]) if unit != ABSENT else 0,
        paged=bool(table.expandable[segment]),
        holders=tuple(_live(space.facts, pieces, int(one)) for one in order[:_HOLDERS]),
        holder_count=len(held),
        holder_bytes=int(table.block_bytes[held].sum()),
    )


def words_of(facts: Facts, allocation: int) -> tuple[str, str, str]:
    """Category, owner (or the module that was running, or the parameter that dangles) and folded phase of birth."""
    name = facts.owners[int(facts.owner[allocation])] or facts.modules[int(facts.module[allocation])]
    return CATEGORIES[int(facts.category[allocation])], name, fold(facts.births[int(facts.birth[allocation])])


def _live(facts: Facts, pieces: Pieces, block: int) -> LiveBlock:
    table, known = pieces.table, facts.replay.allocations
    one = int(table.allocation[block])
    segment = int(np.searchsorted(table.block_offsets, block, "right")) - 1
    freed = int(known.free_requested_event[one])
    rule = int(facts.rule[one])
    named = facts.evidence[one] == RECORDED or not 0 <= rule < len(facts.rules)
    return LiveBlock(
        allocation=one,
        segment=segment,
        offset_bytes=int(table.block_address[block] - table.address[segment]),
        block_bytes=int(table.block_bytes[block]),
        requested_bytes=int(known.requested_bytes[one]),
        pending=bool(freed <= table.event),
        owner=facts.owners[int(facts.owner[one])],
        category=CATEGORIES[int(facts.category[one])],
        module=facts.modules[int(facts.module[one])],
        birth_phase=fold(facts.births[int(facts.birth[one])]),
        evidence=EVIDENCE[int(facts.evidence[one])],
        why="" if named else facts.rules[rule].why,
        alloc_event=int(known.alloc_event[one]),
        free_event=freed if freed < len(facts.replay) else None,
        dangling=next((each.name for each in facts.dangling if each.allocation == one), ""),
        estimated=bool(known.estimated[one]),
        stack=facts.stack_lines(int(known.stack[one])),
    )
