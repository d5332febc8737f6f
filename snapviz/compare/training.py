"""Whether a difference comes from the training steps: what is older than the first of them, and what is not.

Every allocation is older than the first training step or not, so the two parts sum to the difference, to
the byte. Only a rank record can say when that step began.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.compare.held import held
from snapviz.schema import MeasureName, is_training

__all__ = ["before_training", "first_training_event", "training_phases"]


def training_phases(facts: Facts) -> npt.NDArray[np.int64]:
    """Indices of the phases that train."""
    return np.flatnonzero([is_training(name) for name in facts.phases.names])


def first_training_event(facts: Facts) -> int | None:
    """The first event of the first training phase; none where no record says it, or where it is not in the
    recording: what is older than a recording can be a step's as well."""
    if facts.record is None or facts.phases.source != "record":
        return None
    recorded = [phase.start_us for phase in facts.record.phases if is_training(phase.name)]
    found = training_phases(facts)
    if not recorded or len(found) == 0:
        return None
    first = int(found[np.argmin(facts.phases.start_us[found])])
    seen = int(facts.phases.start_us[first]) == min(recorded) and bool(facts.phases.whole[first])
    return int(facts.phases.first[first]) if seen else None


def before_training(facts: Facts, event: int, measure: MeasureName = "allocated") -> int | None:
    """Bytes of what is held after an event and was before the first training step; none where not known, and of
    reserved memory, which is no allocation's."""
    first = first_training_event(facts)
    if first is None or measure == "reserved":
        return None
    live, size = held(facts, event, measure)
    return int(size[facts.replay.allocations.alloc_event[live] < first].sum())
