"""How far a rank's numbers can be trusted: which phases are whole, which exact, and what torch counted.

Legend: P phases. Values are bytes, [P, 4] in the order of ``MEASURES``.

The replay is anchored at the end of a recording, so that what is truncated harms only what began
before the first event that is left. There torch's own counters in a rank record say more than the
replay; everywhere else the two have to agree to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import MEASURES, Facts, Phases
from snapviz.schema import TorchCounters

__all__ = ["find_trust"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_MOST = 8
"""Disagreements, and phases that began too early, told one by one: a systematic one would fill the screen."""

_ENDS_WITH_EVENT = ("estimated-blocks", "checkpoint")
"""Findings that say nothing of the curves from ``Replay.estimated_until`` on."""


def find_trust(facts: Facts) -> Facts:
    """Pass: ``whole``, ``exact`` and ``counted`` of the phases, and whether torch's counters agree."""
    phases = facts.phases
    whole = _whole(facts)
    told = _counters(facts)
    counted = ~whole & np.array([one is not None for one in told], bool)
    wrong = [list(_disagreements(facts, index, one, bool(whole[index]))) for index, one in enumerate(told)]
    right = np.array([not one for one in wrong], bool)
    seen = replace(phases, whole=whole, exact=whole & _certain(facts) & right)
    found = replace(facts, phases=_counted(seen, counted, told), exact=facts.exact and bool(right.all()))
    return found.noting_first(*_shortened([note for one in wrong for note in one]), *_truncation(found, told))


def _counted(phases: Phases, counted: Bool, told: Sequence[TorchCounters | None]) -> Phases:
    """The phases with torch's own peaks and ends where they are not whole."""
    peak, end = phases.peak.copy(), phases.end.copy()
    least = np.repeat(~phases.whole[:, None], len(MEASURES), axis=1)
    for index in np.flatnonzero(counted).tolist():
        counters = told[index]
        assert counters is not None
        for column, (highest, last) in enumerate(zip(_values(counters, "peak"), _values(counters, "end"), strict=True)):
            if highest is not None:
                peak[index, column], least[index, column] = highest, False
            if last is not None:
                end[index, column] = last
    return replace(phases, peak=peak, end=end, counted=counted, least=least)


def _whole(facts: Facts) -> Bool:
    """[P] whether no event of the phase can be missing."""
    if not facts.truncated:
        return np.ones(len(facts.phases), bool)
    if not facts.replay.has_times:
        return np.zeros(len(facts.phases), bool)
    # after, not at: a microsecond holds several events, and some of the first one's may be gone
    whole: Bool = facts.phases.start_us > int(facts.replay.time_us[0])
    return whole


def _certain(facts: Facts) -> Bool:
    """[P] whether the replay estimates and assumes nothing from just before the phase on."""
    replay = facts.replay
    open_ended = (f for f in replay.findings if f.kind not in _ENDS_WITH_EVENT)
    if not replay.consistent or any(f.severity in ("estimate", "assumption") for f in open_ended):
        return np.zeros(len(facts.phases), bool)
    certain: Bool = facts.phases.first > replay.estimated_until
    return certain


def _counters(facts: Facts) -> list[TorchCounters | None]:
    """[P] torch's counters for each phase, where the record has them."""
    if facts.record is None or facts.phases.source != "record":
        return [None] * len(facts.phases)
    known = {(phase.name, phase.start_us): phase.counters for phase in facts.record.phases}
    return [known.get(key) for key in zip(facts.phases.names, facts.phases.start_us.tolist(), strict=True)]


def _values(counters: TorchCounters, what: str) -> list[int | None]:
    """[4] the counters of the peaks or ends; none where the record does not have them."""
    return [getattr(counters, f"{what}_{measure}_bytes") for measure in MEASURES]


def _disagreements(facts: Facts, index: int, counters: TorchCounters | None, whole: bool) -> Iterator[str]:
    """What the replay and torch say differently of one phase, in words."""
    phases = facts.phases
    if counters is None or len(facts.replay) == 0:
        return
    for what, ours in (("peak", phases.peak[index]), ("end", phases.end[index])):
        for measure, torch, value in zip(MEASURES, _values(counters, what), ours.tolist(), strict=True):
            # of a peak that is only partly seen no more is sure than that it was no lower
            differs = value > (torch or 0) if what == "peak" and not whole else value != torch
            if torch is not None and differs:
                yield (
                    f"phase {phases.names[index]}: {what} {measure} is {value:,} bytes by replay "
                    f"and {torch:,} by torch's counter"
                )


def _shortened(notes: list[str]) -> list[str]:
    more = len(notes) - _MOST
    return notes if more <= 0 else [*notes[:_MOST], f"{more:,} more of torch's counters differ from the replay"]


def _truncation(facts: Facts, told: Sequence[TorchCounters | None]) -> Iterator[str]:
    phases = facts.phases
    if len(facts.replay) == 0:
        counted = "; peaks and ends of phases are torch's own counters" if phases.counted.any() else ""
        yield f"no events: only what is allocated at the dump is known{counted}"
        return
    if facts.truncated:
        yield "the recording begins in the middle: peaks are those of the recording, not of the run"
    if phases.source == "none":
        return
    lost = np.flatnonzero(~phases.whole).tolist()
    for index in lost[:_MOST]:
        counters = told[index]
        what = "its peak may have been higher" if counters is None else _in_words(counters)
        yield f"phase {phases.names[index]} began before the first event that is left: {what}"
    if len(lost) > _MOST:
        yield f"{len(lost) - _MOST:,} more phases began before the first event that is left"


def _in_words(counters: TorchCounters) -> str:
    without = [m for m, value in zip(MEASURES, _values(counters, "peak"), strict=True) if value is None]
    lacking = f" ({' and '.join(without)}: only of the events that are left)" if without else ""
    return f"its peak and end are torch's own counters{lacking}"
