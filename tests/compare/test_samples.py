"""The real runs: what the issue's figures say, to the byte."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from snapviz.analyze.run import Run, load_run
from snapviz.compare.diff import diff
from snapviz.schema import DiffReport
from tests.analyze.builders import ROOT, load_for_tests, sample

LEAK = 4_194_304
FSDP2_LIVE = 302_235_136


def points(report: DiffReport, at: str):
    return next(point.ranks for point in report.points if point.at == at)


@pytest.fixture(scope="module")
def thunder() -> DiffReport:
    return diff(sample("main"), sample("pr"))


@pytest.fixture(scope="module")
def fsdp2() -> DiffReport:
    return diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"))


def test_thunder_on_both_ranks_one_parameter(thunder: DiffReport) -> None:
    assert thunder.notes == thunder.caveats == ()
    assert [(r.rank, r.base_total_bytes, r.head_total_bytes) for r in points(thunder, "end")] == [
        (0, 6_291_968, 10_486_272),
        (1, 6_291_968, 10_486_272),
    ]
    for rank in (*points(thunder, "end"), *points(thunder, "peak")):
        (row,) = rank.rows
        assert (row.owner, row.category, row.birth_phase, row.dangling) == ("p1", "parameter", "materialize", True)
        assert (row.delta_bytes, row.base_count, row.head_count, row.evidence) == (LEAK, 0, 1, "recorded")
    assert [(d.run, d.rank, d.name, d.block_bytes) for d in thunder.dangling] == [
        ("head", 0, "p1", LEAK),
        ("head", 1, "p1", LEAK),
    ]
    assert thunder.dangling[0].shape == (1024, 1024)
    for rank in points(thunder, "peak"):
        assert rank.head_without is not None
        assert rank.head_without.peak_bytes == rank.base_total_bytes
        assert rank.base_without is None


def test_fsdp2_names_every_stale_parameter(fsdp2: DiffReport) -> None:
    (end,) = points(fsdp2, "end")
    assert end.delta_bytes == sum(row.delta_bytes for row in end.rows) == FSDP2_LIVE
    record = sample("fsdp2_before_notfixed").ranks[0].record
    assert record is not None
    full = {name.name for name in record.boundaries[0].names}
    assert len(full) == 75
    assert {row.owner for row in end.rows if row.dangling} == full
    assert {d.name for d in fsdp2.dangling if d.run == "head" and d.gone_in is None} == full
    assert [d for d in fsdp2.dangling if d.run == "base"] == []
    # optimizer and shard come in another order in head: matched by name
    phases = {row.phase: row for row in fsdp2.phases}
    assert set(phases) == {"materialize", "optimizer_init", "shard", "train/step0", "train/step", "train"}
    assert all(row.peak_delta is not None for row in phases.values())


def test_replay_gives_torchs_counters_in_every_phase_of_the_samples() -> None:
    for name in ("main", "pr", "fsdp2_after", "fsdp2_before_notfixed"):
        for rank in sample(name).ranks:
            facts = rank.facts()
            assert facts.notes == ()  # a counter that differs would be one
            assert rank.record is not None
            for phase, peak, end in zip(rank.record.phases, facts.phases.peak, facts.phases.end, strict=True):
                counters = phase.counters
                assert counters is not None
                assert peak[1] == counters.peak_allocated_bytes
                assert peak[3] == counters.peak_reserved_bytes
                assert (end[1], end[3]) == (counters.end_allocated_bytes, counters.end_reserved_bytes)


def test_a_report_is_its_json(thunder: DiffReport, fsdp2: DiffReport) -> None:
    for report in (thunder, fsdp2):
        assert DiffReport.model_validate_json(report.model_dump_json()) == report


def test_the_same_from_bare_files_is_inferred_and_says_so() -> None:
    folder = ROOT / "sample_snapshots"
    base, head = (load_run(folder / name / "rank00000.pickle.zst", loader=load_for_tests) for name in ("main", "pr"))
    report = diff(base, head)
    (end,) = points(report, "end")
    (row,) = end.rows
    assert (row.delta_bytes, row.owner, row.category, row.dangling) == (LEAK, "", "unknown", False)
    assert report.dangling == ()
    assert [(s.run, s.block_bytes) for s in report.suspects] == [("head", LEAK)]


# ------------------------------------------------------------------ more runs, where they are there


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_samples", ROOT / "benchmarks" / "make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ground_truth(maker: ModuleType, shared: Path, name: str, ranks: tuple[int, ...], world: int, scratch: Path) -> Run:
    how = {"source": name, "ranks": ranks, "world_size": world, "settings": {}}
    maker.write_run(shared / "groundtruth", scratch / name, name, how)
    return load_run(scratch / name, loader=load_for_tests)


@pytest.mark.parametrize(
    ("name", "ranks", "world"),
    [
        ("thunder_keep", (0, 1), 2),
        ("real2_after", (0, 1), 2),
        ("real2_before_notfixed", (0, 1), 2),
        ("fake8_before_fixed", (0,), 8),
        ("accel8_after", (0,), 8),
        ("accelerate", (0, 1), 2),
        ("alloc_plain", (0,), 1),
        ("alloc_expandable", (0,), 1),
        ("alloc_graph", (0,), 1),
    ],
)
def test_every_phase_of_every_recording(
    maker: ModuleType, shared: Path, tmp_path: Path, name: str, ranks: tuple[int, ...], world: int
) -> None:
    for rank in ground_truth(maker, shared, name, ranks, world, tmp_path).ranks:
        facts = rank.facts()
        assert [note for note in facts.notes if "torch's counter" in note] == []
        assert len(facts.phases) >= 3


def test_real_ranks_leave_all_their_parameters_behind(maker: ModuleType, shared: Path, tmp_path: Path) -> None:
    base = ground_truth(maker, shared, "real2_after", (0, 1), 2, tmp_path)
    head = ground_truth(maker, shared, "real2_before_notfixed", (0, 1), 2, tmp_path)
    report = diff(base, head)
    for rank in points(report, "end"):
        assert sum(row.dangling for row in rank.rows) == 75
    fixed = diff(base, ground_truth(maker, shared, "accelerate", (0, 1), 2, tmp_path))
    assert [d for d in fixed.dangling if d.gone_in is None] == []


SYNTHETIC = {
    "base": [],
    "installed": ["--root", "/x/lib/python3.11/site-packages/proj", "--line-shift", "7"],
    "shift": ["--line-shift", "7"],
    "root": ["--root", "/other/path"],
    "scale": ["--scale", "2"],
    "leak": ["--leak", "16"],
    "all": ["--leak", "16", "--line-shift", "7", "--root", "/other/path"],
}


@pytest.fixture(scope="module")
def synthetic(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("synthetic")
    runs = {}
    for name, knobs in SYNTHETIC.items():
        path = folder / f"{name}.pickle"
        command = [sys.executable, str(shared / "make_snapshot.py"), "--events", "20000", "--out", str(path), *knobs]
        subprocess.run(command, check=True, capture_output=True)
        runs[name] = load_run(path, loader=load_for_tests)
    return runs


@pytest.mark.parametrize("name", ["shift", "root", "installed"])
def test_synthetic_what_only_moved(synthetic: dict[str, Run], name: str) -> None:
    report = diff(synthetic["base"], synthetic[name])
    assert [len(point.ranks[0].rows) for point in report.points] == [0, 0]


@pytest.mark.parametrize("name", ["leak", "all"])
def test_synthetic_leak_is_one_gibibyte_of_gathers(synthetic: dict[str, Run], name: str) -> None:
    (end,) = points(diff(synthetic["base"], synthetic[name]), "end")
    assert sum(row.delta_bytes for row in end.rows) == end.delta_bytes == 1 << 30
    assert sum(row.head_count for row in end.rows) == 16
    assert all(row.base_count == 0 and "foreach_all_gather" in " ".join(row.stack) for row in end.rows)


def test_synthetic_scale_is_growth_of_known_stacks(synthetic: dict[str, Run]) -> None:
    report = diff(synthetic["base"], synthetic["scale"])
    (end,), (peak,) = points(report, "end"), points(report, "peak")
    assert end.rows == ()
    assert peak.rows
    assert all(row.base_count == row.head_count > 0 and row.delta_bytes > 0 for row in peak.rows)
    assert {row.category for row in peak.rows} == {"activation"}
