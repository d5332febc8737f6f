from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from snapviz.cli.main import main
from tests.analyze.builders import SAMPLES
from tests.report.enriched import enriched

pytest.importorskip("matplotlib")

AFTER, BEFORE = str(SAMPLES / "fsdp2_after"), str(SAMPLES / "fsdp2_before_notfixed")
MAIN, PR = str(SAMPLES / "main"), str(SAMPLES / "pr")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "SNAPVIZ_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_figures_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark-plot", AFTER, BEFORE, "-o", str(tmp_path), "-q", "--title", "Optimizer"]) == 0
    out, err = capsys.readouterr()
    assert "\nallocated, MiB " in out
    assert "1,000.79" in out
    assert err == ""
    assert names(tmp_path) == ["allocated.png", "reserved.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_figures_are_never_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["benchmark-plot", MAIN, "-o", str(tmp_path), "-q", "--format", "svg"]
    (tmp_path / "reserved.svg").write_text("mine")
    assert main(argv) == 2
    assert "reserved.svg: exists already (-f overwrites it)" in capsys.readouterr().err
    # and before anything is drawn
    assert names(tmp_path) == ["reserved.svg"]
    assert main([*argv, "-f"]) == 0
    assert (tmp_path / "reserved.svg").read_text().startswith("<?xml")
    assert main(["benchmark-plot", MAIN, "-q", "-o", str(tmp_path / "nope")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_the_current_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark-plot", PR, "-q", "--from", "train"]) == 0
    assert names(tmp_path) == ["allocated.png", "reserved.png"]


def test_the_worst_rank_or_the_one_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = enriched("fsdp2_after"), enriched("fsdp2_before_notfixed")
    both[1].ranks[0].rank = 5
    for one in both:
        one.ranks[0]._facts = None
    run = enriched("main")
    run.ranks = (both[0].ranks[0], both[1].ranks[0])
    monkeypatch.setattr("snapviz.analyze.run.load_run", lambda *_, **__: run)
    assert main(["benchmark-plot", "x", "-o", str(tmp_path), "-q"]) == 0
    assert re.search(r"^main +5  1,000.79 ", capsys.readouterr().out, re.MULTILINE)
    assert main(["benchmark-plot", "x", "-o", str(tmp_path), "-q", "-f", "--rank", "0"]) == 0
    assert re.search(r"^main +0  711.99 ", capsys.readouterr().out, re.MULTILINE)
    assert main(["benchmark-plot", "x", "-o", str(tmp_path), "-q", "-f", "--rank", "3"]) == 2
    assert "no rank 3 could be read (there is: 0, 5)" in capsys.readouterr().err


def test_a_broken_rank_is_2_and_the_others_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    (tmp_path / "out").mkdir()
    argv = ["benchmark-plot", str(tmp_path / "pr"), "-o", str(tmp_path / "out"), "-q"]
    assert main(argv) == 2
    assert capsys.readouterr().out.startswith("! pr: rank 1 could not be read:")
    assert len(names(tmp_path / "out")) == 2
    assert main([*argv, "-f", "--rank", "0"]) == 0
    assert "could not be read" not in capsys.readouterr().out
    (tmp_path / "pr" / "rank00000.pickle.zst").write_bytes(b"")
    assert main([*argv, "-f"]) == 2
    assert "pr: no rank could be read: " in capsys.readouterr().err


def test_a_fake_process_group_has_no_times_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = enriched("fsdp2_after", fake_process_group=True)
    monkeypatch.setattr("snapviz.analyze.run.load_run", lambda *_, **__: run)
    assert main(["benchmark-plot", "x", "-o", str(tmp_path), "-q", "--format", "svg"]) == 0
    assert "(fake process group)" in (tmp_path / "reserved.svg").read_text()
    assert capsys.readouterr().out.startswith("~ fsdp2_after: recorded with torch's fake process group (rank 0 of 8")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "required: RUN"),
        ([MAIN, "--from", "eval"], "--from eval: main has no such phase (there is: materialize, shard, train/step0)"),
        ([MAIN, "--format", "pdf"], "invalid choice: 'pdf'"),
        ([MAIN, ""], "an empty path names nothing"),
        (["/does/not/exist"], "/does/not/exist"),
        ([MAIN, "-o", ""], "an empty path names nothing"),
    ],
)
def test_wrong_input_is_2_and_draws_nothing(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark-plot", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert names(tmp_path) == []


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["benchmark-plot", MAIN, "-o", str(tmp_path)]) == 2
    assert "pip install matplotlib" in capsys.readouterr().err
    assert names(tmp_path) == []


def test_help_has_its_name_with_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "benchmark-plot" in capsys.readouterr().out
    assert main(["benchmark-plot", "--help"]) == 0
    assert "--from PHASE" in capsys.readouterr().out
