"""What is live at a moment: every table sums to it, and what is taken out is gone from every phase's peak."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.peak import GROUPINGS, Ask, peak
from snapviz.analyze.select import Remaining
from snapviz.errors import UsageError
from tests.analyze.builders import MIB, Trace, frame, run_of
from tests.analyze.builders import record as record_of
from tests.test_sample_runs import RUNS, sample


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("name", ["fsdp2_before_notfixed", "thunder_478/pr", "leak", "uneven_ranks"])
def test_every_grouping_sums_to_what_is_allocated(name: str, by: str) -> None:
    for at in ("peak", "end", "phase:train"):
        for rank in peak(sample(name), Ask(at=at, by=by)).ranks:
            held = rank.measures
            assert sum(one.live_bytes for one in rank.groups) == held.allocated_bytes
            # the measure also counts what is still to be freed
            assert 0 < sum(one.requested_bytes for one in rank.groups) <= held.requested_bytes
            assert sum(one.live_bytes for one in rank.categories) == held.allocated_bytes
            assert sum(row.live_bytes for row in rank.modules if row.depth < 2) == held.allocated_bytes
            assert sum(row.own_bytes for row in rank.modules) == held.allocated_bytes
            known = rank.known
            explained = known.unknown_bytes + known.recorded_bytes + known.annotated_bytes + known.inferred_bytes
            assert explained == held.allocated_bytes


@pytest.mark.parametrize("name", RUNS)
def test_a_parent_holds_its_children(name: str) -> None:
    for fold in (True, False):
        for rank in peak(sample(name), Ask(fold_layers=fold)).ranks:
            paths = {row.path: row for row in rank.modules}
            for row in rank.modules:
                if row.depth > 1 and fold is False:
                    assert paths[row.path.rpartition(".")[0]].live_bytes >= row.live_bytes
                assert sum(row.categories.values()) == row.live_bytes
                assert row.modules == 1 or row.least_bytes * row.modules <= row.live_bytes


def test_layers_fold_under_one_pattern() -> None:
    (rank,) = peak(sample("fsdp2_after"), Ask(at="phase:train/step")).ranks
    rows = {row.path: row for row in rank.modules}
    assert rows["model.layers.*"].modules == 8
    assert rows["model.layers.*.mlp.gate_proj"].modules == 8
    assert not any(path.startswith("model.layers.0") for path in rows)
    (rank,) = peak(sample("fsdp2_after"), Ask(at="phase:train/step", fold_layers=False, depth=3)).ranks
    paths = {row.path for row in rank.modules}
    assert {f"model.layers.{i}" for i in range(8)} <= paths
    assert max(row.depth for row in rank.modules) == 3


def test_without_what_dangles_every_phase_after_sharding_is_that_much_lower() -> None:
    (rank,) = peak(sample("fsdp2_before_notfixed"), Ask(without=("dangling",))).ranks
    saved = {one.phase: one.saved_bytes for one in rank.without}
    assert rank.removed_bytes == 343_967_744
    assert saved["train/step"] == 343_967_744
    assert saved["materialize"] == 0
    assert all(one.peak_bytes - one.without_bytes == one.saved_bytes >= 0 for one in rank.without)


def test_what_is_due_at_the_end_of_a_phase_is_gone_where_the_next_begins() -> None:
    trace = Trace()
    start = trace.tick()
    whole = trace.alloc(40, frame("__init__"))
    made = trace.tick()
    trace.alloc(20, frame("shard"))
    sharded = trace.tick()
    trace.free(trace.alloc(30, frame("forward")))
    phases = [("materialize", start, made), ("shard", made + 1, sharded), ("train/step0", sharded + 1, trace.tick())]
    names = [("parameter", "w", whole, 40 * MIB)]
    run = run_of(trace, records=[record_of(phases, [(made, names)])])
    (rank,) = peak(run, Ask(without=("dangling",))).ranks
    found = {one.phase: (one.peak_bytes // MIB, one.without_bytes // MIB) for one in rank.without}
    assert found == {
        "": (90, 60),
        "materialize": (40, 40),
        "shard": (60, 60),
        "train/step0": (90, 50),
        "train": (90, 50),
    }


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=25),
    st.sets(st.integers(0, 3), min_size=1, max_size=3),
)
def test_the_peak_without_some_is_that_of_a_program_that_never_made_them(
    program: list[tuple[int, bool]], left_out: set[int]
) -> None:
    def play(skipped: set[int]) -> Trace:
        trace = Trace()
        trace.alloc(20, frame("always"))
        live: list[list[int]] = []
        for kind, frees in program:
            # the oldest that lives goes, whichever was left out
            if frees and live:
                for address in live.pop(0):
                    trace.free(address)
            live.append([] if kind in skipped else [trace.alloc(20 + 2 * kind, frame("abcd"[kind]))])
        return trace

    pattern = f"stack:^[{''.join('abcd'[kind] for kind in sorted(left_out))}] "
    (rank,) = peak(run_of(play(set())), Ask(without=(pattern,))).ranks
    (less,) = peak(run_of(play(left_out))).ranks
    assert rank.without[0].without_bytes == less.measures.allocated_bytes


def test_remaining_counts_what_is_held_before_a_window() -> None:
    facts = sample("single").ranks[0].facts()
    nothing = np.full(len(facts.replay.allocations), len(facts.replay), np.int64)
    remaining = Remaining(facts, nothing)
    for first in range(0, len(facts.replay), 97):
        for stop in (first, min(first + 50, len(facts.replay))):
            assert remaining.peak([(first, stop)]) == facts.replay.peak("allocated", first, stop)[0]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (Ask(by="size"), "--by size: use one of line"),
        (Ask(at="phase:none"), "no such phase (there is: "),
        (Ask(at="middle"), "use peak, end"),
        (Ask(without=("everything",)), "picks nothing"),
    ],
)
def test_what_names_nothing_says_what_would(ask: Ask, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        peak(sample("single"), ask)
    assert says in str(caught.value)


def test_peaks_of_many_windows_are_those_of_each() -> None:
    facts = sample("fsdp2_before_notfixed").ranks[0].facts()
    remaining = Remaining(facts, facts.dangling_since)
    first, stop = facts.phases.first, facts.phases.stop
    one_by_one = [remaining.peak([(a, b)]) for a, b in zip(first.tolist(), stop.tolist(), strict=True)]
    assert remaining.peaks(first, stop).tolist() == one_by_one


def test_a_recorded_row_tells_no_rules_reason() -> None:
    (rank,) = peak(sample("fsdp2_before_notfixed"), Ask()).ranks
    assert {one.why for one in rank.groups if one.evidence == "recorded"} == {""}
    assert all(one.why for one in rank.groups if one.evidence == "inferred" and one.category != "unknown")


def test_what_is_due_at_a_moment_counts_as_taken_out_then() -> None:
    (rank,) = peak(sample("fsdp2_before_notfixed"), Ask(at="phase:shard:end", without=("dangling",))).ranks
    assert rank.removed_bytes == 343_967_744
    (before,) = peak(sample("fsdp2_before_notfixed"), Ask(at="phase:materialize:end", without=("dangling",))).ranks
    assert before.removed_bytes == 0
