"""Rules of the house that a test can hold."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import snapviz

ROOT = Path(snapviz.__file__).resolve().parents[1]
FILES = sorted((ROOT / "snapviz").rglob("*.py"))
# What needs an extra is looked at as text only.
NEEDS_AN_EXTRA = ("snapviz.app", "snapviz.record")
HEAVY = ("torch", "dash", "plotly", "matplotlib", "numba", "pydantic")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


def exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return None


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_module(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    assert len(text.splitlines()) <= 400, "longer than 400 lines"


@pytest.mark.parametrize("path", [p for p in FILES if not p.name.startswith("_")], ids=module_name)
def test_every_module_says_what_it_exports(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = exported(tree)
    assert names is not None, "no __all__"
    assert len(names) == len(set(names))
    classes_and_functions = {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    }
    assert classes_and_functions <= set(names), "public, and not in __all__"
    assert not {name for name in names if name.startswith("_")}


@pytest.mark.parametrize(
    "name", [n for n in map(module_name, FILES) if not n.startswith(NEEDS_AN_EXTRA) and n != "snapviz.__main__"]
)
def test_everything_exported_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [each for each in getattr(module, "__all__", ()) if not hasattr(module, each)] == []


def test_the_package_exports_what_it_promises() -> None:
    namespace: dict[str, object] = {}
    exec("from snapviz import *", namespace)  # what a user may write
    assert set(snapviz.__all__) <= namespace.keys()
    assert dir(snapviz) == sorted(snapviz.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        snapviz.nonsense  # noqa: B018


HELP = """
import sys
sys.argv = ["snapviz", "--help"]
from snapviz.cli.main import main
try:
    code = main()
except SystemExit as exit:
    code = exit.code
assert not code, code
"""


@pytest.mark.parametrize(
    ("code", "heavy"), [("import snapviz", ("numpy", *HEAVY)), (HELP, HEAVY)], ids=["import snapviz", "snapviz --help"]
)
def test_starting_imports_nothing_heavy(code: str, heavy: tuple[str, ...]) -> None:
    result = python(f"{code}\nimport sys\nprint('loaded:', *sorted(set(sys.modules) & set({heavy!r})))")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1].strip() == "loaded:"


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "snapviz/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", snapviz.__version__)


def test_the_changelog_knows_the_version() -> None:
    assert snapviz.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("mark", ["main-command", "test-command"])
def test_ci_finds_the_commands_of_the_readme(mark: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"<!-- {mark} -->\n```sh\n(.+)\n```", text)
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert f"$(block {mark})" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
