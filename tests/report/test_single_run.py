"""The reports of one run, leaks, ranks and dangling, as text and as JSON."""

from __future__ import annotations

import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.leaks import leaks
from snapviz.analyze.outlived import dangling
from snapviz.analyze.run import RankFailure, Run, load_run
from snapviz.compare.ranks import ranks
from snapviz.report.danglingtext import dangling_lines
from snapviz.report.growthtext import leaks_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import Line, width_of
from snapviz.report.rankstext import ranks_lines
from tests.analyze.builders import MIB, SAMPLES, Trace, frame, load_for_tests, record, run_of, sample
from tests.analyze.training import KEEP, steps_of, training
from tests.compare.jobs import job


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


def words_of(lines: list[Line]) -> str:
    return " ".join(text_of(lines).split())


def widest(lines: list[Line]) -> int:
    return max(sum(width_of(span.text) for span in spans) for spans in lines)


def leak(trace: Trace, _: int) -> None:
    trace.alloc(20, KEEP)


# ------------------------------------------------------------------ leaks


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["leak", "litgpt_eager_8/pr", "uneven_ranks"])
def test_leaks_of_the_samples(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = leaks_lines(leaks(sample(name)), width)
    assert text_of(lines) == snapshot
    assert widest(lines) <= width


def every_third(trace: Trace, number: int) -> None:
    if number % 3 == 2:
        leak(trace, number)


def warm_up(trace: Trace, number: int) -> None:
    if number < 4:
        trace.alloc(24, frame("cache", "/repo/cache.py", 3))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            lambda: steps_of(6, leak),
            "each step leaves 20.00 MiB behind (20,971,520 bytes): 1 block, keep train.py:31.",
        ),
        (lambda: steps_of(14, every_third), "every 3rd step leaves 20.00 MiB behind"),
        (lambda: steps_of(3, leak), "this may be a leak: each step leaves 20.00 MiB behind"),
        (lambda: steps_of(9, warm_up), "no growth: the ends of step3 to step7 are equal (136.00 MiB)"),
        (lambda: steps_of(9, warm_up), "One stack grew and stopped. "),
        (
            lambda: sample("cuda_graph"),
            "step3, the last, ends 161.07 MiB higher: whether that would stay",
        ),
        (lambda: steps_of(2, leak), "2 steps cannot tell what grows from step to step: a leak shows from 3 on"),
        (lambda: run_of(Trace()), "it has no events, so that nothing is known of any step."),
        (lambda: steps_of(0), "it has no steps, so that growth from step to step cannot be told."),
        (
            lambda: run_of(training(5), training(5, leak)),
            "on rank 1, the worst of 2: each step leaves 20",
        ),
        (lambda: run_of(training(5, leak), training(5, leak)), "on both ranks: each step leaves 20.00 MiB behind"),
        (lambda: steps_of(6, leak, warm_up), "each step leaves 20.00 MiB behind"),
    ],
)
def test_what_is_said_of_growth_first(run, words: str) -> None:
    shown = words_of(leaks_lines(leaks(run()), 100))
    assert 0 < shown.index(words) < 260


def test_two_stacks_that_grow_are_both_listed_and_summed() -> None:
    run = steps_of(6, leak, lambda trace, _: trace.alloc(24, frame("other", "/repo/b.py", 5)) and None)
    shown = words_of(leaks_lines(leaks(run), 100))
    assert "steps leave 44.00 MiB behind on average, in 2 stacks. The largest: 1 block, other b.py:5." in shown
    assert "+120.00 MiB unknown purpose 24.00 MiB a time · 5 blocks · each of step0 to step4" in shown
    short = words_of(leaks_lines(leaks(run), 100, top=1))
    assert "100.00 MiB in 1 more stack" in short


def test_many_steps_are_cut_in_the_middle_and_json_has_all() -> None:
    report = leaks(steps_of(60, leak))
    shown = text_of(leaks_lines(report, 100))
    assert re.search(r"^step3 .*\n… 48 steps …\nstep52 ", shown, re.MULTILINE)
    assert len(json.loads(to_json(report))["ranks"][0]["steps"]) == 60
    assert len(text_of(leaks_lines(leaks(steps_of(13, leak)), 100)).split("step12 ")) == 2


def test_ranks_that_differ_are_told_up_to_a_point() -> None:
    def leaking(count: int) -> Trace:
        return training(5, *[leak] * count)

    shown = text_of(leaks_lines(leaks(run_of(*(leaking(i % 7) for i in range(18)))), 100))
    assert "on rank 6, the worst of 18: each step leaves 120.00 MiB behind" in shown
    assert "rank 13: the same as rank 6, to the byte" in shown
    assert "rank 2: see --rank 2" in shown
    assert "2 more ranks, each with no more: --format json has them" in shown


# ------------------------------------------------------------------ ranks


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["uneven_ranks", "thunder_478/pr"])
def test_ranks_of_the_samples(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = ranks_lines(ranks(sample(name)), width)
    assert text_of(lines) == snapshot
    assert widest(lines) <= width


def many(count: int) -> Run:
    traces = [job(leak=0 if i % 8 else 1) for i in range(count - 1)]
    return run_of(*traces, job(leak=4), failures=(RankFailure(count, "rank.pickle", "missing: it was to be recorded"),))


@pytest.mark.parametrize("width", [80, 200])
def test_many_ranks_show_the_worst_outliers_the_median_and_the_best(width: int, snapshot: SnapshotAssertion) -> None:
    lines = ranks_lines(ranks(many(64)), width, top=3)
    assert text_of(lines) == snapshot
    assert widest(lines) <= width


def test_a_rank_that_could_not_be_read_is_a_row() -> None:
    shown = text_of(ranks_lines(ranks(many(3)), 100))
    assert "! rank 3 could not be read: missing: it was to be recorded" in shown
    assert re.search(r"^rank 3 +unread +– ", shown, re.MULTILINE)
    nothing = ranks(Run("run", "run", None, (), (RankFailure(0, "rank0.pickle", "truncated"),)))
    assert "no rank could be read: there is nothing to compare." in text_of(ranks_lines(nothing, 80))


@pytest.mark.parametrize(
    ("run", "how", "words"),
    [
        (lambda: run_of(job()), {}, "rank 0 is the only one: its peak is 250.00 MiB."),
        (lambda: run_of(job(), job(), job()), {}, "all 3 ranks have the same peak, to the byte: 250.00 MiB."),
        (
            lambda: run_of(job(), job(), job(leak=1)),
            {},
            "rank 2 of 3 has the highest peak, 314.00 MiB: 64.00 MiB (25.6%) above the median, rank 0. Outlier is",
        ),
        (
            lambda: run_of(job(), job(leak=1), job(leak=1)),
            {"phase": "train/step2", "measure": "reserved"},
            "rank 1 of 3 has the highest reserved peak in train/step2, ",
        ),
        (
            lambda: run_of(job(), job(leak=1), job(leak=1)),
            {},
            "314.00 MiB: the median has as much, and rank 0 64.00 MiB less.",
        ),
    ],
)
def test_what_is_said_of_ranks_first(run, how: dict[str, str], words: str) -> None:
    shown = words_of(ranks_lines(ranks(run(), **how), 100))
    assert 0 < shown.index(words) < 200


def test_another_ranks_device_is_told_with_its_stacks() -> None:
    report = ranks(run_of(job(), job()))
    foreign = {
        "device": 0,
        "events": 3,
        "reserved_bytes": 68 * MIB,
        "allocated_bytes": 44 * MIB,
        "peak_allocated_bytes": 46 * MIB,
        "blocks": ({"held_bytes": 44 * MIB, "held_count": 2, "stack": ("load (/repo/checkpoint.py:9)",)},),
    }
    document = report.model_dump()
    document["ranks"][1]["foreign"] = (foreign,)
    shown = text_of(ranks_lines(type(report).model_validate(document), 100))
    assert "rank 1 (device 0) has 68.00 MiB reserved on device 0, 44.00 MiB of it allocated at the end" in shown
    assert "    44.00 MiB in 2 blocks  load checkpoint.py:9\n" in shown


# ------------------------------------------------------------------ dangling


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["thunder_478/pr", "fsdp2_before_notfixed"])
def test_dangling_of_the_samples(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = dangling_lines(dangling(sample(name)), width)
    assert text_of(lines) == snapshot
    assert widest(lines) <= width


def test_dangling_of_a_bare_file_is_only_suspected(snapshot: SnapshotAssertion) -> None:
    run = load_run(SAMPLES / "pr" / "rank00000.pickle.zst", loader=load_for_tests)
    assert text_of(dangling_lines(dangling(run), 80)) == snapshot


def test_all_lists_every_parameter() -> None:
    report = dangling(sample("fsdp2_before_notfixed"))
    shown = text_of(dangling_lines(report, 100, top=None))
    assert len(re.findall(r"1 block · born materialize", shown)) == 75
    assert all(one.name in shown for one in report.ranks[0].dangling)
    assert "more parameter" not in shown
    few = text_of(dangling_lines(report, 100, top=2))
    assert "in 73 more parameters: --all lists each" in few
    assert "in 75 more parameters: --all lists each" in text_of(dangling_lines(report, 100, top=0))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: sample("thunder_478/main"), "nothing dangles: every original parameter was gone once it was sharded."),
        (lambda: sample("single"), "what dangles cannot be told: the record has no phase shard and names no shards."),
        (
            lambda: sample("thunder_478/pr"),
            "1 parameter (4.00 MiB) dangles to the end on both ranks. Without",
        ),
        (lambda: Run("run", "run", None, ()), "no rank could be read."),
    ],
)
def test_what_is_said_of_dangling_first(run, words: str) -> None:
    assert 0 < words_of(dangling_lines(dangling(run()), 100)).index(words) < 200


# ------------------------------------------------------------------ hostile text

EVIL = "\x1b]0;owned\x07[bold red]\u202e\n\x00"


def evil() -> Run:
    def step(trace: Trace, _: int) -> None:
        trace.alloc(20, frame(EVIL, f"/w/{EVIL}.py"))

    trace = training(6, step)
    whole, cut = trace.events[1]["addr"], trace.now
    known = record(
        [(EVIL, 0, 1_030), ("shard", 1_031, 1_040), *((f"train/step{i}", 1_100 + i, 1_100 + i) for i in range(3))],
        [(1_030, [("parameter", EVIL, whole, 40 * MIB)])],
        holders=({"parameter": EVIL, "path": EVIL, "kind": "module"},),
    )
    failures = (RankFailure(9, EVIL, EVIL),)
    assert cut
    return run_of(trace, training(6, step), records=[known, None], name=EVIL, failures=failures, notes=(EVIL,))


@pytest.mark.parametrize("width", [60, 200])
def test_no_text_of_a_file_reaches_the_terminal_as_more_than_text(width: int) -> None:
    run = evil()
    for lines in (
        leaks_lines(leaks(run), width),
        ranks_lines(ranks(run), width),
        dangling_lines(dangling(run), width),
        dangling_lines(dangling(run), width, None),
    ):
        shown = text_of(lines)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
        assert "\\x1b]0;owned" in shown


def test_json_carries_hostile_text_escaped_and_comes_back() -> None:
    run = evil()
    for report in (leaks(run), ranks(run), dangling(run)):
        text = to_json(report)
        assert "\x1b" not in text
        assert type(report).model_validate_json(text) == report
        assert next(iter(json.loads(text).items())) == ("schema_version", 1)
