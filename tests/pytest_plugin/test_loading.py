"""How the plugin is loaded, what that costs, and its options."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from snapviz.compare.spec import FIGURES
from tests.analyze.builders import ROOT, SAMPLES
from tests.pytest_plugin.conftest import NO_DASH, Inner

PLAIN = "def test_it():\n    pass\n"
ONCE = """
import snapviz.pytest_plugin as plugin

def test_it(request, snapviz):
    known = request.config.pluginmanager.list_name_plugin()
    assert [name for name, one in known if one is plugin] == ["snapviz.pytest_plugin"]
    assert [name for name, _ in known if name == "snapviz-summary"] == ["snapviz-summary"]
"""
READS = f"def test_it(snapviz):\n    snapviz.load_run({str(SAMPLES / 'main')!r})\n"


def test_loading_imports_nothing_heavy(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # only pytest's own plugins: others may import what they like
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        test_it="""
import sys, pytest

@pytest.mark.limit_dangling("0 B")
def test_not_run(snapviz): pass

def test_it():
    heavy = {"numpy", "numba", "torch", "pydantic", "rich", "fsspec", "zstandard", "dash", "matplotlib"}
    assert "snapviz.pytest_plugin" in sys.modules
    assert not heavy & set(sys.modules)
"""
    )
    options = (*NO_DASH, "-p", "snapviz.pytest_plugin", "--snapviz-fail-on=peak:1GiB", "-k", "not test_not_run")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1, deselected=1)


@pytest.fixture
def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an installation adds: the entry point, beside the checkout."""
    place = pytester.path / "site" / "snapviz_stand_in-0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: snapviz-stand-in\nVersion: 0\n")
    (place / "entry_points.txt").write_text("[pytest11]\nsnapviz = snapviz.pytest_plugin:entry\n")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{place.parent}")
    return place


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("again", [(), ("-p", "snapviz.pytest_plugin"), ("-p", "snapviz")])
def test_the_entry_point_is_enough_and_twice_is_once(pytester: pytest.Pytester, again: tuple[str, ...]) -> None:
    pytester.makepyfile(ONCE)
    pytester.runpytest_subprocess(*NO_DASH, "--strict-markers", "-W", "error", *again).assert_outcomes(passed=1)


@pytest.mark.usefixtures("installed")
def test_a_conftest_may_name_it_as_well(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['snapviz.pytest_plugin']")
    pytester.makepyfile(ONCE)
    pytester.runpytest_subprocess(*NO_DASH, "-W", "error").assert_outcomes(passed=1)


@pytest.mark.usefixtures("installed")
def test_it_can_be_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN + READS.replace("test_it", "test_other"))
    result = pytester.runpytest_subprocess(*NO_DASH, "-p", "no:snapviz")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*fixture 'snapviz' not found"])


def test_the_project_names_the_entry_point() -> None:
    assert 'snapviz = "snapviz.pytest_plugin:entry"' in (ROOT / "pyproject.toml").read_text()


def test_markers_and_fixture_and_options_are_told(inner: Inner) -> None:
    text = inner(PLAIN, "--markers").stdout.str()
    assert "@pytest.mark.limit_phase_peak(phase, limit, rank='max'): " in text
    assert "@pytest.mark.limit_dangling(limit, rank='max'): " in text
    assert "snapviz -- " in inner(PLAIN, "--fixtures").stdout.str()
    text = inner(PLAIN, "--help").stdout.str()
    for name in ("baseline", "save", "fail-on"):
        assert f"--snapviz-{name}" in text
        assert f"snapviz_{name.replace('-', '_')} (" in text


def test_tests_without_it_are_left_alone(inner: Inner) -> None:
    result = inner(PLAIN)
    result.assert_outcomes(passed=1)
    assert "device memory" not in result.stdout.str()
    # but a budget that judged nothing is told
    result = inner(PLAIN, "--snapviz-fail-on=peak:1B")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["--snapviz-fail-on peak:1B: no test had anything that it could judge"])
    assert "device memory" not in inner(PLAIN, "--snapviz-fail-on=peak:1B", "--collect-only").stdout.str()


def test_the_example_of_the_docs_does_what_they_say(inner: Inner, pytester: pytest.Pytester) -> None:
    text = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    code = text[text.index("tests/test_runs.py") :]
    code = code[code.index("```python\n") + len("```python\n") :]
    (pytester.path / "sample_snapshots").symlink_to(SAMPLES)
    result = inner(code[: code.index("```")])
    result.assert_outcomes(passed=1, failed=2)
    said = result.stdout.str()
    # who owns it is inferred in part, and told better by and by
    for line in text[text.index("____ test_originals") : text.index("live at that peak")].splitlines()[1:]:
        assert line in said


def test_the_docs_have_every_figure() -> None:
    text = (ROOT / "docs" / "budgets.md").read_text(encoding="utf-8")
    assert [figure for figure in FIGURES if f"| `{figure}` |" not in text] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--snapviz-fail-on=peak:12GB"], "--snapviz-fail-on 'peak:12GB': '12GB' can be read in two ways"),
        (["--snapviz-fail-on=peak"], "'peak' is no budget"),
        (["--snapviz-fail-on=peak:5%"], "it is a limit to a baseline: give --snapviz-baseline"),
        (["--snapviz-baseline=nowhere"], "nowhere does not exist"),
        (["--snapviz-save=s3://bucket/runs"], "is no local directory"),
        (["--snapviz-save=.", "--snapviz-baseline=."], "every run would be its own baseline"),
    ],
)
def test_options_that_cannot_be_meant_stop_the_session(inner: Inner, options: list[str], words: str) -> None:
    result = inner(PLAIN, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_every_option_has_an_ini_setting(inner: Inner, pytester: pytest.Pytester) -> None:
    sub = pytester.mkdir("sub")
    (sub / "main").symlink_to(SAMPLES / "main")
    lines = ["[pytest]", "snapviz_baseline = sub/main", "snapviz_save = kept"]
    lines += ["snapviz_fail_on =", "    peak:0%", "    dangling:0B"]
    pytester.path.joinpath("pytest.ini").write_text("\n".join(lines))
    result = inner(READS.replace("sample_snapshots/main", "sample_snapshots/pr"))
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "The run peaked at 14.0 MiB on rank 0, limit 10.0 MiB (+4.0 MiB)" in text
    assert "Dangling parameters hold 4.0 MiB" in text
    # one baseline for all tests is for those as well that only read
    assert "  train" in text
    assert "+4.00 MiB" in text
    # the command line is stronger
    inner(READS, "--snapviz-fail-on=peak:0%").assert_outcomes(passed=1)


def test_session_budgets_without_anything_to_judge_in_a_test(inner: Inner) -> None:
    source = f"def test_it(snapviz):\n    snapviz.load_run({str(SAMPLES / 'leak')!r})\n"
    result = inner(source, "--snapviz-fail-on=phase.train.peak:1GiB", "--snapviz-fail-on=dangling:0B")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  ~ dangling:0B cannot be judged: rank 0: what dangles cannot be told: *"])
    inner(source, "--snapviz-fail-on=growth:0B").assert_outcomes(failed=1)


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom snapviz.testing import assert_phase_peak\n"
        f"assert_phase_peak({str(SAMPLES / 'main')!r}, 'train', '12 MiB')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _escaped_phase(folder: Path) -> Path:
    """A run whose first phase has an escape code in its name."""
    run = folder / "escaped"
    shutil.copytree(SAMPLES / "main", run)
    for record in run.glob("rank*.json"):
        record.write_text(record.read_text().replace('"materialize"', '"a\\u001b[2Jb"'))
    return run


def test_no_escape_code_of_a_run_reaches_the_terminal_or_the_xml(inner: Inner, tmp_path: Path) -> None:
    source = f"""
import pytest

@pytest.mark.limit_phase_peak("nope", "1 GiB")
def test_it(snapviz):
    snapviz.load_run({str(_escaped_phase(tmp_path))!r})
"""
    result = inner(source, f"--junitxml={tmp_path / 'out.xml'}")
    result.assert_outcomes(failed=1)
    assert "a\\x1b[2Jb" in result.stdout.str()
    assert "\x1b[2J" not in result.stdout.str()
    names = [one.get("name") for one in ET.parse(tmp_path / "out.xml").iter("property")]
    assert "snapviz.a\\x1b[2Jb.peak_bytes" in names


def test_a_baseline_that_is_neither_file_nor_folder_is_told(inner: Inner) -> None:
    result = inner(READS, "--snapviz-baseline=/dev/null", "--snapviz-fail-on=peak:5%")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["peak:5%: the baseline cannot be read: /dev/null: a device and not a file"])
