"""The allocations of a row, and its key."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.moments import parse_at
from snapviz.compare.diff import diff
from snapviz.compare.rank import RankDiff
from snapviz.compare.rowkeys import row_keys
from snapviz.compare.view import view_of
from snapviz.schema import DiffReport
from tests.analyze.builders import Trace, frame, run_of, sample
from tests.compare.jobs import job
from tests.compare.recorded import sharded

BY = [None, "stack", "phase", "category", "owner", "module", "rank"]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("measure", ["allocated", "requested", "active", "reserved"])
@pytest.mark.parametrize("mode", ["delta", "absolute"])
def test_the_members_of_a_row_sum_to_it(by: str | None, measure: str, mode: str) -> None:
    base, head = run_of(job(), name="a"), run_of(job(leak=2, scale=2), name="b")
    report = diff(base, head, "end", by=by, measure=measure, mode=mode)
    view = view_of(by, mode, measure)
    compared = RankDiff(0, base.ranks[0].facts(), head.ranks[0].facts(), view)
    (point,) = report.points
    assert point.ranks[0].rows
    for row in point.ranks[0].rows:
        sides = compared.members(parse_at("end"), [row])
        sizes = [
            (
                facts.replay.allocations.requested_bytes
                if measure == "requested"
                else facts.replay.allocations.block_bytes
            )
            for _, facts in compared.sides()
        ]
        found = [int(size[members].sum()) for size, members in zip(sizes, sides, strict=True)]
        if row.category == "unused" or (by in ("rank", "phase", "module") and measure == "reserved"):
            assert found <= [row.base_bytes, row.head_bytes]
        else:
            assert found == [row.base_bytes, row.head_bytes]
            assert [len(some) for some in sides] == [row.base_count, row.head_count]


def test_members_of_all_rows_together_are_each_once() -> None:
    base, head = sharded(name="a"), sharded(leak=True, activation=130, name="b")
    report = diff(base, head, "end", mode="absolute")
    compared = RankDiff(0, base.ranks[0].facts(), head.ranks[0].facts(), view_of(mode="absolute"))
    rows = report.points[0].ranks[0].rows
    both = compared.members(parse_at("end"), rows)
    for (_, facts), members in zip(compared.sides(), both, strict=True):
        live = np.flatnonzero(facts.replay.allocations.allocated_after(len(facts.replay) - 1))
        assert members.tolist() == live.tolist()


def test_rows_of_equal_bytes_have_their_own() -> None:
    traces = [Trace(), Trace()]
    for number in range(4):
        traces[1].alloc(20, frame(f"made_{number}"))
    traces[0].alloc(40, frame("other"))
    base, head = (run_of(trace, name=name) for trace, name in zip(traces, ("a", "b"), strict=True))
    compared = RankDiff(0, base.ranks[0].facts(), head.ranks[0].facts())
    rows = [row for row in diff(base, head, "end").points[0].ranks[0].rows if row.head_count]
    assert len(rows) == 4
    facts = head.ranks[0].facts()
    for row in rows:
        (one,) = compared.members(parse_at("end"), [row])[1].tolist()
        assert facts.stack_lines(int(facts.replay.allocations.stack[one]))[0].startswith(row.stack[0].partition(" ")[0])


def test_a_row_of_another_moment_has_none() -> None:
    base, head = sharded(name="a"), sharded(leak=True, activation=130, name="b")
    rows = diff(base, head, "end").points[0].ranks[0].rows
    compared = RankDiff(0, base.ranks[0].facts(), head.ranks[0].facts())
    assert [len(some) for some in compared.members(parse_at("phase:nowhere"), rows)] == [0, 0]
    changed = rows[0].model_copy(update={"head_bytes": rows[0].head_bytes + 1})
    assert [len(some) for some in compared.members(parse_at("end"), [changed])] == [0, 0]


def test_rows_of_the_report_on_disk_find_their_members() -> None:
    base, head = sample("thunder_478/main"), sample("thunder_478/pr")
    report = DiffReport.model_validate_json(diff(base, head).model_dump_json())
    compared = RankDiff(0, base.ranks[0].facts(), head.ranks[0].facts())
    (row,) = report.points[0].ranks[0].rows
    none, one = compared.members(parse_at("end"), [row])
    assert (len(none), len(one)) == (0, 1)


# ------------------------------------------------------------------ keys


def test_a_key_is_the_same_at_every_point_and_on_every_rank() -> None:
    report = diff(sample("thunder_478/main"), sample("thunder_478/pr"), ["end", "peak", "phase:train:peak"])
    keys = {key for point in report.points for rank in point.ranks for key in row_keys(rank.rows)}
    assert keys == {"de017d6d2f32"}


def test_rows_that_read_alike_have_keys_of_their_own() -> None:
    rows = diff(sharded(name="a"), sharded(leak=True, activation=130, name="b"), "end").points[0].ranks[0].rows
    keys = row_keys([*rows, rows[0], rows[0]])
    assert len(set(keys)) == len(keys) == len(rows) + 2
    assert keys[-2:] == [f"{keys[0]}-2", f"{keys[0]}-3"]
    assert row_keys(rows) == keys[: len(rows)]
