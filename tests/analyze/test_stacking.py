"""Groups that memory over time is stacked by: the same in both runs, and nothing lost in the last one."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.axis import axis_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.stacking import STACKINGS, largest_groups, layer, stack_label
from snapviz.replay.model import START
from tests.analyze.builders import MIB, Trace, frame
from tests.analyze.test_timeline import facts_of
from tests.test_sample_runs import sample

RUNS = [("fsdp2_before_notfixed", "fsdp2_after"), ("thunder_478/main", "thunder_478/pr"), ("leak", "leak")]


def pair(names: tuple[str, str]) -> list[tuple[Facts, int]]:
    found = [sample(name).ranks[0].facts() for name in names]
    return [(facts, facts.replay.peak("allocated", 0, len(facts.replay))[1]) for facts in found]


@pytest.mark.parametrize("names", RUNS, ids=lambda names: names[0])
@pytest.mark.parametrize("by", STACKINGS)
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_groups_and_all_others_are_all_of_it(names: tuple[str, str], by: str, most: int) -> None:
    sides = pair(names)
    groups = largest_groups(sides, by, most)
    assert len(groups.keys) == len(set(groups.keys)) == len(set(groups.labels)) <= most
    for facts, event in sides:
        at_peak = groups.at(facts, event)
        assert at_peak.sum() == facts.replay.after(event).allocated_bytes
        assert most < 1000 or at_peak[-1] == 0
        axis = axis_of(facts, "time")
        window = axis.window(axis.low, axis.high, 37)
        over = groups.over(facts, window.columns)
        assert (over >= 0).all()
        held = [facts.replay.after(event).allocated_bytes for event in window.columns.shown.tolist()]
        assert over.sum(axis=0).tolist() == held
    # the largest first, each by the most that either side has
    order = np.max([groups.at(facts, event) for facts, event in sides], axis=0)[:-1].tolist()
    assert order == sorted(order, reverse=True)


def test_a_stack_is_the_same_in_two_places_on_another_line() -> None:
    sides = []
    for folder, line in (("/home/a", 5), ("/scratch/b", 6)):
        trace = Trace()
        trace.alloc(
            20, frame("empty", "/usr/lib/python3/dist-packages/torch/x.py"), frame("main", f"{folder}/t.py", line)
        )
        trace.alloc(40, frame("other", f"{folder}/t.py"))
        trace.alloc(60)
        facts = facts_of(trace)
        sides.append((facts, len(facts.replay) - 1))
    groups = largest_groups(sides, "stack", 10)
    assert groups.labels == ("(no stack)", "other (t.py)", "empty (x.py) ← main (t.py)")
    for facts, event in sides:
        assert groups.at(facts, event).tolist() == [60 * MIB, 40 * MIB, 20 * MIB, 0]
    assert stack_label(sides[0][0], 1) == "other (t.py)"


def test_layers_are_one_group() -> None:
    groups = largest_groups(pair(("fsdp2_before_notfixed", "fsdp2_after")), "owner", 50)
    assert any("layers.*." in key or ".*." in key for key in groups.keys), groups.keys
    assert not any(".3." in key for key in groups.keys)


@pytest.mark.parametrize("name", ["fsdp2_before_notfixed", "leak"])
def test_a_layer_counts_from_an_event_on(name: str) -> None:
    facts = sample(name).ranks[0].facts()
    table = facts.replay.allocations
    axis = axis_of(facts, "event")
    columns = axis.window(axis.low, axis.high, 29).columns
    since = np.random.default_rng(1).integers(START, len(facts.replay) + 5, len(table))
    found = layer(facts, columns, since)
    for column, event in enumerate(columns.shown.tolist()):
        counts = table.allocated_after(event) & (since <= event) & (since < len(facts.replay))
        assert found[column] == table.block_bytes[counts].sum()
