"""The ranks of one run beside each other: figures of each, and how far they are apart.

Legend: R ranks, E events, L allocations live at the end. Values are bytes.

Outliers are told by the median absolute deviation (MAD), which a few of them cannot move as they move
a standard deviation: further from the median than 3 × 1.4826 MAD, three standard deviations were the
values normal. Ranks are often equal to the byte, which makes that 0: so never nearer than 1% of the
median or 2 MiB. Of two ranks none is an outlier.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from snapviz.analyze.describe import measures
from snapviz.analyze.device import DeviceCounts, folded_device, outside_by_phase
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.phases import end_of_run, phase_of
from snapviz.analyze.run import Rank
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.replay.model import Replay
from snapviz.schema import ForeignBlocks, ForeignMemory, MeasureName, RankFigures, RankPhase, Spread, Trust
from snapviz.snapshot.columns import HOST_DEVICE

__all__ = ["FLOOR_BYTES", "figures_of", "foreign_of", "peak_in", "spread_of"]

FLOOR_BYTES = 2 << 20
"""No rank that is nearer to the median is an outlier: 2 MiB is the smallest segment that torch takes."""

_FLOOR_PERCENT = 1
_DEVIATIONS = 44_478
"""Ten-thousandths: 3 × 1.4826."""


def figures_of(
    rank: Rank, facts: Facts, phase: str | None, measure: MeasureName, own: Collection[int] = ()
) -> RankFigures:
    """What is known of one rank; how it stands to the others is not filled in.

    ``own`` are the devices of its file that are ranks themselves.
    """
    replay = facts.replay
    peaks = [replay.peak(one, 0, len(replay)) for one in MEASURES]
    stretches = Stretches(facts)
    value, least = peak_in(facts, stretches, phase, measure)
    outside = outside_by_phase(facts)
    retries, ooms = _counts(facts)
    known = facts.dangling_known
    return RankFigures(
        rank=rank.rank,
        device=rank.device,
        source=rank.source,
        recorded=rank.record is not None,
        exact=facts.exact,
        truncated=facts.truncated,
        notes=facts.notes,
        value_bytes=value,
        at_least=least,
        deviation_bytes=None,
        outlier=False,
        peak=measures(value for value, _ in peaks),
        peak_phase=phase_of(facts.phases, peaks[MEASURES.index("allocated")][1]),
        end=measures(getattr(replay.after(end_of_run(facts)), f"{one}_bytes") for one in MEASURES),
        dangling_bytes=sum(one.block_bytes for one in facts.dangling) if known else None,
        dangling_count=len(facts.dangling) if known else None,
        outside_bytes=outside[-1][1] if outside else None,
        alloc_retries=retries,
        ooms=ooms,
        foreign=foreign_of(rank, facts, own),
        phases=_phases(facts, stretches),
    )


def peak_in(facts: Facts, stretches: Stretches, phase: str | None, measure: MeasureName) -> tuple[int | None, bool]:
    """The peak of a measure in a phase (none: the recording), none without it; and whether it may have been higher."""
    if phase is None:
        return facts.replay.peak(measure, 0, len(facts.replay))[0], facts.truncated
    found = stretches.named(phase)
    if not found:
        return None, False
    peak, trust = _joint(found)
    return int(peak[MEASURES.index(measure)]), measure in trust.at_least


def _joint(found: Sequence[Stretch]) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Trust]:
    """[4] the highest of each measure in stretches of one name, and how far it is known."""
    least = {one for stretch in found for one in stretch.trust.at_least}
    trust = Trust(
        exact=all(one.trust.exact for one in found),
        whole=all(one.trust.whole for one in found),
        counted=any(one.trust.counted for one in found),
        at_least=tuple(sorted(least, key=MEASURES.index)),
    )
    return np.max([one.peak for one in found], axis=0), trust


def _phases(facts: Facts, stretches: Stretches) -> tuple[RankPhase, ...]:
    device = folded_device(facts)
    rows = []
    # an outer phase begins no later than those below it, and ends no sooner
    folded = sorted(stretches.folded.items(), key=lambda item: (min(s.first for s in item[1]), -item[1][0].stop))
    for name, found in folded:
        peak, trust = _joint(found)
        last = max(found, key=lambda one: one.stop)
        counts = vars(device.get(name, DeviceCounts()))
        rows.append(RankPhase(phase=name, peak=measures(peak), end=measures(last.end), trust=trust, **counts))
    return tuple(rows)


def _counts(facts: Facts) -> tuple[int | None, int | None]:
    """Alloc retries and OOMs of the whole run: of the phases that lie in no other."""
    phases = facts.record.phases if facts.record is not None else ()
    names = {phase.name for phase in phases}
    outer = [phase.counters for phase in phases if phase.counters and not _lies_in(phase.name, names)]
    retries = [one.alloc_retries for one in outer if one.alloc_retries is not None]
    ooms = [one.ooms for one in outer if one.ooms is not None]
    return sum(retries) if retries else None, sum(ooms) if ooms else None


def _lies_in(name: str, names: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:depth]) in names for depth in range(1, len(parts)))


# ------------------------------------------------------------------ other devices


def foreign_of(rank: Rank, facts: Facts, own: Collection[int] = ()) -> tuple[ForeignMemory, ...]:
    """What the rank's process has on devices that are not the rank's own, nor among ``own``."""
    others = [device for device in rank.columns.devices if device not in (rank.device, HOST_DEVICE, *own)]
    return tuple(_foreign(rank, facts, device) for device in others)


def _foreign(rank: Rank, facts: Facts, device: int) -> ForeignMemory:
    replay = rank.snapshot.replay(device)
    segments = rank.columns.segments
    return ForeignMemory(
        device=device,
        events=len(replay),
        reserved_bytes=int(segments.total_size[segments.device == device].sum()),
        allocated_bytes=replay.end.allocated_bytes,
        peak_allocated_bytes=replay.peak("allocated", 0, len(replay))[0],
        blocks=_blocks(replay, facts),
    )


def _blocks(replay: Replay, facts: Facts) -> tuple[ForeignBlocks, ...]:
    """What is live at the end, by stack, the largest first."""
    table = replay.allocations
    live = np.flatnonzero(table.allocated_after(len(replay) - 1))
    # ABSENT is -1, and keys count from 0
    group, count = group_keys([table.stack[live] + 1])
    total, number = sums(group, table.block_bytes[live], count)
    stack = np.full(count, -1, np.int64)
    stack[group] = table.stack[live]
    return tuple(
        ForeignBlocks(
            held_bytes=int(total[g]),
            held_count=int(number[g]),
            stack=facts.stack_lines(int(stack[g])) if stack[g] >= 0 else (),
        )
        for g in np.argsort(-total, kind="stable").tolist()
    )


# ------------------------------------------------------------------ how far apart


def spread_of(
    values: Mapping[int, int], phase: str | None, measure: MeasureName, at_least: bool = False
) -> Spread | None:
    """How far apart the ranks' values (rank → bytes) are; none without any."""
    if not values:
        return None
    ranks = sorted(values)
    ordered = sorted(values.values())
    median = _quantile(ordered, 50)
    distances = sorted(abs(value - median) for value in ordered)
    mad = _quantile(distances, 50)
    limit = max(mad * _DEVIATIONS // 10_000, median * _FLOOR_PERCENT // 100, FLOOR_BYTES)
    return Spread(
        phase=phase,
        measure=measure,
        ranks=len(ranks),
        worst_rank=next(rank for rank in ranks if values[rank] == ordered[-1]),
        max_bytes=ordered[-1],
        best_rank=next(rank for rank in ranks if values[rank] == ordered[0]),
        min_bytes=ordered[0],
        median_rank=next(rank for rank in ranks if values[rank] == median),
        median_bytes=median,
        spread_bytes=ordered[-1] - ordered[0],
        spread_percent=100 * (ordered[-1] - ordered[0]) / median if median else None,
        quantiles={f"{percent}%": _quantile(ordered, percent) for percent in (10, 25, 75, 90)},
        mad_bytes=mad,
        limit_bytes=limit,
        outliers=tuple(rank for rank in ranks if abs(values[rank] - median) > limit) if len(ranks) > 2 else (),
        at_least=at_least,
    )


def _quantile(ordered: Sequence[int], percent: int) -> int:
    """The value at so many percent of the way, the lower where that is between two: one of the values."""
    return ordered[(len(ordered) - 1) * percent // 100]
