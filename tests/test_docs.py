"""What the documentation shows is what the tool prints.

In a page, a ``sh`` block that runs one ``snapviz`` command on the bundled runs, and a block without a language right
after it, belong together: the second is what the first prints. A line ``...`` stands for any lines. With
``SNAPVIZ_UPDATE_DOCS=1`` the pages are written anew instead (blocks with ``...`` are left).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from snapviz.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "sample_snapshots/README.md", *(ROOT / "docs").rglob("*.md")])
SHOWN = re.compile(r"```sh\n(?P<command>[^\n]*snapviz [a-z-]+ [^\n]*)\n```\n\n?```\n(?P<output>.*?)\n```\n", re.DOTALL)
UPDATE = bool(os.environ.get("SNAPVIZ_UPDATE_DOCS"))

SHOWN_ON = [
    pytest.param(page, number, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, _ in enumerate(SHOWN.finditer(page.read_text(encoding="utf-8")))
]


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(command.split("snapviz ", 1)[1].split(" #", maxsplit=1)[0])
    assert main([*words, "-q"]) in (0, 1, 2)
    return capsys.readouterr().out.rstrip("\n")


def fits(shown: str, output: str) -> bool:
    parts = re.split(r"^\.\.\.\n?", shown, flags=re.MULTILINE)
    return re.fullmatch(".*".join(map(re.escape, parts)), output, re.DOTALL) is not None


@pytest.mark.parametrize(("page", "number"), SHOWN_ON)
def test_a_page_shows_what_the_tool_prints(
    page: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    text = page.read_text(encoding="utf-8")
    block = list(SHOWN.finditer(text))[number]
    output = printed(block["command"], capsys)
    if UPDATE and "\n...\n" not in f"\n{block['output']}\n":
        start, stop = block.span("output")
        page.write_text(text[:start] + output + text[stop:], encoding="utf-8")
        return
    if "\n...\n" in f"\n{block['output']}\n":
        assert fits(block["output"], output)
        return
    assert block["output"] == output


def test_pages_show_something() -> None:
    assert SHOWN_ON


def test_readme_shows_what_its_first_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two stands a sentence about compiling, so that ``SHOWN`` does not find them."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- main-command -->", 1)[1]
    command = text.split("```sh\n", 1)[1].split("\n```", 1)[0]
    shown = text.split("\n```\n", 1)[1].split("\n```\n", 1)[1].split("\n```\n", 1)[0]
    assert shown == printed(command, capsys)


def test_the_page_of_pytest_shows_what_its_example_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs/pytest.md").read_text(encoding="utf-8")
    _, runs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_runs.py").write_text(runs, encoding="utf-8")
    (tmp_path / "sample_snapshots").symlink_to(ROOT / "sample_snapshots")
    # dash brings a plugin of its own, which warns while it loads
    left_out = ["-p", "no:dash", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *left_out, "-p", "snapviz.pytest_plugin", "tests"]
    environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    between = re.compile(r"=+ FAILURES =+\n.*?(?==+ short test summary)", re.DOTALL)
    shown, printed_now = between.search(page), between.search(run.stdout)
    assert shown is not None
    assert printed_now is not None, run.stdout + run.stderr
    assert shown[0] == printed_now[0]


def test_the_page_of_the_dashboard_names_every_parameter_key_and_picture() -> None:
    pytest.importorskip("dash", reason="the dashboard is not installed")
    from snapviz.app.shell import _KEYS
    from snapviz.app.state import PAGES, State

    page = (ROOT / "docs/dashboard.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|", page.partition("## Addresses")[2], re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted({field.name for field in fields(State)} - {"page"})
    assert all(f"`{path}`" in page for path in PAGES.values())
    keys = page.partition("## Keys")[2].partition("##")[0]
    assert all(f"`{key}`" in keys for told, _ in _KEYS for key in told.replace("…", " ").split())
    pictures = set(re.findall(r"\]\((dashboard/[^)]*)\)", page))
    assert pictures == {f"dashboard/{path.name}" for path in (ROOT / "docs/dashboard").iterdir()}
