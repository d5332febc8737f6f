"""What a replay gives: an allocation table, four curves, and what is not certain about them.

Legend: E events of the device, A allocations. Sizes are bytes, times µs since the Unix epoch.
``requested``, ``allocated``, ``active`` and ``reserved`` mean what torch's memory stats mean:
allocated and requested in blocks, allocated until the free is asked for, active (and requested)
until the block can be used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from snapviz.errors import UsageError

__all__ = ["MEASURES", "START", "Allocations", "Finding", "Measures", "Replay", "Severity"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

START: Final = -1
"""The event number that stands for the state before the first event."""

MEASURES: Final = ("requested", "allocated", "active", "reserved")
"""Names that ``Replay.peak`` and ``Replay.curve`` take, with or without ``_bytes``."""

Severity = Literal["inconsistent", "estimate", "assumption", "information"]
"""``inconsistent``: the file contradicts itself or the rules. ``estimate``: a number is a guess.
``assumption``: rules were chosen for the file. ``information``: true and certain, and worth knowing."""


@dataclass(frozen=True)
class Measures:
    """The four totals at one moment, in bytes."""

    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Finding:
    """One thing about a replay that is worth saying.

    ``kind`` is a stable name in lower case with hyphens; ``bytes`` and ``event`` (index into the
    device's trace, ``START`` for the state before it) are ``None`` where they mean nothing.
    """

    kind: str
    severity: Severity
    count: int
    message: str
    bytes: int | None = None
    event: int | None = None

    def __post_init__(self) -> None:
        assert self.severity in get_args(Severity)


@dataclass(frozen=True, eq=False)
class Allocations:
    """A lifetimes: those alive at the start by address, then the others by their alloc event."""

    address: Int64  # [A]
    alloc_event: Int64  # [A] START: before the recording
    free_requested_event: Int64  # [A] E: still allocated at the end; START: before the recording
    free_completed_event: Int64  # [A] E: still active at the end
    requested_bytes: Int64  # [A]
    block_bytes: Int64  # [A] rounded, and the remainder that was not split off
    stack: Int32  # [A] stack id, or ABSENT
    stream: Int64  # [A] or ABSENT
    pool: Int32  # [A] pool id of the event, else of the final segment there, else ABSENT
    estimated: Bool  # [A] block_bytes may be too small

    def __len__(self) -> int:
        return len(self.address)

    def allocated_after(self, event: int) -> Bool:
        """Mask of what is allocated just after an event (``START``: at the start)."""
        return (self.alloc_event <= event) & (self.free_requested_event > event)

    def active_after(self, event: int) -> Bool:
        """Mask of what is active just after an event (``START``: at the start)."""
        return (self.alloc_event <= event) & (self.free_completed_event > event)


@dataclass(frozen=True, eq=False)
class Replay:
    """One device's memory over its trace.

    ``exact``: nothing is estimated or assumed, and ``consistent``. ``consistent``: the end state
    equals ``segments``, ``snapshot`` events equal active, times rise, blocks fill their segments,
    and no event contradicts another.
    """

    device: int
    time_us: Int64  # [E] or ABSENT
    requested_bytes: Int64  # [E] after each event, as the next three
    allocated_bytes: Int64  # [E]
    active_bytes: Int64  # [E]
    reserved_bytes: Int64  # [E]
    start: Measures
    exact: bool
    notes: tuple[str, ...]  # everything inconsistent, estimated or assumed, in sentences for people
    findings: tuple[Finding, ...]
    consistent: bool
    allocations: Allocations

    def __len__(self) -> int:
        return len(self.time_us)

    @property
    def end(self) -> Measures:
        """The totals after the last event."""
        return self.after(len(self) - 1)

    @property
    def estimated_until(self) -> int:
        """The event whose completion ends the last estimated allocation: curves from it on hold no
        estimate. ``START`` where nothing is estimated, E where an estimate lasts to the end."""
        table = self.allocations
        return int(table.free_completed_event[table.estimated].max(initial=START))

    def after(self, event: int) -> Measures:
        """The totals just after an event (``START``: at the start)."""
        if event == START:
            return self.start
        if not 0 <= event < len(self):
            raise IndexError(f"event {event} of a trace of {len(self)}")
        return Measures(*(int(self.curve(measure)[event]) for measure in MEASURES))

    def curve(self, measure: str) -> Int64:
        """A curve by its name. Raises ``UsageError`` for a name that is none."""
        name = measure.removesuffix("_bytes")
        if name not in MEASURES:
            raise UsageError(f"unknown measure {measure!r}: use one of {', '.join(MEASURES)}")
        curve: Int64 = getattr(self, f"{name}_bytes")
        return curve

    @cached_property
    def has_times(self) -> bool:
        """Whether events carry times (they do from torch 2.2)."""
        return bool(len(self) and self.time_us.max() >= 0)

    @cached_property
    def rising_us(self) -> Int64:
        """[E] times in order: a clock that went back is held at its highest."""
        return np.maximum.accumulate(self.time_us)

    def window(self, start_us: int, stop_us: int) -> tuple[int, int]:
        """The events from ``start_us`` to ``stop_us``, both included, as first and one-past-last.

        Raises ``UsageError`` where events carry no times.
        """
        first, stop = self.windows(np.array([start_us], np.int64), np.array([stop_us], np.int64))
        return int(first[0]), int(stop[0])

    def windows(self, start_us: Int64, stop_us: Int64) -> tuple[Int64, Int64]:
        """The same of many windows at once: [W] first and [W] one past last."""
        if len(self) and not self.has_times:
            raise UsageError(
                f"device {self.device}: the events carry no times (torch before 2.2), so no window can be cut"
            )
        first = np.searchsorted(self.rising_us, start_us, "left")
        return first, np.maximum(first, np.searchsorted(self.rising_us, stop_us, "right"))

    def peak(self, measure: str, first: int, stop: int) -> tuple[int, int]:
        """The highest value in events ``first`` to ``stop`` and just before, and where it is first.

        Just before counts since torch resets a peak to the current value; it is event ``first - 1``.
        """
        if not 0 <= first <= stop <= len(self):
            raise IndexError(f"events {first} to {stop} of a trace of {len(self)}")
        curve = self.curve(measure)
        value = int(getattr(self.after(first - 1), f"{measure.removesuffix('_bytes')}_bytes"))
        event = first - 1
        if stop > first:
            highest = first + int(np.argmax(curve[first:stop]))
            if int(curve[highest]) > value:
                value, event = int(curve[highest]), highest
        return value, event
