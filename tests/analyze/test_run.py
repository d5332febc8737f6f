from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest

from snapviz.analyze.run import Run, load_run
from snapviz.errors import InputError, RunError, SnapshotError
from tests.analyze.builders import SAMPLES, Trace


def write(path: Path, *traces: Trace) -> None:
    whole: dict = {"segments": [], "device_traces": [], "external_annotations": []}
    for trace in traces:
        objects = trace.objects()
        whole["segments"] += objects["segments"]
        lists = whole["device_traces"]
        lists.extend([] for _ in range(len(objects["device_traces"]) - len(lists)))
        lists[trace.device] = objects["device_traces"][trace.device]
    path.write_bytes(pickle.dumps(whole))


def trace(device: int = 0, mib: int = 20) -> Trace:
    one = Trace(device)
    one.alloc(mib)
    return one


def ranks(run: Run) -> list[tuple[int, int]]:
    return [(rank.rank, rank.device) for rank in run.ranks]


def test_a_run_directory() -> None:
    run = load_run(SAMPLES / "pr", cache=False)
    assert (run.name, run.world_size, run.recorded, run.notes, run.failures) == ("pr", 2, True, (), ())
    assert ranks(run) == [(0, 0), (1, 1)]


def test_a_bare_file_is_a_run_of_one_rank_per_device(tmp_path: Path) -> None:
    write(tmp_path / "one.pickle", trace(3))
    run = load_run(tmp_path / "one.pickle", cache=False)
    assert (run.name, ranks(run), run.recorded) == ("one", [(3, 3)], False)
    write(tmp_path / "two.pickle", trace(0), trace(2))
    run = load_run(tmp_path / "two.pickle", cache=False)
    assert ranks(run) == [(0, 0), (2, 2)]
    assert run.notes == ("the file holds 2 devices: each is taken for the rank of its number",)


@pytest.mark.parametrize(
    ("names", "expected", "words"),
    [
        (["rank1.pickle", "rank0.pickle"], [0, 1], "from the file names (rank…)"),
        (["mem_rank_10.pkl", "mem_rank_2.pkl"], [2, 10], "from the file names (rank…)"),
        (["snap-3.pickle", "snap-7.pickle"], [3, 7], "from the numbers at the end"),
        (["a.pickle", "b.pickle"], [4, 5], "from the devices in the files"),
    ],
)
def test_a_folder_of_files(tmp_path: Path, names: list[str], expected: list[int], words: str) -> None:
    for device, name in zip((4, 5), names, strict=True):
        write(tmp_path / name, trace(device))
    run = load_run(tmp_path, cache=False)
    assert [rank.rank for rank in run.ranks] == expected
    assert words in run.notes[0]


def test_where_nothing_tells_the_ranks_apart_their_order_does_and_it_is_said(tmp_path: Path) -> None:
    for name in ("b.pickle", "a.pickle"):
        write(tmp_path / name, trace())
    run = load_run(tmp_path, cache=False)
    assert [(rank.rank, Path(rank.source).name) for rank in run.ranks] == [(0, "a.pickle"), (1, "b.pickle")]
    assert "numbered in the order of their names" in run.notes[0]


def test_a_ranks_device_is_the_one_it_used_and_the_others_are_told(tmp_path: Path) -> None:
    busy = trace(1)
    busy.alloc(40)
    write(tmp_path / "rank1.pickle", trace(0, mib=22), busy)
    run = load_run(tmp_path, cache=False)
    assert ranks(run) == [(1, 1)]
    (note,) = run.ranks[0].notes
    assert note == "rank 1 is device 1; its file also has device 0 (23,068,672 bytes reserved), which is left out"
    assert note in run.ranks[0].facts().notes


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "pr", tmp_path / "pr"))


def only_failure(run: Run):
    (failure,) = run.failures
    return failure


def test_a_broken_rank_is_named_and_the_other_is_read(copy: Path) -> None:
    whole = (copy / "rank00001.pickle.zst").read_bytes()
    (copy / "rank00001.pickle.zst").write_bytes(whole[: len(whole) // 2])
    run = load_run(copy, cache=False)
    assert ranks(run) == [(0, 0)]
    assert (only_failure(run).rank, only_failure(run).source) == (1, "rank00001.pickle.zst")
    assert only_failure(run).message


def test_a_missing_rank_is_named(copy: Path) -> None:
    (copy / "rank00001.pickle.zst").unlink()
    assert (only_failure(load_run(copy, cache=False)).rank, only_failure(load_run(copy, cache=False)).message) == (
        1,
        "missing: it was to be recorded",
    )
    manifest = json.loads((copy / "run.json").read_text())
    for recorded, failures in ((None, [1]), ([0], [])):
        (copy / "run.json").write_text(json.dumps(manifest | {"recorded_ranks": recorded}))
        assert [f.rank for f in load_run(copy, cache=False).failures] == failures


def test_a_record_that_cannot_be_meant_breaks_its_rank(copy: Path) -> None:
    record = json.loads((copy / "rank00001.json").read_text())
    for change, words in (({"rank": 5}, "it is the record of rank 5"), ({"schema_version": 9}, "update snapviz")):
        (copy / "rank00001.json").write_text(json.dumps(record | change))
        assert words in only_failure(load_run(copy, cache=False)).message


def test_a_rank_without_a_record_is_read_and_it_is_said(copy: Path) -> None:
    (copy / "rank00001.json").unlink()
    run = load_run(copy, cache=False)
    assert not run.recorded
    assert run.ranks[1].record is None
    assert run.notes == ("no record beside rank 1: names and exact phases are not known",)


def test_two_files_for_one_rank_are_not_chosen_between(copy: Path) -> None:
    shutil.copy(copy / "rank00001.pickle.zst", copy / "rank00001.pickle")
    assert "several files claim to be rank 1" in only_failure(load_run(copy, cache=False)).message


def test_every_rank_broken_is_still_a_run(copy: Path) -> None:
    for path in copy.glob("*.zst"):
        path.write_bytes(b"nonsense")
    run = load_run(copy, cache=False)
    assert (run.ranks, len(run.failures), run.recorded) == ((), 2, False)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"neither run\.json nor a snapshot file"):
        load_run(tmp_path, cache=False)
    with pytest.raises(InputError):
        load_run(tmp_path / "nope", cache=False)
    (tmp_path / "x.pickle").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(SnapshotError):
        load_run(tmp_path / "x.pickle", cache=False)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunError, match="schema_version"):
        load_run(tmp_path, cache=False)


def test_a_store_behind_a_url(copy: Path) -> None:
    run = load_run(f"file://{copy}", cache=False)
    assert (run.name, ranks(run)) == ("pr", [(0, 0), (1, 1)])
    with pytest.raises(RunError, match="nosuchprotocol"):
        load_run("nosuchprotocol://x/y", cache=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only there can a name hold any bytes")
def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / b"r\xff".decode("utf-8", "surrogateescape")
    folder.mkdir()
    write(folder / "rank0.pickle", trace())
    (folder / "rank1.pickle").write_bytes(b"")
    run = load_run(folder, cache=False)
    assert run.name == "r\ufffd"
    run.ranks[0].source.encode("utf-8")
    only_failure(run).message.encode("utf-8")


def test_an_empty_snapshot_is_an_empty_run(tmp_path: Path) -> None:
    (tmp_path / "x.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[], []]}))
    run = load_run(tmp_path / "x.pickle", cache=False)
    assert ranks(run) == [(0, 0)]
    assert run.ranks[0].facts().phases.names == ("run",)
