"""Owners of allocations, from the names a rank record holds.

Legend: A allocations, D names at one boundary. A name is an address at a moment: it belongs to the
allocation that was live there then, and to no other that ever had that address.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, RECORDED, Facts, event_at
from snapviz.replay.model import Allocations
from snapviz.schema import Boundary, NameRecord

__all__ = ["KIND_CATEGORIES", "Live", "find_names", "joint_name", "known_boundaries", "lying_in", "named_boundaries"]

Int64 = npt.NDArray[np.int64]

KIND_CATEGORIES = {
    "parameter": "parameter",
    "shard": "shard",
    "buffer": "buffer",
    "optimizer_state": "optimizer state",
    "gradient": "gradient",
    # what an all-gather filled: whole, and gone after its layer. As a parameter it would be taken for one
    # that was never sharded; it is what communication costs, and as such matches what stacks say of the
    # same memory in a run without names. Any kind above is of a storage that lives longer, and says more
    "unsharded": "communication",
    "optimizer_param": "parameter",
}
"""Kinds of a record's names → category, the one that decides first. ``optimizer_param`` is last: it
says who else holds a parameter, and is an owner only where nothing better is known."""


@dataclass(frozen=True)
class Live:
    """The allocations live after one event, ordered by address."""

    index: Int64  # [L] into the allocation table
    address: Int64  # [L] ascending
    stop: Int64  # [L] one past the last byte

    @classmethod
    def after(cls, allocations: Allocations, event: int) -> Live:
        """What is allocated just after an event; −1 is the start."""
        live = np.flatnonzero(allocations.allocated_after(event))
        order = live[np.argsort(allocations.address[live], kind="stable")]
        address = allocations.address[order]
        return cls(order, address, address + allocations.block_bytes[order])

    def holding(self, addresses: Int64) -> Int64:
        """For each address the allocation it lies in, −1 where it lies in none."""
        if len(self.index) == 0:
            return np.full(len(addresses), -1, np.int64)
        place = np.searchsorted(self.address, addresses, side="right") - 1
        inside = (place >= 0) & (addresses < self.stop[np.maximum(place, 0)])
        return np.where(inside, self.index[np.maximum(place, 0)], -1)


def named_boundaries(facts: Facts) -> list[Boundary]:
    """The record's boundaries that name anything."""
    recorded = facts.record.boundaries if facts.record is not None else ()
    return [boundary for boundary in recorded if boundary.names]


def known_boundaries(facts: Facts) -> list[Boundary]:
    """The record's boundaries whose moment the replay knows.

    What lay at an address before an overwritten ring's first event may be gone, and something else there.
    """
    boundaries = named_boundaries(facts)
    if not facts.truncated or len(facts.replay) == 0:
        return boundaries
    first_us = int(facts.replay.time_us[0])
    return [boundary for boundary in boundaries if boundary.time_us >= first_us]


def lying_in(facts: Facts, boundary: Boundary) -> list[tuple[NameRecord, int]]:
    """The names of a boundary, each with the allocation it lies in, -1 where it lies in none."""
    live = Live.after(facts.replay.allocations, event_at(facts.replay, boundary.time_us))
    holding = live.holding(np.array([name.address for name in boundary.names], np.int64))
    return list(zip(boundary.names, holding.tolist(), strict=True))


def find_names(facts: Facts) -> Facts:
    """Pass: owner and category of every allocation that the record names."""
    if facts.record is None or not facts.replay.has_times:
        return facts
    found: dict[int, dict[str, list[NameRecord]]] = {}
    lost = 0
    known = known_boundaries(facts)
    if older := len(named_boundaries(facts)) - len(known):
        facts = facts.noting(
            f"{older} set{'s' * (older > 1)} of names older than the first event that is left: not used"
        )
    for boundary in known:
        for name, allocation in lying_in(facts, boundary):
            lost += allocation < 0
            if allocation >= 0:
                found.setdefault(allocation, {}).setdefault(name.kind, []).append(name)
    named = _name(facts, found)
    return named.noting(f"{lost:,} recorded names lie in no live allocation and are left out") if lost else named


def _name(facts: Facts, found: dict[int, dict[str, list[NameRecord]]]) -> Facts:
    owners: dict[str, int] = {text: i for i, text in enumerate(facts.owners)}
    owner, category, evidence = facts.owner.copy(), facts.category.copy(), facts.evidence.copy()
    shapes = dict(facts.recorded_shapes)
    for allocation, kinds in found.items():
        kind = min(kinds, key=_rank_of_kind)
        text = joint_name(list(dict.fromkeys(name.name for name in kinds[kind])))
        owner[allocation] = owners.setdefault(text, len(owners))
        category[allocation] = CATEGORIES.index(KIND_CATEGORIES.get(kind, "unknown"))
        evidence[allocation] = RECORDED
        shapes[allocation] = _shape(kinds, kinds[kind][0].nbytes)
    return replace(
        facts,
        owner=owner,
        owners=tuple(owners),
        category=category,
        evidence=evidence,
        recorded_shapes=shapes,
    )


def _rank_of_kind(kind: str) -> tuple[int, str]:
    order = list(KIND_CATEGORIES)
    return (order.index(kind) if kind in order else len(order) - 1, kind)


def _shape(kinds: dict[str, list[NameRecord]], nbytes: int) -> tuple[str | None, tuple[int, ...] | None]:
    """dtype and shape from any name of that size: the optimizer may know what the module did not say."""
    same = [name for kind in kinds for name in kinds[kind] if name.nbytes == nbytes]
    dtype = next((name.dtype for name in same if name.dtype is not None), None)
    return dtype, next((name.shape for name in same if name.shape is not None), None)


def joint_name(names: list[str]) -> str:
    """One owner for the names that share an allocation: ``layers.0 (9 tensors)``.

    The same set of names gives the same text in any order, so that it matches in another run.
    """
    names = sorted(names)
    if len(names) == 1:
        return names[0]
    # sorted: what the first and the last share, all share
    parts = zip(names[0].split("."), names[-1].split("."), strict=False)
    stem = ".".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    return f"{stem} ({len(names)} tensors)" if stem else f"{names[0]} and {len(names) - 1} more"
