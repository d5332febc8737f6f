"""The figures that trainers quote, and the process group they were taken with."""

from __future__ import annotations

import re

import pytest

from snapviz.analyze.run import Run
from snapviz.compare.diff import diff
from snapviz.report.difftext import diff_lines
from snapviz.report.training import benchmark_lines
from snapviz.schema import Benchmark, BenchmarkSide, RunManifest
from tests.analyze.builders import MIB, Trace, frame, record, run_of
from tests.compare.jobs import job
from tests.compare.recorded import steps


def with_metrics(run: Run, metrics: dict[str, float], **manifest: object) -> Run:
    document = {"schema_version": 1, "name": run.name, "metrics": metrics} | manifest
    run.manifest = RunManifest.model_validate(document)
    return run


def test_memory_is_the_peak_in_training_on_the_worst_rank() -> None:
    def rank(before: int, trained: int):
        trace = Trace()
        start = trace.now
        trace.free(trace.alloc(before))
        made = trace.tick()
        trace.tick()
        trace.free(trace.alloc(trained))
        return trace, record([("materialize", start, made), ("train/step0", made + 1, trace.now)])

    pairs = [rank(400, 60), rank(400, 80)]
    runs = [
        with_metrics(
            run_of(*(t for t, _ in pairs), records=[r for _, r in pairs], name=name),
            {"tokens_per_s": 100},
            world_size=4,
        )
        for name in ("main", "pr")
    ]
    found = diff(*runs).benchmark
    assert found is not None
    assert found.head.model_dump() == {
        "tokens_per_s": 100.0,
        "tokens_per_s_per_gpu": 25.0,
        "memory_bytes": 80 * MIB,
        "memory_at_least": False,
    }
    alone = diff(*runs, rank=0).benchmark
    assert alone is not None
    assert alone.base.memory_bytes == 60 * MIB


def test_without_training_it_is_the_peak_of_the_recording() -> None:
    trace = Trace()
    trace.free(trace.alloc(90))
    trace.alloc(20)
    run = with_metrics(run_of(trace), {"tokens_per_s": 8.0})
    found = diff(run, run).benchmark
    assert found is not None
    assert (found.base.memory_bytes, found.base.tokens_per_s_per_gpu) == (90 * MIB, None)
    text = "".join(span.text for line in benchmark_lines(diff(run, run), 80) for span in line)
    assert "tokens/s/GPU" not in text


def test_a_peak_that_may_have_been_higher_is_marked_and_not_compared() -> None:
    base = with_metrics(steps((100, 60), name="main"), {"tokens_per_s": 8.0})
    head = with_metrics(steps((100, 60), cut=1, name="pr"), {"tokens_per_s": 8.0})
    report = diff(base, head)
    assert report.benchmark is not None
    assert (report.benchmark.base.memory_at_least, report.benchmark.head.memory_at_least) == (False, True)
    text = "\n".join("".join(span.text for span in line) for line in diff_lines(report, 80))
    assert re.search(r"^Memory \(GB\) +0.13 +≥ 0.04 +–$", text, re.MULTILINE)
    assert "≥ the recording does not have all of it" in " ".join(text.split())


@pytest.mark.parametrize("lacking", [{}, {"tokens_per_second": 3.0}])
def test_both_runs_have_to_know_it(lacking: dict[str, float]) -> None:
    known = {"tokens_per_s": 8.0}
    assert diff(with_metrics(run_of(job()), known), with_metrics(run_of(job()), lacking)).benchmark is None
    assert diff(run_of(job()), with_metrics(run_of(job()), known)).benchmark is None
    with_none_in_common = run_of(Trace(), name="x")
    with_none_in_common.ranks[0].rank = 7
    nobody = diff(with_metrics(run_of(job(), job()), known), with_metrics(with_none_in_common, known))
    assert nobody.benchmark is None


def side(tokens: float, memory: int) -> BenchmarkSide:
    return BenchmarkSide(
        tokens_per_s=tokens, tokens_per_s_per_gpu=tokens / 8, memory_bytes=memory, memory_at_least=False
    )


def test_numbers_are_rounded_as_they_are_written() -> None:
    report = diff(run_of(job(), name="main"), run_of(job(), name="pr"))
    base, head = side(85765.16, 42_055_000_000), side(85695.95, 42_054_999_999)
    report = report.model_copy(update={"benchmark": Benchmark(base=base, head=head)})
    rows = ["".join(span.text for span in line).split() for line in benchmark_lines(report, 80)]
    assert rows[2:5] == [
        ["tokens/s", "85,765.2", "85,696.0", "-0.1%"],
        ["tokens/s/GPU", "10,720.6", "10,712.0", "-0.1%"],
        ["Memory", "(GB)", "42.06", "42.05", "-0.0%"],
    ]
    huge = report.model_copy(update={"benchmark": Benchmark(base=side(1e99, 0), head=side(0, 0))})
    assert "1e+99" in "".join(span.text for line in benchmark_lines(huge, 80) for span in line)


def test_retries_and_ooms_are_noted_and_said_once() -> None:
    def short(name: str, retries: int):
        trace = Trace()
        start = trace.now
        trace.alloc(20, frame("f"))
        counters = dict.fromkeys(("peak_allocated_bytes", "end_allocated_bytes"), 20 * MIB)
        counters |= dict.fromkeys(("peak_reserved_bytes", "end_reserved_bytes"), 20 * MIB)
        known = record([("train", start, trace.now)]).model_dump()
        known["phases"][0]["counters"] = counters | {"alloc_retries": retries, "ooms": retries // 2}
        from snapviz.schema import RankRecord

        return run_of(trace, trace, records=[RankRecord.model_validate(known)] * 2, name=name)

    assert diff(short("main", 0), short("pr", 2)).notes[:2] == (
        "pr: the allocator flushed its cache for want of memory: 2 times in train",
        "pr: the allocator ran out of memory: once in train",
    )
    assert diff(short("main", 1), short("pr", 1)).notes[0].startswith("both runs: the allocator flushed")
    assert not any("the allocator" in note for note in diff(short("main", 0), short("pr", 0)).notes)
