"""The stretches of one rank that have a name: its phases, and what spans the phases below a name.

Legend: E events. Four values are always requested, allocated, active and reserved bytes, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.phases import fold
from snapviz.schema import Trust

__all__ = ["Stretch", "Stretches", "exact_after"]

Int64 = npt.NDArray[np.int64]

_ALLOCATED = MEASURES.index("allocated")


@dataclass(frozen=True)
class Stretch:
    """A phase, or the events from the first phase below a name to the last."""

    name: str  # raw
    first: int  # first event
    stop: int  # one past the last event
    peak: Int64  # [4] highest, counting the value just before the first event
    end: Int64  # [4]
    trust: Trust
    spans: bool  # made of the phases below the name

    @property
    def peak_allocated(self) -> int:
        """Highest allocated bytes."""
        return int(self.peak[_ALLOCATED])

    @property
    def end_allocated(self) -> int:
        """Allocated bytes after the last event."""
        return int(self.end[_ALLOCATED])


class Stretches:
    """Every stretch of one rank, by its own name and by its folded one."""

    def __init__(self, facts: Facts) -> None:
        found = _phases(facts)
        found += _parents(facts, found)
        self._raw: dict[str, list[Stretch]] = {}
        self.folded: dict[str, list[Stretch]] = {}
        for one in found:
            self._raw.setdefault(one.name, []).append(one)
            self.folded.setdefault(fold(one.name), []).append(one)

    def named(self, name: str) -> Sequence[Stretch]:
        """Those of a name. A phase's own name means that phase (``train/step1``), a folded one all of them."""
        return self._raw.get(name) or self.folded.get(name) or ()


def exact_after(facts: Facts, event: int) -> bool:
    """Whether what is allocated from just after an event on is certain to the byte, however it was before."""
    replay = facts.replay
    # an estimate that says no event lasts as long as the recording
    lasting = any(finding.severity == "estimate" and finding.event is None for finding in replay.findings)
    return facts.exact or (replay.consistent and not lasting and replay.estimated_until <= event)


def _phases(facts: Facts) -> list[Stretch]:
    phases = facts.phases
    return [
        Stretch(
            name=name,
            first=int(phases.first[i]),
            stop=int(phases.stop[i]),
            peak=phases.peak[i],
            end=phases.end[i],
            trust=Trust(
                exact=bool(phases.exact[i]),
                whole=bool(phases.whole[i]),
                counted=bool(phases.counted[i]),
                at_least=tuple(m for m in MEASURES if phases.least[i, MEASURES.index(m)]),
            ),
            spans=False,
        )
        for i, name in enumerate(phases.names)
    ]


def _parents(facts: Facts, found: Sequence[Stretch]) -> list[Stretch]:
    """Names that phases lie below and that none has: ``train`` where there are only its steps."""
    known = {one.name for one in found}
    below: dict[str, list[Stretch]] = {}
    for one in found:
        parts = one.name.split("/")
        for depth in range(1, len(parts)):
            below.setdefault("/".join(parts[:depth]), []).append(one)
    return [_span(facts, name, some) for name, some in below.items() if name not in known]


def _span(facts: Facts, name: str, below: Sequence[Stretch]) -> Stretch:
    replay = facts.replay
    first, stop = min(one.first for one in below), max(one.stop for one in below)
    between = [replay.peak(measure, first, stop)[0] for measure in MEASURES]
    peak = np.maximum(np.array(between, np.int64), np.max([one.peak for one in below], axis=0))
    return Stretch(
        name=name,
        first=first,
        stop=stop,
        peak=peak,
        end=max(below, key=lambda one: one.stop).end,
        trust=Trust(
            exact=all(one.trust.exact for one in below) and exact_after(facts, first - 1),
            whole=all(one.trust.whole for one in below),
            counted=False,
            at_least=() if all(one.trust.whole for one in below) else MEASURES,
        ),
        spans=True,
    )
