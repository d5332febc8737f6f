"""When the forwards of modules ran: a row for each call, with the clock of the snapshot's events.

A row is kept from when the call begins, so that rows are in order of their start and an outer one comes before
what lies in it; the arrays are as long as they will ever be, so that two threads never move each other's rows.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from snapviz.record.phases import now_us, settle
from snapviz.schema import MOST_WINDOWS, RECOMPUTED, ModuleRecord

__all__ = ["WindowLog"]

_SETTLE_NS = 10_000
"""Before and after each time that is noted, nothing happens for so long: what torch gives an event as its time is
some µs off the system's clock. A fifth of what phases take, since there are hundreds of times as many windows."""

_LONGEST_NAME = 1_000


class WindowLog:
    """Windows of one rank.

    Args:
        paths: gives the modules that there are, each with its path.
        most: how many windows are kept.
    """

    def __init__(self, paths: Callable[[], Iterable[tuple[str, Any]]], most: int = MOST_WINDOWS) -> None:
        self.paths = paths
        self.complete = True
        """Whether no call was left out."""
        self._most = most
        self._names: dict[str, int] = {}
        self._next = itertools.count()
        self._name = self._flags = array("i")
        self._start_us = self._stop_us = array("q")

    @property
    def is_full(self) -> bool:
        """Whether no more can be kept: some were left out, then."""
        return bool(self._start_us) and self._start_us[-1] > 0

    def begin(self, path: str, recomputed: bool) -> int:
        """A call begins. Returns its row, which is to be ended; −1 where none is kept."""
        if not self._start_us:
            self._make_room()
        row = next(self._next)
        if row >= self._most or len(path) > _LONGEST_NAME:
            self.complete = False
            return -1
        self._name[row] = self._names.setdefault(path, len(self._names))
        self._flags[row] = RECOMPUTED if recomputed else 0
        self._start_us[row] = _settled_us()
        return row

    def end(self, row: int) -> None:
        """The call of that row has ended, however it did."""
        if row >= 0:
            self._stop_us[row] = _settled_us()

    def _make_room(self) -> None:
        self._name, self._flags = array("i", bytes(4 * self._most)), array("i", bytes(4 * self._most))
        self._start_us, self._stop_us = array("q", bytes(8 * self._most)), array("q", bytes(8 * self._most))

    def record(self) -> ModuleRecord | None:
        """All of it; None where no module was called. What goes on still ends now."""
        now = now_us()
        rows = zip(self._name, self._start_us, self._stop_us, self._flags, strict=True)
        windows = [(name, start, max(start, stop or now), flags) for name, start, stop, flags in rows if start]
        if not windows and self.complete:
            return None
        names = (name.encode("utf-8", "replace").decode() for name in self._names)
        return ModuleRecord(names=tuple(names), windows=tuple(windows), complete=None if self.complete else False)


def _settled_us() -> int:
    settle(for_ns=_SETTLE_NS)
    moment = now_us()
    settle(for_ns=_SETTLE_NS)
    return moment
