"""What lies at a place of a timeline, what is known of it, and what a text finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.axis import axis_of
from snapviz.analyze.bands import bands
from snapviz.analyze.picking import find_text, lifetime, pick
from tests.analyze.builders import MIB, Trace, frame
from tests.analyze.test_timeline import facts_of
from tests.test_sample_runs import sample

RUNS = ["fsdp2_before_notfixed", "leak", "thunder_478/pr"]


@given(name=st.sampled_from(RUNS), kind=st.sampled_from(["time", "event"]), data=st.data())
def test_what_is_picked_is_what_is_drawn_there(name: str, kind: str, data: st.DataObject) -> None:
    facts = sample(name).ranks[0].facts()
    axis = axis_of(facts, kind)  # type: ignore[arg-type]
    window = axis.window(axis.low, axis.high, 40)
    picture = bands(facts, window.columns, 90)
    column, row = data.draw(st.integers(0, len(window.columns) - 1)), data.draw(st.integers(0, 89))
    place = data.draw(st.floats(window.edges[column], window.edges[column + 1], exclude_max=True))
    event, allocation = pick(facts, window, place, row * picture.row_bytes + picture.row_bytes // 2)
    assert event == window.columns.shown[column]
    assert picture.allocation[row, column] == (-1 if allocation is None else allocation)


def test_above_and_below_everything_is_nothing() -> None:
    trace = Trace()
    trace.alloc(20)
    facts = facts_of(trace)
    axis = axis_of(facts, "event")
    window = axis.window(axis.low, axis.high, 10)
    heights = [-1, 0, 20 * MIB - 1, 20 * MIB, float("inf"), float("nan")]
    assert [pick(facts, window, 1, height)[1] for height in heights] == [None, 0, 0, None, None, None]
    assert pick(facts, window, -1, 0) == (-1, None)


def test_a_life_from_its_birth_to_its_end() -> None:
    trace = Trace()
    start = trace.now
    kept = trace.alloc(20, frame("make", "/repo/model.py", 7))
    freed = trace.alloc(40)
    trace.free(freed)
    facts = facts_of(trace, ("materialize", start, trace.tick()))
    one, other = lifetime(facts, 0), lifetime(facts, 1)
    assert (one.born_event, one.born_us, one.freed_event, one.freed_us, one.reusable_event) == (
        1,
        1020,
        None,
        None,
        None,
    )
    assert (one.requested_bytes, one.block_bytes, one.address) == (20 * MIB, 20 * MIB, kept)
    assert (one.birth_phase, one.stack, one.dangling) == ("materialize", ("make (/repo/model.py:7)",), None)
    assert (other.born_event, other.freed_event, other.freed_us, other.reusable_event) == (3, 4, 1050, 5)


def test_what_dangles_says_who_holds_it() -> None:
    facts = sample("thunder_478/pr").ranks[0].facts()
    (dangling,) = facts.dangling
    one = lifetime(facts, dangling.allocation)
    assert one.dangling is dangling
    assert one.dangling.holders
    assert (one.name, one.evidence, one.block_bytes, one.freed_event) == ("p1", "recorded", 4 << 20, 12)


@pytest.mark.parametrize("name", RUNS)
def test_every_allocation_has_a_life(name: str) -> None:
    facts = sample(name).ranks[0].facts()
    table = facts.replay.allocations
    for allocation in range(0, len(table), max(1, len(table) // 50)):
        one = lifetime(facts, allocation)
        assert one.block_bytes == table.block_bytes[allocation]
        assert one.freed_event is None or one.freed_event > (one.born_event if one.born_event is not None else -1)


def test_a_text_is_no_pattern_and_has_no_capitals() -> None:
    trace = Trace()
    trace.alloc(20, frame("forward[1]", "/repo/Model.py"))
    trace.alloc(40, frame("backward", "/repo/model.py"))
    trace.alloc(60)
    facts = facts_of(trace)
    found = find_text(facts, "MODEL.PY")
    assert (found.mask.tolist(), found.count, found.block_bytes) == ([True, True, False], 2, 60 * MIB)
    assert find_text(facts, "d[1]").mask.tolist() == [True, False, False]
    assert find_text(facts, ".*").count == 0
    assert find_text(facts, "").count == 0
    assert find_text(facts, ":1)").count == 2


def test_names_modules_phases_and_categories_are_found() -> None:
    facts = sample("thunder_478/pr").ranks[0].facts()
    for texts, index in ((facts.owners, facts.owner), (facts.births, facts.birth)):
        some = int(index[np.flatnonzero(index)[0]])
        assert (find_text(facts, texts[some].upper()).mask >= (index == some)).all()
    assert find_text(facts, "p1").mask[facts.dangling[0].allocation]
