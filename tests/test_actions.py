"""The workflows of examples/: that they are what they say, and that their scripts do it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from snapviz.report.markdown import marker_line
from snapviz.report.markdownout import LIMIT

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "github-actions"
FILES = sorted(FOLDER.glob("*.yml"))
ALLOWED = {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to run the scripts with")


def scripts(path: Path) -> dict[str, str]:
    """Name of each step → its script."""
    found, name = {}, ""
    lines = path.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines):
        if (named := re.match(r" *- name: (.+)", line)) is not None:
            name = named[1]
        if (run := re.match(r"( *)(?:- )?run: (.+)", line)) is None:
            continue
        if run[2] != "|":
            found[name] = run[2]
            continue
        body = []
        for after in lines[place + 1 :]:
            if after.strip() and len(after) - len(after.lstrip()) <= len(run[1]):
                break
            body.append(after[len(run[1]) + 2 :])
        found[name] = "\n".join(body)
    return found


def test_there_are_both() -> None:
    assert [path.name for path in FILES] == ["snapviz-forks.yml", "snapviz.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_are_yaml_of_the_plain_kind(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "\t" not in text
    depth = [0]
    block = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or line.lstrip().startswith("#") or (block is not None and indent > block):
            continue
        block = None
        assert indent % 2 == 0, line
        assert re.match(r" *(?:- )?(?:[A-Za-z_-]+:(?: .+)?$)", line), line
        assert indent <= depth[-1] + 4, line
        depth.append(indent)
        if line.rstrip().endswith("|"):
            block = indent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_parser_of_yaml_reads_them(path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not among the dependencies")
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "permissions", "jobs"} <= document.keys()
    assert all("runs-on" in job and job["steps"] for job in document["jobs"].values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_use_no_action_of_others_and_no_dangerous_event(path: Path) -> None:
    text = "\n".join(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    )
    used = re.findall(r"uses: ([^@\n]+)@v\d+\n", text + "\n")
    assert text.count("uses:") == len(used)
    assert set(used) <= ALLOWED
    assert "pull_request_target" not in text
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
    # what an event says is never part of a script
    assert not any("${{" in script for script in scripts(path).values())
    # where code of the pull request runs no token can write, and none is left in its folder
    for job in text.split("\n  ")[1:]:
        assert not ("checkout" in job and "write" in job)
    assert text.count("persist-credentials: false") == text.count("actions/checkout")


@needs_bash
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_their_scripts_are_bash(path: Path) -> None:
    found = scripts(path)
    assert found
    for script in found.values():
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


GH = """#!/bin/bash
printf '%s\\n' "$(printf '%s\\t' "$@")" >> "$LOG"
case "$*" in
  "run download"*) mkdir -p report && cp "$COMMENT" report/comment.md ;;
  *--paginate*) printf '%s' "$IDS" ;;
  *state=open*) printf '%s' "$FOUND" ;;
esac
"""


def post(path: Path, tmp_path: Path, comment: str, **extra: str) -> tuple[int, list[list[str]]]:
    """Runs the script that posts, with a stand-in for gh: its exit code, and what gh was asked."""
    (script,) = (text for name, text in scripts(path).items() if name.startswith("Post"))
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "comment").write_text(comment, encoding="utf-8")
    known = {"LOG": str(tmp_path / "log"), "COMMENT": str(tmp_path / "comment"), "IDS": "", "FOUND": "7", "NUMBER": "7"}
    known |= {"GITHUB_REPOSITORY": "acme/repo", "GITHUB_RUN_ID": "1", "RUN": "1", "HEAD": "a:b", "SHA": "c"}
    environment = os.environ | known | extra | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    # as a runner starts it
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=False, timeout=60)
    asked = [line.rstrip("\t").split("\t") for line in (tmp_path / "log").read_text().split("\t\n") if line]
    return done.returncode, asked


COMMENT = f"{marker_line()}\nhello\n"


@needs_bash
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("ids", "method", "place"),
    [("", "POST", "repos/acme/repo/issues/7/comments"), ("55\n66\n", "PATCH", "repos/acme/repo/issues/comments/55")],
)
def test_one_comment_is_made_and_then_edited(path: Path, ids: str, method: str, place: str, tmp_path: Path) -> None:
    code, asked = post(path, tmp_path, COMMENT, IDS=ids)
    assert code == 0
    *before, last = asked
    assert last == ["api", "--silent", "--method", method, place, "-F", "body=@report/comment.md"]
    assert sum("--silent" in call for call in before) == 0
    # it looks for the marker that the report begins with, and only among the bot's own
    (search,) = (call for call in before if "--paginate" in call)
    assert f'startswith("{marker_line()}")' in search[-1]
    assert '.user.login == "github-actions[bot]"' in search[-1]


@needs_bash
@pytest.mark.parametrize("comment", ["hello\n", f"x{marker_line()}\n", COMMENT + "a" * LIMIT, ""])
def test_what_a_fork_made_is_posted_only_as_a_comment_of_snapviz(comment: str, tmp_path: Path) -> None:
    code, asked = post(FOLDER / "snapviz-forks.yml", tmp_path, comment)
    assert code != 0
    assert not any("--silent" in call for call in asked)


@needs_bash
def test_a_pull_request_that_went_on_gets_no_old_comment(tmp_path: Path) -> None:
    code, asked = post(FOLDER / "snapviz-forks.yml", tmp_path, COMMENT, FOUND="")
    assert code == 0
    assert len(asked) == 1


@needs_bash
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_rule_that_was_hit_fails_after_the_report_is_safe(code: int, tmp_path: Path) -> None:
    found = scripts(FOLDER / "snapviz.yml")
    (tmp_path / "snapviz").write_text(
        f'#!/bin/bash\nwhile [ "$1" != -o ]; do shift; done\necho told > "$2"\ncase "$2" in *.md) exit {code};; esac\n'
    )
    (tmp_path / "snapviz").chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "RUNNER_TEMP")}
    environment = os.environ | files | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", found["Compare"]], cwd=tmp_path, env=environment, check=False, timeout=60
    )
    assert done.returncode == 0
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"code={code}\n"
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "told\n"
    judged = subprocess.run(
        ["bash", "-e", "-c", found["Judge"]], env=os.environ | {"CODE": str(code)}, check=False, timeout=60
    )
    assert judged.returncode == code
    text = (FOLDER / "snapviz.yml").read_text(encoding="utf-8")
    assert text.index("actions/upload-artifact") < text.index("- name: Judge")


def test_the_page_about_them_shows_them_as_they_are() -> None:
    page = (FOLDER.parents[1] / "docs" / "github-actions.md").read_text(encoding="utf-8")
    for path in FILES:
        assert f"examples/github-actions/{path.name}" in page
    assert json.dumps(marker_line())[1:-1] in page
