from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.livestacks import ROOTS, live_stacks
from snapviz.analyze.moments import moment, parse_at
from snapviz.analyze.stretches import Stretches
from tests.analyze.builders import MIB, Trace, frame, run_of, sample


@pytest.mark.parametrize("by", [None, *ROOTS])
@pytest.mark.parametrize("name", ["fsdp2_before_notfixed", "leak", "cuda_graph", "uneven_ranks"])
def test_the_bytes_sum_to_what_is_allocated(name: str, by: str | None) -> None:
    for rank in sample(name).ranks:
        facts = rank.facts()
        for at in ("peak", "end"):
            when = moment(facts, Stretches(facts), parse_at(at))
            assert when is not None
            live = live_stacks(facts, when, by)
            assert live.total_bytes == facts.replay.after(when.event).allocated_bytes
            assert live.count.sum() == facts.replay.allocations.allocated_after(when.event).sum()
            assert (np.diff(live.block_bytes) <= 0).all()
            pairs = list(zip(live.stack.tolist(), live.root.tolist(), strict=True))
            assert len(set(pairs)) == len(pairs)


def test_each_group_holds_what_it_says() -> None:
    facts = sample("fsdp2_after").ranks[0].facts()
    when = moment(facts, Stretches(facts), parse_at("peak"))
    assert when is not None
    table = facts.replay.allocations
    expected: Counter[tuple[int, str]] = Counter()
    for index in np.flatnonzero(table.allocated_after(when.event)).tolist():
        expected[int(table.stack[index]), CATEGORIES[facts.category[index]]] += int(table.block_bytes[index])
    live = live_stacks(facts, when, "category")
    names = [live.roots[root] for root in live.root.tolist()]
    assert dict(zip(zip(live.stack.tolist(), names, strict=True), live.block_bytes.tolist(), strict=True)) == expected


def test_one_stack_under_two_roots_is_two_groups() -> None:
    trace = Trace()
    for mib in (20, 40, 60):
        trace.alloc(mib, frame("f"))
    facts = run_of(trace).ranks[0].facts()
    facts = replace(facts, category=np.array([1, 2, 1], np.int8))
    when = moment(facts, Stretches(facts), parse_at("end"))
    assert when is not None
    live = live_stacks(facts, when, "category")
    assert [live.roots[root] for root in live.root.tolist()] == ["parameter", "shard"]
    assert live.block_bytes.tolist() == [80 * MIB, 40 * MIB]
    assert live.count.tolist() == [2, 1]
    assert live_stacks(facts, when).block_bytes.tolist() == [120 * MIB]


def test_what_has_no_name_says_so() -> None:
    facts = sample("leak").ranks[0].facts()
    when = moment(facts, Stretches(facts), parse_at("end"))
    assert when is not None
    assert "(no owner)" in live_stacks(facts, when, "owner").roots
    assert live_stacks(facts, when).roots == ("",)
