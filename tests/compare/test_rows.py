"""What rows are grouped, measured, sorted and folded by."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_args

import numpy as np
import pytest

from snapviz.analyze.run import Run
from snapviz.compare.diff import diff
from snapviz.compare.view import view_of
from snapviz.errors import UsageError
from snapviz.schema import UNUSED, By, DiffReport, DiffRow, MeasureName, RankPoint
from tests.analyze.builders import MIB, Trace, frame, run_of
from tests.compare.jobs import job
from tests.compare.recorded import sharded, steps


def end(report: DiffReport, rank: int = 0) -> RankPoint:
    (point,) = (point for point in report.points if point.at == "end")
    return point.ranks[rank]


def told(rows: tuple[DiffRow, ...], *fields: str) -> list[Any]:
    return [tuple(getattr(row, field) for field in fields) for row in rows]


@pytest.fixture(scope="module")
def pair() -> tuple[Run, Run]:
    """Head keeps its parameter past sharding, and makes a larger activation."""
    return sharded(name="main"), sharded(leak=True, activation=130, name="pr")


# ------------------------------------------------------------------ by


def test_by_category_what_dangles_has_a_row_of_its_own(pair: tuple[Run, Run]) -> None:
    found = end(diff(*pair, "end", by="category"))
    assert told(found.rows, "category", "dangling", "delta_bytes", "found_in") == [
        ("activation", False, 30 * MIB, "both"),
        ("parameter", True, 20 * MIB, "head"),
    ]
    assert (found.unchanged.rows, found.unchanged.total_bytes) == (2, 80 * MIB)


def test_by_owner_the_unnamed_fall_together_by_category(pair: tuple[Run, Run]) -> None:
    rows = end(diff(*pair, "end", by="owner", mode="absolute")).rows
    assert told(rows, "owner", "category", "dangling", "head_bytes") == [
        ("", "activation", False, 130 * MIB),
        ("", "optimizer state", False, 60 * MIB),
        ("norm.bias", "parameter", True, 20 * MIB),
        ("norm.bias", "shard", False, 20 * MIB),
    ]


def test_by_phase_a_row_says_how_much_of_it_dangles(pair: tuple[Run, Run]) -> None:
    rows = end(diff(*pair, "end", by="phase", mode="absolute")).rows
    assert told(rows, "birth_phase", "base_bytes", "head_bytes", "dangling", "head_dangling_bytes") == [
        ("train/step0", 160 * MIB, 190 * MIB, False, 0),
        ("materialize", 0, 20 * MIB, True, 20 * MIB),
        ("shard", 20 * MIB, 20 * MIB, False, 0),
    ]
    assert rows[0].category == ""  # activations and optimizer state


def test_by_rank_there_is_one_row_a_rank(pair: tuple[Run, Run]) -> None:
    base, head = (run_of(*(job(leak=n) for n in leaks), name=name) for name, leaks in (("a", (0, 0)), ("b", (0, 2))))
    (point,) = diff(base, head, "end", by="rank").points
    assert [told(rank.rows, "base_bytes", "head_bytes", "stack") for rank in point.ranks] == [
        [],
        [(66 * MIB, 194 * MIB, ())],
    ]
    assert point.ranks[0].unchanged.rows == 1
    (row,) = end(diff(*pair, "end", by="rank")).rows
    assert (row.dangling, row.base_dangling_bytes, row.head_dangling_bytes) == (False, 0, 20 * MIB)


def test_by_stack_names_do_not_count() -> None:
    base, head = sharded(name="main"), sharded(made_by=frame("build"), name="pr")
    assert end(diff(base, head, "end")).rows == ()
    # the shard is made in the same way on both sides, and so is a parameter that is called otherwise
    renamed = diff(sharded(leak=True), sharded(leak=True, prefix="other."), "end", by="stack")
    assert end(renamed).rows == ()
    assert len(end(diff(sharded(leak=True), sharded(leak=True, prefix="other."), "end")).rows) == 4


def test_by_module_the_others_fall_together_by_category() -> None:
    def run(name: str, mib: int) -> Run:
        trace = Trace()
        trace.alloc(mib, frame("f"))
        trace.alloc(20, frame("g"))
        run = run_of(trace, name=name)
        facts = run.ranks[0].facts()
        module = np.array([1, 0], np.int32)
        changed = dataclasses.replace(facts, module=module, modules=("", "_orig_mod.layers.0"))
        run.ranks[0].facts = lambda *_: changed  # type: ignore[method-assign]
        return run

    found = end(diff(run("main", 20), run("pr", 44), "end", by="module"))
    assert told(found.rows, "module", "delta_bytes") == [("layers.0", 24 * MIB)]
    assert found.unchanged.rows == 1
    # where one side knows no modules, none is told
    trace = Trace()
    trace.alloc(44, frame("f"))
    (row,) = end(diff(run("main", 20), run_of(trace), "end", by="module")).rows
    assert (row.module, row.category, row.delta_bytes) == ("", "unknown", 4 * MIB)


def test_no_grouping_hides_what_dangles(pair: tuple[Run, Run]) -> None:
    for by in (None, *get_args(By)):
        for threshold in (None, "100%", "1 TiB"):
            rows = end(diff(*pair, "end", by=by, threshold=threshold)).rows
            assert sum(row.head_dangling_bytes for row in rows) == 20 * MIB, (by, threshold)


@pytest.mark.parametrize("by", [None, *get_args(By)])
def test_the_verdict_is_the_same_however_rows_are_grouped_and_folded(pair: tuple[Run, Run], by: By | None) -> None:
    seen = diff(*pair, by=by, mode="absolute", threshold="50%")
    assert seen.verdict == diff(*pair).verdict
    assert (seen.options.by, seen.options.mode, seen.options.threshold) == (by, "absolute", "50%")


# ------------------------------------------------------------------ mode


def sizes(**mib: int) -> Run:
    trace = Trace()
    for name, size in mib.items():
        trace.alloc(size, frame(name))
    return run_of(trace)


def names(report: DiffReport) -> list[str]:
    return [row.stack[0].partition(" ")[0] for row in end(report).rows]


def test_modes_list_and_sort() -> None:
    base, head = sizes(same=80, grown=100, doubled=20, gone=22), sizes(same=80, grown=150, doubled=40, new=30)
    assert names(diff(base, head, "end")) == ["grown", "new", "gone", "doubled"]
    # what is new or gone has no factor: ∞ and 0 stand first
    assert names(diff(base, head, "end", mode="ratio")) == ["new", "gone", "doubled", "grown"]
    absolute = diff(base, head, "end", mode="absolute")
    assert names(absolute) == ["grown", "same", "doubled", "new", "gone"]
    assert (end(absolute).unchanged.rows, end(absolute).unchanged.total_bytes) == (0, 0)
    assert {row.stack[0].partition(" ")[0]: row.found_in for row in end(absolute).rows} == {
        "grown": "both",
        "same": "both",
        "doubled": "both",
        "new": "head",
        "gone": "base",
    }


# ------------------------------------------------------------------ threshold


def test_a_threshold_folds_both_directions_into_one_sum() -> None:
    base, head = sizes(a=100, b=20, c=60, d=22), sizes(a=200, b=28, c=50, d=22)
    found = end(diff(base, head, "end", threshold="20 MiB"))
    assert names(diff(base, head, "end", threshold="20 MiB")) == ["a"]
    assert found.folded is not None
    assert found.folded.model_dump() == {
        "rows": 2,
        "limit_bytes": 20 * MIB,
        "base_bytes": 80 * MIB,
        "base_count": 2,
        "head_bytes": 78 * MIB,
        "head_count": 2,
        "delta_bytes": -2 * MIB,
        "more_bytes": 8 * MIB,
        "less_bytes": -10 * MIB,
        "base_requested_bytes": 80 * MIB,
        "head_requested_bytes": 78 * MIB,
    }
    assert diff(base, head, "end").points[0].ranks[0].folded is None


def test_a_share_is_of_all_that_changed_and_rounds_up() -> None:
    base, head = sizes(a=100, b=20), sizes(a=20, b=100)
    # nothing changed in sum: of +80 and -80 MiB each is a half
    assert names(diff(base, head, "end", threshold="50%")) == ["a", "b"]
    assert names(diff(base, head, "end", threshold="50.1%")) == []
    # of the larger total, 120 MiB
    assert len(end(diff(base, head, "end", threshold="84%", mode="absolute")).rows) == 0
    assert len(end(diff(base, head, "end", threshold="83%", mode="absolute")).rows) == 2
    assert view_of(threshold="33.3%").threshold.of(10) == 4  # type: ignore[union-attr]
    assert view_of(threshold="50%").threshold.of(10) == 5  # type: ignore[union-attr]
    assert end(diff(base, head, "end", threshold="0%")).folded is None


def test_a_share_by_rank_is_of_all_ranks() -> None:
    base, head = run_of(*(job() for _ in range(3))), run_of(job(leak=4), job(leak=1), job(leak=2))
    (point,) = diff(base, head, "end", by="rank", threshold="30%").points
    assert [len(rank.rows) for rank in point.ranks] == [1, 0, 0]
    assert [rank.folded.delta_bytes for rank in point.ranks[1:] if rank.folded] == [64 * MIB, 128 * MIB]


# ------------------------------------------------------------------ measure


def ask(trace: Trace, mib: int, name: str) -> int:
    """A block of which 1 MiB was not asked for: too little to be split off."""
    address = trace.alloc(mib, frame(name))
    trace.events[-1]["size"] = (mib - 1) * MIB
    segment = trace.segments[address]
    segment["requested_size"] = segment["blocks"][0]["requested_size"] = (mib - 1) * MIB
    return address


def rounded(name: str, blocks: int) -> Run:
    """Blocks of 30 MiB for 29; a cached segment; and a block that is freed, and still in use by another stream."""
    trace = Trace()
    for _ in range(blocks):
        ask(trace, 30, "f")
    trace.free(trace.alloc(40, frame("cached")))
    last = trace.alloc(50, frame("pending"))
    trace.free(last)
    trace.events.pop()
    segment = trace.segments[last]
    segment |= {"active_size": 50 * MIB, "requested_size": 50 * MIB}
    segment["blocks"] = [segment["blocks"][0] | {"state": "active_pending_free", "requested_size": 50 * MIB}]
    return run_of(trace, name=name)


@pytest.mark.parametrize(
    ("measure", "base", "head"),
    [("requested", 79, 108), ("allocated", 30, 60), ("active", 80, 110), ("reserved", 120, 150)],
)
def test_every_measure_has_rows_that_sum_to_its_own_total(measure: MeasureName, base: int, head: int) -> None:
    report = diff(rounded("main", 1), rounded("pr", 2), "end", measure=measure)
    found = end(report)
    assert (found.base_total_bytes, found.head_total_bytes) == (base * MIB, head * MIB)
    (row,) = found.rows
    assert (row.base_requested_bytes, row.head_requested_bytes) == (29 * MIB, 58 * MIB)
    assert row.delta_bytes == (head - base) * MIB
    assert found.unchanged.total_bytes + row.base_bytes == base * MIB
    suffix = "" if measure == "allocated" else f" in {measure} bytes"
    assert f"pr ends {(head - base)}.00 MiB higher{suffix}" in report.verdict
    assert report.options.measure == measure


def test_what_is_reserved_and_in_no_block_is_a_row() -> None:
    whole, cached = Trace(), Trace()
    for trace in (whole, cached):
        trace.alloc(20, frame("f"))
    cached.free(cached.alloc(60, frame("g")))
    report = diff(run_of(whole, name="main"), run_of(cached, name="pr"), ["end", "peak"], measure="reserved")
    (row,) = end(report).rows
    assert (row.category, row.base_bytes, row.head_bytes, row.evidence) == (UNUSED, 0, 60 * MIB, "recorded")
    assert report.verdict == (
        "pr ends and peaks 60.00 MiB higher in reserved bytes: 60.00 MiB more reserved memory in no block."
    )


def test_a_peak_is_that_of_the_measure() -> None:
    """Three blocks of 20 MiB for 57 are the highest of what is allocated, one of 58 of what is requested."""

    def run(name: str) -> Run:
        trace = Trace()
        for address in [ask(trace, 20, "small") for _ in range(3)]:
            trace.free(address)
            trace.events[-2]["size"] = trace.events[-1]["size"] = 19 * MIB
        trace.alloc(58, frame("large"))
        return run_of(trace, name=name)

    for measure, held in (("allocated", 60), ("requested", 58)):
        (point,) = diff(run("a"), run("b"), "peak", measure=measure).points
        assert point.ranks[0].head_total_bytes == held * MIB


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"by": "colour"}, "--by colour: use stack, phase, category, owner, module or rank"),
        ({"by": ""}, "--by : use stack,"),
        ({"mode": "percent"}, "--mode percent: use absolute, delta or ratio"),
        ({"measure": "used"}, "--measure used: use requested, allocated, active or reserved"),
        ({"threshold": "-1%"}, "--threshold -1%: a share is a number from 0% to 100%, such as 1% or 0.5%"),
        ({"threshold": "101%"}, "a share is a number from 0% to 100%"),
        ({"threshold": "%"}, "a share is a number from 0% to 100%"),
        ({"threshold": "10 MB"}, "--threshold '10 MB' can be read in two ways"),
        ({"threshold": "much"}, "--threshold 'much' is not a number of bytes"),
        ({"mask": "("}, "--mask '(' is no regular expression: missing ), unterminated subpattern at position 0"),
        ({"mask": ["ok", "x*"]}, "--mask 'x*' matches everything, for it matches an empty text"),
        ({"mask": [7]}, "--mask takes a regular expression as text, not a int"),
    ],
)
def test_wrong_values_say_what_is_allowed(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        diff(run_of(job()), run_of(job()), **wrong)


def test_a_counter_stands_only_for_its_own_measure() -> None:
    """The record has torch's counters of what is allocated and reserved, and none of what is requested."""
    base, head = steps((100, 60), name="main"), steps((100, 100), cut=1, counted=True, name="ring")
    at = "phase:train/step1"
    assert diff(base, head, at).verdict == "ring is 40.00 MiB higher at the peak of train/step1."
    reserved = diff(base, head, at, measure="reserved").points[0].ranks[0]
    assert reserved.head_moment is not None
    assert reserved.head_moment.counted_bytes == 140 * MIB
    requested = diff(base, head, at, measure="requested")
    (rank,) = requested.points[0].ranks
    assert rank.head_moment is not None
    assert (rank.head_moment.counted_bytes, rank.head_moment.trust.counted) == (None, False)
    assert "cannot be compared at the peak of train/step1" in requested.verdict
