"""What is put beside what: ranks by number, phases by folded name, moments by what they are called.

Legend: R ranks, P phases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import fold, folded_phases, phase_of
from snapviz.analyze.run import Rank, Run
from snapviz.errors import UsageError

__all__ = ["DEFAULT_POINTS", "At", "Moment", "Ranks", "align_ranks", "moment", "parse_at"]

DEFAULT_POINTS = ("end", "peak")
"""The end says what stays, the peak what it costs; a leak is exact at the end and diluted at the peak."""


@dataclass(frozen=True)
class At:
    """A point of comparison: the run's (``phase`` none) or a folded phase's peak or end."""

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
class Moment:
    """A point in one rank: the last event before it (−1: the start), and the phase it lies in."""

    event: int
    phase: str | None


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
    if text in ("peak", "end"):
        return At(None, text == "peak")
    if not text.startswith("phase:") or text == "phase:":
        raise UsageError(f"--at {text}: use peak, end, phase:NAME, phase:NAME:peak or phase:NAME:end")
    name = text.removeprefix("phase:")
    head, _, which = name.rpartition(":")
    if head and which in ("peak", "end"):
        return At(fold(head), which == "peak")
    return At(fold(name), True)


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
    if only is not None:
        broken = {f.rank for run in (base, head) for f in run.failures}
        if only not in left.keys() | right.keys() | broken:
            known = ", ".join(map(str, sorted(left.keys() | right.keys())))
            raise UsageError(f"--rank {only}: neither run has it (there is: {known})")
        left, right = ({k: v for k, v in side.items() if k == only} for side in (left, right))
    return Ranks(
        pairs=tuple((n, left[n], right[n]) for n in sorted(left.keys() & right.keys())),
        only_base=tuple(sorted(left.keys() - right.keys())),
        only_head=tuple(sorted(right.keys() - left.keys())),
        notes=notes,
    )


def _numbered(run: Run) -> bool:
    """Whether its one rank's number means anything: it has a record, or others beside it failed."""
    return run.manifest is not None or bool(run.failures) or run.recorded


def moment(facts: Facts, at: At) -> Moment | None:
    """When a point is in one rank; none where the rank has no such phase."""
    replay, last = facts.replay, len(facts.replay) - 1
    if at.phase is None:
        event = replay.peak("allocated", 0, len(replay))[1] if at.peak else last
        return Moment(event, phase_of(facts.phases, event))
    indices = folded_phases(facts.phases).get(at.phase)
    if indices is None:
        return None
    if not at.peak:
        index = int(indices[-1])
        return Moment(int(facts.phases.stop[index]) - 1, facts.phases.names[index])
    index = int(indices[np.argmax(facts.phases.peak[indices, 1])])
    event = replay.peak("allocated", int(facts.phases.first[index]), int(facts.phases.stop[index]))[1]
    return Moment(event, facts.phases.names[index])
