"""What is worked out once: on disk for every worker, in memory up to a limit."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import snapviz
from snapviz.app import results as module
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.state import State
from snapviz.errors import RunError, UsageError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
PAIR = State(base="pair/main", head="pair/pr")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "runs"
    shutil.copytree(SAMPLES / "thunder_478", found / "pair", copy_function=shutil.copyfile)
    past = time.time() - 1000
    for path in found.rglob("*"):
        os.utime(path, (past, past))
    return found


def results(root: Path, **more: Any) -> Results:
    return Results(Registry(str(root)), root.parent / "kept", **more)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    whole = module.diff

    def diff(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return whole(*args, **more)

    monkeypatch.setattr(module, "diff", diff)
    return calls


def test_a_report_is_what_diff_says(root: Path) -> None:
    wanted = snapviz.diff(root / "pair" / "main", root / "pair" / "pr")
    assert results(root).report(PAIR) == wanted


def test_the_options_of_the_state_are_those_of_the_report(root: Path) -> None:
    state = PAIR.with_(at="phase:train:peak", by="category", measure="reserved", threshold="1MiB", mode="absolute")
    report = results(root).report(state)
    assert [point.at for point in report.points] == ["end", "peak", "phase:train:peak"]
    options = report.options
    assert (options.by, options.measure, options.threshold, options.mode) == (
        "category",
        "reserved",
        "1MiB",
        "absolute",
    )
    with pytest.raises(UsageError, match="no such phase"):
        results(root).report(PAIR.with_(at="phase:nowhere"))


def test_another_worker_reads_it_from_the_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    first = results(root)
    report = first.report(PAIR)
    assert first.report(PAIR) is report
    assert results(root).report(PAIR) == report
    assert len(calls) == 1


def test_a_file_that_changes_makes_another_report(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    before = results(root).key("report", PAIR)
    results(root).report(PAIR)
    shutil.copyfile(root / "pair/main/rank00000.pickle.zst", root / "pair/pr/rank00000.pickle.zst")
    assert results(root).key("report", PAIR) != before
    results(root).report(PAIR)
    assert len(calls) == 2


def test_files_just_written_are_not_kept_on_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(root / "pair/pr/run.json")
    calls = counted(monkeypatch)
    results(root).report(PAIR)
    results(root).report(PAIR)
    assert len(calls) == 2


def test_sides_are_not_swapped(root: Path) -> None:
    found = results(root)
    swapped = found.report(State(base=PAIR.head, head=PAIR.base))
    assert swapped.ranks[0].peak.delta.allocated_bytes == -found.report(PAIR).ranks[0].peak.delta.allocated_bytes != 0
    assert found.key("x", State(base="pair/main")) != found.key("x", State(head="pair/main"))


def test_a_disk_that_is_gone_costs_time_and_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("unable to open database file")

    found = results(root)
    monkeypatch.setattr(found._disk._cache, "get", fails)
    monkeypatch.setattr(found._disk._cache, "set", fails)
    assert found.report(PAIR).verdict
    assert not found.is_prepared(PAIR)
    assert found.kept("x", PAIR, lambda: {"a": (1, 2)}) == {"a": [1, 2]}


def test_what_lies_on_disk_is_never_unpickled(root: Path) -> None:
    found = results(root)
    found.kept("x", PAIR, lambda: 7)
    ran = root.parent / "ran"
    hostile = f"cos\nsystem\n(S'touch {ran}'\ntR.".encode()
    with sqlite3.connect(root.parent / "kept" / "cache.db") as connection:
        connection.execute("UPDATE Cache SET mode = 4, value = ?", (hostile,))
    connection.close()
    assert results(root).kept("x", PAIR, lambda: 8) == 8
    assert not ran.exists()


def test_prepared_once_for_everyone(root: Path) -> None:
    said: list[Any] = []
    found = results(root)
    assert not found.is_prepared(PAIR)
    assert found.is_small(PAIR)
    found.prepare(PAIR, lambda *told: said.append(told))
    assert any("comparing rank 0" in told for told in said)
    assert results(root).is_prepared(PAIR)
    assert not results(root).is_prepared(PAIR.with_(by="stack"))
    # this page groups by itself
    assert results(root).is_prepared(PAIR.with_(page="live", by="module", at="end", measure="reserved"))
    # where on the page somebody is does not matter
    assert results(root).is_prepared(PAIR.with_(page="timeline", x0=5, row="a"))


def test_one_run_alone(root: Path) -> None:
    found = results(root)
    alone = State(head="pair/pr")
    found.prepare(alone, lambda *_: None)
    assert found.is_prepared(alone)
    assert found.ranks(alone) == [0, 1]


def test_a_refused_run_is_not_opened(root: Path, tmp_path: Path) -> None:
    inside = root / "pair" / "main" / "rank00001.json"
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="leads out"):
        results(root).run("pair/main")


def test_facts_go_when_there_are_too_many(root: Path) -> None:
    found = results(root, facts_bytes=1)
    first = found.facts("pair/main", 0)
    assert found.run("pair/main").rank(0).known is first
    found.facts("pair/pr", 0)
    assert found.run("pair/main").rank(0).known is None
    assert found.run("pair/pr").rank(0).known is not None
    again = found.facts("pair/main", 0)
    assert again.owners == first.owners
    # a comparison of all ranks leaves no more of them
    found.report(PAIR)
    kept = [rank for run in ("pair/main", "pair/pr") for rank in found.run(run).ranks if rank.known is not None]
    assert len(kept) == 1


def test_facts_stay_while_there_is_room(root: Path) -> None:
    found = results(root)
    assert found.facts("pair/main", 0) is found.facts("pair/main", 0)
    with pytest.raises(RunError, match="no rank 7"):
        found.facts("pair/main", 7)


def test_many_at_once_make_it_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    found = results(root)
    reports: list[Any] = []
    threads = [threading.Thread(target=lambda: reports.append(found.report(PAIR))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(report is reports[0] for report in reports)


def test_fresh_shares_nothing_that_could_be_locked(root: Path) -> None:
    found = results(root)
    found.report(PAIR)
    with found._lock, found.runs._lock:
        assert found.fresh().report(PAIR).verdict


def test_of_many_runs_a_worker_keeps_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RUNS", 3)
    for number in range(6):
        shutil.copytree(SAMPLES / "thunder_478" / "main", tmp_path / "runs" / f"run{number}")
    found = results(tmp_path / "runs")
    for number in (0, 1, 2, 3, 1, 4, 5):
        run = found.run(f"run{number}")
        assert found.facts(f"run{number}", 0) is run.rank(0).facts()
    assert [run_id for run_id, _ in found._loaded] == ["run1", "run4", "run5"]
    assert {key[0] for key, _ in found._costs} == {"run1", "run4", "run5"}
    assert found.run("run1") is found.run("run1")
