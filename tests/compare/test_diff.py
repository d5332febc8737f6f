from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import snapviz.compare.rows as rows_module
from snapviz.analyze.run import RankFailure, Run, load_run
from snapviz.compare.diff import diff
from snapviz.errors import UsageError
from snapviz.replay.snapshot import Snapshot
from snapviz.schema import DiffReport, DiffRow
from snapviz.snapshot.objects import columns_from_objects
from tests.analyze.builders import MIB, SAMPLES, Trace, frame, record, run_of
from tests.compare.jobs import job


def at(report: DiffReport, name: str, rank: int = 0):
    (point,) = (point for point in report.points if point.at == name)
    (found,) = (r for r in point.ranks if r.rank == rank)
    return found


def identity(row: DiffRow) -> tuple[object, ...]:
    return row.owner, row.category, row.birth_phase, row.dangling, row.evidence, row.stack


@pytest.mark.parametrize("knobs", [{}, {"shift": 7}, {"root": "/other/place"}, {"root": "/x", "shift": 3}])
def test_what_only_moved_is_no_difference(knobs: dict) -> None:
    report = diff(run_of(job(), name="main"), run_of(job(**knobs), name="pr"), ["end", "peak", "phase:train/step"])
    assert [len(point.ranks[0].rows) for point in report.points] == [0, 0, 0]
    assert all(point.ranks[0].unchanged.total_bytes == point.ranks[0].head_total_bytes > 0 for point in report.points)
    assert report.verdict.endswith("in the same allocations.")


@pytest.mark.parametrize("knobs", [{}, {"root": "/other/place", "shift": 7}])
def test_a_leak_is_exact_and_nothing_else_is(knobs: dict) -> None:
    report = diff(run_of(job(), name="main"), run_of(job(leak=2, **knobs), name="pr"))
    end = at(report, "end")
    (row,) = end.rows
    assert (row.delta_bytes, row.base_count, row.head_count) == (2 * 64 * MIB, 0, 2)
    assert (row.category, row.birth_phase, row.evidence) == ("communication", "train/step/forward", "inferred")
    assert row.stack[0] == "foreach_all_gather (torch/distributed/fsdp/_c.py)"
    assert "128.00 MiB more communication" in report.verdict


def test_larger_activations_are_growth_of_known_stacks() -> None:
    report = diff(run_of(job()), run_of(job(scale=2)), ["peak", "end"])
    assert at(report, "end").rows == ()
    (row,) = at(report, "peak").rows
    assert (row.category, row.base_count, row.head_count) == ("activation", 4, 4)
    assert row.head_bytes == 2 * row.base_bytes


def test_peak_and_end_of_a_phase() -> None:
    base, head = run_of(job()), run_of(job(scale=2))
    report = diff(base, head, ["phase:train/step0/forward", "phase:train/step2:end", "phase:train/step0:peak"])
    names = [point.at for point in report.points]
    assert names == ["phase:train/step0/forward:peak", "phase:train/step2:end", "phase:train/step0:peak"]
    assert [point.ranks[0].delta_bytes for point in report.points] == [4 * 30 * MIB, 0, 4 * 30 * MIB]


@pytest.mark.parametrize("text", ["", "start", "phase:", "phase", "PEAK", "end:peak"])
def test_a_point_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(UsageError, match="use peak, end, phase:NAME"):
        diff(run_of(job()), run_of(job()), [text])


def test_a_phase_that_nobody_has_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no such phase in either run \(there is: train/step0, train/step0/forward,"):
        diff(run_of(job()), run_of(job()), ["phase:shard"])


def test_a_phase_that_one_side_lacks_has_no_figures_and_no_verdict() -> None:
    report = diff(run_of(job(steps=1), name="main"), run_of(job(), name="pr"), ["phase:train/step:end"])
    point = at(report, "phase:train/step:end")
    assert (point.base_total_bytes, point.head_total_bytes, point.delta_bytes) == (None, 66 * MIB, None)
    assert (point.rows, point.comparable, report.points[0].worst_rank) == ((), False, None)
    assert "main has no phase train/step: nothing is compared there" in report.caveats
    assert report.verdict == "main and pr cannot be compared at the end of train/step."
    (missing,) = (row for row in report.phases if row.phase == "train/step")
    assert missing.base_peak is missing.peak_delta is None
    assert missing.head_peak is not None


def test_rows_sum_even_where_the_code_that_groups_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rows_module.sums
    monkeypatch.setattr(rows_module, "sums", lambda group, size, count: real(group, size // 2, count))
    with pytest.raises(AssertionError):
        diff(run_of(job()), run_of(job(leak=1)))


def test_ranks_are_matched_by_number_whatever_their_order() -> None:
    def runs(order: list[int]) -> tuple[Run, Run]:
        base = run_of(*(job() for _ in range(3)), name="main")
        head = run_of(*(job(leak=leak) for leak in range(3)), name="pr")
        return base, Run("pr", "pr", None, tuple(head.ranks[i] for i in order))

    reports = [diff(*runs(list(order))) for order in itertools.permutations(range(3))]
    assert len({report.model_dump_json(exclude={"head"}) for report in reports}) == 1
    (end, _) = reports[0].points
    assert [rank.delta_bytes for rank in end.ranks] == [0, 64 * MIB, 128 * MIB]
    assert end.worst_rank == 2
    assert "on rank 2, the worst of 3" in reports[0].verdict


def test_a_rank_that_one_run_lacks_is_named() -> None:
    report = diff(run_of(job(), job(), name="main"), run_of(job(), name="pr"))
    assert (report.unmatched_base_ranks, report.unmatched_head_ranks) == ((1,), ())
    assert "rank 1 of main: not in pr, so not compared" in report.notes


def test_a_broken_rank_is_in_the_report_and_in_the_verdict() -> None:
    failures = (RankFailure(1, "rank00001.pickle", "truncated at byte 7"),)
    report = diff(run_of(job(), job(), name="main"), run_of(job(), name="pr", failures=failures))
    (broken,) = report.broken
    assert (broken.run, broken.rank, broken.message) == ("head", 1, "truncated at byte 7")
    assert "1 rank could not be read" in report.verdict
    # once is enough: it is not missing as well
    assert report.unmatched_base_ranks == ()
    assert not any("not in pr" in note for note in report.notes)
    # with the other rank alone asked for, it is not this report's business
    assert diff(run_of(job(), job()), run_of(job(), failures=failures), rank=0).broken == ()
    assert diff(run_of(job(), job()), run_of(job(), failures=failures), rank=1).points[0].ranks == ()


def test_two_files_of_one_rank_are_compared_whatever_their_devices() -> None:
    base, head = run_of(job(device=0), name="a"), run_of(job(device=3), name="b")
    head.ranks[0].rank = 3
    report = diff(base, head)
    assert [rank.rank for rank in report.points[0].ranks] == [3]
    assert any("rank 0 of a is compared with rank 3 of b" in note for note in report.notes)


@pytest.mark.parametrize(
    ("name", "ranks"),
    [("rank3.pickle", [3]), ("run_rank-12.pickle.zst", [12]), ("dump_2024.pickle", [1]), ("a.pkl", [1])],
)
def test_a_lone_file_has_the_rank_in_its_name(name: str, ranks: list[int], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    snapshot = job(device=1).snap()
    run = load_run(tmp_path / name, loader=lambda path: snapshot)
    assert [(rank.rank, rank.device) for rank in run.ranks] == [(ranks[0], 1)]


def test_a_file_of_several_devices_has_several_ranks_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "rank3.pickle").write_bytes(b"")
    objects = job(device=1).objects()
    objects["device_traces"][0] = [event | {"addr": event["addr"] + 2**46} for event in objects["device_traces"][1]]
    both = Snapshot(columns_from_objects(objects))
    run = load_run(tmp_path / "rank3.pickle", loader=lambda path: both)
    assert [rank.rank for rank in run.ranks] == [0, 1]


def test_rank_limits_the_comparison_and_must_exist() -> None:
    base, head = run_of(job(), job()), run_of(job(), job(leak=1))
    assert [r.rank for r in diff(base, head, rank=1).points[0].ranks] == [1]
    with pytest.raises(UsageError, match=r"--rank 7: neither run has it \(there is: 0, 1\)"):
        diff(base, head, rank=7)


def recorded(leak: int = 0):
    trace = job(leak=leak)
    names = [("parameter", f"w{i}", int(address), 22 * MIB) for i, address in enumerate(trace.segments) if i < 3]
    phases = [("train/step0", trace.events[0]["time_us"], trace.now)]
    return run_of(trace, records=[record(phases, [(trace.now, names)])], name="recorded")


def test_a_recorded_run_and_a_bare_one_are_compared_by_what_both_know() -> None:
    report = diff(recorded(), run_of(job(), name="bare"))
    assert at(report, "end").rows == ()
    assert any("bare has no record of names" in note for note in report.notes)
    assert any("rows are not told apart by phase of birth" in note for note in report.caveats)
    both = diff(recorded(), recorded(leak=1))
    assert len(at(both, "end").rows) == 1
    assert at(both, "end").unchanged.rows == 3  # each parameter by its name


def test_lower_and_equal_have_verdicts_too() -> None:
    lower = diff(run_of(job(leak=1), name="main"), run_of(job(), name="pr"))
    assert lower.verdict.startswith("pr ends")
    assert "64.00 MiB lower" in lower.verdict
    one, other = Trace(), Trace()
    one.alloc(20, frame("f"))
    other.alloc(20, frame("g"))
    assert diff(run_of(one), run_of(other)).verdict.endswith("in other allocations.")


def test_the_same_bytes_in_more_blocks_are_a_row() -> None:
    one, other = Trace(), Trace()
    one.alloc(40, frame("f"))
    other.alloc(20, frame("f"))
    other.alloc(20, frame("f"))
    (row,) = at(diff(run_of(one), run_of(other)), "end").rows
    assert (row.delta_bytes, row.base_count, row.head_count) == (0, 1, 2)


def test_later_steps_count_by_their_highest_peak_and_their_last_end() -> None:
    trace = Trace()
    for step, (mib, kept) in enumerate(((20, 30), (22, 32), (160, 34), (24, 36))):
        trace.mark("START", f"ProfilerStep#{step}")
        trace.free(trace.alloc(mib, frame("f")))
        trace.alloc(kept, frame("kept"))
        trace.mark("END", f"ProfilerStep#{step}")
    peak, end = diff(run_of(Trace()), run_of(trace), ["phase:train/step:peak", "phase:train/step:end"]).points
    assert peak.ranks[0].head_total_bytes == (30 + 32 + 160) * MIB
    assert peak.ranks[0].head_moment.phase == "train/step2"
    assert end.ranks[0].head_total_bytes == (30 + 32 + 34 + 36) * MIB
    assert end.ranks[0].head_moment.phase == "train/step3"


def test_paths_do_instead_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    report = diff(SAMPLES / "main", str(SAMPLES / "main"))
    assert [len(rank.rows) for point in report.points for rank in point.ranks] == [0] * 4
    assert isinstance(SAMPLES, Path)


def test_points_are_named_one_several_or_not_at_all() -> None:
    base, head = run_of(job(), name="main"), run_of(job(leak=1), name="pr")
    default = diff(base, head)
    assert [point.at for point in default.points] == ["end", "peak"]
    assert diff(base, head, []) == diff(base, head, None) == default
    assert [point.at for point in diff(base, head, "peak").points] == ["peak"]
    assert [point.at for point in diff(base, head, ("end", "end")).points] == ["end"]
    for wrong in ([7], [None]):
        with pytest.raises(UsageError, match="a point of comparison is a text"):
            diff(base, head, wrong)


def test_long_stacks_make_no_long_report() -> None:
    def run(mib: int):
        trace = Trace()
        trace.alloc(mib, *(frame(f"{i}-{'f' * 100_000}") for i in range(500)))
        return run_of(trace)

    (row,) = diff(run(20), run(40), "end").points[0].ranks[0].rows
    assert len(row.model_dump_json()) < 200 * 600


def test_a_phase_that_nobody_has_names_60_of_those_there_are() -> None:
    trace = Trace()
    for i in range(75):
        name = f"part{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}"
        trace.mark("START", name)
        trace.alloc(20)
        trace.mark("END", name)
    with pytest.raises(UsageError, match=r"and \d+ more\)") as caught:
        diff(run_of(trace), run_of(trace), "phase:nope")
    assert str(caught.value).count("part") == 60
