"""The section of the terminal's summary: for each test the peaks of its phases, and how they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from snapviz.pytest_plugin.settings import Settings

__all__ = ["Summary"]

_TESTS = 40
"""Tests that are told of; JUnit's file has the figures of all."""


class Summary:
    """Collects the figures that come with reports, from this process or from xdist's workers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[str, dict[str, Any]] = {}
        self._failed: set[str] = set()
        self._ran = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes what a test's report carries."""
        self._ran = True
        found = getattr(report, "snapviz", None)
        if found is not None:
            self._found[report.nodeid] = found
            if report.failed:
                self._failed.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Writes the section; none where no test recorded or read a run."""
        told = {test: found for test, found in self._found.items() if found["runs"] or found["notes"]}
        unused = self._unused() if self._ran else []
        if not told and not unused:
            return
        terminalreporter.section("device memory (snapviz)")
        # those that failed first
        tests = sorted(told, key=lambda test: test not in self._failed)
        for test in tests[:_TESTS]:
            for line in _lines(test, told[test], terminalreporter._tw.fullwidth):
                terminalreporter.line(line)
        if len(tests) > _TESTS:
            terminalreporter.line(f"and {len(tests) - _TESTS:,} more tests (--junitxml has them)")
        for spec in unused:
            terminalreporter.line(f"--snapviz-fail-on {spec}: no test had anything that it could judge", yellow=True)

    def _unused(self) -> list[str]:
        """Budgets that were judged in no test: a phase that was misspelt looks like one that nobody has."""
        judged = {spec for found in self._found.values() for spec in found["judged"]}
        return [str(spec) for spec in self._settings.specs if str(spec) not in judged]


def _lines(test: str, found: dict[str, Any], width: int) -> Iterator[str]:
    from snapviz.report.layout import Column, Span, clean, render_table
    from snapviz.report.words import plural
    from snapviz.units import format_bytes

    yield clean(test)
    for run in found["runs"]:
        where = f"recorded in {run['path']}" if run["path"] else f"{run['name']}, {plural(run['ranks'], 'rank')}"
        yield f"  {clean(where)}"
        for broken in run.get("broken", ()):
            yield f"  ! not in these numbers: {clean(broken)}"
        rows = []
        for row in run["phases"]:
            base, limit = row["baseline_bytes"], row["limit_bytes"]
            rows.append(
                [
                    Span(f"  {clean(row['phase'])}"),
                    Span(("≥ " if row["at_least"] else "") + format_bytes(row["peak_bytes"])),
                    Span(str(row["rank"])),
                    Span("" if base is None else format_bytes(base)),
                    Span("" if base is None else format_bytes(row["peak_bytes"] - base, signed=True)),
                    Span("" if limit is None else format_bytes(limit)),
                ]
            )
        if rows:
            headings = ["  phase", "peak", "rank", "baseline", "Δ", "limit"]
            kept = [i for i in range(len(headings)) if i < 3 or any(row[i].text for row in rows)]
            columns = [Column(headings[i], number=i > 0) for i in kept]
            for spans in render_table(columns, [[row[i] for i in kept] for row in rows], width):
                yield "".join(span.text for span in spans).rstrip()
    for note in found["notes"]:
        yield f"  ~ {clean(note)}"
