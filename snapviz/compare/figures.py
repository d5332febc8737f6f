"""The figures of one rank's sides, and how far they can be trusted.

Legend: E events. Four values are always requested, allocated, active and reserved bytes, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapviz.analyze.describe import measures
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.moments import At
from snapviz.analyze.phases import end_of_run
from snapviz.analyze.select import Remaining
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.compare.held import total_at
from snapviz.schema import (
    FindingReport,
    MeasureBytes,
    MeasureDelta,
    MeasureName,
    Moment,
    RankTrust,
    Trust,
    Without,
)

__all__ = [
    "bytes_at",
    "end_of",
    "joint_trust",
    "measure_delta",
    "minus",
    "peak_and_end",
    "peak_of",
    "trust_of",
    "without",
]


def bytes_at(facts: Facts, when: Moment | None, measure: MeasureName) -> int | None:
    """Bytes of a measure at a moment, by replay."""
    return None if when is None else total_at(facts, when.event, measure)


def peak_of(facts: Facts) -> MeasureBytes:
    """The peaks of the whole recording, each measure by itself."""
    return measures(facts.replay.peak(measure, 0, len(facts.replay))[0] for measure in MEASURES)


def end_of(facts: Facts) -> MeasureBytes:
    """What is held when the run is over."""
    end = facts.replay.after(end_of_run(facts))
    return measures(getattr(end, f"{measure}_bytes") for measure in MEASURES)


def peak_and_end(stretches: Sequence[Stretch] | None) -> tuple[MeasureBytes | None, MeasureBytes | None]:
    """Each measure's highest over the stretches of one name, and all four at the end of the last."""
    if not stretches:
        return None, None
    last = max(stretches, key=lambda one: one.stop)
    return measures(np.max([one.peak for one in stretches], axis=0)), measures(last.end)


def joint_trust(stretches: Sequence[Stretch] | None) -> Trust | None:
    """That of several stretches of one name: no better than the worst of them."""
    if not stretches:
        return None
    return Trust(
        exact=all(one.trust.exact for one in stretches),
        whole=all(one.trust.whole for one in stretches),
        # what is whole needs no counter
        counted=all(one.trust.counted or one.trust.whole for one in stretches)
        and any(one.trust.counted for one in stretches),
        at_least=tuple(m for m in MEASURES if any(m in one.trust.at_least for one in stretches)),
    )


def minus(one: MeasureBytes | None, other: MeasureBytes | None) -> MeasureBytes | None:
    """The difference of each measure; none where a side is none."""
    if one is None or other is None:
        return None
    return measures(getattr(one, name) - getattr(other, name) for name in MeasureBytes.model_fields)


def measure_delta(base: MeasureBytes, head: MeasureBytes) -> MeasureDelta:
    """Both sides and their difference."""
    delta = minus(head, base)
    assert delta is not None
    return MeasureDelta(base=base, head=head, delta=delta)


def trust_of(facts: Facts) -> RankTrust:
    """How far the figures of one side of a rank can be trusted."""
    replay = facts.replay
    fields = ("kind", "severity", "count", "message", "bytes", "event")
    return RankTrust(
        exact=facts.exact,
        consistent=replay.consistent,
        truncated=facts.truncated,
        estimated=any(finding.severity == "estimate" for finding in replay.findings),
        dangling_known=facts.dangling_known,
        dangling_why=facts.dangling_why,
        findings=tuple(FindingReport(**{f: getattr(one, f) for f in fields}) for one in replay.findings),
    )


def without(facts: Facts, stretches: Stretches, at: At, when: Moment | None) -> Without | None:
    """The peak of a point had nothing dangled; none at ends, without the point, and where nothing dangles."""
    if not at.peak or when is None or not facts.dangling:
        return None
    windows = [(0, len(facts.replay))]
    if at.phase is not None:
        windows = [(one.first, one.stop) for one in stretches.named(at.phase)]
    peak = Remaining(facts, facts.dangling_since).peak(windows)
    return Without(peak_bytes=peak, saved_bytes=int(facts.replay.after(when.event).allocated_bytes) - peak)
