"""What must hold of any two runs."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.analyze.run import Run, load_run
from snapviz.compare.diff import diff
from snapviz.report.grouped import grouped_lines, rank_table
from snapviz.report.rows import row_lines
from snapviz.schema import By, DiffReport, FoldedRows, MeasureName, Mode, RankPoint
from snapviz.units import parse_bytes
from tests.analyze.builders import Trace, frame, run_of
from tests.compare.jobs import job
from tests.compare.recorded import sharded

TORCH = "/v/lib/python3.11/site-packages/torch"
FRAMES = [
    ("forward", "/repo/pkg/model.py"),
    ("forward", "/repo/model.py"),
    ("<module>", "/repo/train.py"),
    ("_init_group", f"{TORCH}/optim/adam.py"),
    ("foreach_all_gather", f"{TORCH}/distributed/fsdp/_c.py"),
    ("__init__", "/repo/pkg/__init__.py"),
]
POINTS = ["end", "peak", "phase:train/step0", "phase:train/step0:end"]

STACK = st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(1, 99)), max_size=3)
ACTION = st.one_of(
    st.tuples(st.just("alloc"), st.integers(10, 20), STACK),
    st.tuples(st.just("free"), st.integers(0, 30), st.just([])),
    st.tuples(st.just("step"), st.just(0), st.just([])),
)
PROGRAM = st.lists(ACTION, max_size=30)


def play(program: list, root: str = "/work", shift: int = 0) -> Trace:
    trace = Trace()
    trace.mark("START", "ProfilerStep#0")
    live: list[int] = []
    step = 0
    for action, number, stack in program:
        if action == "alloc":
            frames = [frame(name, file.replace("/work", root), line + shift) for (name, file), line in stack]
            live.append(trace.alloc(2 * number, *frames))
        elif action == "free" and live:
            trace.free(live.pop(number % len(live)))
        elif action == "step":
            trace.mark("END", f"ProfilerStep#{step}")
            step += 1
            trace.mark("START", f"ProfilerStep#{step}")
    return trace


def ring(trace: Trace, lost: int) -> Trace | dict:
    """The recording without its first events; those that are left begin somewhere in the middle."""
    objects = trace.objects()
    objects["device_traces"][0] = trace.events[min(lost, len(trace.events)) :]
    return objects if lost and trace.events else trace


def told(report: DiffReport, sign: int = 1) -> list[object]:
    """Points and rows as comparable values; with ``sign`` −1 those of the swapped diff."""
    out: list[object] = []
    for point in report.points:
        (rank,) = point.ranks
        rows = Counter(
            (
                row.owner,
                row.category,
                row.birth_phase,
                row.dangling,
                row.stack,
                sign * row.delta_bytes,
                *((row.base_count, row.head_count)[::sign]),
                *((row.base_bytes, row.head_bytes)[::sign]),
                *((row.base_lines, row.head_lines)[::sign]),
            )
            for row in rank.rows
        )
        delta = None if rank.delta_bytes is None else sign * rank.delta_bytes
        out.append((point.at, delta, rows, rank.unchanged.rows, rank.unchanged.total_bytes))
    return out


@given(base=PROGRAM, head=PROGRAM, lost=st.tuples(*[st.integers(0, 25)] * 2))
@settings(max_examples=80)
def test_rows_sum_exactly_and_swapping_negates(base: list, head: list, lost: tuple[int, int]) -> None:
    one, other = ring(play(base), lost[0]), ring(play(head), lost[1])
    # the first step may be lost on both sides, and is no phase then
    points = [point for point in POINTS if not any(lost) or not point.startswith("phase")]
    report = diff(run_of(one, name="a"), run_of(other, name="b"), points)
    for point in report.points:
        (rank,) = point.ranks
        if rank.delta_bytes is None:
            assert rank.rows == ()
            assert None in (rank.base_total_bytes, rank.head_total_bytes)
            continue
        assert rank.base_total_bytes + sum(row.delta_bytes for row in rank.rows) == rank.head_total_bytes
        assert rank.unchanged.total_bytes + sum(row.base_bytes for row in rank.rows) == rank.base_total_bytes
        assert rank.unchanged.total_bytes + sum(row.head_bytes for row in rank.rows) == rank.head_total_bytes
        assert all(row.delta_bytes == row.head_bytes - row.base_bytes for row in rank.rows)
        assert all((row.base_bytes, row.base_count) != (row.head_bytes, row.head_count) for row in rank.rows)
        assert len({(r.owner, r.category, r.birth_phase, r.dangling, r.stack) for r in rank.rows}) == len(rank.rows)
    swapped = diff(run_of(other, name="b"), run_of(one, name="a"), points)
    assert told(report) == told(swapped, sign=-1)


@given(program=PROGRAM, lost=st.integers(1, 40))
@settings(max_examples=40)
def test_a_recording_that_began_later_ends_in_the_same_allocations(program: list, lost: int) -> None:
    trace = play(program)
    for pair in ((trace, ring(trace, lost)), (ring(trace, lost), trace)):
        ((rank,),) = (point.ranks for point in diff(*map(run_of, pair), ["end"]).points)
        assert rank.rows == ()


@given(program=PROGRAM, shift=st.integers(0, 500))
@settings(max_examples=40)
def test_a_run_differs_from_itself_in_nothing_wherever_it_ran(program: list, shift: int) -> None:
    here, there = play(program), play(program, root="/home/someone/else/checkout", shift=shift)
    report = diff(run_of(here), run_of(there), POINTS)
    assert all(point.ranks[0].rows == () and point.ranks[0].delta_bytes == 0 for point in report.points)


# ------------------------------------------------------------------ however rows are made

VIEW = st.fixed_dictionaries(
    {
        "by": st.sampled_from([None, *get_args(By)]),
        "mode": st.sampled_from(get_args(Mode)),
        "measure": st.sampled_from(get_args(MeasureName)),
        "threshold": st.sampled_from([None, "0%", "7%", "34%", "100%", "1", "30 MiB", "1 TiB"]),
        "mask": st.sampled_from([(), "forward", ("model", "nothing")]),
    }
)
NOTHING = FoldedRows(**dict.fromkeys(FoldedRows.model_fields, 0))


def sums(rank: RankPoint) -> tuple[int, int]:
    """What everything that a rank's point tells adds up to, in base and in head."""
    folded = rank.folded or NOTHING
    base = rank.unchanged.total_bytes + folded.base_bytes + sum(row.base_bytes for row in rank.rows)
    head = rank.unchanged.total_bytes + folded.head_bytes + sum(row.head_bytes for row in rank.rows)
    assert folded.delta_bytes == folded.head_bytes - folded.base_bytes == folded.more_bytes + folded.less_bytes
    assert folded.less_bytes <= 0 <= folded.more_bytes
    return base, head


def seen(report: DiffReport, sign: int = 1) -> list[object]:
    """The folded sums, and the order of the rows, as comparable values; with ``sign`` -1 those of the swapped diff."""
    out: list[object] = []
    found_in = {"base": "head", "head": "base", "both": "both"} if sign < 0 else {}
    for point in report.points:
        for rank in point.ranks:
            folded = rank.folded or NOTHING
            pair = (folded.base_bytes, folded.head_bytes)[::sign]
            turns = sorted((sign * folded.more_bytes, sign * folded.less_bytes))
            out.append((folded.rows, folded.limit_bytes, pair, turns, sign * folded.delta_bytes))
            out.append([(row.owner, row.category, found_in.get(row.found_in, row.found_in)) for row in rank.rows])
    return out


@given(base=PROGRAM, head=PROGRAM, view=VIEW)
@settings(max_examples=120, deadline=None)
def test_every_view_sums_exactly_and_swapping_negates(base: list, head: list, view: dict[str, Any]) -> None:
    one, other = run_of(play(base), name="a"), run_of(play(head), name="b")
    report, swapped = diff(one, other, POINTS[:2], **view), diff(other, one, POINTS[:2], **view)
    for point in report.points:
        (rank,) = point.ranks
        assert sums(rank) == (rank.base_total_bytes, rank.head_total_bytes)
        assert all(row.found_in == ("both" if row.base_count and row.head_count else row.found_in) for row in rank.rows)
        assert all(row.base_requested_bytes <= row.base_bytes for row in rank.rows if row.category != "unused")
        if view["mode"] == "absolute":
            assert rank.unchanged.rows == 0
    assert told(report) == told(swapped, sign=-1)
    assert seen(report) == seen(swapped, sign=-1)


@given(program=PROGRAM, view=VIEW)
@settings(max_examples=60, deadline=None)
def test_no_view_finds_a_difference_to_itself(program: list, view: dict[str, Any]) -> None:
    run = run_of(play(program))
    for point in diff(run, run, POINTS[:2], **view).points:
        (rank,) = point.ranks
        assert rank.delta_bytes == 0
        assert all(row.delta_bytes == 0 and row.base_count == row.head_count for row in rank.rows)
        assert (rank.folded or NOTHING).more_bytes == 0
        assert view["mode"] == "absolute" or (rank.rows == () and rank.folded is None)


@given(program=PROGRAM, other=PROGRAM, shift=st.integers(0, 500), view=VIEW)
@settings(max_examples=60, deadline=None)
def test_where_a_run_was_checked_out_is_in_no_view(
    program: list, other: list, shift: int, view: dict[str, Any]
) -> None:
    base = run_of(play(program), name="a")
    here = run_of(play(other), name="b")
    there = run_of(play(other, root="/home/someone/else/checkout", shift=shift), name="b")
    one, moved = diff(base, here, POINTS[:2], **view), diff(base, there, POINTS[:2], **view)
    assert seen(one) == seen(moved)
    deltas = [[[row.delta_bytes for row in rank.rows] for rank in point.ranks] for point in one.points]
    assert deltas == [[[row.delta_bytes for row in rank.rows] for rank in point.ranks] for point in moved.points]


@pytest.mark.parametrize("by", [None, *get_args(By)])
@pytest.mark.parametrize("threshold", [None, "40%"])
def test_the_order_of_ranks_and_of_their_files_does_not_count(by: By | None, threshold: str | None) -> None:
    runs = [
        run_of(*(job(leak=leak) for leak in leaks), name=name) for name, leaks in (("a", (0, 1, 0)), ("b", (2, 0, 4)))
    ]
    reports = set()
    for order in itertools.permutations(range(3)):
        base, head = (Run(run.name, run.name, None, tuple(run.ranks[i] for i in order)) for run in runs)
        report = diff(base, head, by=by, threshold=threshold)
        reports.add(report.model_dump_json(exclude={"base": {"ranks"}, "head": {"ranks"}}))
    assert len(reports) == 1


def test_the_order_in_which_files_were_written_does_not_count(tmp_path: Path) -> None:
    documents = {f"rank{i}.pickle": pickle.dumps(job(leak=i).objects()) for i in range(3)}
    reports = set()
    for number, order in enumerate(itertools.permutations(documents)):
        folder = tmp_path / str(number) / "run"
        folder.mkdir(parents=True)
        for name in order:
            (folder / name).write_bytes(documents[name])
        base = run_of(*(job() for _ in range(3)), name="main")
        reports.add(diff(base, load_run(folder, cache=False), by="rank", mode="ratio").model_dump_json())
    assert len(reports) == 1


# ------------------------------------------------------------------ and however they are shown

SMALL = st.lists(ACTION, max_size=14)
"""Less than 1 GiB: below that, two decimals of MiB are exact here."""


def shown(lines: list) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """The bytes in the lines of a table, base and head of each, and those of its last one, the total."""
    found = []
    for spans in lines[1:]:
        texts = [span.text.strip() for span in spans]
        if len(texts) > 4 and not spans[0].text.startswith("    "):
            found.append(tuple(0 if text == "–" else parse_bytes(text) for text in (texts[2], texts[4])))
    return found[:-1], found[-1]


@given(base=SMALL, head=SMALL, view=VIEW, top=st.integers(0, 4), width=st.sampled_from([60, 80, 200]))
@settings(max_examples=80, deadline=None)
def test_the_lines_of_a_table_sum_to_its_total(
    base: list, head: list, view: dict[str, Any], top: int, width: int
) -> None:
    report = diff(run_of(play(base), play(head)), run_of(play(head), play(base)), "end", **view)
    point = report.points[0]
    tables = [rank_table(report, point, width, top)]
    if view["by"] != "rank":
        tables = [grouped_lines(report, rank, width, top) for rank in point.ranks]
    for index, lines in enumerate(tables):
        listed, total = shown(lines)
        assert tuple(map(sum, zip(*listed, strict=True))) in (total, ())
        ranks = point.ranks if view["by"] == "rank" else [point.ranks[index]]
        assert total == (sum(r.base_total_bytes for r in ranks), sum(r.head_total_bytes for r in ranks))


@given(base=SMALL, head=SMALL, top=st.integers(0, 4), threshold=VIEW.map(lambda view: view["threshold"]))
@settings(max_examples=60, deadline=None)
def test_the_marked_lines_of_the_default_sum_to_the_difference(
    base: list, head: list, top: int, threshold: str
) -> None:
    report = diff(run_of(play(base)), run_of(play(head)), "end", threshold=threshold)
    (rank,) = report.points[0].ranks
    total = 0
    for spans in row_lines(report.options, rank, 100, top):
        category = spans[0].text in "▲▼" or "below" in spans[-1].text or "that did not change" in spans[-1].text
        # a category that only moved has a blank for its arrow, and sums to nothing
        if category:
            text = spans[2].text.strip()
            total += (-1 if text.startswith("-") else 1) * parse_bytes(text.lstrip("+-"))
    assert total == rank.delta_bytes


def test_what_dangles_is_in_every_view_of_a_recorded_pair() -> None:
    base, head = sharded(name="main"), sharded(leak=True, activation=104, name="pr")
    for by, mode in itertools.product((None, *get_args(By)), get_args(Mode)):
        (point,) = diff(base, head, "end", by=by, mode=mode, threshold="99%").points
        (rank,) = point.ranks
        assert sums(rank) == (rank.base_total_bytes, rank.head_total_bytes)
        assert sum(row.head_dangling_bytes for row in rank.rows) == 20 << 20
