"""How much of the shipped runs is explained, and whether any of it is wrong where names can check it."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.facts import CATEGORIES, RECORDED, Facts
from snapviz.analyze.stretches import Stretches
from tests.test_sample_runs import RUNS, sample

SHARDED = [name for name in RUNS if name.startswith(("fsdp2_", "accelerate_"))]


def at_the_training_peak(facts: Facts) -> np.ndarray:
    """Allocations live at the highest moment of training."""
    stretches = Stretches(facts)
    highest = max(stretches.named("train") or stretches.named("train/step"), key=lambda one: one.peak_allocated)
    event = facts.replay.peak("allocated", highest.first, highest.stop)[1]
    return np.flatnonzero(facts.replay.allocations.allocated_after(event))


@pytest.mark.parametrize("name", SHARDED)
def test_ninety_nine_in_a_hundred_bytes_have_a_category_and_ninety_five_an_owner_or_a_module(name: str) -> None:
    for rank in sample(name).ranks:
        facts = rank.facts()
        live = at_the_training_peak(facts)
        size = facts.replay.allocations.block_bytes[live]
        known = facts.category[live] != CATEGORIES.index("unknown")
        whose = (facts.owner[live] > 0) | (facts.module[live] > 0)
        assert int(size[known].sum()) * 100 >= 99 * int(size.sum())
        assert int(size[whose].sum()) * 100 >= 95 * int(size.sum())


@pytest.mark.parametrize("name", RUNS)
def test_no_rule_contradicts_a_recorded_name(name: str) -> None:
    """What the rules say of allocations that are named, had nobody named them: right, or nothing.

    DDP's buckets are called communication by their stack and gradients by their names, and are both: with
    ``gradient_as_bucket_view`` the gradients lie in them.
    """
    for rank in sample(name).ranks:
        facts = rank.facts()
        codes = np.array([CATEGORIES.index(rule.category) for rule in facts.rules] + [0])
        buckets = np.array([rule.why == "DDP's buckets" for rule in facts.rules] + [False])
        said = codes[facts.rule]
        wrong = (facts.evidence == RECORDED) & (said != 0) & (said != facts.category) & ~buckets[facts.rule]
        assert [facts.owners[i] for i in facts.owner[wrong]] == []
        if facts.record is not None and facts.record.boundaries:
            assert int(((facts.evidence == RECORDED) & (said == facts.category)).sum()) > 0 or "thunder_478" in name
