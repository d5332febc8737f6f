"""Where reports and messages go: files that exist, streams that are closed or full."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from snapviz.cli import output
from snapviz.cli.main import main
from snapviz.cli.progress import Progress
from snapviz.errors import OutputError
from tests.analyze.builders import ROOT, SAMPLES
from tests.compare.jobs import job

PR = str(SAMPLES / "pr")


def refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "internal" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("force", [[], ["-f"]])
def test_what_is_no_file_is_never_replaced(
    tmp_path: Path, force: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for name, words in [
        ("pipe", "is a pipe and not a file"),
        ("socket", "is a socket and not a file"),
        ("link", "is a pipe and not a file"),
        ("null", "is a device and not a file"),
        ("", "is a folder"),
    ]:
        refused(["info", PR, "-o", str(tmp_path / name), *force], words, capsys)
    refused(["info", PR, "-o", os.devnull, *force], "is a device and not a file", capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "null", "pipe", "socket"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_is_written_through_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "report"
    target.write_text("old")
    target.chmod(0o600)
    (tmp_path / "link").symlink_to(target)
    assert main(["info", PR, "-q", "-o", str(tmp_path / "link"), "-f"]) == 0
    assert (tmp_path / "link").is_symlink()
    assert target.read_text().startswith("pr ")
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["report"]


def test_a_new_file_has_the_mode_that_the_user_gives_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert main(["info", PR, "-q", "-o", str(tmp_path / "new")]) == 0
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("force", [[], ["-f"]])
def test_paths_that_cannot_be_written(tmp_path: Path, force: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    for name, words in [
        ("dangling", "is a link to nowhere, which does not exist"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("file/x", "Not a directory"),
        ("no\nsuch/x", "there is no folder"),
        ("null\0", "null"),
    ]:
        refused(["info", PR, "-o", str(tmp_path / name), *force], words, capsys)


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # root may write anywhere: what is asked is answered for it
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(OutputError, match="no permission to write in"):
        output.check_file(tmp_path / "new", force=False)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "file")
    with pytest.raises(OutputError, match="no permission to overwrite it"):
        output.check_file(tmp_path / "file", force=True)


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    output.write_file(tmp_path / "new", False, lambda stream: stream.write("said") and None)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("new", "said")]


def test_an_empty_path_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["info", ""], ["diff", PR, ""], ["diff", "", PR], ["info", PR, "-o", ""]):
        assert main(argv) == 2
        assert "an empty path names nothing" in capsys.readouterr().err


def shell(command: str, *, unbuffered: bool = False, **more: str) -> subprocess.CompletedProcess[bytes]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1" if unbuffered else "", **more}
    script = command.replace("snapviz", f"{sys.executable} -m snapviz").replace("RUN", PR)
    return subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, timeout=120, check=False)


FULL = b"snapviz: error: cannot write the report: No space left on device\n"
CLOSED = b"snapviz: error: cannot write the report: standard output is closed\n"

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="only there is a device that is always full")


@needs_full
@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("info RUN -q", False), ("info RUN -q --format json", True), ("--version", False), ("diff --help", True)],
)
def test_output_that_cannot_be_written_is_2(command: str, unbuffered: bool) -> None:
    done = shell(f"snapviz {command} >/dev/full", unbuffered=unbuffered)
    assert (done.returncode, done.stderr) == (2, FULL)


@pytest.mark.parametrize("command", ["info RUN -q", "--version", "--help"])
def test_a_closed_stdout_is_2(command: str) -> None:
    done = shell(f"snapviz {command} >&-")
    assert (done.returncode, done.stderr) == (2, CLOSED)


@pytest.mark.parametrize("command", ["info /does/not/exist", "info --bogus", "frobnicate"])
def test_a_message_without_a_stderr_goes_nowhere(command: str) -> None:
    done = shell(f"snapviz {command} 2>&-", SNAPVIZ_TRACEBACK="1")
    assert (done.returncode, done.stdout) == (2, b"")


@needs_full
def test_a_full_stderr_changes_no_exit_code() -> None:
    assert shell("snapviz info --bogus 2>/dev/full").returncode == 2


def test_json_can_be_read_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "modèle.pickle").write_bytes(pickle.dumps(job().objects()))
    done = shell(f"snapviz info '{tmp_path}' --format json -q", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "modèle.pickle" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


def test_progress_without_a_stream_or_with_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    now = [0.0]
    for stream in (None, Full()):
        monkeypatch.setattr("sys.stderr", stream)
        now[0] = 0.0
        with Progress(clock=lambda: now[0]) as progress:
            now[0] = 5.0
            progress("reading")


def test_a_path_with_a_line_end_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    refused(["info", "/no\nsnapviz: all is well\u202e"], "/no\\nsnapviz: all is well\\u202e", capsys)
    assert main(["info", PR, "--x\ny"]) == 2
    assert "--x\\ny" in capsys.readouterr().err


def test_too_little_memory_is_2_and_names_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_large(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("snapviz.compare.diff.diff", too_large)
        refused(["diff", PR, PR, "-q"], "there is not enough memory", capsys)
    with monkeypatch.context() as patch:
        patch.setattr("snapviz.compare.diff.RankDiff", too_large)
        refused(["diff", PR, PR, "-q"], "comparing pr (base) and pr (head) needs more memory", capsys)
    monkeypatch.setattr("snapviz.analyze.run.analyze", too_large)
    refused(["info", PR, "-q"], "rank00000.pickle.zst: rank 0 needs more memory than there is", capsys)


def test_a_number_that_is_none_is_told_without_names_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--top", "--rank"):
        for value in ("x", "9" * 5000, "1.5"):
            assert main(["info", PR, option, value]) == 2
            err = capsys.readouterr().err
            assert "is not a whole number" in err
            assert "whole_number" not in err


def test_a_broken_rank_that_is_asked_for_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in Path(PR).iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "rank00001.pickle.zst").unlink()
    (tmp_path / "rank00001.pickle.zst").write_bytes(b"")
    refused(["info", str(tmp_path), "--rank", "1", "-q"], "pr: rank 1 could not be read: ", capsys)
