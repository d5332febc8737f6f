"""What may dangle in a bare file, with the evidence, and never called certain.

Legend: A allocations, C candidates.

Where no record tells what dangles (``Facts.dangling_known``), a suspect looks like a parameter (its
creation stack), is older than the first sharding or step, is live at the end, and is a whole number N
times as large as something that was made later and is live too: its shard, perhaps. That N takes a
stack that shards, or two sizes that agree: one size fits another by chance, as in a model whose layers
differ by a whole factor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.categories import rule_of_stack
from snapviz.analyze.facts import CATEGORIES, RECORDED, Facts, Suspicion
from snapviz.analyze.names import known_boundaries, lying_in
from snapviz.analyze.rules import index_of

__all__ = ["SMALLEST_BYTES", "find_suspects"]

Int64 = npt.NDArray[np.int64]

SMALLEST_BYTES = 4096
"""Requested bytes. Small sizes fit each other by chance, and nobody looks for them."""

_WORLD_SIZES = tuple(sorted({2**k for k in range(1, 13)} | {3, 6, 12, 24, 48, 96}))
"""Shards a parameter is cut into, where nothing says how many: powers of two, and nodes of 6 or 12."""

_MAY_BE_SHARDS = ("shard", "parameter", "buffer", "unknown")


def find_suspects(facts: Facts) -> Facts:
    """Pass: suspects of a rank where dangling cannot be told, the largest first."""
    if facts.dangling_known:
        return facts
    before, why_before = _first_use(facts)
    table = facts.replay.allocations
    at_end = table.allocated_after(len(facts.replay.time_us) - 1)
    looks = _look_like_parameters(facts) & (table.requested_bytes >= SMALLEST_BYTES)
    candidates = np.flatnonzero(at_end & looks & (table.alloc_event < before))
    # what a stack already explains as something else is no shard, however well its size fits; and what
    # has none (a thread of backward's) may be anything
    shards = np.isin(facts.category, [CATEGORIES.index(name) for name in _MAY_BE_SHARDS])
    shards &= _has_stack(facts) | (facts.evidence == RECORDED)
    later = np.flatnonzero(at_end & shards & (table.alloc_event >= before))
    if len(candidates) == 0 or len(later) == 0:
        return facts
    ways, fits = _best_cut(facts, table.requested_bytes[candidates], later)
    if ways == 0:
        return facts
    found = _group(facts, candidates[fits], later, ways, why_before)
    return replace(facts, suspects=tuple(sorted(found, key=lambda s: (-s.block_bytes, s.allocations))))


def _is(facts: Facts, category: str) -> npt.NDArray[np.bool_]:
    """[A] what is of a category, or is by its stack: a record may call a shard its module's parameter."""
    code = CATEGORIES.index(category)
    found: npt.NDArray[np.bool_] = (facts.category == code) | (facts.stack_category == code)
    return found


def _has_stack(facts: Facts) -> npt.NDArray[np.bool_]:
    """[A] whether anything is known of where it was made."""
    # ABSENT is -1: the entry appended for it
    filled = np.append(np.diff(facts.columns.stacks.offsets) > 0, False)
    has: npt.NDArray[np.bool_] = filled[facts.replay.allocations.stack]
    return has


def _look_like_parameters(facts: Facts) -> npt.NDArray[np.bool_]:
    """[A] parameters by their category, and what is unknown and was made in some constructor.

    Those that a record calls parameters are in use; what it only finds in an optimizer may be stale.
    """
    constructor = rule_of_stack(facts) == index_of(facts.rules, "constructor")
    unknown = (facts.category == CATEGORIES.index("unknown")) & constructor
    looks: npt.NDArray[np.bool_] = (facts.category == CATEGORIES.index("parameter")) | unknown
    if facts.replay.has_times:
        for boundary in known_boundaries(facts):
            looks[[a for name, a in lying_in(facts, boundary) if name.kind == "parameter" and a >= 0]] = False
    return looks


def _first_use(facts: Facts) -> tuple[int, str]:
    """The event by which the original parameters are all made, and in words why that one."""
    table = facts.replay.allocations
    sharding = _is(facts, "shard") | _is(facts, "communication")
    first = int(table.alloc_event[sharding].min(initial=len(facts.replay.time_us)))
    for index, name in enumerate(facts.phases.names):
        # a step that was inferred begins with the recording and says nothing
        if name.startswith("train/step") and facts.phases.source == "annotations":
            if int(facts.phases.first[index]) < first:
                return int(facts.phases.first[index]), f"made before {name}"
            break
    return first, "made before the first shard or collective"


def _best_cut(facts: Facts, sizes: Int64, later: Int64) -> tuple[int, npt.NDArray[np.bool_]]:
    """The N that explains the most bytes, and which of the C candidates have a fitting shard among ``later``."""
    requested = facts.replay.allocations.requested_bytes
    by_rule = np.unique(requested[later[_is(facts, "shard")[later]]])
    best, fits, most = 0, np.zeros(len(sizes), bool), 0
    for ways in (facts.world_size,) if facts.world_size else _WORLD_SIZES:
        if ways < 2:
            continue
        # every suspect needs a shard of its own: one small tensor must not explain a hundred large ones
        enough = _count_of(sizes // ways, requested[later]) >= _count_of(sizes, sizes)
        fitting = (sizes % ways == 0) & enough
        agreeing = np.unique(sizes[fitting])
        if len(agreeing) < 2 and not np.isin(agreeing // ways, by_rule).any():
            continue
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
    decided = rule_of_stack(facts)
    counts = Counter(table.requested_bytes[later].tolist())
    stack = facts.stack
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in suspects.tolist():
        groups[int(stack[index]), int(table.requested_bytes[index])].append(index)
    found = []
    for (_, size), members in groups.items():
        rule = facts.rules[int(decided[members[0]])].why
        evidence = (
            why_before,
            "live at the end",
            f"its stack: {rule}",
            f"{counts[size // ways]:,} live later of {size // ways:,} bytes, 1/{ways} of it",
        )
        blocks = int(table.block_bytes[members].sum())
        found.append(Suspicion(tuple(members), size * len(members), blocks, evidence))
    return found
