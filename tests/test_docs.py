"""What the documentation shows is what the tool prints.

In a page, a ``sh`` block that runs one ``snapviz`` command on the bundled runs, and a block without a language right
after it, belong together: the second is what the first prints. A line ``...`` stands for any lines. With
``SNAPVIZ_UPDATE_DOCS=1`` the pages are written anew instead (blocks with ``...`` are left).
"""

from __future__ import annotations

import os
import re
import shlex
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
