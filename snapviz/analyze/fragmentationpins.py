"""What holds free memory: the live blocks of mostly free segments and pages, and blocks held back for other streams.

Legend: U units (segments, or pages of those that expand), H pairs of a unit and a block in it, g kinds of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, RECORDED, Facts
from snapviz.analyze.fragmentationparts import Pieces, holders_of, pool_name
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.phases import folded_births
from snapviz.replay.segments import PENDING
from snapviz.schema import PendingFree, Pin, Pinner
from snapviz.snapshot.columns import ABSENT

__all__ = ["Pins", "pending_of", "pins_of"]

Int64 = npt.NDArray[np.int64]

_UNITS = 20_000
"""Units that are looked at one by one, those with most free memory: more is no list that anybody reads."""

_PINNERS = 8
_MINOR = 100
"""A row that would free less than this share of all comes behind those that would free more."""

_ROWS = 1_000
_STREAMS = 100


@dataclass(frozen=True)
class Pins:
    """Rows, and how many units with how many free bytes are in none of them."""

    rows: tuple[Pin, ...]
    more: int
    more_bytes: int


def pins_of(facts: Facts, pieces: Pieces, most: int = _ROWS) -> Pins:
    """What pins the mostly free units: units that the same kinds of blocks hold are one row."""
    units = pieces.mostly_free
    order = np.lexsort((units, -pieces.unit_free_bytes[units]))
    shown, left = units[order[:_UNITS]], units[order[_UNITS:]]
    position, block = holders_of(pieces, shown)
    allocation = pieces.table.allocation[block]
    kinds, table = _Kinds(facts), pieces.table
    kind, count = kinds.of(allocation, table.block_state[block] == PENDING)
    groups: dict[tuple[object, ...], list[int]] = {}
    bounds = np.searchsorted(position, np.arange(len(shown) + 1))
    for at, unit in enumerate(shown.tolist()):
        g = int(pieces.unit_segment[unit])
        # more kinds than are told hold it: then it is a row of its own
        held_by = tuple(np.unique(kind[bounds[at] : bounds[at + 1]]).tolist()) if count else ()
        own = unit if len(held_by) > _PINNERS else ABSENT
        private = int(table.pool[g]) if pieces.private[g] else ABSENT
        key = (held_by, own, bool(table.expandable[g]), bool(table.small[g]), private)
        groups.setdefault(key, []).append(at)
    total = int(pieces.unit_free_bytes[units].sum())
    rows = sorted(groups.values(), key=lambda some: -int(pieces.unit_free_bytes[shown[some]].sum()))
    found = []
    for some in rows[:most]:
        # a block that reaches into two pages counts once
        blocks = np.unique(np.concatenate([block[bounds[i] : bounds[i + 1]] for i in some]))
        found.append(_pin(kinds, pieces, shown[some], blocks))
    found.sort(key=lambda pin: (pin.freed_bytes * _MINOR < total, pin.pinned_bytes / max(1, pin.freed_bytes)))
    more = np.concatenate([left, *(shown[some] for some in rows[most:])]).astype(np.int64)
    return Pins(tuple(found), len(more), int(pieces.unit_free_bytes[more].sum()))


def _pin(kinds: _Kinds, pieces: Pieces, units: Int64, blocks: Int64) -> Pin:
    table = pieces.table
    g = int(pieces.unit_segment[units[0]])
    return Pin(
        pieces=len(units),
        expandable=bool(table.expandable[g]),
        pool=pool_name(kinds.facts.columns, int(table.pool[g])),
        size_class="small" if table.small[g] else "large",
        piece_bytes=int(pieces.unit_bytes[units].sum()),
        freed_bytes=int(pieces.unit_free_bytes[units].sum()),
        pinned_bytes=int(table.block_bytes[blocks].sum()),
        pinned_blocks=len(blocks),
        pinners=kinds.told(table.allocation[blocks], table.block_state[blocks] == PENDING),
    )


def pending_of(facts: Facts, pieces: Pieces) -> tuple[PendingFree, ...]:
    """What is held back for other streams, by the stream that it was made on: the ``_STREAMS`` with most of it."""
    table = facts.replay.allocations
    event = pieces.table.event
    pending = np.flatnonzero(table.active_after(event) & ~table.allocated_after(event))
    streams, of = np.unique(table.stream[pending], return_inverse=True)
    total, number = sums(of.reshape(-1).astype(np.int64), table.block_bytes[pending], len(streams))
    kinds, found = _Kinds(facts), []
    for at in np.lexsort((streams, -total)).tolist()[:_STREAMS]:
        mine = pending[of.reshape(-1) == at]
        found.append(
            PendingFree(
                stream=int(streams[at]) if streams[at] != ABSENT else None,
                blocks=int(number[at]),
                pending_bytes=int(total[at]),
                largest=kinds.told(mine, np.ones(len(mine), bool))[0],
            )
        )
    return tuple(found)


class _Kinds:
    """Blocks by what they are: owner, category, module, phase of birth and stack."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._births, self._birth = folded_births(facts)

    def of(self, allocation: Int64, pending: npt.NDArray[np.bool_]) -> tuple[Int64, int]:
        """[n] the kind of each allocation, and how many kinds there are. What is held back is of another kind."""
        facts = self.facts
        # ABSENT is -1, and keys count from 0
        keys: list[npt.NDArray[np.integer]] = [
            facts.owner[allocation],
            facts.category[allocation],
            facts.module[allocation],
            self._birth[facts.birth[allocation]],
            facts.stack[allocation] + 1,
            pending.astype(np.int8),
        ]
        return group_keys(keys)

    def told(self, allocation: Int64, pending: npt.NDArray[np.bool_]) -> tuple[Pinner, ...]:
        """The ``_PINNERS`` largest kinds of some allocations."""
        facts, table = self.facts, self.facts.replay.allocations
        kind, count = self.of(allocation, pending)
        total, number = sums(kind, table.block_bytes[allocation], count)
        weakest, first = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.maximum.at(weakest, kind, facts.evidence[allocation])
        first[kind[::-1]] = np.arange(len(allocation) - 1, -1, -1)
        found = []
        for g in np.lexsort((first, -total)).tolist()[:_PINNERS]:
            one = int(allocation[first[g]])
            found.append(
                Pinner(
                    owner=facts.owners[int(facts.owner[one])],
                    category=CATEGORIES[int(facts.category[one])],
                    module=facts.modules[int(facts.module[one])],
                    birth_phase=self._births[int(facts.birth[one])],
                    evidence=EVIDENCE[int(weakest[g])],
                    why=self._why(one),
                    pending=bool(pending[first[g]]),
                    blocks=int(number[g]),
                    block_bytes=int(total[g]),
                    stack=facts.stack_lines(int(table.stack[one])),
                )
            )
        return tuple(found)

    def _why(self, allocation: int) -> str:
        facts = self.facts
        rule = int(facts.rule[allocation])
        named = facts.evidence[allocation] == RECORDED or not 0 <= rule < len(facts.rules)
        return "" if named else facts.rules[rule].why
