"""Phases, counters, files and what goes wrong: the recorder over a stand-in for torch's recording calls."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import snapviz
from snapviz import RecordError, UsageError
from snapviz.analyze.facts import MEASURES
from snapviz.analyze.run import load_run
from snapviz.record import active
from snapviz.record.recorder import Recorder
from tests.record.builders import MIB, FakeBackend, manifest, record_of

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_is_left_on() -> Any:
    yield
    assert active() is None


@pytest.fixture(autouse=True)
def one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def recorder(directory: Path, backend: FakeBackend | None = None, **rest: Any) -> Recorder:
    made: Recorder = snapviz.record(directory, backend=backend or FakeBackend(), **rest)
    return made


# ------------------------------------------------------------------ what is recorded


def test_a_run_replays_to_the_counters_of_every_phase(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend, name="main") as rec:
        with rec.phase("materialize"):
            kept = backend.alloc(4 * MIB)
        with snapviz.phase("train"):
            for step in range(3):
                with snapviz.phase(f"step{step}"):
                    backend.free(backend.alloc((step + 1) * MIB))
        backend.free(kept)
    facts = load_run(tmp_path / "run").ranks[0].facts()
    phases = facts.phases
    assert phases.names == ("materialize", "train", "train/step0", "train/step1", "train/step2")
    assert facts.replay.exact
    for index, counted in enumerate(record_of(tmp_path / "run").phases):
        assert counted.counters is not None
        for column, measure in enumerate(MEASURES):
            assert phases.peak[index, column] == getattr(counted.counters, f"peak_{measure}_bytes")
            assert phases.end[index, column] == getattr(counted.counters, f"end_{measure}_bytes")
    allocated = phases.peak[:, MEASURES.index("allocated")].tolist()
    assert allocated == [4 * MIB, 7 * MIB, 5 * MIB, 6 * MIB, 7 * MIB]


def test_an_outer_phase_keeps_the_peak_of_what_lies_in_it_and_between(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec, rec.phase("train"):
        with rec.phase("a"):
            backend.free(backend.alloc(2 * MIB))
        backend.free(backend.alloc(9 * MIB))
        with rec.phase("b"):
            backend.free(backend.alloc(3 * MIB))
    peaks = {p.name: p.counters.peak_allocated_bytes for p in record_of(tmp_path / "run").phases if p.counters}
    assert peaks == {"train": 9 * MIB, "train/a": 2 * MIB, "train/b": 3 * MIB}


def test_retries_and_ooms_are_those_of_the_phase(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.retries, backend.ooms = 5, 1
    with recorder(tmp_path / "run", backend) as rec:
        with rec.phase("a"):
            backend.retries += 2
        with rec.phase("b"):
            backend.ooms += 1
    counted = [(p.counters.alloc_retries, p.counters.ooms) for p in record_of(tmp_path / "run").phases if p.counters]
    assert counted == [(2, 0), (0, 1)]


def test_the_device_is_waited_for_and_its_free_memory_noted(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec, rec.phase("a"):
        backend.calls.clear()
    assert "synchronize" in backend.calls
    (phase,) = record_of(tmp_path / "run").phases
    assert phase.counters is not None
    assert (phase.counters.device_free_bytes, phase.counters.device_total_bytes) == (100 * MIB, 160 * MIB)


def test_training_does_not_wait_for_the_device_and_what_is_around_it_does(tmp_path: Path) -> None:
    backend = FakeBackend()
    waited = {}
    with recorder(tmp_path / "run", backend) as rec:
        for name in ("shard", "train/step0", "train/step0/forward"):
            with rec.phase(name):
                backend.calls.clear()
            waited[name] = "synchronize" in backend.calls
        rec.open("shard")
        backend.calls.clear()
    # nor does the end: what is waited for may never come
    assert waited == {"shard": True, "train/step0": False, "train/step0/forward": False}
    assert "synchronize" not in backend.calls


def test_peaks_that_the_program_resets_are_kept(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec, rec.phase("train"), rec.phase("step0"):
        backend.free(backend.alloc(9 * MIB))
        backend.program_resets_peaks()
        backend.free(backend.alloc(2 * MIB))
    for phase in record_of(tmp_path / "run").phases:
        assert phase.counters is not None
        assert phase.counters.peak_allocated_bytes == 9 * MIB
    assert load_run(tmp_path / "run").ranks[0].facts().exact


def test_a_snapshot_that_fails_leaves_nothing_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()

    def full() -> None:
        raise MemoryError

    monkeypatch.setattr(backend, "snapshot", full)
    with (
        pytest.warns(RuntimeWarning, match=r"the snapshot could not be recorded \(MemoryError"),
        recorder(tmp_path / "run", backend),
    ):
        pass
    assert not backend.recording
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("environment", "rank", "world"),
    [
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 2, 4),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}, 3, 8),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, 0, 1),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 1, 2),
    ],
)
def test_ranks_come_from_other_launchers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], rank: int, world: int
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with recorder(tmp_path / "run"):
        pass
    assert record_of(tmp_path / "run", rank).world_size == world


def test_switch_closes_and_opens_side_by_side(tmp_path: Path) -> None:
    with recorder(tmp_path / "run") as rec:
        rec.open("train")
        rec.open("step0")
        rec.switch("step1")
        assert rec.path() == "train/step1"
        rec.close()
    assert [p.name for p in record_of(tmp_path / "run").phases] == ["train", "train/step0", "train/step1"]


def test_what_is_left_open_ended_with_the_last_phase_in_it(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec:
        rec.open("train")
        rec.open("step0")
        rec.open("forward")
        kept = backend.alloc(MIB)
        rec.close()
        backend.alloc(8 * MIB)  # the program goes on, and ends
        backend.free(kept)
    counters = {p.name: p.counters for p in record_of(tmp_path / "run").phases}
    for name in ("train", "train/step0", "train/step0/forward"):
        found = counters[name]
        assert found is not None
        assert (found.peak_allocated_bytes, found.end_allocated_bytes) == (MIB, MIB), name
    facts = load_run(tmp_path / "run").ranks[0].facts()
    assert facts.phases.end[:, MEASURES.index("allocated")].tolist() == [MIB] * 3


def test_what_was_marked_ended_then(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec:
        rec.open("step0")
        gradient = backend.alloc(4 * MIB)
        with rec.phase("optimizer"):
            backend.alloc(MIB)
        backend.free(gradient)
        rec.mark()
        backend.alloc(8 * MIB)
    counters = {p.name: p.counters for p in record_of(tmp_path / "run").phases}["step0"]
    assert counters is not None
    assert (counters.peak_allocated_bytes, counters.end_allocated_bytes) == (5 * MIB, MIB)


def test_phases_do_not_overlap_by_a_microsecond(tmp_path: Path) -> None:
    with recorder(tmp_path / "run") as rec:
        for name in "abc":
            with rec.phase(name):
                pass
    phases = record_of(tmp_path / "run").phases
    for before, after in itertools.pairwise(phases):
        assert before.start_us < before.stop_us < after.start_us


def test_a_ring_that_overflowed_is_flagged(tmp_path: Path) -> None:
    for entries, overflowed in ((10, True), (1_000, False)):
        backend = FakeBackend()
        with recorder(tmp_path / str(entries), backend, max_entries=entries):
            for _ in range(10):
                backend.free(backend.alloc(MIB))
        history = record_of(tmp_path / str(entries)).history
        assert history is not None
        assert history.overflowed is overflowed
        assert history.events == (10 if overflowed else 40)
        assert history.first_allocation is True


def test_recording_that_began_late_says_so(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.alloc(MIB)
    with recorder(tmp_path / "run", backend):
        pass
    history = record_of(tmp_path / "run").history
    assert history is not None
    assert history.first_allocation is False


def test_settings_metrics_command_and_versions_are_in_the_manifest(tmp_path: Path) -> None:
    with recorder(tmp_path / "pr", settings={"batch": 2}, command=("train.py", "a b"), context="all") as rec:
        rec.metric("tokens_per_s", 11_603.5)
    found = manifest(tmp_path / "pr")
    assert (found.name, found.settings, found.command) == ("pr", {"batch": 2}, ("train.py", "a b"))
    assert found.metrics == {"tokens_per_s": 11_603.5}
    assert found.allocator_settings == {"max_split_size": -1}
    assert (found.torch, found.device, found.world_size) == ("0.0.fake", "stand-in 0", 1)
    assert "python" in found.packages
    history = record_of(tmp_path / "pr").history
    assert history is not None
    assert history.context == "all"


def test_a_metric_may_come_when_all_is_written(tmp_path: Path) -> None:
    snapviz.metric("nobody_records", 1)
    with recorder(tmp_path / "run"):
        snapviz.metric("samples", 3)
    snapviz.metric("tokens_per_s", 2.5)
    assert manifest(tmp_path / "run").metrics == {"samples": 3, "tokens_per_s": 2.5}
    assert manifest(tmp_path / "run").allocator_settings == {"max_split_size": -1}


def test_each_rank_writes_its_own_files_and_rank_0_the_manifest(tmp_path: Path) -> None:
    for rank in (1, 0):
        with recorder(tmp_path / "run", rank=rank, world_size=2):
            pass
        names = sorted(path.name for path in (tmp_path / "run").iterdir())
        assert ("run.json" in names) == (rank == 0)
    assert names == ["rank00000.json", "rank00000.pickle.zst", "rank00001.json", "rank00001.pickle.zst", "run.json"]
    assert manifest(tmp_path / "run").world_size == 2


def test_ranks_come_from_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec, rec.phase("a"):
        backend.device = 1
        backend.alloc(MIB)
    record = record_of(tmp_path / "run", 3)
    assert (record.world_size, record.device) == (4, 1)
    assert record.phases[0].counters is not None
    assert record.phases[0].counters.peak_allocated_bytes == MIB


def test_a_device_chosen_after_recording_began_is_followed(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec:
        backend.device = 1
        with rec.phase("a"):
            backend.alloc(MIB)
    record = record_of(tmp_path / "run")
    assert record.device == 1
    assert record.phases[0].counters is not None
    assert record.phases[0].counters.end_allocated_bytes == MIB


def test_the_fake_process_group_is_said_in_the_manifest(tmp_path: Path) -> None:
    with recorder(tmp_path / "run", rank=5, world_size=8, fake_process_group=True):
        pass
    found = manifest(tmp_path / "run")
    assert found.fake_process_group is True
    assert found.recorded_ranks == (5,)
    assert len(load_run(tmp_path / "run").failures) == 0


# ------------------------------------------------------------------ what goes wrong


def test_an_exception_is_written_and_goes_on(tmp_path: Path) -> None:
    backend = FakeBackend()
    rec = recorder(tmp_path / "run", backend)

    def train() -> None:
        with rec, rec.phase("train"), rec.phase("step0"):
            backend.alloc(MIB)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train()
    assert [p.name for p in record_of(tmp_path / "run").phases] == ["train", "train/step0"]
    assert backend.calls[-1] == "stop"


def test_a_boundary_without_counters_is_a_phase_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec:
        rec.open("train")
        for step in range(3):
            rec.open(f"step{step}")
            with monkeypatch.context() as broken:
                if step == 1:
                    broken.setattr(backend, "read", lambda *_: 1 / 0)
                    with pytest.warns(RuntimeWarning, match="torch's counters could not be recorded"):
                        rec.open("forward")
                else:
                    rec.open("forward")
            rec.close()
            rec.close()
    counted = {phase.name: phase.counters is not None for phase in record_of(tmp_path / "run").phases}
    names = [f"train/step{i}{part}" for i in range(3) for part in ("", "/forward")]
    assert counted == {"train": False} | {name: "step1" not in name for name in names}


def test_clocks_that_a_program_stops_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorder(tmp_path / "run") as rec:
        monkeypatch.setattr("time.perf_counter_ns", lambda: 1)
        monkeypatch.setattr("time.time_ns", lambda: 1)
        with rec.phase("a"):
            pass
    assert record_of(tmp_path / "run").phases[0].start_us > 10**15
    from snapviz.record import phases

    phases.settle(lambda: 1)  # as a program that replaces what is already bound has it


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"betas": (0.9, 0.95)}, {"betas": [0.9, 0.95]}),
        ({"where": Path("/data"), 3: {"deep": Path("x")}}, {"where": "/data", "3": {"deep": "x"}}),
        ({"odd": "a\udcff"}, {"odd": "a?"}),
    ],
)
def test_settings_of_any_kind_are_written(tmp_path: Path, settings: Any, kept: Any) -> None:
    with recorder(tmp_path / "run", settings=settings, name="a\udcff", command=("\udcfe",)) as rec:
        rec.metric("ok", True)
        with pytest.warns(RuntimeWarning, match="is no number"):
            rec.metric("fast", "very")  # type: ignore[arg-type]
        with rec.phase("a\udcff"):
            pass
    found = manifest(tmp_path / "run")
    assert (found.settings, found.metrics, found.name) == (kept, {"ok": 1}, "a?")
    assert [phase.name for phase in record_of(tmp_path / "run").phases] == ["a?"]


def test_a_record_that_cannot_be_made_leaves_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.record.recorder.rank_record", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="rank 0 could not be recorded"), recorder(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / "rank00000.pickle.zst").exists()


@pytest.mark.parametrize("rest", [{"max_entries": 0}, {"max_entries": 1 << 64}, {"rank": -1}, {"rank": 1 << 18}])
def test_what_no_file_could_hold_is_told_at_the_start(tmp_path: Path, rest: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        recorder(tmp_path / "run", **rest)


def test_a_program_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorder(Path("run")):
        (tmp_path / "elsewhere").mkdir()
        os.chdir(tmp_path / "elsewhere")
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"run.json", "rank00000.pickle.zst"}
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_phase_may_be_entered_again_and_in_itself(tmp_path: Path) -> None:
    with recorder(tmp_path / "run"):
        again = snapviz.phase("a")
        with again:
            pass
        with again, again:
            pass
    assert [phase.name for phase in record_of(tmp_path / "run").phases] == ["a", "a", "a/a"]


def test_a_forked_process_writes_nothing_and_names_no_phase(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recorder(tmp_path / "run", backend) as rec:
        child = os.fork()
        if child == 0:
            with rec.phase("child"):
                pass
            rec.stop()
            os._exit(0 if backend.recording else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]
    assert record_of(tmp_path / "run").phases == ()


def test_another_run_is_not_written_over(tmp_path: Path) -> None:
    with recorder(tmp_path / "run", name="first"):
        pass
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(RecordError, match="of an earlier run is there"):
        recorder(tmp_path / "run").start()
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_overwriting_takes_the_ranks_that_are_no_more(tmp_path: Path) -> None:
    for rank in range(3):
        with recorder(tmp_path / "run", rank=rank, world_size=3):
            pass
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with recorder(tmp_path / "run", rank=0, world_size=2, overwrite=True):
        names = {path.name for path in (tmp_path / "run").iterdir()}
        # rank 1 may be recording at this moment: what it has is its own to replace
        assert names == {"run.json", "rank00001.json", "rank00001.pickle.zst", "notes.txt"}


def test_history_that_is_on_already_is_left_alone(tmp_path: Path) -> None:
    backend = FakeBackend(recording=True)
    with pytest.raises(RecordError, match="being recorded already"):
        recorder(tmp_path / "run", backend).start()
    assert backend.recording
    assert not (tmp_path / "run").exists()


def test_recording_begins_when_the_device_is_first_used(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.ready = False
    with recorder(tmp_path / "run", backend) as rec, rec.phase("materialize"):
        assert backend.calls.count("start") == 0
        backend.device = 1  # what the program chooses before it uses it
        backend.become_ready()
        backend.alloc(MIB)
    record = record_of(tmp_path / "run")
    assert record.device == 1
    assert record.history is not None
    assert record.history.first_allocation
    assert manifest(tmp_path / "run").device == "stand-in 1"


def test_a_device_that_is_never_used_leaves_a_warning_and_no_snapshot(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.ready = False
    with (
        pytest.warns(RuntimeWarning, match="rank 0 is not recorded: it never used its device"),
        recorder(tmp_path / "run", backend) as rec,
        rec.phase("a"),
    ):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_history_that_the_program_records_itself_is_left_alone(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.ready = False
    with recorder(tmp_path / "run", backend) as rec:
        backend.recording = True
        with pytest.warns(RuntimeWarning, match="nothing is recorded: memory history is being recorded already"):
            backend.become_ready()
        assert not rec.active
        with rec.phase("a"):
            pass
    assert backend.recording
    assert "start" not in backend.calls


def test_two_recordings_at_once_are_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with recorder(tmp_path / "a") as rec:
        with pytest.raises(RecordError, match="running already"):
            recorder(tmp_path / "b").start()
        assert rec.active
    assert (tmp_path / "a" / "run.json").exists()


def test_no_device_is_a_warning_and_phases_do_nothing(tmp_path: Path) -> None:
    rec = recorder(tmp_path / "run", FakeBackend(unavailable="no device here"))
    with pytest.warns(RuntimeWarning, match="nothing is recorded: no device here"):
        rec.start()
    with rec.phase("a"):
        rec.watch(object())
        rec.stop()
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.warns(RuntimeWarning, match="is not recorded"), recorder(tmp_path / "run"):
        pass


def test_a_file_in_the_directorys_place_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.warns(RuntimeWarning, match="rank 0 is not recorded"), recorder(tmp_path / "run") as rec:
        assert not rec.active


def test_a_disk_that_fails_at_the_end_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pickle.dump", full)
    with pytest.warns(RuntimeWarning, match="rank 0 could not be recorded .*No space"), recorder(tmp_path / "run"):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_an_allocator_that_fails_at_a_boundary_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeBackend()

    def broken(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    with recorder(tmp_path / "run", backend) as rec, rec.phase("a"):
        monkeypatch.setattr(backend, "synchronize", broken)
        with pytest.warns(RuntimeWarning, match="illegal memory access"), rec.phase("b"):
            pass
        monkeypatch.undo()
    assert "a" in [p.name for p in record_of(tmp_path / "run").phases]


@pytest.mark.parametrize("name", ["", "a//b", "/a", "a/", " ", "x" * 1_001, "/".join("a" * 33)])
def test_what_is_no_phases_name_is_told_at_once(tmp_path: Path, name: str) -> None:
    with recorder(tmp_path / "run") as rec:
        with pytest.raises(UsageError), rec.phase(name):
            pass
        assert rec.path() is None


def test_a_phase_without_a_recorder_is_nothing() -> None:
    assert snapviz.phase("train") is snapviz.phase("not/a//name"), "made once: it is to cost nothing"
    with snapviz.phase("train"), snapviz.phase("not/a//name"):
        assert active() is None


def test_a_forked_process_has_no_recorder(tmp_path: Path) -> None:
    with recorder(tmp_path / "run"):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, b"none" if active() is None else b"some")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 4) == b"none"


def test_phases_from_another_thread_do_not_break(tmp_path: Path) -> None:
    with recorder(tmp_path / "run") as rec, rec.phase("train"):

        def work() -> None:
            for _ in range(20):
                with rec.phase("inner"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(record_of(tmp_path / "run").phases) >= 1


def test_stopping_twice_writes_once(tmp_path: Path) -> None:
    rec = recorder(tmp_path / "run")
    rec.start()
    rec.stop()
    (tmp_path / "run" / "run.json").unlink()
    rec.stop()
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_url_is_written_through_fsspec(tmp_path: Path) -> None:
    with recorder(f"file://{tmp_path}/deep/run") as rec, rec.phase("a"):  # type: ignore[arg-type]
        pass
    assert [p.name for p in record_of(tmp_path / "deep" / "run").phases] == ["a"]
    assert manifest(tmp_path / "deep" / "run").name == "run"
    with pytest.raises(RecordError, match="of an earlier run is there"):
        recorder(f"file://{tmp_path}/deep/run").start()  # type: ignore[arg-type]
    with recorder(f"file://{tmp_path}/deep/run", overwrite=True) as rec, rec.phase("b"):  # type: ignore[arg-type]
        pass
    assert [p.name for p in record_of(tmp_path / "deep" / "run").phases] == ["b"]


def test_a_large_record_is_compressed_and_read_again(tmp_path: Path) -> None:
    import torch

    for overwrite, size in ((False, 2_000), (True, 1)):
        net = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(size)))
        with recorder(tmp_path / "run", overwrite=overwrite) as rec, rec.phase("materialize"):
            rec.watch(net)
        names = {path.name for path in (tmp_path / "run").iterdir()}
        assert names == {"run.json", "rank00000.pickle.zst", "rank00000.json" + ".zst" * (size > 1)}
        assert len(record_of(tmp_path / "run").boundaries[-1].names) >= 2 * size
