from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import sys
from pathlib import Path

import pytest
import zstandard

from snapviz.analyze.place import Place
from snapviz.analyze.run import Run, load_run
from snapviz.errors import InputError, RunError, SnapshotError, UsageError
from snapviz.replay.snapshot import Snapshot
from tests.analyze.builders import SAMPLES, Trace, load_for_tests


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


def test_a_line_end_in_a_file_name_leaves_no_rank_out(tmp_path: Path) -> None:
    for name in ("r\n0.pickle", "r\n1.pickle.xz"):
        write(tmp_path / name, trace())
    run = load_run(tmp_path, cache=False)
    assert [rank.rank for rank in run.ranks] + [failure.rank for failure in run.failures] == [0, 1]
    assert "from the numbers at the end" in run.notes[0]
    for path in tmp_path.iterdir():
        path.unlink()
    for name in ("rank0.pickle", "x\n_rank1_\n.pickle"):
        write(tmp_path / name, trace())
    run = load_run(tmp_path, cache=False)
    assert ([rank.rank for rank in run.ranks], "(rank…)" in run.notes[0]) == ([0, 1], True)
    write(tmp_path / "a.pickle\n", trace())
    assert len(load_run(tmp_path, cache=False).ranks) == 2  # that is no snapshot's name


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_many_missing_ranks_are_counted(copy: Path) -> None:
    for changes, last in (
        ({"world_size": 2000, "recorded_ranks": None}, 1999),
        ({"recorded_ranks": [*range(2000), 5000]}, 5000),
    ):
        rewrite(copy / "run.json", **changes)
        failures = load_run(copy, cache=False).failures
        assert [f.rank for f in failures] == [*range(2, 18), None]
        assert failures[-1].message.endswith(f"more ranks are missing, the last of them {last}")
        assert sum(f.ranks for f in failures) == (1998 if last == 1999 else 1999)


def test_a_world_that_no_job_has_is_refused_at_once(copy: Path) -> None:
    rewrite(copy / "run.json", world_size=50_000_000)
    with pytest.raises(RunError, match="world_size"):
        load_run(copy, cache=False)


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes in folders")
def test_a_document_that_is_no_file_is_never_opened(copy: Path) -> None:
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()):
        path = copy / "rank00001.json"
        path.unlink()
        make(path)
        run = load_run(copy, cache=False)
        assert (ranks(run), only_failure(run).rank) == ([(0, 0)], 1)
        assert only_failure(run).message.endswith("rank00001.json: not a regular file")
        assert only_failure(load_run(f"file://{copy}", cache=False)).message.endswith("not a regular file")
        if path.is_dir():
            path.rmdir()
            path.touch()
    (copy / "run.json").unlink()
    os.mkfifo(copy / "run.json")
    with pytest.raises(RunError, match=r"run\.json: not a regular file"):
        load_run(copy, cache=False)


def test_a_document_that_is_too_large_is_not_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.analyze.place.LARGEST_DOCUMENT", 1 << 20)
    with (copy / "rank00001.json").open("r+b") as file:
        file.truncate((1 << 20) + 1)
    for path in (str(copy), f"file://{copy}"):
        run = load_run(path, cache=False)
        assert (ranks(run), only_failure(run).rank) == ([(0, 0)], 1)
        assert "more than 1 MiB" in only_failure(run).message


@pytest.mark.parametrize(
    "url",
    ["zip://x", "tar://a", "zip://a::/x", "ftp://127.0.0.1:1/x", "reference://x", "dir://x", "generic://x", "://x"],
)
def test_whatever_a_driver_raises_is_one_error_that_names_the_url(url: str) -> None:
    with pytest.raises(InputError, match=re.escape(url)):
        load_run(url, cache=False)


def test_how_urls_are_named() -> None:
    assert (Place("memory://").label, Place("memory://").name) == ("memory://", "memory://")
    assert (Place("memory://a/b/").label, Place("memory://a/b/").name) == ("memory://a/b", "b")
    assert Place("/").name == "/"
    with pytest.raises(RunError) as caught:
        load_run("nosuchprotocol://me:secret@x/y?signature=secret", cache=False)
    assert "secret" not in str(caught.value)


def test_no_password_of_a_url_is_in_a_report(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in copy.iterdir():
        memory.pipe_file(f"/me:secret@host/pr/{path.name}", path.read_bytes())
    said: list[object] = []
    run = load_run("memory://me:secret@host/pr", cache=False, progress=lambda *words: said.append(words))
    assert (run.name, ranks(run)) == ("pr", [(0, 0), (1, 1)])
    assert "secret" not in f"{run.path} {[rank.source for rank in run.ranks]} {said}"


def test_what_is_a_path(copy: Path) -> None:
    for path in (str(copy), os.fsencode(copy), copy):
        assert load_run(path, cache=False).name == "pr"
    for wrong in (7, None, ["x"]):
        with pytest.raises(UsageError, match=f"not from a {type(wrong).__name__}"):
            load_run(wrong, cache=False)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an empty path"):
        load_run("", cache=False)


def test_too_little_memory_for_one_rank_is_that_ranks_failure(copy: Path) -> None:
    def load(path: str) -> Snapshot:
        if "rank00001" in path:
            raise MemoryError
        return load_for_tests(path)

    run = load_run(copy, loader=load)
    assert ranks(run) == [(0, 0)]
    assert only_failure(run).message == "reading it needs more memory than there is"
    with pytest.raises(RunError, match="more memory than there is"):
        load_run(copy / "rank00001.pickle.zst", loader=load)


def test_a_broken_rank_that_is_asked_for_says_why(copy: Path) -> None:
    (copy / "rank00001.pickle.zst").write_bytes(b"")
    run = load_run(copy, cache=False)
    with pytest.raises(RunError, match=r"^pr: rank 1 could not be read: .*empty file"):
        run.rank(1)


def pack(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_a_compressed_record_is_read_as_a_plain_one(copy: Path) -> None:
    before = load_run(copy, cache=False).ranks[1].record
    packed = pack(copy / "rank00001.json")
    run = load_run(copy, cache=False)
    assert run.ranks[1].record == before
    assert run.recorded
    whole = packed.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"not zstandard", zstandard.compress(b"x" * 100)):
        packed.write_bytes(damaged)
        assert only_failure(load_run(copy, cache=False)).rank == 1


def test_a_compressed_record_does_not_expand_beyond_what_a_document_has(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapviz.analyze.place.LARGEST_DOCUMENT", 1 << 20)
    packed = pack(copy / "rank00001.json")
    packed.write_bytes(zstandard.compress(bytes(64 << 20)))
    assert "more than 1 MiB" in only_failure(load_run(copy, cache=False)).message


def test_two_records_of_one_rank_are_a_failure(copy: Path) -> None:
    (copy / "rank00001.json.zst").write_bytes(zstandard.compress((copy / "rank00001.json").read_bytes()))
    message = only_failure(load_run(copy, cache=False)).message
    assert message == "several files claim to be the record of rank 1: rank00001.json, rank00001.json.zst"


def test_ranks_without_a_manifest_keep_their_records(copy: Path) -> None:
    (copy / "run.json").unlink()
    (copy / "rank00000.pickle.zst").unlink()
    run = load_run(copy, cache=False)
    assert (run.name, ranks(run), run.recorded, run.world_size) == (copy.name, [(1, 1)], True, 2)
    assert only_failure(run).rank == 0
    assert run.notes[0].startswith("run.json is missing, which rank 0 writes")


def test_a_folder_of_runs_names_them() -> None:
    with pytest.raises(RunError, match="a folder of 4 runs, each of which is read by itself: accelerate, torch_opt"):
        load_run(SAMPLES / "accelerate_fsdp2_8")


def test_ranks_of_two_runs_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    for rank, name in ((0, "thunder_478/main"), (1, "uneven_ranks")):
        for path in (SAMPLES / name).glob(f"rank{rank:05d}*"):
            shutil.copy(path, tmp_path)
    shutil.copy(SAMPLES / "single/run.json", tmp_path)
    notes = load_run(tmp_path).notes
    assert "the record of rank 0 says that there were 2 ranks, and run.json 1" in notes
    assert any("they may be of two different runs" in note for note in notes)
    assert not any("two different runs" in note for note in load_run(SAMPLES / "uneven_ranks").notes)
