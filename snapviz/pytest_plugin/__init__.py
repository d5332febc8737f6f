"""Limits to device memory in pytest: two markers, the fixture ``snapviz``, and comparison with a baseline.

  @pytest.mark.limit_phase_peak("train", "12 GiB", rank="max")
  @pytest.mark.limit_dangling("0 B")
  def test_training(snapviz):
      with snapviz.phase("train"):
          ...

Markers are checked when tests are collected and enforced without any option, against what the fixture recorded or
loaded in the test. docs/pytest.md says all of it. While pytest starts, only the standard library is imported here:
numpy, torch and whatever reads a recording wait for a test that needs them.

PYTEST_DONT_REWRITE: there are no assertions of tests in here, and a session in a session has imported it before.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from snapviz.errors import UsageError
from snapviz.pytest_plugin.limits import MARKERS, faults_of_marks, limits_of
from snapviz.pytest_plugin.settings import SETTINGS, add_options, read_settings
from snapviz.pytest_plugin.summary import Summary

if TYPE_CHECKING:
    from snapviz.pytest_plugin.memory import Memory

__all__ = [
    "entry",
    "pytest_addoption",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "snapviz_fixture",
]

_MEMORY: pytest.StashKey[Memory] = pytest.StashKey()
"""Of a test that uses the fixture: what it recorded and loaded."""

_FOUND: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
"""Of such a test: its figures, as they travel with its report."""


class _Entry:
    """What the entry point names: it loads the plugin under its module's name, so that loading it once more by that
    name (``-p``, ``pytest_plugins``) is no second one. ``-p no:snapviz`` keeps it from being asked."""

    def pytest_addoption(self, parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
        del parser
        pluginmanager.import_plugin(__name__)


entry = _Entry()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--snapviz-baseline, --snapviz-save, --snapviz-fail-on, and an ini setting for each."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Markers, what the options mean, and who tells of it in the end."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[SETTINGS] = read_settings(config)
    # a worker of xdist sends its figures with its reports
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config.stash[SETTINGS]), "snapviz-summary")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Has a collection fail where a marker of ours cannot be meant, with the names of the tests."""
    report = yield
    if report.passed:
        found = [one for item in report.result if isinstance(item, pytest.Item) for one in faults_of_marks(item)]
        if found:
            report.outcome, report.result = "failed", []
            report.longrepr = "\n".join(found)
    return report


@pytest.fixture(name="snapviz")
def snapviz_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Device memory: record phases in a test with snapviz.phase(NAME), or read a run with snapviz.load_run(PATH).

    What limit_phase_peak, limit_dangling and --snapviz-fail-on judge is what was recorded and loaded through it.
    """
    from snapviz.pytest_plugin.memory import Memory

    memory = Memory(request.node.nodeid, request.config.stash[SETTINGS].save, tmp_path_factory)
    request.node.stash[_MEMORY] = memory
    yield memory
    memory.abandon()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Once a test has passed by itself, judges what it recorded and loaded."""
    try:
        result = yield
    except BaseException:
        _look(item, judge=False)
        raise
    if text := _look(item, judge=True):
        pytest.fail(text, pytrace=False)
    return result


def _look(item: pytest.Item, judge: bool) -> str:
    """Notes the figures of a test; with ``judge`` what is wrong with them, "" where nothing is."""
    try:
        limits = limits_of(item) if judge else ()
    except UsageError as error:
        return str(error)
    memory = item.stash.get(_MEMORY, None)
    if memory is None or memory.idle:
        return "\n".join(f"{one.text}: nothing was recorded or loaded by the fixture snapviz" for one in limits)
    from snapviz.pytest_plugin.judging import look

    found, faults = look(memory, item.config.stash[SETTINGS], limits, judge)
    item.stash[_FOUND] = found
    for name, value in found["properties"]:
        item.user_properties.append((name, value))
    return "\n\n".join(faults)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Sends the figures of a test along with its report."""
    report = yield
    if call.when == "call" and (found := item.stash.get(_FOUND, None)) is not None:
        report.snapviz = found  # type: ignore[attr-defined]
    return report
