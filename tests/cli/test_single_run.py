"""leaks, ranks and dangling as commands: exit codes, formats, files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from snapviz.cli.main import main
from tests.analyze.builders import SAMPLES

COMMANDS = ("leaks", "ranks", "dangling")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "SNAPVIZ_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("leaks", "leak", "each step leaves 2.00 MiB behind (2,097,152 bytes): 1 block"),
        ("ranks", "uneven_ranks", "rank 1 has the highest peak, 397.16 MiB: 66.00 MiB (19.9%) more than rank 0."),
        ("dangling", "thunder_478/pr", "1 parameter (4.00 MiB) dangles to the end on both ranks."),
    ],
)
def test_a_finding_alone_is_no_failure(
    command: str, name: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([command, str(SAMPLES / name), "-q"]) == 0
    out, err = capsys.readouterr()
    assert words in out
    assert err == ""
    target = tmp_path / "report.json"
    assert main([command, str(SAMPLES / name), "-q", "--format", "json", "-o", str(target)]) == 0
    assert json.loads(target.read_text())["schema_version"] == 1
    assert capsys.readouterr().out == ""
    # a report is not overwritten unasked
    assert main([command, str(SAMPLES / name), "-q", "-o", str(target)]) == 2
    assert main([command, str(SAMPLES / name), "-q", "-o", str(target), "-f", "--no-cache"]) == 0
    assert words in target.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_rank_is_2_and_the_report_is_still_printed(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLES / "uneven_ranks", tmp_path / "run")
    (tmp_path / "run" / "rank00001.pickle.zst").write_bytes(b"")
    assert main([command, str(tmp_path / "run"), "-q"]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "! rank 1 could not be read: " in out
    assert "What could not be read counts for nothing here." in out
    # ranks compares all of them, whichever is explained
    assert main([command, str(tmp_path / "run"), "-q", "--rank", "0"]) == (2 if command == "ranks" else 0)
    capsys.readouterr()
    assert main([command, str(tmp_path / "run"), "-q", "--rank", "1"]) == 2
    assert "rank 1 could not be read" in capsys.readouterr().err


def test_one_rank(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("leaks", "dangling"):
        assert main([command, str(SAMPLES / "uneven_ranks"), "-q", "--rank", "1", "--format", "json"]) == 0
        assert [one["rank"] for one in json.loads(capsys.readouterr().out)["ranks"]] == [1]
    assert main(["ranks", str(SAMPLES / "uneven_ranks"), "-q", "--rank", "0", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert ([one["rank"] for one in document["ranks"]], document["why"]) == ([0, 1], None)


def test_options_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaks", str(SAMPLES / "leak"), "-q", "--after", "3", "--times", "2", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["after"], document["times"]) == (3, 2)
    assert len(document["ranks"][0]["groups"][0]["steps"]) == 3
    assert main(["ranks", str(SAMPLES / "uneven_ranks"), "-q", "--at", "phase:shard", "--measure", "reserved"]) == 0
    assert "both ranks have the same reserved peak in shard, to the byte" in capsys.readouterr().out
    assert main(["dangling", str(SAMPLES / "fsdp2_before_notfixed"), "-q", "--all"]) == 0
    assert "model.layers.7.self_attn.v_proj.weight" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["leaks"], "required: RUN"),
        (["leaks", str(SAMPLES / "leak"), "--after", "0"], "--after 0: what is left behind"),
        (["leaks", "/does/not/exist", "--times", "1"], "--times 1: what grows"),
        (["leaks", str(SAMPLES / "leak"), "--rank", "5"], "no rank 5 could be read (there is: 0)"),
        (
            ["ranks", str(SAMPLES / "leak"), "--at", "phase:nope"],
            "--at phase:nope: no such phase (there is: materialize",
        ),
        (["ranks", str(SAMPLES / "leak"), "--at", "end"], "--at end: ranks compares peaks: use peak, phase:NAME or"),
        (["ranks", str(SAMPLES / "leak"), "--measure", "most"], "invalid choice: 'most'"),
        (["ranks", str(SAMPLES / "leak"), "--rank", "5"], "no rank 5 could be read"),
        (["dangling", str(SAMPLES)], "a folder of"),
    ],
)
def test_wrong_input_is_one_message_and_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_the_docstring(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--rank N" in out
    assert "--format {text,json}" in out


@pytest.mark.parametrize("after", ["9223372036854775807", "9223372036854775808", "9" * 40])
def test_no_age_is_too_high_to_ask_for(after: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaks", str(SAMPLES / "leak"), "-q", "--after", after]) == 0
    assert capsys.readouterr().err == ""


def test_an_endless_number_in_a_file_of_rules_is_the_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("x = " + "9" * 10_000)
    assert main(["dangling", str(SAMPLES / "single"), "-q", "--rules", str(rules)]) == 2
    assert "not TOML" in capsys.readouterr().err


def test_a_name_that_is_too_long_for_a_file_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(SAMPLES / "single"), "-q", "--to", "viewer", "-o", "x" * 300]) == 2
    assert "File name too long" in capsys.readouterr().err
