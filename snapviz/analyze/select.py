"""Allocations picked by what they are: ``dangling``, ``category:gradient``, ``owner:layers.3``, and what memory would
be without them.

Legend: A allocations, E events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.windows import highest
from snapviz.errors import UsageError
from snapviz.replay.model import START

__all__ = ["FORMS", "Remaining", "Selector", "curve_without", "parse_selector"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

FORMS = "dangling, category:NAME, owner:REGEX, module:REGEX, phase:REGEX or stack:REGEX"
"""What ``parse_selector`` takes, for help and messages."""

_LONGEST = 1_000
"""Characters of a pattern: a person writes less."""


@dataclass(frozen=True)
class Selector:
    """Which allocations, and from which event on each of them counts."""

    text: str
    find: Callable[[Facts], Bool]

    def mask(self, facts: Facts) -> Bool:
        """[A] the allocations it picks."""
        return self.find(facts)

    def since(self, facts: Facts) -> Int64:
        """[A] the event after which each is taken out; E where it is not picked.

        What dangles was rightly there until its release was due, anything else is taken out from its birth on.
        """
        picked = self.mask(facts)
        born = facts.replay.allocations.alloc_event
        since = facts.dangling_since if self.text == "dangling" else born - 1
        return np.where(picked, since, len(facts.replay)).astype(np.int64)


def parse_selector(text: str) -> Selector:
    """A selector of one of ``FORMS``. Patterns are searched for anywhere in the name, as by ``re.search``.

    ``stack:`` is searched in each ``function (file:line)`` of the stack. Raises ``UsageError``.
    """
    if text == "dangling":
        return Selector(text, lambda facts: facts.dangling_since < len(facts.replay))
    kind, colon, wanted = text.partition(":")
    if not colon or not wanted or kind not in ("category", "owner", "module", "phase", "stack"):
        raise UsageError(f"{text!r} picks nothing: use {FORMS}")
    if kind == "category":
        if wanted not in CATEGORIES:
            raise UsageError(f"{text!r}: no such category (there is: {', '.join(CATEGORIES)})")
        code = CATEGORIES.index(wanted)
        return Selector(text, lambda facts: facts.category == code)
    pattern = _pattern(text, wanted)
    if kind == "stack":
        return Selector(text, lambda facts: _by_stack(facts, pattern))
    return Selector(text, lambda facts: _by_name(facts, kind, pattern))


def _pattern(text: str, wanted: str) -> re.Pattern[str]:
    if len(wanted) > _LONGEST:
        raise UsageError(f"a pattern of {len(wanted):,} characters: at most {_LONGEST:,}")
    try:
        return re.compile(wanted)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{text!r}: not a regular expression: {error}") from None


def _by_name(facts: Facts, kind: str, pattern: re.Pattern[str]) -> Bool:
    names, index = {
        "owner": (facts.owners, facts.owner),
        "module": (facts.modules, facts.module),
        "phase": (facts.births, facts.birth),
    }[kind]
    fits = np.array([bool(name) and pattern.search(name) is not None for name in names], bool)
    return fits[index]


def _by_stack(facts: Facts, pattern: re.Pattern[str]) -> Bool:
    stack = facts.replay.allocations.stack
    distinct, inverse = np.unique(stack, return_inverse=True)
    fits_frame: dict[int, bool] = {}

    def fits(frame: int) -> bool:
        if frame not in fits_frame:
            fits_frame[frame] = pattern.search(facts.frames.text(frame)) is not None
        return fits_frame[frame]

    fits_stack = [any(map(fits, facts.frames.of(one).tolist())) for one in distinct.tolist()]
    return np.array(fits_stack, bool)[inverse.reshape(-1)]


def curve_without(facts: Facts, since: Int64) -> tuple[int, Int64]:
    """Allocated bytes at the start, and [E] after each event, without some allocations.

    ``since`` [A] is the event after which each is taken out, until it went; E (or more) where it stays.
    """
    table = facts.replay.allocations
    curve = facts.replay.allocated_bytes
    # what was freed before the recording is only active in it
    gone = np.flatnonzero((since < len(curve)) & (table.free_requested_event > np.maximum(since, START)))
    change = np.zeros(len(curve) + 1, np.int64)
    # before the first event is the start, which has no place in the curve
    at_start = since[gone] < START
    np.subtract.at(change, np.maximum(since[gone] + 1, 0), table.block_bytes[gone])
    np.add.at(change, np.minimum(table.free_requested_event[gone], len(curve)), table.block_bytes[gone])
    start = int(facts.replay.start.allocated_bytes) - int(table.block_bytes[gone][at_start].sum())
    return start, curve + np.cumsum(change[:-1])


class Remaining:
    """Peaks without some allocations; ``since`` [A] as for ``curve_without``."""

    def __init__(self, facts: Facts, since: Int64) -> None:
        start, curve = curve_without(facts, since)
        self._inside = np.append(start, curve)
        # what is due at the end of one phase is gone where the next begins: torch resets a peak to what is held then
        born = facts.replay.allocations.alloc_event
        start, curve = curve_without(facts, np.maximum(since - 1, born - 1))
        self._before = np.append(start, curve)

    def peaks(self, first: Int64, stop: Int64) -> Int64:
        """[W] the highest in each of many windows, counting what is held just before it."""
        found: Int64 = np.maximum(self._before[first], highest(self._inside[1:], first, stop))
        return found

    def peak(self, windows: Iterable[tuple[int, int]]) -> int:
        """The highest in some windows (first event, one past the last), counting what is held just before each."""
        # one place further: both begin with the start, which is just before the first event
        found = [(int(self._before[a]), int(self._inside[a + 1 : b + 1].max(initial=0))) for a, b in windows]
        return max(max(pair) for pair in found)
