"""The runs that the benchmarks measure on: longer, and nothing else."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.multiply import DEFAULT_RECORDING, UnsteadyError, multiply, read_recording, repeated, steady_step
from snapviz.replay import MEASURES, Replay
from snapviz.replay.snapshot import load_snapshot
from snapviz.schema import read_manifest, read_rank_record
from snapviz.snapshot.columns import Columns

SAMPLES = DEFAULT_RECORDING.parents[1]
EVENTS = 20_000


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multiplied") / "longer"
    multiply(DEFAULT_RECORDING, folder, EVENTS)
    return folder


@pytest.fixture(scope="module")
def longer(output: Path) -> tuple[Columns, Replay]:
    snapshot = load_snapshot(output / "rank00000.pickle", cache=False)
    return snapshot.columns, snapshot.replay()


@pytest.fixture(scope="module")
def original() -> tuple[Columns, Replay]:
    snapshot = load_snapshot(DEFAULT_RECORDING, cache=False)
    return snapshot.columns, snapshot.replay()


def peaks(replay: Replay) -> list[int]:
    return [replay.peak(measure, 0, len(replay))[0] for measure in MEASURES]


def test_it_replays_exactly_with_the_peaks_and_the_end_of_the_original(longer, original):
    (_, ours), (_, theirs) = longer, original
    assert EVENTS <= len(ours) < EVENTS + 4_000
    assert ours.exact
    assert ours.consistent
    assert ours.notes == ()
    assert peaks(ours) == peaks(theirs)
    assert ours.end == theirs.end


def test_every_phase_has_the_counters_that_torch_had_for_the_step(output, longer):
    _, replay = longer
    record = read_rank_record((output / "rank00000.json").read_bytes(), "longer")
    for phase in record.phases:
        first, stop = replay.window(phase.start_us, phase.stop_us)
        assert phase.counters is not None
        assert replay.peak("allocated", first, stop)[0] == phase.counters.peak_allocated_bytes, phase.name
        assert replay.peak("reserved", first, stop)[0] == phase.counters.peak_reserved_bytes, phase.name
        assert replay.after(stop - 1).allocated_bytes == phase.counters.end_allocated_bytes, phase.name
    steps = [phase.name for phase in record.phases if phase.name.startswith("train/")]
    assert steps == [f"train/step{number}" for number in range(len(steps))]
    assert len(steps) == 6
    assert (record.boundaries[-1].phase, record.boundaries[-1].time_us) == (steps[-1], record.phases[-1].stop_us)


def test_times_rise_over_the_whole_run(output, longer):
    columns, replay = longer
    last = read_rank_record((output / "rank00000.json").read_bytes(), "longer").phases[-1]
    for times in (replay.time_us, columns.annotations.time_us):
        assert (np.diff(times) >= 0).all()
        assert last.start_us < times[-1] <= last.stop_us


def test_a_repetition_adds_no_stacks_and_keeps_its_metadata(longer, original):
    (ours, _), (theirs, _) = longer, original
    assert len(ours.stacks) == len(theirs.stacks)
    assert len(ours.frames.line) == len(theirs.frames.line)
    metadata = Counter(ours.strings.text(each) for each in ours.events.user_metadata.tolist())
    assert metadata["train/step2"] == pytest.approx(metadata["train/step4"], abs=2)


def test_the_pickle_has_the_shape_of_torchs(output):
    theirs = read_recording(DEFAULT_RECORDING)
    ours = read_recording(output / "rank00000.pickle")
    size = (output / "rank00000.pickle").stat().st_size
    assert size / len(ours.trace) == pytest.approx(len(pickle.dumps(theirs.snapshot)) / len(theirs.trace), rel=0.05)
    step = steady_step(theirs)
    in_a_step = len({id(event["frames"]) for event in theirs.trace[step.first : step.stop]})
    more = len({id(event["frames"]) for event in ours.trace}) - len({id(event["frames"]) for event in theirs.trace})
    assert more == pytest.approx(3 * in_a_step, abs=10)
    assert len({id(frame) for event in ours.trace for frame in event["frames"]}) == len(
        {id(frame) for event in theirs.trace for frame in event["frames"]}
    )
    assert len({id(event["compile_context"]) for event in ours.trace}) == len(ours.trace)


def test_it_is_a_run_directory(output):
    manifest = read_manifest((output / "run.json").read_bytes(), "longer")
    assert manifest.name == output.name
    assert manifest.recorded_ranks == (0,)


def test_no_repetition_is_the_recording_itself():
    source = read_recording(DEFAULT_RECORDING)
    assert repeated(source, steady_step(source), 0) == source.snapshot


@pytest.mark.parametrize(
    ("run", "why"), [("main", "fewer than two steps"), ("fsdp2_after", "is not what an allocator does")]
)
def test_a_recording_without_a_steady_step_is_refused(run, why):
    with pytest.raises(UnsteadyError, match=why):
        steady_step(read_recording(SAMPLES / run / "rank00000.pickle.zst"))


def test_a_step_that_reserves_memory_is_refused():
    source = read_recording(DEFAULT_RECORDING)
    without_the_last = source.record.model_copy(update={"phases": source.record.phases[:-1]})
    with pytest.raises(UnsteadyError, match="reserves or releases segments"):
        steady_step(replace(source, record=without_the_last))


def test_a_pickle_that_names_code_is_refused(tmp_path):
    (tmp_path / "rank00000.pickle").write_bytes(pickle.dumps(Path))
    with pytest.raises(pickle.UnpicklingError, match="plain data"):
        read_recording(tmp_path / "rank00000.pickle")
