"""The phases of one rank while it runs: what is open, what is closed, and torch's counters of each.

torch has one set of peaks, so each boundary reads and resets them, and every phase that is open then
keeps the highest it has seen: an outer phase's peak is that of all that lies in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from snapviz.errors import UsageError
from snapviz.record.backend import MEASURES, Backend, Reading
from snapviz.record.guard import guarded

__all__ = ["ClosedPhase", "Moment", "OpenPhase", "PhaseLog", "now_us", "settle"]

_SETTLE_NS = 50_000
"""Around the times of a boundary nothing is allocated for so long: torch works the times of its events out
from the processor's counter afterwards (c10/util/ApproximateClock.h), some µs off the system's clock."""

_LONGEST_NAME = 1_000
_DEEPEST = 32


@dataclass(frozen=True)
class Moment:
    """One boundary: when what lies before it ended, and the counters then; none where they could not be read."""

    stop_us: int
    reading: Reading | None


@dataclass
class OpenPhase:
    """A phase that has begun; peaks are the highest seen at its boundaries so far."""

    name: str
    start_us: int
    retries: int
    ooms: int
    peak: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0))
    counted: bool = True
    """Whether all of its boundaries had counters."""


@dataclass(frozen=True)
class ClosedPhase:
    """A phase that has ended, with the reading at its end."""

    name: str
    start_us: int
    stop_us: int
    peak: dict[str, int]
    end: Reading | None  # none where its counters are not known
    alloc_retries: int
    ooms: int


def now_us(clock: Callable[[], int] = time.time_ns) -> int:
    """The clock of a snapshot's ``time_us``: µs since the Unix epoch; real, whatever a program makes of ``time``."""
    return clock() // 1000


class PhaseLog:
    """Opens and closes phases, reading the device's counters at each boundary."""

    def __init__(self, backend: Backend, device: int) -> None:
        self._backend = backend
        self.device = device
        self.opened: list[OpenPhase] = []
        self.closed: list[ClosedPhase] = []

    @property
    def path(self) -> str | None:
        """Full name of the innermost open phase."""
        return self.opened[-1].name if self.opened else None

    def joined(self, name: str) -> str:
        """The full name of a phase in the innermost open one. Raises ``UsageError`` for what is no name."""
        if not isinstance(name, str):
            raise UsageError(f"a phase's name is a text, not a {type(name).__name__}")
        name = name.encode("utf-8", "replace").decode()  # a file can hold it then
        full = f"{self.path}/{name}" if self.opened else name
        if not name or not all(part.strip() for part in name.split("/")):
            raise UsageError(f"a phase needs a name, and one between every two slashes, not {name!r}")
        if len(full) > _LONGEST_NAME or full.count("/") >= _DEEPEST:
            raise UsageError(
                f"a phase's name has at most {_LONGEST_NAME:,} characters and {_DEEPEST} parts: {full:.80}…"
            )
        return full

    def boundary(self, synchronize: bool = True, whole_device: bool = True) -> Moment:
        """Reads and resets the counters; every open phase takes part in their peaks."""
        settle()
        reading = guarded("torch's counters", lambda: self._read(synchronize, whole_device))
        stop_us = now_us()
        if reading is None:  # the phase begins or ends all the same, and says nothing of its counters
            for phase in self.opened:
                phase.counted = False
            return Moment(stop_us, None)
        guarded("torch's peaks", lambda: self._backend.reset_peaks(self.device))
        self._fold(reading)
        return Moment(stop_us, reading)

    def _read(self, synchronize: bool, whole_device: bool) -> Reading:
        if synchronize:
            self._backend.synchronize(self.device)
        return self._backend.read(self.device, whole_device)

    def fold(self) -> None:
        """Has every open phase take part in the peaks so far: they are about to be reset by somebody else."""
        self._fold(self._backend.read(self.device, whole_device=False))

    def _fold(self, reading: Reading) -> None:
        for phase in self.opened:
            phase.peak = {measure: max(phase.peak[measure], reading.peak[measure]) for measure in MEASURES}

    def begin(self, full: str, moment: Moment) -> None:
        """Opens a phase of that full name after a boundary."""
        settle()
        reading = moment.reading
        start_us = max(now_us(), moment.stop_us + 1)
        first = reading or Reading(dict.fromkeys(MEASURES, 0), dict.fromkeys(MEASURES, 0))
        phase = OpenPhase(full, start_us, first.alloc_retries, first.ooms, dict(first.current), reading is not None)
        self.opened.append(phase)
        settle()

    def end(self, moment: Moment) -> ClosedPhase:
        """Closes the innermost phase at a boundary."""
        phase = self.opened.pop()
        reading = moment.reading if phase.counted else None
        closed = ClosedPhase(
            name=phase.name,
            start_us=phase.start_us,
            stop_us=max(moment.stop_us, phase.start_us),
            peak=phase.peak,
            end=reading,
            alloc_retries=max(0, reading.alloc_retries - phase.retries) if reading else 0,
            ooms=max(0, reading.ooms - phase.ooms) if reading else 0,
        )
        self.closed.append(closed)
        return closed


def settle(clock: Callable[[], int] = time.perf_counter_ns, for_ns: int = _SETTLE_NS) -> None:
    """Does nothing for a while, so that a time lies apart from the events before and after it."""
    until = clock() + for_ns
    for _ in range(for_ns):  # a clock that stands still must not hold the program up
        if clock() >= until:
            return
