"""Moments for looking at reserved memory: its peaks, ends, single events, and where the allocator gave up."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.moments import At, moment, parse_at
from snapviz.analyze.phases import phase_of
from snapviz.analyze.stretches import Stretches, exact_after
from snapviz.errors import UsageError
from snapviz.schema import MeasureName, Moment, Trust
from snapviz.snapshot.columns import ACTIONS

__all__ = ["DEFAULT_MOMENTS", "FORMS", "Wanted", "device_free_at", "moment_at", "oom_events", "parse_wanted", "resolve"]

Int64 = npt.NDArray[np.int64]

DEFAULT_MOMENTS = ("peak", "end")
FORMS = "peak, end, phase:NAME[:peak|:end], event:N, oom or oom:N"
"""What ``parse_wanted`` takes, for help and messages."""

_OOM, _ALLOC = ACTIONS.index("oom"), ACTIONS.index("alloc")
_NUMBERED = re.compile(r"(event|oom):([0-9]{1,18})")


@dataclass(frozen=True)
class Wanted:
    """A moment as the user named it. ``peak`` is that of ``measure``."""

    at: At | None  # of the run or a phase
    event: int | None = None
    oom: int | None = None  # from 1; 0: the last
    measure: MeasureName = "reserved"

    @property
    def text(self) -> str:
        """What ``--at`` takes."""
        if self.at is not None:
            return self.at.text
        if self.event is not None:
            return f"event:{self.event}"
        return f"oom:{self.oom}" if self.oom else "oom"

    @property
    def title(self) -> str:
        """The same in words."""
        if self.at is not None:
            of = self.at.phase or "the run"
            return f"at the {self.measure} peak of {of}" if self.at.peak else f"at the end of {of}"
        if self.event is not None:
            return f"after event {self.event:,}"
        return f"where memory ran out ({self.text})" if self.oom else "where memory last ran out"


def parse_wanted(text: str) -> Wanted:
    """A moment of one of ``FORMS``. Raises ``UsageError`` for anything else."""
    if text == "oom":
        return Wanted(None, oom=0)
    if found := _NUMBERED.fullmatch(text):
        number = int(found[2])
        if found[1] == "event":
            return Wanted(None, event=number)
        if number:
            return Wanted(None, oom=number)
    elif not text.startswith(("event:", "oom:")):
        try:
            return Wanted(parse_at(text))
        except UsageError:
            pass
    raise UsageError(f"--at {text}: use {FORMS}")


def oom_events(facts: Facts) -> Int64:
    """The events at which the allocator gave up."""
    return np.flatnonzero(facts.columns.trace(facts.replay.device).action == _OOM)


def resolve(facts: Facts, stretches: Stretches, wanted: Wanted) -> Moment | None:
    """When a moment is in one rank; none where the rank has none such."""
    if wanted.event is not None:
        return moment_at(facts, wanted.event) if wanted.event < len(facts.replay) else None
    if wanted.oom is not None:
        events = oom_events(facts)
        at = wanted.oom - 1 if wanted.oom else len(events) - 1
        return moment_at(facts, int(events[at])) if 0 <= at < len(events) else None
    assert wanted.at is not None
    if not wanted.at.peak or wanted.measure != "reserved":
        return moment(facts, stretches, wanted.at, wanted.measure)
    if wanted.at.phase is None:
        return _peak(facts, 0, len(facts.replay), whole=not facts.truncated)
    found = stretches.named(wanted.at.phase)
    if not found:
        return None
    # the first of the highest
    highest = max(found, key=lambda one: facts.replay.peak("reserved", one.first, one.stop)[0])
    return _peak(facts, highest.first, highest.stop, whole=highest.trust.whole)


def _peak(facts: Facts, first: int, stop: int, whole: bool) -> Moment:
    value, event = facts.replay.peak("reserved", first, stop)
    after = event + 1
    action = facts.columns.trace(facts.replay.device).action
    # a segment comes for a request, which is served next: before that it would count as free
    if first <= event and after < stop and action[after] == _ALLOC and facts.replay.reserved_bytes[after] == value:
        event = after
    found = moment_at(facts, event)
    at_least = () if whole else ("reserved",)
    return found.model_copy(update={"trust": found.trust.model_copy(update={"whole": whole, "at_least": at_least})})


def moment_at(facts: Facts, event: int) -> Moment:
    """A moment just after an event."""
    timed = event >= 0 and facts.replay.has_times
    return Moment(
        event=event,
        time_us=int(facts.replay.time_us[event]) if timed else None,
        phase=phase_of(facts.phases, event),
        trust=Trust(exact=exact_after(facts, event), whole=True, counted=False),
        counted_bytes=None,
    )


def device_free_at(facts: Facts, event: int) -> int | None:
    """Free bytes of the device after an event: known where the allocator gave up, and at the ends of phases that the
    record counted, as long as no segment came or went since."""
    first, _ = facts.columns.trace_range(facts.replay.device)
    sparse = facts.columns.sparse
    found = np.flatnonzero(sparse.oom_event == first + event)
    if len(found) and event >= 0:
        free = int(sparse.oom_device_free[found[0]])
        return free if free >= 0 else None
    reserved = facts.replay.reserved_bytes
    for phase in facts.record.phases if facts.record is not None and facts.replay.has_times else ():
        free_then = phase.counters.device_free_bytes if phase.counters is not None else None
        if free_then is None:
            continue
        last = facts.replay.window(int(facts.replay.time_us[0]), phase.stop_us)[1] - 1
        if last == event and event >= 0 and reserved[last] == phase.counters.end_reserved_bytes:  # type: ignore[union-attr]
            return free_then
    return None
