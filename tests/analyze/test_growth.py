"""What grows from step to step, and what only looks as if it did."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.analyze.growth import find_growth, lower_median
from snapviz.analyze.leaks import leaks
from snapviz.analyze.run import RankFailure, load_run
from snapviz.analyze.steps import find_steps
from snapviz.errors import UsageError
from snapviz.report.growthtext import leaks_lines
from snapviz.schema import LeaksReport, RankLeaks, RankRecord
from tests.analyze.builders import MIB, SAMPLES, Trace, frame, load_for_tests, record, run_of, sample
from tests.analyze.training import FORWARD, KEEP, RUNS, steps_of, training


def only(report: LeaksReport) -> RankLeaks:
    (rank,) = report.ranks
    return rank


def text_of(lines) -> str:
    return "\n".join("".join(span.text for span in spans) for spans in lines)


def leak(trace: Trace, _: int) -> None:
    trace.alloc(20, KEEP)


# ------------------------------------------------------------------ leaks


def test_what_every_step_keeps_is_found_to_the_byte() -> None:
    rank = only(leaks(steps_of(6, leak, leak)))
    assert (rank.status, rank.rate_bytes, rank.median_delta_bytes) == ("leak", 40 * MIB, 40 * MIB)
    (group,) = rank.groups
    # the last step is not old enough to be judged
    assert [(one.step, one.kept_bytes, one.kept_count) for one in group.steps] == [
        (f"train/step{i}", 40 * MIB, 2) for i in range(5)
    ]
    assert (group.way, group.every, group.since, group.until) == ("grows", 1, "train/step0", "train/step4")
    assert (group.step_bytes, group.step_count, group.kept_bytes, group.kept_count) == (40 * MIB, 2, 200 * MIB, 10)
    assert group.stack == ("keep (/repo/train.py:31)",)
    assert [one.left_after_bytes for one in rank.steps] == [40 * MIB] * 5 + [None]
    assert [one.left_bytes for one in rank.steps] == [40 * MIB] * 6
    assert [one.delta_bytes for one in rank.steps] == [None] + [40 * MIB] * 5
    assert [one.growing_bytes for one in rank.steps] == [40 * MIB] * 5 + [0]
    assert rank.full is None


def test_sizes_may_differ_from_step_to_step() -> None:
    rank = only(leaks(steps_of(6, lambda trace, i: trace.alloc(20 + 2 * i, KEEP) and None)))
    (group,) = rank.groups
    # what the first step made has no counterpart of its size later on
    assert [one.kept_bytes // MIB for one in group.steps] == [22, 24, 26, 28]
    assert rank.rate_bytes == 25 * MIB


@pytest.mark.parametrize("pause", [2, 3, 5])
def test_a_leak_of_every_so_many_steps(pause: int) -> None:
    def evaluate(trace: Trace, number: int) -> None:
        if number % pause == pause - 1:
            trace.alloc(20, KEEP)

    # between two steps, as an evaluation is
    (group,) = only(leaks(steps_of(pause * 4 + 2, between=evaluate))).groups
    assert (group.way, group.every, len(group.steps)) == ("grows", pause, 4)
    assert only(leaks(steps_of(pause * 4 + 2, between=evaluate))).rate_bytes == 20 * MIB // pause


def test_a_leak_that_begins_late_and_now_and_then_misses_a_step() -> None:
    def now_and_then(trace: Trace, number: int) -> None:
        if number in (5, 6, 8, 9, 11):
            trace.alloc(20, KEEP)

    rank = only(leaks(steps_of(13, now_and_then)))
    (group,) = rank.groups
    assert (group.way, group.since, group.until, group.every) == ("grows", "train/step5", "train/step11", None)
    assert rank.rate_bytes == 5 * 20 * MIB // 7


def test_a_leak_is_seen_through_what_goes_of_the_same_stack() -> None:
    queue: deque[int] = deque()

    def both(trace: Trace, _: int) -> None:
        trace.alloc(20, KEEP)
        queue.append(trace.alloc(20, KEEP))
        if len(queue) > 2:
            trace.free(queue.popleft())

    (group,) = only(leaks(steps_of(12, both))).groups
    assert (group.way, group.oldest_freed, group.step_bytes) == ("grows", 2, 20 * MIB)
    # so that what is 2 steps old may yet go
    assert group.last_judged == group.until == "train/step8"


def test_memory_without_a_stack_is_told_by_its_size() -> None:
    def nameless(trace: Trace, _: int) -> None:
        trace.alloc(20)
        trace.free(trace.alloc(24))

    (group,) = only(leaks(steps_of(5, nameless))).groups
    assert (group.stack, group.step_bytes) == ((), 20 * MIB)


def test_a_name_of_the_first_steps_does_not_split_a_stack() -> None:
    """A record names what there is in the first steps only."""
    trace = Trace()
    phases, boundaries, held = [], [], []
    for number in range(6):
        start = trace.tick()
        held.append(("gradient", f"layers.{number}.w", trace.alloc(20, KEEP), 20 * MIB))
        phases.append((f"train/step{number}", start, trace.tick()))
        if number < 2:
            boundaries.append((trace.now, list(held)))
        trace.tick()
    rank = only(leaks(run_of(trace, records=[record(phases, boundaries)])))
    (group,) = rank.groups
    assert len(group.steps) == 5
    assert {"layers.0.w", "layers.1.w"} <= set(group.owners)
    assert "gradient" in group.categories


def test_line_numbers_do_not_split_a_stack() -> None:
    def moved(trace: Trace, number: int) -> None:
        trace.alloc(20, frame("keep", "/repo/train.py", 10 + number), frame("main", "/repo/train.py", 80))

    (group,) = only(leaks(steps_of(5, moved))).groups
    assert len(group.steps) == 4


def test_a_program_that_lets_go_of_everything_in_the_end_leaked_all_the_same() -> None:
    kept: list[int] = []

    def end(trace: Trace) -> None:
        for address in kept:
            trace.free(address)

    run = run_of(training(6, lambda trace, _: kept.append(trace.alloc(20, KEEP)), after=end))
    assert only(leaks(run)).status == "leak"


def test_of_a_recording_that_begins_in_the_middle_the_steps_that_are_left_count() -> None:
    trace = training(9, leak)
    objects = trace.objects()
    cut = next(i for i, event in enumerate(trace.events) if event["time_us"] > trace.annotations[8]["time_us"])
    objects["device_traces"][0] = trace.events[cut:]
    rank = only(leaks(run_of(objects)))
    assert rank.status == "leak"
    assert {one.kept_bytes for one in rank.groups[0].steps} == {20 * MIB}
    assert [one.whole for one in rank.steps] == [False, *[True] * 4]
    # the replay is anchored at the end of the recording
    assert [one.exact for one in rank.steps] == [True] * 5
    assert "≥ 20.00 MiB" in text_of(leaks_lines(leaks(run_of(objects))))
    assert any(note.startswith("steps are told from train/step4 on") for note in rank.notes)
    assert rank.notes[0] == "the recording begins in the middle: peaks are those of the recording, not of the run"


# ------------------------------------------------------------------ no leaks


def first_step(trace: Trace, number: int) -> None:
    if number == 0:
        for _ in range(3):
            trace.alloc(20, KEEP)


def window(depth: int):
    queue: deque[int] = deque()

    def step(trace: Trace, _: int) -> None:
        queue.append(trace.alloc(20, KEEP))
        if len(queue) > depth:
            trace.free(queue.popleft())

    return step


def cleared(every: int):
    held: list[int] = []

    def step(trace: Trace, number: int) -> None:
        held.append(trace.alloc(20, KEEP))
        if number % every == every - 1:
            while held:
                trace.free(held.pop())

    return step


@pytest.mark.parametrize(
    "step",
    [first_step, window(1), window(2), window(5), cleared(3), cleared(4)],
    ids=["first step", "freed in the next", "prefetch", "queue", "cleared every 3", "cleared every 4"],
)
def test_what_goes_or_is_made_once_is_no_leak(step) -> None:
    rank = only(leaks(steps_of(11, step)))
    assert (rank.status, rank.groups, rank.rate_bytes) == ("no leak", (), 0)
    assert rank.full is None


def test_a_cache_that_fills_up_grew_and_stopped() -> None:
    rank = only(leaks(steps_of(9, lambda trace, i: leak(trace, i) if i < 4 else None)))
    assert (rank.status, rank.rate_bytes) == ("no leak", 0)
    (group,) = rank.groups
    assert (group.way, group.since, group.until) == ("stopped", "train/step0", "train/step3")
    assert [one.growing_bytes for one in rank.steps] == [0] * 9


def test_larger_inputs_raise_the_ends_and_leave_nothing_behind() -> None:
    batch: list[int] = []

    def step(trace: Trace, number: int) -> None:
        batch.append(trace.alloc(20 + 2 * number, FORWARD))
        if len(batch) > 1:
            trace.free(batch.pop(0))

    rank = only(leaks(steps_of(8, step)))
    assert (rank.status, rank.median_delta_bytes, rank.groups) == ("rises", 2 * MIB, ())


def test_a_workspace_of_the_first_step_is_not_part_of_a_leak_of_its_stack() -> None:
    def step(trace: Trace, number: int) -> None:
        if number == 0:
            trace.alloc(64, KEEP)
            trace.alloc(20, KEEP)
        trace.alloc(20, KEEP)

    (group,) = only(leaks(steps_of(6, step))).groups
    assert [(one.kept_bytes, one.kept_count) for one in group.steps] == [(20 * MIB, 1)] * 5


# ------------------------------------------------------------------ too little to tell


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_steps_are_said(count: int) -> None:
    rank = only(leaks(steps_of(count, leak)))
    assert rank.status == ("no steps" if count == 0 else "too few steps")
    assert rank.groups == ()


def test_three_steps_make_a_suspicion() -> None:
    rank = only(leaks(steps_of(3, leak)))
    assert (rank.status, rank.groups[0].way, len(rank.groups[0].steps)) == ("may leak", "may grow", 2)
    assert any("record at least 4" in note for note in rank.notes)
    assert only(leaks(steps_of(3))).status == "no leak"
    assert only(leaks(steps_of(3, first_step))).status == "no leak"


def test_how_often_and_how_old_can_be_asked_for() -> None:
    run = steps_of(6, leak)
    assert only(leaks(run, times=5)).status == "leak"
    assert only(leaks(run, times=6)).groups[0].way == "may grow"
    older = only(leaks(run, after=3))
    assert [one.step for one in older.groups[0].steps] == ["train/step0", "train/step1", "train/step2"]
    assert [one.left_after_bytes for one in older.steps] == [20 * MIB] * 3 + [None] * 3
    for wrong in ({"after": 0}, {"times": 1}):
        with pytest.raises(UsageError, match="or more"):
            find_growth(run.ranks[0].facts(), **wrong)


# ------------------------------------------------------------------ steps


def phases_of(*names: str) -> list[str]:
    trace = Trace()
    phases = []
    for name in names:
        start = trace.tick()
        trace.free(trace.alloc(20))
        phases.append((name, start, trace.tick()))
    return list(find_steps(run_of(trace, records=[record(phases)]).ranks[0].facts()).names)


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["setup", "train/step0", "train/step1", "eval/step0", "eval/step1", "eval/step2"], [1, 2]),
        (["epoch0/step0", "epoch0/step1", "epoch1/step0"], [0, 1, 2]),
        (["train/iteration_7", "train/iteration_8", "save"], [0, 1]),
        (["train/epoch0", "train/epoch1"], [0, 1]),
        (["train/step0", "train/step0/batch0", "train/step0/batch1", "train/step1"], [0, 3]),
        (["setup", "step", "train/forward1"], []),
    ],
)
def test_which_phases_are_the_steps(names: list[str], steps: list[int]) -> None:
    assert phases_of(*names) == [names[i] for i in steps]


def test_a_step_inside_another_is_none() -> None:
    trace = Trace()
    start = trace.tick()
    trace.free(trace.alloc(20))
    middle = trace.tick()
    trace.free(trace.alloc(20))
    stop = trace.tick()
    known = record([("train/step0", start, stop), ("train/step1", middle, stop), ("train/step2", stop + 5, stop + 9)])
    assert find_steps(run_of(trace, records=[known]).ranks[0].facts()).names == ("train/step0", "train/step2")


def test_steps_that_share_a_microsecond_follow_each_other() -> None:
    trace = Trace()
    phases, start = [], trace.tick()
    for number in range(5):
        trace.alloc(20, KEEP)
        # the free's last event is at the time at which one ends and the next begins
        trace.free(trace.alloc(20, FORWARD))
        phases.append((f"train/step{number}", start, trace.now))
        start = trace.now
    rank = only(leaks(run_of(trace, records=[record(phases)])))
    assert [one.step for one in rank.steps] == [name for name, _, _ in phases]
    assert [one.kept_count for one in rank.groups[0].steps] == [1] * 4


def test_a_step_without_events_is_a_step() -> None:
    trace = Trace()
    phases = []
    for number in range(6):
        start = trace.tick()
        if number != 2:
            trace.alloc(20, KEEP)
        phases.append((f"train/step{number}", start, trace.tick()))
        trace.tick()
    rank = only(leaks(run_of(trace, records=[record(phases)])))
    assert [one.delta_bytes for one in rank.steps] == [None, *(x * MIB for x in (20, 0, 20, 20, 20))]
    assert [one.step for one in rank.groups[0].steps] == [f"train/step{i}" for i in (0, 1, 3, 4)]


def test_without_events_nothing_is_known() -> None:
    objects = training(5, leak).objects()
    objects["device_traces"] = [[]]
    rank = only(leaks(run_of(objects, records=[record([(f"train/step{i}", i, i + 1) for i in range(5)])])))
    assert (rank.status, rank.steps, rank.groups) == ("no events", (), ())


# ------------------------------------------------------------------ any job


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(4, 8),
    kept=st.lists(st.integers(10, 20), max_size=3),
    fleeting=st.lists(st.tuples(st.integers(10, 20), st.integers(0, 2)), max_size=4),
    start=st.integers(0, 1),
)
def test_what_leaks_is_found_exactly_in_any_noise(
    count: int, kept: list[int], fleeting: list[tuple[int, int]], start: int
) -> None:
    """``kept`` sizes leak in each step, each under its own stack; ``fleeting`` are freed 0 to 2 steps later."""
    due: dict[int, list[int]] = {}

    def step(trace: Trace, number: int) -> None:
        for address in due.pop(number, []):
            trace.free(address)
        for index, size in enumerate(kept if number >= start else []):
            trace.alloc(2 * size, frame(f"leaks{index}"))
        for index, (size, age) in enumerate(fleeting):
            address = trace.alloc(2 * size, frame(f"goes{index}"))
            if age == 0:
                trace.free(address)
            due.setdefault(number + age, []).extend([address] if age else [])

    rank = only(leaks(steps_of(count, step)))
    found = {one.stack[0].partition(" ")[0]: one for one in rank.groups if one.way != "stopped"}
    sure = count - 1 - start >= 3
    assert set(found) == {f"leaks{i}" for i in range(len(kept))} or not sure
    assert not any(name.startswith("goes") for name in found)
    for index, size in enumerate(kept if sure else []):
        group = found[f"leaks{index}"]
        assert group.way == "grows"
        assert [one.kept_bytes for one in group.steps] == [2 * size * MIB] * (count - 1 - start)
    if sure:
        assert rank.rate_bytes == sum(2 * size * MIB for size in kept)
        assert rank.status == ("leak" if kept else "no leak") or (not kept and rank.status == "rises")


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_the_lower_median_is_one_of_the_values(values: list[int]) -> None:
    assert lower_median(np.array(values, np.int64)) == sorted(values)[(len(values) - 1) // 2]


# ------------------------------------------------------------------ ranks


def test_the_worst_rank_comes_first_and_a_broken_one_is_named() -> None:
    failures = (RankFailure(3, "rank3.pickle", "truncated"),)
    run = run_of(training(5), training(5, leak), training(5, leak, leak), failures=failures)
    report = leaks(run)
    assert [(one.rank, one.status, one.rate_bytes // MIB) for one in report.ranks] == [
        (2, "leak", 40),
        (1, "leak", 20),
        (0, "no leak", 0),
    ]
    assert [one.rank for one in report.broken] == [3]
    one = leaks(run, rank=1)
    assert ([rank.rank for rank in one.ranks], one.broken) == ([1], ())
    assert LeaksReport.model_validate_json(report.model_dump_json()) == report


# ------------------------------------------------------------------ when the device is full


def test_when_the_device_is_full_is_worked_out_from_the_last_reading() -> None:
    trace = training(5, leak)
    marks = [mark["time_us"] for mark in trace.annotations]
    phases = [(f"train/step{i}", marks[2 * i], marks[2 * i + 1]) for i in range(5)]
    document = record(phases).model_dump()
    counters = {
        "peak_allocated_bytes": 110 * MIB,
        "end_allocated_bytes": 80 * MIB,
        "peak_reserved_bytes": 110 * MIB,
        "end_reserved_bytes": 110 * MIB,
        "device_free_bytes": 1_010 * MIB,
        "device_total_bytes": 2_000 * MIB,
    }
    document["phases"][1]["counters"] = counters
    run = run_of(trace, records=[RankRecord.model_validate(document)])
    full = only(leaks(run)).full
    assert full is not None
    assert (full.phase, full.free_bytes, full.cached_bytes) == ("train/step1", 1_010 * MIB, 0)
    assert full.more_steps == 1_010 // 20


# ------------------------------------------------------------------ real runs


def test_the_leak_sample_keeps_each_output() -> None:
    rank = only(leaks(sample("leak")))
    assert (rank.status, rank.rate_bytes, rank.median_delta_bytes) == ("leak", 2 << 20, 2 << 20)
    (group,) = rank.groups
    assert [(one.step, one.kept_bytes, one.kept_count) for one in group.steps] == [
        (f"train/step{i}", 2 << 20, 1) for i in range(5)
    ]
    assert any(line.startswith("train ") and line.endswith("programs.py:31)") for line in group.stack)
    assert rank.full is not None
    assert rank.full.phase == "train/step2"
    assert rank.full.more_steps == (rank.full.free_bytes + rank.full.cached_bytes) // (2 << 20)


def test_the_list_of_samples_is_whole() -> None:
    assert sorted(RUNS) == sorted(path.parent.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("run.json"))


@pytest.mark.parametrize("name", [name for name in RUNS if name != "leak"])
def test_no_other_sample_leaks(name: str) -> None:
    for rank in leaks(sample(name)).ranks:
        assert rank.groups == ()
        assert rank.status in ("no leak", "too few steps")
        assert all(one.growing_bytes == 0 for one in rank.steps)


@pytest.fixture(scope="module")
def synthetic(shared: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("synthetic")

    def make(*knobs: str) -> RankLeaks:
        path = folder / f"{'_'.join(knobs) or 'base'}.pickle"
        command = [sys.executable, str(shared / "make_snapshot.py"), "--events", "30000", "--out", str(path), *knobs]
        subprocess.run(command, check=True, capture_output=True)
        return only(leaks(load_run(path, loader=load_for_tests)))

    return make


def test_what_only_the_last_step_keeps_is_seen_and_no_growth(synthetic) -> None:
    base, leaking = synthetic(), synthetic("--leak", "16")
    assert len(base.steps) > 3
    for rank in (base, leaking):
        assert (rank.status, rank.groups) == ("no leak", ())
    assert [one.left_bytes for one in base.steps[1:]] == [0] * (len(base.steps) - 1)
    assert [one.left_bytes for one in leaking.steps[1:]] == [0] * (len(base.steps) - 2) + [1 << 30]


def test_the_ring_of_a_big_job_has_no_leak(synthetic) -> None:
    rank = synthetic("--ring", "20000")
    assert (rank.status, rank.groups) == ("no leak", ())
