"""What a rank record says of the device beside the allocator: memory held outside it, retries, OOMs.

All of it comes from torch's own counters and cudaMemGetInfo at the ends of phases; a snapshot shows none
of it, and a history that is cut takes none of it away.
"""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import fold
from snapviz.schema import PhaseRecord, TorchCounters

__all__ = ["DeviceCounts", "folded_device", "outside_by_phase"]


@dataclass(frozen=True)
class DeviceCounts:
    """Of all phases of one folded name; none where the record does not say it."""

    outside_bytes: int | None = None  # at the end of the last of them
    alloc_retries: int | None = None  # in all of them
    ooms: int | None = None  # in all of them


def outside_by_phase(facts: Facts) -> list[tuple[str, int]]:
    """Phase and bytes of the device outside the allocator at its end, in the order in which they ended."""
    found = [(phase, _outside(phase.counters)) for phase in _ended(facts)]
    return [(phase.name, held) for phase, held in found if held is not None]


def folded_device(facts: Facts) -> dict[str, DeviceCounts]:
    """Folded name → what is known of its phases."""
    groups: dict[str, list[TorchCounters]] = {}
    for phase in _ended(facts):
        if phase.counters is not None:
            groups.setdefault(fold(phase.name), []).append(phase.counters)
    return {
        name: DeviceCounts(
            outside_bytes=_outside(found[-1]),
            alloc_retries=_sum([one.alloc_retries for one in found]),
            ooms=_sum([one.ooms for one in found]),
        )
        for name, found in groups.items()
    }


def _ended(facts: Facts) -> list[PhaseRecord]:
    """The record's phases in the order in which they ended: an outer one comes after those it holds."""
    phases = facts.record.phases if facts.record is not None else ()
    return sorted(phases, key=lambda phase: phase.stop_us)


def _outside(counters: TorchCounters | None) -> int | None:
    if counters is None or counters.device_total_bytes is None or counters.device_free_bytes is None:
        return None
    held = counters.device_total_bytes - counters.device_free_bytes - counters.end_reserved_bytes
    # less than nothing is held by no one: the two were not read at one moment, and neither can be trusted
    return held if held >= 0 else None


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
