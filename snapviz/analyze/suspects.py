"""What may dangle in a bare file, with the evidence, and never called certain.

Legend: A allocations, C candidates.

Without a record nothing says which allocation was a parameter. A suspect is one that looks like one
(its creation stack), is older than the first sharding or step, is live at the end, and is a whole
number N times as large as something that was made later and is live too: its shard, perhaps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.categories import RULES, stack_rules
from snapviz.analyze.facts import CATEGORIES, Facts, Suspicion

__all__ = ["SMALLEST_BYTES", "find_suspects"]

Int64 = npt.NDArray[np.int64]

SMALLEST_BYTES = 4096
"""Requested bytes. Small sizes fit each other by chance, and nobody looks for them."""

_WORLD_SIZES = tuple(sorted({2**k for k in range(1, 13)} | {3, 6, 12, 24, 48, 96}))
"""Shards a parameter is cut into, where nothing says how many: powers of two, and nodes of 6 or 12."""

_MAY_BE_SHARDS = ("shard", "parameter", "buffer", "unknown")


def find_suspects(facts: Facts) -> Facts:
    """Pass: suspects of a rank without a record, the largest first."""
    if facts.record is not None:
        return facts
    before, why_before = _first_use(facts)
    table = facts.replay.allocations
    at_end = table.allocated_after(len(facts.replay.time_us) - 1)
    looks = (facts.category == CATEGORIES.index("parameter")) & (table.requested_bytes >= SMALLEST_BYTES)
    candidates = np.flatnonzero(at_end & looks & (table.alloc_event < before))
    # what a stack already explains as something else is no shard, however well its size fits
    shards = np.isin(facts.category, [CATEGORIES.index(name) for name in _MAY_BE_SHARDS])
    later = np.flatnonzero(at_end & shards & (table.alloc_event >= before))
    if len(candidates) == 0 or len(later) == 0:
        return facts
    ways, fits = _best_cut(facts, table.requested_bytes[candidates], table.requested_bytes[later])
    if ways == 0:
        return facts
    found = _group(facts, candidates[fits], later, ways, why_before)
    return replace(facts, suspects=tuple(sorted(found, key=lambda s: (-s.block_bytes, s.allocations))))


def _first_use(facts: Facts) -> tuple[int, str]:
    """The event by which the original parameters are all made, and in words why that one."""
    table = facts.replay.allocations
    sharding = np.isin(facts.category, [CATEGORIES.index("shard"), CATEGORIES.index("communication")])
    first = int(table.alloc_event[sharding].min(initial=len(facts.replay.time_us)))
    for index, name in enumerate(facts.phases.names):
        # a step that was inferred begins with the recording and says nothing
        if name.startswith("train/step") and facts.phases.source == "annotations":
            if int(facts.phases.first[index]) < first:
                return int(facts.phases.first[index]), f"made before {name}"
            break
    return first, "made before the first shard or collective"


def _best_cut(facts: Facts, sizes: Int64, later: Int64) -> tuple[int, npt.NDArray[np.bool_]]:
    """The N that explains the most bytes, and which of the C candidates have a fitting shard."""
    best, fits, most = 0, np.zeros(len(sizes), bool), 0
    for ways in (facts.world_size,) if facts.world_size else _WORLD_SIZES:
        if ways < 2:
            continue
        # every suspect needs a shard of its own: one small tensor must not explain a hundred large ones
        enough = _count_of(sizes // ways, later) >= _count_of(sizes, sizes)
        fitting = (sizes % ways == 0) & enough
        explained = int(sizes[fitting].sum())
        if explained > most:
            best, fits, most = ways, fitting, explained
    return best, fits


def _count_of(wanted: Int64, among: Int64) -> Int64:
    """How often each wanted value occurs."""
    values, counts = np.unique(among, return_counts=True)
    place = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[place] == wanted, counts[place], 0)


def _group(facts: Facts, suspects: Int64, later: Int64, ways: int, why_before: str) -> list[Suspicion]:
    table = facts.replay.allocations
    decided = stack_rules(facts)
    counts = Counter(table.requested_bytes[later].tolist())
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in suspects.tolist():
        groups[int(table.stack[index]), int(table.requested_bytes[index])].append(index)
    found = []
    for (stack, size), members in groups.items():
        rule = RULES[int(decided[stack])].why
        evidence = (
            why_before,
            "live at the end",
            f"its stack: {rule}",
            f"{counts[size // ways]:,} live later of {size // ways:,} bytes, 1/{ways} of it",
        )
        blocks = int(table.block_bytes[members].sum())
        found.append(Suspicion(tuple(members), size * len(members), blocks, evidence))
    return found
