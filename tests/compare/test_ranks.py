"""The ranks of one run: how far apart, which are outliers, and why the worst one is larger."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.imbalance import FLOOR_BYTES, spread_of
from snapviz.analyze.run import RankFailure, Run, load_run
from snapviz.compare.ranks import ranks
from snapviz.errors import RunError, UsageError
from snapviz.schema import RankFigures, RanksReport, Spread
from tests.analyze.builders import MIB, Trace, frame, load_for_tests, record, run_of, sample
from tests.compare.jobs import job


def spread(*values: int) -> Spread:
    found = spread_of(dict(enumerate(values)), None, "allocated")
    assert found is not None
    return found


def of(report: RanksReport, rank: int) -> RankFigures:
    return next(one for one in report.ranks if one.rank == rank)


# ------------------------------------------------------------------ how far apart


def test_worst_best_and_median_are_ranks() -> None:
    found = spread(30 * MIB, 10 * MIB, 30 * MIB, 20 * MIB)
    assert (found.worst_rank, found.best_rank, found.median_rank) == (0, 1, 3)
    assert (found.max_bytes, found.min_bytes, found.median_bytes) == (30 * MIB, 10 * MIB, 20 * MIB)
    assert (found.spread_bytes, found.spread_percent, found.ranks) == (20 * MIB, 100.0, 4)


def test_no_ranks_and_no_bytes() -> None:
    assert spread_of({}, None, "allocated") is None
    nothing = spread(0, 0, 0)
    assert (nothing.spread_percent, nothing.spread_bytes, nothing.outliers) == (None, 0, ())


def test_of_two_ranks_none_is_an_outlier() -> None:
    assert spread(1, 1 << 40).outliers == ()
    assert spread(1 << 30, 1 << 30, 1 << 40).outliers == (2,)


@pytest.mark.parametrize(
    ("values", "limit", "outliers"),
    [
        # equal to the byte but one: nearer than the floor, and then just beyond it
        ([100 * MIB] * 7 + [102 * MIB], FLOOR_BYTES, ()),
        ([100 * MIB] * 7 + [102 * MIB + 1], FLOOR_BYTES, (7,)),
        # 1% of the median is more than 2 MiB
        ([1000 * MIB] * 7 + [1010 * MIB], 10 * MIB, ()),
        ([1000 * MIB] * 7 + [990 * MIB - 1], 10 * MIB, (7,)),
        # 4.4478 times the median distance of 10 MiB
        ([90 * MIB, 100 * MIB, 110 * MIB, 100 * MIB, 110 * MIB, 90 * MIB, 144 * MIB], 46_638_563, ()),
        ([90 * MIB, 100 * MIB, 110 * MIB, 100 * MIB, 110 * MIB, 90 * MIB, 145 * MIB], 46_638_563, (6,)),
    ],
)
def test_outliers_are_told_by_the_median_distance_and_a_floor(
    values: list[int], limit: int, outliers: tuple[int, ...]
) -> None:
    found = spread(*values)
    assert (found.limit_bytes, found.outliers) == (limit, outliers)


@given(st.lists(st.integers(0, 1 << 50), min_size=1, max_size=40))
def test_every_figure_of_a_spread_is_a_value(values: list[int]) -> None:
    found = spread(*values)
    assert {found.max_bytes, found.min_bytes, found.median_bytes, *found.quantiles.values()} <= set(values)
    quantiles = [found.quantiles[at] for at in ("10%", "25%", "75%", "90%")]
    assert [found.min_bytes, *quantiles, found.max_bytes] == sorted([found.min_bytes, *quantiles, found.max_bytes])
    assert values[found.worst_rank] == max(values)
    assert values[found.median_rank] == sorted(values)[(len(values) - 1) // 2]
    assert all(abs(values[rank] - found.median_bytes) > found.limit_bytes for rank in found.outliers)
    assert len(found.outliers) <= len(values) // 2


# ------------------------------------------------------------------ why


@pytest.mark.parametrize("measure", ["requested", "allocated", "active", "reserved"])
def test_rows_sum_to_the_difference_of_the_worst_and_the_median_rank(measure: str) -> None:
    run = run_of(job(), job(leak=2), job(leak=1), job(leak=1), job(leak=3))
    report = ranks(run, measure=measure)
    why = report.why
    assert why is not None
    assert (why.rank, why.median_rank) == (4, 2)
    assert why.point.delta_bytes == sum(row.delta_bytes for row in why.point.rows) == 128 * MIB
    if measure != "reserved":  # whose peak is another moment
        assert [(row.base_count, row.head_count) for row in why.point.rows] == [(2, 4)]
    assert report.spread is not None
    assert report.spread.measure == measure
    assert [one.value_bytes for one in report.ranks] == [getattr(one.peak, f"{measure}_bytes") for one in report.ranks]


def test_any_rank_can_be_explained_but_the_median_one() -> None:
    run = run_of(job(), job(leak=2), job(leak=1))
    one = ranks(run, rank=0).why
    assert one is not None
    assert (one.rank, one.median_rank, one.point.delta_bytes) == (0, 2, -64 * MIB)
    assert ranks(run, rank=2).why is None
    with pytest.raises(RunError, match="no rank 7"):
        ranks(run, rank=7)


def test_a_phase_of_its_own() -> None:
    report = ranks(run_of(job(), job(leak=1)), phase="train/step1", rank=1)
    assert report.spread is not None
    assert (report.spread.phase, report.spread.spread_bytes) == ("train/step1", 0)
    assert report.why is not None
    assert (report.why.at, report.why.point.delta_bytes) == ("phase:train/step1:peak", 0)
    folded = ranks(run_of(job(), job(leak=1)), phase="train/step")
    assert folded.spread is not None
    assert folded.spread.spread_bytes == 64 * MIB


def test_a_rank_without_the_phase_has_no_value() -> None:
    report = ranks(run_of(job(steps=3), job(steps=1), job(steps=3)), phase="train/step2")
    assert [one.value_bytes is None for one in report.ranks] == [False, True, False]
    assert (report.spread and report.spread.ranks, of(report, 1).deviation_bytes) == (2, None)
    assert [one.ranks for one in report.phases if one.phase == "train/step"] == [2]
    with pytest.raises(UsageError, match=r"--at phase:nope: no such phase \(there is: train, train/step0"):
        ranks(run_of(job()), phase="nope")
    with pytest.raises(UsageError, match="--measure most: use requested"):
        ranks(run_of(job()), measure="most")


def test_one_rank_and_none() -> None:
    alone = ranks(run_of(job()))
    assert alone.why is None
    assert alone.spread is not None
    assert (alone.spread.ranks, alone.spread.outliers) == (1, ())
    failures = (RankFailure(0, "rank0.pickle", "truncated"),)
    nothing = ranks(Run("run", "run", None, (), failures))
    assert (nothing.ranks, nothing.spread, nothing.why, nothing.phases) == ((), None, None, ())
    assert [one.rank for one in nothing.broken] == [0]


def test_many_ranks_are_the_same_as_few_and_keep_no_replay() -> None:
    traces = [job(leak=i % 3) for i in range(20)]
    run = run_of(*traces)
    report = ranks(run)
    assert report.spread is not None
    assert (report.spread.ranks, report.spread.worst_rank, report.spread.median_rank) == (20, 2, 1)
    kept = {rank.rank for rank in run.ranks if rank._facts is not None}
    assert kept == {1, 2}
    few = ranks(run_of(*traces[:3]))
    assert few.ranks[:3] == tuple(
        one.model_copy(update={"deviation_bytes": two.deviation_bytes, "outlier": two.outlier})
        for one, two in zip(report.ranks, few.ranks, strict=False)
    )


def test_a_recording_that_begins_in_the_middle_is_at_least_its_peak() -> None:
    objects = job().objects()
    objects["device_traces"][0] = objects["device_traces"][0][30:]
    report = ranks(run_of(job(), objects))
    assert [one.at_least for one in report.ranks] == [False, True]
    assert report.spread is not None
    assert report.spread.at_least


# ------------------------------------------------------------------ other devices


def two_devices(own: Trace, other: Trace) -> dict[str, Any]:
    first, second = own.objects(), other.objects()
    assert (own.device, other.device) == (1, 0)
    first["device_traces"][0] = second["device_traces"][0]
    first["segments"] = first["segments"] + second["segments"]
    return first


def write(folder: Path, number: int, objects: dict[str, Any]) -> None:
    (folder / f"rank{number}.pickle").write_bytes(pickle.dumps(objects))


def test_memory_on_another_ranks_device(tmp_path: Path) -> None:
    stray = Trace(0)
    stray.free(stray.alloc(24, frame("load", "/repo/checkpoint.py", 9)))
    for _ in range(2):
        stray.alloc(22, frame("load", "/repo/checkpoint.py", 9))
    write(tmp_path, 0, job().objects())
    write(tmp_path, 1, two_devices(job(device=1), stray))
    report = ranks(load_run(tmp_path, cache=False))
    assert of(report, 0).foreign == ()
    (memory,) = of(report, 1).foreign
    assert (memory.device, memory.events, memory.allocated_bytes) == (0, len(stray.events), 44 * MIB)
    assert (memory.reserved_bytes, memory.peak_allocated_bytes) == (68 * MIB, 44 * MIB)
    (block,) = memory.blocks
    assert (block.held_bytes, block.held_count, block.stack) == (44 * MIB, 2, ("load (/repo/checkpoint.py:9)",))
    # its own figures are those of its own device
    assert of(report, 0).peak == of(report, 1).peak


def test_a_file_of_several_devices_is_several_ranks_and_nothing_is_foreign(tmp_path: Path) -> None:
    path = tmp_path / "both.pickle"
    path.write_bytes(pickle.dumps(two_devices(job(device=1), job(device=0))))
    report = ranks(load_run(path, cache=False))
    assert [(one.rank, one.foreign) for one in report.ranks] == [(0, ()), (1, ())]


# ------------------------------------------------------------------ what the record knows


def test_retries_and_ooms_are_counted_once_however_phases_nest() -> None:
    trace = job()
    last = trace.now
    known = record([("train", 0, last), ("train/step0", 0, last // 2), ("save", last + 1, last + 2)])
    document = known.model_dump()
    for phase, retries in zip(document["phases"], (3, 2, 1), strict=True):
        values = dict.fromkeys(("peak_allocated_bytes", "end_allocated_bytes", "peak_reserved_bytes"), 0)
        phase["counters"] = values | {"end_reserved_bytes": 0, "alloc_retries": retries, "ooms": retries - 1}
    report = ranks(run_of(trace, records=[type(known).model_validate(document)]))
    (one,) = report.ranks
    assert (one.alloc_retries, one.ooms, one.recorded) == (4, 2, True)
    assert {row.phase: row.alloc_retries for row in one.phases} == {"train": 3, "train/step0": 2, "save": 1}


# ------------------------------------------------------------------ real runs


def test_uneven_ranks_differ_by_their_batches() -> None:
    report = ranks(sample("uneven_ranks"))
    assert report.spread is not None
    assert (report.spread.worst_rank, report.spread.spread_bytes) == (1, 69_206_528)
    assert report.why is not None
    assert sum(row.delta_bytes for row in report.why.point.rows) == report.why.point.delta_bytes == 69_206_528
    apart = {one.phase: (one.worst_rank, one.spread_bytes) for one in report.phases if one.spread_bytes}
    assert {"materialize", "shard"}.isdisjoint(apart)
    assert apart["train/step"] == (1, 69_206_528)
    assert apart["optimizer"] == (1, 2 << 20)
    assert all(rank == 1 for rank, _ in apart.values())
    assert RanksReport.model_validate_json(report.model_dump_json()) == report
    forward = ranks(sample("uneven_ranks"), phase="train/step0/forward")
    assert forward.why is not None
    assert forward.why.point.delta_bytes == 58_674_688


def test_both_ranks_of_thunder_are_the_same() -> None:
    report = ranks(sample("thunder_478/pr"))
    assert (report.spread and report.spread.spread_bytes, report.why) == (0, None)
    assert [(one.dangling_bytes, one.dangling_count) for one in report.ranks] == [(4_194_304, 1)] * 2
    assert {one.spread_bytes for one in report.phases} == {0}
    assert [one.peak.allocated_bytes for one in report.ranks] == [14_680_576] * 2


def test_a_bare_file_has_figures_and_does_not_know_the_rest() -> None:
    path = Path(sample("pr").path) / "rank00000.pickle.zst"
    (one,) = ranks(load_run(path, loader=load_for_tests)).ranks
    assert (one.dangling_bytes, one.outside_bytes, one.alloc_retries, one.ooms) == (None, None, None, None)
