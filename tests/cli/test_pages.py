"""``snapviz diff --format markdown`` and ``html``."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from snapviz.cli.main import main
from tests.analyze.builders import SAMPLES
from tests.compare.jobs import job
from tests.report.parsed import Page, check_markdown

MAIN, PR = str(SAMPLES / "main"), str(SAMPLES / "pr")


def test_markdown_goes_to_stdout_and_nothing_else_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, "--format", "markdown", "-q"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("<!-- snapviz:diff -->\n### snapviz: `main` → `pr`\n")
    check_markdown(out)
    assert err == ""


@pytest.mark.parametrize(("form", "begin"), [("markdown", "<!-- snapviz:diff -->"), ("html", "<!doctype html>")])
def test_a_file_is_written_and_not_overwritten(
    form: str, begin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "page"
    command = ["diff", MAIN, PR, "--format", form, "-o", str(place), "-q"]
    assert main(command) == 0
    first = place.read_text(encoding="utf-8")
    assert first.startswith(f"{begin}\n")
    assert main(command) == 2
    assert "exists already (-f overwrites it)" in capsys.readouterr().err
    assert main([*command, "-f"]) == 0
    assert place.read_text(encoding="utf-8") == first


def test_a_marker_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, "--format", "markdown", "--marker", "fsdp2-8", "-q"]) == 0
    assert capsys.readouterr().out.startswith("<!-- snapviz:fsdp2-8 -->\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--format", "markdown", "--marker", "a-->b"], "use letters, digits"),
        (["--format", "text", "--marker", "a"], "use it with --format markdown"),
        (["--format", "html", "--marker", "a"], "use it with --format markdown"),
    ],
)
def test_a_marker_that_cannot_be_one(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    # said before anything is read
    assert main(["diff", "/does/not/exist", PR, *argv]) == 2
    assert words in capsys.readouterr().err


def test_html_has_curves_over_time(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    assert main(["diff", MAIN, PR, "--format", "html", "-o", str(place), "-q"]) == 0
    page = Page(place.read_text(encoding="utf-8"))
    assert len([tag for tag, known in page.tags if known.get("class") == "curve"]) == 2
    assert "Over time" in page.text


def test_html_without_times_has_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        objects = job(leak=int(name == "b")).objects()
        for event in objects["device_traces"][0]:
            del event["time_us"]
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(objects))
    place = tmp_path / "page.html"
    runs = [str(tmp_path / f"{name}.pickle") for name in ("a", "b")]
    assert main(["diff", *runs, "--format", "html", "-o", str(place), "-q"]) == 0
    page = Page(place.read_text(encoding="utf-8"))
    assert "Over time" not in page.text
    assert "Why" in page.text


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_broken_rank_is_2_and_stands_above_the_numbers(form: str, tmp_path: Path) -> None:
    shutil.copytree(PR, tmp_path / "pr")
    (tmp_path / "pr" / "rank00001.pickle.zst").write_bytes(b"")
    place = tmp_path / "page"
    assert main(["diff", MAIN, str(tmp_path / "pr"), "--format", form, "-o", str(place), "-q"]) == 2
    text = place.read_text(encoding="utf-8")
    assert 0 < text.index("rank 1 is not in these numbers") < text.index("train/step0")


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_nothing_in_common_is_still_a_page(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, number in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        for rank in (number, number + 2):
            (tmp_path / name / f"rank{rank}.pickle").write_bytes(pickle.dumps(job().objects()))
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--format", form, "-q"]) == 2
    assert "no rank in common" in capsys.readouterr().out


def test_info_has_no_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", PR, "--format", "markdown"]) == 2
    assert "invalid choice: 'markdown'" in capsys.readouterr().err
