"""``snapviz check`` and ``--fail-on``: exit codes and what is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from snapviz.cli.main import main
from tests.analyze.builders import SAMPLES

MAIN, PR = str(SAMPLES / "main"), str(SAMPLES / "pr")


@pytest.mark.parametrize(
    ("specs", "code"),
    [
        (["phase.train.peak:40%"], 0),
        (["phase.train.peak:39%"], 1),
        (["dangling:0B"], 1),
        (["phase.train.peak:40%", "dangling:0B"], 1),
        (["dangling:4MiB", "peak:1GiB"], 0),
        (["growth:0B"], 2),
        (["growth:0B", "dangling:0B"], 2),
    ],
)
def test_exit_codes(specs: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for spec in specs for word in ("--fail-on", spec)]
    assert main(["diff", MAIN, PR, "-q", *options]) == code
    out, err = capsys.readouterr()
    assert all(spec in out for spec in specs)
    assert err == ""
    assert main(["check", PR, "--baseline", MAIN, "-q", *options]) == code


def test_a_broken_rank_is_2_whatever_is_hit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    head = str(tmp_path / "pr")
    for spec in ("dangling:0B", "peak:1GiB"):
        assert main(["diff", MAIN, head, "-q", "--fail-on", spec]) == 2
        assert main(["check", head, "-q", "--fail-on", spec]) == 2
        out = capsys.readouterr().out
        assert "rank 1" in out
        assert "could not be read" in out
    assert main(["check", head, "-q", "--fail-on", "peak:1GiB", "--rank", "0"]) == 0
    assert main(["diff", MAIN, head, "-q", "--fail-on", "dangling:0B", "--rank", "0"]) == 1
    assert main(["check", PR, "--baseline", head, "-q", "--fail-on", "peak:1GiB"]) == 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["diff", MAIN, PR, "--fail-on", "peak:12GB"], "write '12 GiB', or '11.18 GiB'"),
        (["diff", MAIN, "/does/not/exist", "--fail-on", "peak"], "'peak' is no budget"),
        (["diff", MAIN, PR, "--fail-on", "phase.x.peak:5%"], "no rank has a phase x (there is: materialize, shard"),
        (["check", PR], "required: --fail-on"),
        (["check", PR, "--fail-on", "peak:5%"], "there is none to compare with: give a baseline"),
        (["check", PR, "--fail-on", "peak:1GiB", "--rank", "9"], "no rank 9 could be read"),
        (["check", PR, "--fail-on", "peak:1GiB", "--baseline", "/nope"], "/nope"),
    ],
)
def test_what_cannot_be_meant_is_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv, "-q"][: len(argv) + ("--fail-on" in argv)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


def test_json_has_the_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, "-q", "--format", "json", "--fail-on", "phase.train.peak:5%"]) == 1
    (spec,) = json.loads(capsys.readouterr().out)["budgets"]
    assert (spec["spec"], spec["state"], spec["worst_rank"]) == ("phase.train.peak:5%", "hit", 0)
    assert spec["ranks"][1]["head_bytes"] == 14_680_576
    assert main(["check", PR, "-q", "--format", "json", "--fail-on", "dangling:0B"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["culprits"][0]["held_bytes"] == 4_194_304


def test_an_error_inside_is_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("snapviz.compare.budgets.check", broken)
    assert main(["check", PR, "-q", "--fail-on", "peak:1GiB"]) == 3
    assert "internal error: ZeroDivisionError: ours" in capsys.readouterr().err
