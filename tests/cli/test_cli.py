from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snapviz import __version__
from snapviz.cli import diff as diff_command
from snapviz.cli.main import main
from snapviz.cli.progress import Progress
from tests.analyze.builders import ROOT, SAMPLES
from tests.compare.jobs import job

MAIN, PR = str(SAMPLES / "main"), str(SAMPLES / "pr")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "SNAPVIZ_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


def test_diff_explains_and_a_difference_alone_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, "-q"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("main → pr   2 ranks · torch 2.11.0+cu130 · NVIDIA H200\n")
    said = "parameter p1 (4.00 MiB, 1024×1024 float32, born in materialize) stays whole after shard"
    assert said in out.replace("\n", " ")
    assert err == ""


def test_json_is_all_there_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, "--format", "json", "--at", "end", "-q"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert [rank["delta_bytes"] for rank in document["points"][0]["ranks"]] == [4_194_304, 4_194_304]
    assert err == ""
    assert main(["info", PR, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == 1


def test_json_has_what_is_folded_and_text_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["diff", str(SAMPLES / "fsdp2_after"), str(SAMPLES / "fsdp2_before_notfixed"), "-q", "--at", "end"]
    argv += ["--by", "phase", "--threshold", "50%", "--mask", "nothing_like_this"]
    assert main([*argv, "--format", "json", "--top", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["options"] == {
        "by": "phase",
        "mode": "delta",
        "measure": "allocated",
        "threshold": "50%",
        "masks": ["nothing_like_this"],
    }
    (rank,) = document["points"][0]["ranks"]
    rows, folded = rank["rows"], rank["folded"]
    assert [(row["birth_phase"], row["found_in"]) for row in rows] == [("materialize", "both")]
    assert sum(row["delta_bytes"] for row in rows) + folded["delta_bytes"] == rank["delta_bytes"] == 302_235_136
    assert (folded["rows"], folded["delta_bytes"]) == (1, -41_732_608)
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "below 50%: 1 row" in out
    assert "-39.80 MiB" in out
    assert "~ --mask 'nothing_like_this' matches no frame and no part of a name" in out


def test_info_and_rank(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", PR, "--rank", "1"]) == 0
    out = capsys.readouterr().out
    assert "rank00001.pickle.zst" in out
    assert "rank00000" not in out
    assert main(["info", PR, "--rank", "5", "-q"]) == 2
    assert capsys.readouterr().err == "snapviz: error: pr: no rank 5 could be read (there is: 0, 1)\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"snapviz {__version__}\n"
    assert main(["diff", "--help"]) == 0
    out = capsys.readouterr().out
    assert (diff_command.__doc__ or "").splitlines()[0] in out
    assert "--at" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice"),
        (["diff", MAIN], "required: HEAD"),
        (["diff", MAIN, PR, "--top", "-1"], "-1 is negative"),
        (["diff", MAIN, PR, "--top", "x"], "--top"),
        (["diff", MAIN, PR, "--format", "yaml"], "invalid choice"),
        (["diff", MAIN, PR, "--by", "size"], "--by size: use stack, phase, category, owner, module or rank\n"),
        (["diff", MAIN, PR, "--mode", "%"], "--mode %: use absolute, delta or ratio\n"),
        (["diff", MAIN, PR, "--measure", "free"], "--measure free: use requested, allocated, active or reserved\n"),
        (["diff", MAIN, PR, "--threshold", "10MB"], "--threshold '10MB' can be read in two ways: write '10 MiB'"),
        (["diff", MAIN, PR, "--threshold", "1 %%"], "--threshold 1 %%: a share is a number from 0% to 100%"),
        (["diff", MAIN, PR, "--mask", "a("], "--mask 'a(' is no regular expression: missing ), unterminated"),
        (["diff", MAIN, PR, "--mask", ".*"], "--mask '.*' matches everything"),
        (["diff", MAIN, PR, "--at", "middle"], "use peak, end, phase:NAME"),
        (["diff", MAIN, PR, "--at", "phase:nope"], "there is: materialize, shard, train/step0"),
        (["diff", MAIN, PR, "--rank", "9"], "neither run has it"),
        (["diff", MAIN, "/does/not/exist"], "/does/not/exist"),
        (["info", str(ROOT / "pyproject.toml")], "pyproject.toml"),
        (["info", str(ROOT / "snapviz")], "neither run.json nor a snapshot"),
    ],
)
def test_wrong_input_is_one_message_and_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_a_broken_rank_is_2_and_the_report_is_still_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    assert main(["diff", MAIN, str(tmp_path / "pr")]) == 2
    out = capsys.readouterr().out
    assert "! pr: rank 1 is not in these numbers" in out
    assert "+4,194,304 bytes" in out
    assert main(["info", str(tmp_path / "pr")]) == 2
    assert "! rank 1 could not be read" in capsys.readouterr().out
    assert main(["diff", MAIN, str(tmp_path / "pr"), "--rank", "0"]) == 0


def test_nothing_in_common_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, number in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        for rank in (number, number + 2):
            path = tmp_path / name / f"rank{rank}.pickle"
            path.write_bytes(pickle.dumps(job().objects()))
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "no rank in common" in capsys.readouterr().out


def test_output_is_never_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.json"
    argv = ["diff", MAIN, PR, "--format", "json", "-o", str(target)]
    assert main(argv) == 0
    assert json.loads(target.read_text())["schema_version"] == 1
    target.write_text("mine")
    assert main(argv) == 2
    assert target.read_text() == "mine"
    assert "exists already (-f overwrites it)" in capsys.readouterr().err
    assert main([*argv, "-f"]) == 0
    assert json.loads(target.read_text())["head"]["name"] == "pr"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert main(["info", PR, "-o", str(tmp_path / "nope" / "x")]) == 2
    assert main(["info", PR, "-o", str(tmp_path)]) == 2


def test_what_came_into_being_meanwhile_is_not_overwritten_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report"
    target.write_text("mine")
    monkeypatch.setattr("snapviz.cli.options.check_output", lambda args: None)
    assert main(["info", PR, "-o", str(target)]) == 2
    assert target.read_text() == "mine"
    assert "File exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_fault_of_ours_is_3_and_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh \x1b[31mno")

    monkeypatch.setattr("snapviz.compare.diff.diff", broken)
    assert main(["diff", MAIN, PR, "-q"]) == 3
    err = capsys.readouterr().err
    assert err == (
        "snapviz: internal error: ZeroDivisionError: oh \\x1b[31mno\n"
        "(--traceback or SNAPVIZ_TRACEBACK=1 shows where; please report it)\n"
    )
    assert main(["diff", MAIN, PR, "--traceback"]) == 3
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("SNAPVIZ_TRACEBACK", "1")
    assert main(["diff", MAIN, PR]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapviz.compare.diff.diff", interrupted)
    assert main(["diff", MAIN, PR, "-q"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "snapviz: interrupted\n"


def run(*argv: str, **rest: object) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "snapviz", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False, **rest)  # type: ignore[call-overload, no-any-return]


def test_help_imports_the_standard_library_alone() -> None:
    code = (
        "import sys; from snapviz.cli.main import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    foreign = {"numpy", "numba", "pydantic", "rich", "fsspec", "zstandard", "snapviz.schema", "snapviz.analyze"}
    loaded = {name for name in foreign if f"'{name}'" in done.stderr}
    assert loaded == set()


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    # the reading end is closed before anything is written, as by `| head` once it has enough
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "snapviz", "info", PR, "-q"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_columns_are_obeyed_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for columns in ("80", "160"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["info", str(SAMPLES / "fsdp2_after")]) == 0
        longest = max(map(len, capsys.readouterr().out.splitlines()))
        assert int(columns) - 25 < longest <= int(columns)


class Terminal:
    def __init__(self, is_terminal: bool) -> None:
        self.text, self._is = "", is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return self._is


def test_progress_is_silent_for_a_second_and_then_says_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.cli.progress._TICK_S", 60)  # only what is called speaks here
    now = [0.0]
    stream = Terminal(False)
    with Progress(stream=stream, clock=lambda: now[0]) as progress:  # type: ignore[arg-type]
        progress("reading a")
        now[0] = 0.9
        progress(1, 10)
        assert stream.text == ""
        for second in (1.5, 2.0, 3.6):
            now[0] = second
            progress(int(second * 10), 100)
    assert stream.text == "snapviz: reading a 15%\nsnapviz: reading a 36%\n"


def test_progress_speaks_for_work_that_makes_no_calls() -> None:
    now = [0.0]
    stream = Terminal(False)
    with Progress(stream=stream, clock=lambda: now[0]) as progress:  # type: ignore[arg-type]
        progress("compiling")
        now[0] = 1.1
        for _ in range(100):
            if stream.text:
                break
            time.sleep(0.05)
    assert stream.text == "snapviz: compiling\n"


def test_progress_says_once_that_code_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.cli.progress._TICK_S", 60)
    now = [0.0]
    stream = Terminal(False)
    with Progress(stream=stream, clock=lambda: now[0]) as progress:  # type: ignore[arg-type]
        for second in (2, 5, 8):
            now[0] = second
            progress("compiling, once after an install")
            now[0] = second + 2.5
            progress(1, 10)
            progress(f"decoding {'a' if second < 8 else 'b'}")
    told = stream.text.splitlines()
    assert told == [f"snapviz: {words}" for words in ("compiling, once after an install", "decoding a", "decoding b")]


def test_progress_names_every_file_that_takes_more_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.cli.progress._TICK_S", 60)
    now = [5.0]
    stream = Terminal(False)
    with Progress(stream=stream, clock=lambda: now[0]) as progress:  # type: ignore[arg-type]
        for name in "abc":
            progress(f"reading {name}")
            now[0] += 1.2
            progress(1, 2)
    assert [line.split()[2] for line in stream.text.splitlines()] == ["a", "b", "c"]


def test_progress_still_names_the_file_when_code_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.cli.progress._TICK_S", 60)
    now = [5.0]
    stream = Terminal(False)
    with Progress(stream=stream, clock=lambda: now[0]) as progress:  # type: ignore[arg-type]
        progress("decoding a")
        for words in ("compiling", "decoding", "compiling", "decoding"):
            progress(words)
            now[0] += 1.2
        progress(1, 2)
    assert stream.text.splitlines()[-1] == "snapviz: decoding a 50%"


def test_quiet_progress_says_nothing() -> None:
    stream = Terminal(False)
    now = iter(range(100))
    with Progress(True, stream, lambda: float(next(now))) as progress:  # type: ignore[arg-type]
        for _ in range(9):
            progress("reading \x1b")
    assert stream.text == ""


def test_help_is_there_at_once() -> None:
    # generous: a bound on imports gone wrong, not a measurement
    started = time.monotonic()
    assert run("--help").returncode == 0
    assert time.monotonic() - started < 5
