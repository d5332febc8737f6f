"""What the markers say: checked at collection, before any test runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from snapviz.compare.spec import Bound, BudgetSpec, Ranks, rank_number
from snapviz.errors import UsageError
from snapviz.units import parse_bytes

__all__ = ["MARKERS", "Limit", "faults_of_marks", "limits_of"]

MARKERS = (
    "limit_phase_peak(phase, limit, rank='max'): fails a test whose run peaks above the limit ('12 GiB') in a phase",
    "limit_dangling(limit, rank='max'): fails a test in whose run more dangles than the limit ('0 B')",
)
"""As ``pytest --markers`` shows them."""


@dataclass(frozen=True)
class Limit:
    """One marker's limit."""

    text: str
    # the marker, as it was written
    spec: BudgetSpec
    rank: Ranks


def _phase_peak(phase: str, limit: str | int, rank: Ranks = "max") -> BudgetSpec:
    rank_number(rank)
    if not (phase and isinstance(phase, str)):
        raise UsageError(f"{phase!r} is no phase's name")
    return BudgetSpec("peak", _bound(limit), phase=phase)


def _dangling(limit: str | int, rank: Ranks = "max") -> BudgetSpec:
    rank_number(rank)
    return BudgetSpec("dangling", _bound(limit))


def _bound(limit: str | int) -> Bound:
    if isinstance(limit, bool) or not isinstance(limit, (str, int)):
        raise UsageError(f"{limit!r} is not a number of bytes: write it like '12 GiB' or '4096'")
    return Bound("absolute", parse_bytes(limit))


_MEANINGS: dict[str, Callable[..., BudgetSpec]] = {"limit_phase_peak": _phase_peak, "limit_dangling": _dangling}


def _limit(mark: pytest.Mark) -> Limit:
    """What a marker means. Raises ``UsageError`` for what cannot be meant."""
    meaning = _MEANINGS[mark.name]
    written = [repr(one) for one in mark.args] + [f"{name}={value!r}" for name, value in mark.kwargs.items()]
    try:
        bound = inspect.signature(meaning).bind(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise UsageError(f"{error}") from None
    return Limit(
        text=f"{mark.name}({', '.join(written)})",
        spec=meaning(*bound.args, **bound.kwargs),
        rank=bound.arguments.get("rank", "max"),
    )


def _marks(item: pytest.Item) -> Iterator[pytest.Mark]:
    """Those nearest to the test first: its own, then its class's and module's."""
    return (mark for mark in item.iter_markers() if mark.name in _MEANINGS)


def faults_of_marks(item: pytest.Item) -> Iterator[str]:
    """What cannot be meant by a test's markers, with its name."""
    names = getattr(item, "fixturenames", None)
    for mark in _marks(item):
        try:
            limit = _limit(mark)
        except UsageError as error:
            yield f"{item.nodeid}: {mark.name}: {error}"
            continue
        if names is None or "snapviz" not in names:
            yield f"{item.nodeid}: {limit.text} judges what the fixture snapviz recorded: the test has to use it"


def limits_of(item: pytest.Item) -> tuple[Limit, ...]:
    """The limits of a test. Raises ``UsageError`` for a marker that was added after collection and means nothing."""
    return tuple(map(_limit, _marks(item)))
