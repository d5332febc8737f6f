"""A test's runs against its markers, the session's budgets and its baseline; and their figures for the report.

Imported once a test has something to judge: what is imported here reads recordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from snapviz.analyze.run import Run, load_run
from snapviz.compare.measuring import Meter
from snapviz.compare.spec import Bound, BudgetSpec
from snapviz.errors import SnapvizError
from snapviz.pytest_plugin.limits import Limit
from snapviz.pytest_plugin.memory import Memory, place_of
from snapviz.pytest_plugin.settings import Settings
from snapviz.report.layout import clean
from snapviz.schema import MANIFEST
from snapviz.testing import faults

__all__ = ["look"]

_PHASES = 12
"""Phases of a run whose figures are reported, besides those that have limits."""

_SINGLE: dict[str, Run] = {}
"""A baseline that is one run for all tests, read once in a process."""


def look(memory: Memory, settings: Settings, limits: Sequence[Limit], judge: bool) -> tuple[dict[str, Any], list[str]]:
    """The figures of a test's runs, plain enough to travel; with ``judge`` what is wrong with them."""
    problems: list[str] = []
    try:
        memory.finish()
    except (SnapvizError, OSError) as error:
        problems.append(f"what was recorded cannot be read: {error}")
    found: dict[str, Any] = {"runs": [], "properties": [], "notes": [], "judged": []}
    if judge:
        problems += _of_limits(memory, limits)
    for index, run in enumerate(memory.runs):
        try:
            base, why = _baseline(memory, settings, index)
        except SnapvizError as error:
            base, why = None, f"the baseline cannot be read: {error}"
            problems += [f"{spec}: {why}" for spec in settings.specs if spec.bound.relative]
        found["runs"].append(_figures(run, base, limits, index in memory.recorded))
        found["properties"] += _properties(found["runs"][-1], index)
        if why:
            found["notes"].append(f"{run.name}: {why}")
        if judge:
            problems += _of_session(run, base, settings.specs, found)
    return found, list(map(_printable, problems)) if judge else []


def _printable(text: str) -> str:
    """Lines that may quote a file, such as the phases that there are: no escape code of it reaches the terminal."""
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _of_limits(memory: Memory, limits: Sequence[Limit]) -> Iterator[str]:
    """What the markers find."""
    for limit in limits:
        if not memory.runs:
            yield f"{limit.text}: {'; '.join(memory.lost) or 'what was recorded cannot be read'}"
        for index, run in enumerate(memory.runs):
            try:
                texts = [text for _, text in faults(run, [limit.spec], limit.rank)]
            except SnapvizError as error:
                texts = [f"{limit.text}: {error}"]
            if texts and index in memory.recorded:
                texts.append(f"recorded in {run.path}")
            yield from texts


def _of_session(run: Run, base: Run | None, specs: Sequence[BudgetSpec], found: dict[str, Any]) -> Iterator[str]:
    """What the session's budgets find; those that this test has nothing for are noted, and no fault of it."""
    for spec in specs:
        if spec.bound.relative and base is None:
            continue
        against = base if spec.bound.relative else None
        if spec.phase is not None and not _has_phase(spec.phase, run, against):
            continue
        found["judged"].append(str(spec))
        try:
            for budget, text in faults(run, [spec], baseline=against):
                if budget.state == "not judged" and spec.figure in ("dangling", "growth") and not run.failures:
                    found["notes"].append(text)
                else:
                    yield text
        except SnapvizError as error:
            yield f"{spec}: {error}"


def _has_phase(phase: str, *runs: Run | None) -> bool:
    return any(
        Meter(run.name, rank.facts()).stretches.named(phase) for run in runs if run is not None for rank in run.ranks
    )


# ------------------------------------------------------------------ the baseline


def _baseline(memory: Memory, settings: Settings, index: int) -> tuple[Run | None, str]:
    """What a test's run is compared with; else why with nothing, "" where no baseline is given.

    Raises ``InputError`` for a baseline that is there and cannot be read.
    """
    if settings.baseline is None:
        return None, ""
    if _is_one_run(settings.baseline):
        if settings.baseline not in _SINGLE:
            _SINGLE[settings.baseline] = load_run(settings.baseline)
        return _SINGLE[settings.baseline], ""
    if index not in memory.recorded:
        return None, "a run that the test reads has no baseline of its own"
    place = Path(settings.baseline) / place_of(memory.nodeid, memory.recorded.index(index))
    if not place.is_dir():
        return None, "the baseline has no run of this test: nothing is compared"
    return load_run(place), ""


def _is_one_run(baseline: str) -> bool:
    """Whether it is a run, and not a folder with one for each test."""
    place = Path(baseline)
    try:
        if "://" in baseline or not place.is_dir() or (place / MANIFEST).is_file():
            return True
        return any(one.is_file() and not one.name.startswith(".") for one in place.iterdir())
    except OSError:
        # a folder that cannot be read: load_run says why
        return True


# ------------------------------------------------------------------ figures


def _figures(run: Run, base: Run | None, limits: Sequence[Limit], recorded: bool) -> dict[str, Any]:
    """The peaks of a run's phases, of the worst rank each."""
    meters, others = _meters(run), _meters(base)
    limited = {one.spec.phase: one.spec.bound.count for one in limits if one.spec.phase is not None}
    top = dict.fromkeys(name for _, one in meters for name in one.stretches.folded if "/" not in name)
    names = list(dict.fromkeys([*limited, *list(top)[:_PHASES]]))
    rows = []
    for name in names:
        worst, before = _worst(meters, name), _worst(others, name)
        if worst is not None:
            rows.append(
                {
                    "phase": name,
                    "peak_bytes": worst[0],
                    "at_least": worst[2],
                    "rank": worst[1],
                    "baseline_bytes": before[0] if before is not None else None,
                    "limit_bytes": limited.get(name),
                }
            )
    broken = [f"rank {one.rank}" if one.rank is not None else one.message for one in run.failures]
    return {"name": run.name, "path": run.path if recorded else "", "ranks": len(run.ranks), "phases": rows} | (
        {"broken": broken} if broken else {}
    )


def _meters(run: Run | None) -> list[tuple[int, Meter]]:
    return [(rank.rank, Meter(run.name, rank.facts())) for rank in run.ranks] if run is not None else []


def _worst(meters: Sequence[tuple[int, Meter]], phase: str) -> tuple[int, int, bool] | None:
    """Highest peak of a phase, the rank that has it, and whether it may have been higher."""
    spec = BudgetSpec("peak", Bound("absolute"), phase=phase)
    found = [(rank, meter.measure(spec)) for rank, meter in meters if meter.stretches.named(phase)]
    known = [(one.count, -rank, one.certainty != "exact") for rank, one in found if one.count is not None]
    if not known:
        return None
    count, rank, unsure = max(known)
    return count, -rank, unsure


def _properties(figures: dict[str, Any], index: int) -> list[tuple[str, int | str]]:
    """Name and value of each figure, for JUnit."""
    prefix = f"snapviz.{index + 1}." if index else "snapviz."
    out: list[tuple[str, int | str]] = [(f"{prefix}run", figures["path"] or figures["name"])]
    for row in figures["phases"]:
        out.append((f"{prefix}{clean(row['phase'])}.peak_bytes", row["peak_bytes"]))
        out.append((f"{prefix}{clean(row['phase'])}.rank", row["rank"]))
        if row["baseline_bytes"] is not None:
            out.append((f"{prefix}{clean(row['phase'])}.baseline_bytes", row["baseline_bytes"]))
    return out
