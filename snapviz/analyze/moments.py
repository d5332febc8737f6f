"""Moments of one rank by what they are called: the peak or end of the run, or of a phase."""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.phases import end_of_run, phase_of
from snapviz.analyze.stretches import Stretch, Stretches, exact_after
from snapviz.errors import UsageError
from snapviz.schema import MeasureName, Moment, Trust

__all__ = ["DEFAULT_POINTS", "At", "moment", "parse_at"]

DEFAULT_POINTS = ("end", "peak")
"""The end says what stays, the peak what it costs; a leak is exact at the end and diluted at the peak."""


@dataclass(frozen=True)
class At:
    """A point of comparison: the run's (``phase`` none) or a phase's peak or end, as the user named it."""

    phase: str | None
    peak: bool

    @property
    def text(self) -> str:
        """What ``--at`` takes."""
        which = "peak" if self.peak else "end"
        return which if self.phase is None else f"phase:{self.phase}:{which}"

    @property
    def title(self) -> str:
        """The same in words."""
        return f"at the {'peak' if self.peak else 'end'} of {self.phase or 'the run'}"


def parse_at(text: str) -> At:
    """``peak``, ``end``, ``phase:NAME`` (its peak), ``phase:NAME:peak`` or ``phase:NAME:end``.

    Raises ``UsageError`` for anything else.
    """
    if not isinstance(text, str):
        raise UsageError(f"a point of comparison is a text such as end or phase:NAME, not a {type(text).__name__}")
    if text in ("peak", "end"):
        return At(None, text == "peak")
    if not text.startswith("phase:") or text == "phase:":
        raise UsageError(f"--at {text}: use peak, end, phase:NAME, phase:NAME:peak or phase:NAME:end")
    name = text.removeprefix("phase:")
    head, _, which = name.rpartition(":")
    if head and which in ("peak", "end"):
        return At(head, which == "peak")
    return At(name, True)


def moment(facts: Facts, stretches: Stretches, at: At, measure: MeasureName = "allocated") -> Moment | None:
    """When a point is in one rank; none where the rank has no such phase. A peak is that of ``measure``."""
    if at.phase is None:
        return _moment_of_run(facts, at, measure)
    found = stretches.named(at.phase)
    if not found:
        return None
    if not at.peak:
        last = max(found, key=lambda one: one.stop)
        return _moment_of(facts, last, last.stop - 1, None, measure)
    # the first of the highest
    column = MEASURES.index(measure)
    highest = max(found, key=lambda one: int(one.peak[column]))
    event = facts.replay.peak(measure, highest.first, highest.stop)[1]
    return _moment_of(facts, highest, event, int(highest.peak[column]), measure)


def _moment_of_run(facts: Facts, at: At, measure: MeasureName) -> Moment:
    replay = facts.replay
    event = replay.peak(measure, 0, len(replay))[1] if at.peak else end_of_run(facts)
    exact = facts.exact if at.peak else exact_after(facts, event)
    # the end of a recording is whole however late it began
    whole = not (at.peak and facts.truncated)
    return Moment(
        event=event,
        time_us=_time(facts, event),
        phase=phase_of(facts.phases, event),
        trust=Trust(exact=exact, whole=whole, counted=False, at_least=() if whole else MEASURES),
        counted_bytes=None,
    )


def _moment_of(facts: Facts, stretch: Stretch, event: int, peak: int | None, measure: MeasureName) -> Moment:
    """A moment of a stretch: of its peak, which was so many bytes, or where that is none of its end."""
    trust = stretch.trust
    # a record need not have torch's counter of every measure
    trust = trust.model_copy(update={"counted": trust.counted and measure not in trust.at_least})
    if peak is None:
        trust = trust.model_copy(
            update={"whole": True, "at_least": (), "exact": trust.exact or exact_after(facts, event)}
        )
    counted = int(stretch.end[MEASURES.index(measure)]) if peak is None else peak
    return Moment(
        event=event,
        time_us=_time(facts, event),
        phase=phase_of(facts.phases, event) if stretch.spans else stretch.name,
        trust=trust,
        counted_bytes=counted if trust.counted else None,
    )


def _time(facts: Facts, event: int) -> int | None:
    return int(facts.replay.time_us[event]) if event >= 0 and facts.replay.has_times else None
