"""The time that a search may take, and whether anything cut it."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """A deadline that loops ask, and remembers whether something was left undone."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._end = self._start + seconds
        self.cut = False

    def late(self) -> bool:
        """Whether the time is over; the search is then cut."""
        if time.monotonic() >= self._end:
            self.cut = True
        return self.cut_by_time

    @property
    def cut_by_time(self) -> bool:
        """Whether the time is over, and nothing else said."""
        return time.monotonic() >= self._end

    def elapsed_us(self) -> int:
        """Microseconds since the search began."""
        return round((time.monotonic() - self._start) * 1e6)
