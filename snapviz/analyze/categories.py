"""Categories from stacks, where no record names an allocation.

Legend: A allocations, S stacks, M rules.

``rules.toml`` is the whole of what is believed of frames, and ``refine.py`` of what needs more than a frame. Every
result is "inferred".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, INFERRED, Facts
from snapviz.analyze.refine import by_history, refine
from snapviz.analyze.rules import decided_by_stack

__all__ = ["find_categories", "rule_of_stack"]

Int64 = npt.NDArray[np.int64]


def rule_of_stack(facts: Facts) -> Int64:
    """[A] index of the rule that the stack of each allocation decides by itself; M where none does."""
    # ABSENT is -1: the entry behind them all
    by_stack = np.append(decided_by_stack(facts.rules, facts.columns, facts.frames), len(facts.rules))
    found: Int64 = by_stack[facts.replay.allocations.stack]
    return found


def find_categories(facts: Facts) -> Facts:
    """Pass: a category, and an owner where the rule has one, for every allocation that the record does not name."""
    stack_rule = rule_of_stack(facts)
    rule = refine(facts, stack_rule)
    codes = np.array([CATEGORIES.index(one.category) for one in facts.rules] + [0], np.int8)
    guess = codes[rule]
    inferred = facts.evidence == INFERRED
    owners = {text: i for i, text in enumerate(facts.owners)}
    named = np.array([owners.setdefault(one.owner, len(owners)) for one in facts.rules] + [0], np.int32)[rule]
    return replace(
        facts,
        category=np.where(inferred, guess, facts.category).astype(np.int8),
        stack_category=np.where(by_history(facts, rule), codes[stack_rule], guess).astype(np.int8),
        rule=rule.astype(np.int32),
        owner=np.where(inferred, named, facts.owner).astype(np.int32),
        owners=tuple(owners),
    )
