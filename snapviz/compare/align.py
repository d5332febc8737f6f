"""What is put beside what: ranks by number, phases by folded name, moments by what they are called."""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.phases import end_of_run, phase_of
from snapviz.analyze.run import Rank, Run
from snapviz.compare.stretches import Stretch, Stretches, exact_after
from snapviz.errors import UsageError
from snapviz.schema import Moment, Trust

__all__ = ["DEFAULT_POINTS", "At", "Ranks", "align_ranks", "moment", "parse_at"]

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


@dataclass(frozen=True)
class Ranks:
    """R aligned ranks as (number, base, head), and the numbers that only one run has."""

    pairs: tuple[tuple[int, Rank, Rank], ...]
    only_base: tuple[int, ...]
    only_head: tuple[int, ...]
    notes: tuple[str, ...]


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


def align_ranks(base: Run, head: Run, only: int | None = None) -> Ranks:
    """Ranks by number. Raises ``UsageError`` where ``only`` names a rank that neither run has."""
    left, right = {r.rank: r for r in base.ranks}, {r.rank: r for r in head.ranks}
    notes: tuple[str, ...] = ()
    if len(left) == len(right) == 1 and not _numbered(base) and not _numbered(head):
        (one,), (other,) = left.values(), right.values()
        left = {other.rank: one}
        if one.rank != other.rank:
            told = f"rank {one.rank} of {base.name} is compared with rank {other.rank} of {head.name}"
            notes = (f"{told}: each is the only one",)
    broken = [{f.rank for f in run.failures} for run in (base, head)]
    if only is not None:
        if only not in left.keys() | right.keys() | broken[0] | broken[1]:
            known = ", ".join(map(str, sorted(left.keys() | right.keys())))
            raise UsageError(f"--rank {only}: neither run has it (there is: {known})")
        left, right = ({k: v for k, v in side.items() if k == only} for side in (left, right))
    return Ranks(
        pairs=tuple((n, left[n], right[n]) for n in sorted(left.keys() & right.keys())),
        only_base=tuple(sorted(left.keys() - right.keys() - broken[1])),
        only_head=tuple(sorted(right.keys() - left.keys() - broken[0])),
        notes=notes,
    )


def _numbered(run: Run) -> bool:
    """Whether its one rank's number means anything: it has a record, or others beside it failed."""
    return run.manifest is not None or bool(run.failures) or run.recorded


def moment(facts: Facts, stretches: Stretches, at: At) -> Moment | None:
    """When a point is in one rank; none where the rank has no such phase."""
    if at.phase is None:
        return _moment_of_run(facts, at)
    found = stretches.named(at.phase)
    if not found:
        return None
    if not at.peak:
        last = max(found, key=lambda one: one.stop)
        return _moment_of(facts, last, last.stop - 1, peak=False)
    # the first of the highest
    highest = max(found, key=lambda one: one.peak_allocated)
    return _moment_of(facts, highest, facts.replay.peak("allocated", highest.first, highest.stop)[1], peak=True)


def _moment_of_run(facts: Facts, at: At) -> Moment:
    replay = facts.replay
    event = replay.peak("allocated", 0, len(replay))[1] if at.peak else end_of_run(facts)
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


def _moment_of(facts: Facts, stretch: Stretch, event: int, peak: bool) -> Moment:
    trust = stretch.trust
    if not peak:
        trust = trust.model_copy(
            update={"whole": True, "at_least": (), "exact": trust.exact or exact_after(facts, event)}
        )
    counted = stretch.peak_allocated if peak else stretch.end_allocated
    return Moment(
        event=event,
        time_us=_time(facts, event),
        phase=phase_of(facts.phases, event) if stretch.spans else stretch.name,
        trust=trust,
        counted_bytes=counted if trust.counted else None,
    )


def _time(facts: Facts, event: int) -> int | None:
    return int(facts.replay.time_us[event]) if event >= 0 and facts.replay.has_times else None
