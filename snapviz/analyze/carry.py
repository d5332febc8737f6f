"""Names carried from the steps in which they were read to those in which they were not.

Legend: A allocations.

A recorder reads names in the first steps. In a later step the same line makes the same blocks in the same order: the
n-th allocation of one stack, size and stream in a step is what the n-th was in a step with names, provided both steps
make equally many of them. That is inferred, and says so; where the counts differ nothing is carried.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import INFERRED, RECORDED, Facts
from snapviz.analyze.groups import group_keys

__all__ = ["find_carried", "find_carried_modules"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_STEP = re.compile(r"(?P<step>(?:.*/)?(?:step|iteration|iter|batch)[-_ ]?(?P<number>\d{1,18}))(?:/.*)?", re.DOTALL)


def find_carried(facts: Facts) -> Facts:
    """Pass: owner and category of what a later step makes as a step with names made it."""
    take, donor = _alike(facts, facts.evidence == RECORDED, facts.evidence == INFERRED)
    owner, category = facts.owner.copy(), facts.category.copy()
    owner[take], category[take] = facts.owner[donor], facts.category[donor]
    # no rule says so: what the stack's one sees would be told as the reason for another category
    rule = facts.rule.copy()
    rule[take] = len(facts.rules)
    return replace(facts, owner=owner, category=category, rule=rule)


def find_carried_modules(facts: Facts) -> Facts:
    """Pass: the module of what a later step makes, as it is known of a step in which the recorder noted modules."""
    take, donor = _alike(facts, facts.module > 0, facts.module == 0)
    module = facts.module.copy()
    module[take] = facts.module[donor]
    return replace(facts, module=module)


def _alike(facts: Facts, known: Bool, wanted: Bool) -> tuple[Int64, Int64]:
    """Allocations of those that are ``wanted``, and for each the ``known`` one of another step that it is like."""
    step, names = _steps(facts)
    table, stack = facts.replay.allocations, facts.stack
    # ABSENT is -1, and the last entry stands for it: only stacks of both kinds matter
    both = np.zeros((2, len(facts.columns.stacks) + 1), bool)
    both[0, stack[known & (step >= 0)]] = True
    both[1, stack[wanted & (step >= 0)]] = True
    shared: Bool = both[0] & both[1]
    inside = np.flatnonzero((step >= 0) & shared[stack])
    if len(names) < 2 or len(inside) == 0:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing
    key, _ = group_keys([stack[inside] + 1, table.requested_bytes[inside], _from_zero(table.stream[inside])])
    place, count = _ordinals(step[inside], key)
    donor = _donors(step[inside], [key, place, count], known[inside])
    take = (donor >= 0) & wanted[inside]
    return inside[take], inside[donor[take]]


def _steps(facts: Facts) -> tuple[Int64, list[str]]:
    """[A] number of the step each allocation was made in, -1 in none, in order of time; and their names."""
    names: dict[str, int] = {}
    of_birth = np.full(len(facts.births), -1, np.int64)
    for index, birth in enumerate(facts.births):
        if match := _STEP.fullmatch(birth):
            of_birth[index] = names.setdefault(match["step"], len(names))
    return of_birth[facts.birth], list(names)


def _from_zero(values: Int64) -> Int64:
    """Small numbers for values of any size."""
    found: Int64 = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return found


def _ordinals(step: Int64, key: Int64) -> tuple[Int64, Int64]:
    """[n] the place of each among those of its step and key, and [n] how many those are."""
    group, groups = group_keys([step, key])
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=groups)
    first = np.cumsum(sizes) - sizes
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - np.repeat(first, sizes)
    return place, sizes[group]


def _donors(step: Int64, slots: list[Int64], known: Bool) -> Int64:
    """[n] for what is not known, the position of the known one it is like, -1 where there is none.

    Of the steps that know it the last before it, else the first after it.
    """
    slot, _ = group_keys(slots)
    order = np.lexsort((step, slot))
    before = _last_named(order, slot, known)
    after = _last_named(order[::-1], slot, known)
    return np.where(known, -1, np.where(before >= 0, before, after))


def _last_named(order: Int64, slot: Int64, named: npt.NDArray[np.bool_]) -> Int64:
    """[n] position of the nearest named one before each in an order, of the same slot; -1 without one."""
    rank = np.arange(len(order))
    last = np.maximum.accumulate(np.where(named[order], rank, -1))
    found = np.where(last >= 0, order[np.maximum(last, 0)], -1)
    same = (found >= 0) & (slot[np.maximum(found, 0)] == slot[order])
    out = np.full(len(order), -1, np.int64)
    out[order] = np.where(same, found, -1)
    return out
