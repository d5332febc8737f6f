"""The runs that are shipped, recorded on real devices: every figure, every name, and what the seeds asked."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import pytest

from snapviz.analyze.info import info
from snapviz.analyze.run import Run, load_run
from snapviz.analyze.timeline import timeline
from snapviz.compare.diff import diff
from snapviz.replay.snapshot import load_snapshot
from tests.truth import misnamed, off_counters

SAMPLES = Path(__file__).resolve().parents[1] / "sample_snapshots"
RUNS = sorted(str(path.parent.relative_to(SAMPLES)) for path in SAMPLES.rglob("run.json"))
ACCELERATE = "accelerate_fsdp2_{}/torch_optimizer_before_fsdp_not_fixed"


@cache
def sample(name: str) -> Run:
    return load_run(SAMPLES / name, loader=lambda path: load_snapshot(path, cache=False))


def test_there_are_all_of_them() -> None:
    assert len(RUNS) == 29


@pytest.mark.parametrize("name", RUNS)
def test_every_figure_is_torchs_and_every_name_lies_in_something(name: str) -> None:
    run = sample(name)
    assert run.failures == ()
    assert run.recorded
    for rank in run.ranks:
        assert off_counters(rank) == []
        assert misnamed(rank) == []
        assert rank.facts().replay.exact


@pytest.mark.parametrize("name", RUNS)
def test_no_run_is_larger_than_a_megabyte(name: str) -> None:
    assert sum(path.stat().st_size for path in (SAMPLES / name).iterdir()) < 1_000_000


@pytest.mark.parametrize(
    ("name", "count", "total"),
    [
        ("thunder_478/pr", 1, 4_194_304),
        (ACCELERATE.format(8), 338, 6_187_964_416),
        (ACCELERATE.format(2), 98, 2_431_031_296),
        ("litgpt_eager_8/pr", 227, 13_476_831_232),
        ("litgpt_thunder_8/pr", 17, 1_333_829_632),
        ("litgpt_eager_2/pr", 59, 3_762_429_952),
        ("litgpt_thunder_2/pr", 17, 1_333_829_632),
        ("fsdp2_before_notfixed", 75, 343_967_744),
    ],
)
def test_the_whole_leak_is_named_with_who_holds_it(name: str, count: int, total: int) -> None:
    for rank in sample(name).ranks:
        found = rank.facts().dangling
        assert len(found) == count
        assert sum(one.block_bytes for one in found) == total
        assert all(one.holders for one in found)
        assert all(one.gone_in is None for one in found)


@pytest.mark.parametrize("name", [name for name in RUNS if not name.endswith(("pr", "not_fixed", "notfixed"))])
def test_nothing_dangles_where_nothing_leaks(name: str) -> None:
    for rank in sample(name).ranks:
        assert rank.facts().dangling == ()


def test_thunder_478_to_the_byte_of_the_issue() -> None:
    ends = {}
    for name in ("main", "pr"):
        (end,) = {rank.end.allocated_bytes for rank in info(sample(f"thunder_478/{name}")).ranks}
        ends[name] = end
    assert ends == {"main": 6_291_968, "pr": 10_486_272}
    (first, *_), *_ = ([one.holders for one in rank.facts().dangling] for rank in sample("thunder_478/pr").ranks)
    assert first[0] == "Model._parameters['p1'] ← ThunderModule._model ← model (thunder_478.py:47)"


def test_accelerates_leak_is_all_of_the_parameters_at_eight_ranks_and_none_of_the_peak_at_two() -> None:
    peaks = {}
    for world in (2, 8):
        for run in ("torch_optimizer_after_fsdp", "torch_optimizer_before_fsdp_not_fixed"):
            ranks = sample(f"accelerate_fsdp2_{world}/{run}").ranks
            peaks[world, run] = max(int(rank.facts().replay.allocated_bytes.max()) for rank in ranks)
        fixed = sample(f"accelerate_fsdp2_{world}/torch_optimizer_before_fsdp_fixed").ranks
        own = sample(f"accelerate_fsdp2_{world}/accelerate").ranks
        for rank in (*fixed, *own):
            assert int(rank.facts().replay.allocated_bytes.max()) == peaks[world, "torch_optimizer_after_fsdp"]
    eight = peaks[8, "torch_optimizer_before_fsdp_not_fixed"] - peaks[8, "torch_optimizer_after_fsdp"]
    assert eight == 4_853_895_168
    assert peaks[2, "torch_optimizer_before_fsdp_not_fixed"] - peaks[2, "torch_optimizer_after_fsdp"] < eight // 8


def test_litgpts_difference_does_not_come_from_the_training_step() -> None:
    report = diff(sample("litgpt_eager_8/main"), sample("litgpt_eager_8/pr"))
    end = next(point for point in report.points if point.at == "end").ranks[0]
    assert end.before_training_bytes == 13_477_879_808
    # remainders of blocks that were not split off: no step asks for more or less than in main
    assert end.training_bytes == -4_194_304
    # the measure would also count what is still to be freed at that moment
    requested = sum(row.head_requested_bytes - row.base_requested_bytes for row in end.rows)
    assert requested == 13_476_831_232
    assert report.base.fake_process_group
    assert report.head.metrics.keys() == {"tokens_per_s"}


def test_a_leak_grows_by_one_output_a_step() -> None:
    (rank,) = sample("leak").ranks
    phases = rank.facts().phases
    ends = [int(phases.end[i, 1]) for i, name in enumerate(phases.names) if name.count("/") == 1]
    # the first made the optimizer's state, and nothing tells when the last had let go of its gradients
    assert {after - before for before, after in itertools.pairwise(ends[1:-1])} == {512 * 1_024 * 4}


def test_the_rank_with_larger_batches_uses_more() -> None:
    small, large = (int(rank.facts().replay.allocated_bytes.max()) for rank in sample("uneven_ranks").ranks)
    assert large - small > 60 << 20


def test_a_graphs_memory_lies_in_a_pool_of_its_own() -> None:
    (rank,) = sample("cuda_graph").ranks
    assert len({tuple(pool) for pool in rank.columns.pools.tolist()}) > 1


def test_the_figures_of_the_benchmark_end_with_the_training() -> None:
    for run, peak, trough in (
        ("torch_optimizer_after_fsdp", 5_019_252_224, 2_401_655_296),
        ("torch_optimizer_before_fsdp_not_fixed", 9_873_147_392, 7_831_863_808),
    ):
        curve = timeline(run, sample(f"accelerate_fsdp2_8/{run}").ranks[0].facts()).allocated
        assert (curve.peak_bytes, curve.trough_bytes) == (peak, trough)
        assert curve.end_bytes >= trough


def test_two_large_effects_that_cancel_are_not_called_rounding() -> None:
    fixed, stale = (f"accelerate_fsdp2_2/torch_optimizer_before_fsdp_{end}" for end in ("fixed", "not_fixed"))
    verdict = diff(sample(fixed), sample(stale)).verdict
    assert "rounding" not in verdict
    assert "98 parameters stay whole after shard" in verdict
    assert "The optimizer of torch_optimizer_before_fsdp_not_fixed has made no state" in verdict


def test_what_a_record_names_is_one_row_wherever_it_was_made() -> None:
    (end, *_) = diff(sample("single"), sample("leak")).points
    named = [row for row in end.ranks[0].rows if row.evidence == "recorded"]
    assert {row.category for row in named} <= {"gradient"}, "parameters and states are the same in both"
