"""Uploads: kept, found by their ids alone, counted, and removed, whoever shares the folder."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapviz.analyze.run import load_run
from snapviz.app.claims import Claim
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.uploads import UploadLimits, Uploads
from snapviz.errors import InputError, OutputError, RunError, SnapshotError, UsageError

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_snapshots"
MAIN = SAMPLES / "thunder_478" / "main"


def packed(folder: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        archive.add(folder, arcname=folder.name)
    return held.getvalue()


def a_snapshot() -> Path:
    return next(path for path in sorted(MAIN.iterdir()) if "pickle" in path.name)


def left(uploads: Uploads) -> list[str]:
    return sorted(path.name for path in uploads.path.iterdir() if not path.name.startswith("."))


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def uploads(tmp_path: Path, clock: Clock) -> Iterator[Uploads]:
    limits = UploadLimits(file_bytes=1 << 20, run_bytes=4 << 20, quota_bytes=8 << 20, keep_s=3600)
    made = Uploads(tmp_path / "uploads", limits, clock)
    yield made
    made.close()


def test_a_snapshot(uploads: Uploads) -> None:
    entry = uploads.receive("rank00001.pickle.zst", [a_snapshot().read_bytes()])
    assert (entry.kind, entry.snapshots, entry.uploaded, entry.name) == ("snapshot", 1, True, "rank00001.pickle.zst")
    assert uploads.entry(entry.id) == entry
    run = load_run(entry.path, cache=False)
    assert [rank.rank for rank in run.ranks] == [1], "the name it was dropped under says which rank it is"


@pytest.mark.parametrize("name", ["memory", "dump.json", "<script>.html", "../../x", ".pickle", ""])
def test_a_snapshot_is_told_by_its_bytes(name: str, uploads: Uploads) -> None:
    entry = uploads.receive(name, [a_snapshot().read_bytes()])
    assert load_run(entry.path, cache=False).ranks
    assert Path(entry.path).is_relative_to(uploads.path)
    assert len(left(uploads)) == 1


def test_an_archive_of_a_run(uploads: Uploads) -> None:
    entry = uploads.receive("thunder.tar.gz", [packed(MAIN)])
    ours, theirs = load_run(entry.path, cache=False), load_run(MAIN, cache=False)
    assert entry.kind == "run"
    assert entry.manifest is not None
    assert ours.manifest == theirs.manifest
    assert [rank.rank for rank in ours.ranks] == [rank.rank for rank in theirs.ranks]
    assert ours.recorded
    assert not ours.failures


def test_a_folder_of_snapshots_is_one_run(uploads: Uploads, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("a.pickle.zst", "b.pickle.zst"):
        (folder / name).write_bytes(a_snapshot().read_bytes())
    entry = uploads.receive("x.tgz", [packed(folder)])
    assert (entry.kind, entry.snapshots) == ("folder", 2)
    assert len(load_run(entry.path, cache=False).ranks) == 2


def test_a_rank_that_cannot_be_read_is_one_of_the_run(uploads: Uploads, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "rank00000.pickle.zst").write_bytes(a_snapshot().read_bytes())
    (folder / "rank00001.pickle").write_bytes(b"rubbish")
    run = load_run(uploads.receive("x.tgz", [packed(folder)]).path, cache=False)
    assert [failure.rank for failure in run.failures] == [1]


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/snapviz-was-here",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps(Evil()), pickle.dumps({"segments": [], "device_traces": [[Evil()]]}), b"\x80\x04]", b"{", b"<html>"],
    ids=["reduce", "reduce inside", "cut", "json", "html"],
)
def test_what_is_no_snapshot_is_refused_and_nothing_runs(content: bytes, uploads: Uploads) -> None:
    with pytest.raises(InputError) as caught:
        uploads.receive("rank00000.pickle", [content])
    assert str(uploads.path) not in str(caught.value)
    assert "receiving" not in str(caught.value)
    assert left(uploads) == []
    assert not Path("/tmp/snapviz-was-here").exists()


@pytest.mark.parametrize("percent", [1, 50, 99])
def test_a_truncated_snapshot_is_refused(percent: int, uploads: Uploads) -> None:
    whole = a_snapshot().read_bytes()
    with pytest.raises(SnapshotError, match="cut short"):
        uploads.receive("rank00000.pickle", [whole[: len(whole) * percent // 100]])
    assert left(uploads) == []


def test_an_empty_file_is_refused(uploads: Uploads) -> None:
    with pytest.raises(RunError, match="empty"):
        uploads.receive("x", [])
    assert left(uploads) == []


def test_what_is_decoded_of_it_goes_with_it(uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPVIZ_CACHE_DIR", str(tmp_path / "cache"))
    runs = Registry(str(SAMPLES))
    runs.also(uploads.entry, uploads.public)
    entry = uploads.receive("x.tgz", [packed(MAIN)])
    before = uploads.used_bytes()
    time.sleep(2.1)  # a file as young as its time's grain has no key in any cache
    results = Results(runs, tmp_path / "results")
    results.facts(entry.id, 0)
    results.close()
    assert uploads.used_bytes() > before
    assert not list((tmp_path / "cache").glob("**/*.snapviz"))
    uploads.remove(entry.id)
    assert left(uploads) == []


# ------------------------------------------------------------------ limits


def test_too_large_by_what_is_announced(uploads: Uploads) -> None:
    def never() -> Iterator[bytes]:
        pytest.fail("it was read")
        yield b""

    with pytest.raises(UsageError, match=r"larger than 1\.00 MiB"):
        uploads.receive("x", never(), 1 << 30)
    assert left(uploads) == []


def test_none_at_all_where_none_are_wanted(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "u", UploadLimits(file_bytes=0))
    with pytest.raises(UsageError, match="nothing can be dropped here"):
        uploads.receive("x", [b""], 0)
    uploads.close()


def test_too_large_while_it_is_read(uploads: Uploads) -> None:
    read = []

    def gigabyte() -> Iterator[bytes]:
        for _ in range(1 << 14):
            read.append(1)
            yield bytes(1 << 16)

    with pytest.raises(UsageError, match="larger than"):
        uploads.receive("x", gigabyte())
    assert len(read) == 17, "one piece more than the limit"
    assert left(uploads) == []


def test_no_room_by_what_is_announced(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "u", UploadLimits(quota_bytes=20_000))
    whole = a_snapshot().read_bytes()
    kept = 20_000 // len(whole)
    for _ in range(kept):
        uploads.receive("x", [whole], len(whole))
    with pytest.raises(OutputError, match="there is no room"):
        uploads.receive("x", [whole], len(whole))
    assert uploads.used_bytes() == kept * len(whole)
    uploads.close()


def test_no_room_while_it_is_read(tmp_path: Path) -> None:
    """Nobody says how large it is, and others write meanwhile: the disk is looked at again."""
    uploads = Uploads(tmp_path / "u", UploadLimits(quota_bytes=40 << 20))
    with pytest.raises(OutputError, match="there is no room"):
        uploads.receive("x", (bytes(1 << 20) for _ in range(200)))
    assert left(uploads) == []
    uploads.close()


def test_a_disk_that_fails_is_told_in_words(uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OutputError, match="could not keep the file: No space left"):
        uploads.receive("x", [b"x"])
    assert left(uploads) == []


# ------------------------------------------------------------------ ids and time


@pytest.mark.parametrize(
    "run_id", ["", "upload:", "upload:" + "0" * 32, "upload:../../etc", "../x", "upload:" + "A" * 32, "upload:\0"]
)
def test_other_ids_find_nothing(run_id: str, uploads: Uploads) -> None:
    uploads.receive("x", [a_snapshot().read_bytes()])
    assert uploads.entry(run_id) is None
    assert not uploads.remove(run_id)
    assert len(left(uploads)) == 1


def test_an_id_is_not_on_the_disk(uploads: Uploads) -> None:
    entry = uploads.receive("x", [a_snapshot().read_bytes()])
    assert entry.id.removeprefix("upload:") not in "".join(str(path) for path in uploads.path.rglob("*"))


def test_removed_when_told(uploads: Uploads) -> None:
    entry = uploads.receive("x", [a_snapshot().read_bytes()])
    assert uploads.remove(entry.id)
    assert uploads.entry(entry.id) is None
    assert left(uploads) == []


def test_removed_after_its_time_and_kept_by_use(uploads: Uploads, clock: Clock) -> None:
    used, unused = (uploads.receive("x", [a_snapshot().read_bytes()]) for _ in range(2))
    clock.now += 3000
    assert uploads.entry(used.id) == used
    clock.now += 3000
    assert uploads.entry(unused.id) is None, "its time is over, swept or not"
    uploads.sweep()
    assert len(left(uploads)) == 1
    assert uploads.entry(used.id) == used


def test_what_a_worker_left_half_received_goes_as_well(uploads: Uploads, clock: Clock) -> None:
    half = uploads.path / f"receiving-{'0' * 64}"
    half.mkdir()
    (half / "body").write_bytes(b"x")
    os.utime(half / "body", (clock.now, clock.now))
    os.utime(half, (clock.now - 7200, clock.now - 7200))
    clock.now += 60
    uploads.sweep()
    assert half.exists(), "it is still being written"
    clock.now += 3600
    uploads.sweep()
    assert not half.exists()


def test_several_at_once(uploads: Uploads) -> None:
    whole = a_snapshot().read_bytes()
    gate = threading.Barrier(4)
    found: list[str] = []

    def slowly() -> Iterator[bytes]:
        yield whole[:1000]
        gate.wait(timeout=30)
        yield whole[1000:]

    threads = [threading.Thread(target=lambda: found.append(uploads.receive("x", slowly()).id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4
    assert all(uploads.entry(run_id) for run_id in found)


# ------------------------------------------------------------------ whose folder it is


def test_two_servers_know_nothing_of_each_other() -> None:
    one, other = Uploads(), Uploads()
    entry = one.receive("x", [a_snapshot().read_bytes()])
    assert one.entry(entry.id) is not None
    assert other.entry(entry.id) is None
    assert one.path != other.path
    for each in (one, other):
        assert each.path.stat().st_mode & 0o077 == 0
        each.close()
        assert not each.path.exists()


def test_workers_that_share_a_folder_share_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPVIZ_UPLOADS", str(tmp_path / "shared"))
    one, other = Uploads(), Uploads()
    entry = one.receive("x", [a_snapshot().read_bytes()])
    found = other.entry(entry.id)
    assert found == entry
    one.close()
    assert other.entry(entry.id) == entry, "somebody still uses it"
    third = Uploads()
    assert third.entry(entry.id) == entry, "a worker that starts later takes part"
    third.close()
    other.close()
    assert left(other) == [], "the last one clears it"


def test_what_is_not_ours_in_a_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / "runs").mkdir()
    (tmp_path / ("0" * 64)).mkdir()
    Uploads(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} - {".snapviz-uploads"} == {"precious", "runs"}


KILLED = """
import os, signal, sys
from pathlib import Path
from snapviz.app.uploads import Uploads
uploads = Uploads(sys.argv[1] or None)
uploads.receive("x", [Path(sys.argv[2]).read_bytes()])
print(uploads.path, flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "forked" and (child := os.fork()):
    os.waitpid(child, 0)
    assert len(list(uploads.path.iterdir())) == 2, "a child that ends takes nothing along"
"""


def in_a_process(directory: str, how: str, tmp: Path) -> Path:
    command = [sys.executable, "-c", KILLED, directory, str(a_snapshot()), how]
    environment = os.environ | {"TMPDIR": str(tmp), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == (-9 if how == "killed" else 0), done.stderr
    return Path(done.stdout.strip())


@pytest.mark.parametrize("how", ["ended", "forked"])
@pytest.mark.parametrize("shared", [False, True])
def test_nothing_is_left_when_a_server_ends(how: str, shared: bool, tmp_path: Path) -> None:
    place = in_a_process(str(tmp_path / "shared") if shared else "", how, tmp_path)
    assert place.exists() == shared
    assert not shared or [path.name for path in place.iterdir()] == [".snapviz-uploads"]


@pytest.mark.parametrize("shared", [False, True])
def test_the_next_server_clears_what_a_killed_one_left(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path / "shared") if shared else ""
    place = in_a_process(directory, "killed", tmp_path)
    assert len(list(place.iterdir())) == 2
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    running, starting = Uploads(directory or None), Uploads(directory or None)
    assert not place.exists() or left(running) == []
    assert running.path.exists(), "the one that runs is left alone"
    running.close()
    starting.close()


def test_a_folder_that_somebody_else_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"snapviz-{os.getuid()}").mkdir()
    (tmp_path / f"snapviz-{os.getuid()}").chmod(0o777)
    claim = Claim()
    assert claim.path.parent.name != f"snapviz-{os.getuid()}"
    claim.release()


def test_a_folder_that_cannot_be_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="no folder for uploads"):
        Uploads(tmp_path / "file" / "uploads")
