"""What a path holds, as one report: the file, how far it can be trusted, phases, and the peak.

Legend: L allocations live at the peak, g groups of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from snapviz.analyze.describe import (
    broken_ranks,
    dangling_of,
    fake_group_of,
    measures,
    summary_of,
    suspects_of,
    without_dangling,
)
from snapviz.analyze.device import DeviceCounts, folded_device, outside_by_phase
from snapviz.analyze.each import each_rank
from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.phases import end_of_run, folded_births, folded_phases, phase_of
from snapviz.analyze.run import Rank, Run
from snapviz.replay.model import MEASURES
from snapviz.schema import INFO_VERSION, FindingReport, InfoReport, LiveRow, OutsideInfo, PhaseInfo, RankInfo

__all__ = ["info", "live_rows"]


def info(run: Run, rank: int | None = None, progress: Callable[[str], None] | None = None) -> InfoReport:
    """The report of a run. Raises ``RunError`` for a ``rank`` that could not be read."""
    ranks = run.ranks if rank is None else (run.rank(rank),)
    found = [_rank_info(one, facts) for one, facts in each_rank(ranks, progress)]
    return InfoReport(
        schema_version=INFO_VERSION,
        run=summary_of(run),
        kind=_kind(run),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None, rank)),
        ranks=tuple(found),
    )


def _kind(run: Run) -> Literal["run directory", "folder of snapshots", "snapshot file"]:
    if run.manifest is not None:
        return "run directory"
    return "snapshot file" if all(rank.source == run.path for rank in run.ranks) else "folder of snapshots"


def _rank_info(rank: Rank, facts: Facts) -> RankInfo:
    replay = facts.replay
    peaks = [replay.peak(measure, 0, len(replay)) for measure in MEASURES]
    peak_event = peaks[MEASURES.index("allocated")][1]
    timed = len(replay) > 0 and replay.has_times
    return RankInfo(
        rank=rank.rank,
        device=rank.device,
        source=rank.source,
        container=_plain(rank.columns.facts),
        events=len(replay),
        segments=int((rank.columns.segments.device == rank.device).sum()),
        allocations=len(replay.allocations),
        first_us=int(replay.time_us[0]) if timed else None,
        last_us=int(replay.time_us[-1]) if timed else None,
        recorded=rank.record is not None,
        truncated=facts.truncated,
        exact=facts.exact,
        consistent=replay.consistent,
        findings=tuple(FindingReport(**vars(finding)) for finding in replay.findings),
        notes=(*facts.notes, *_over(facts)),
        ignored=dict(rank.columns.ignored),
        reading_notes=tuple(str(note) for note in rank.columns.facts.get("notes", ())),
        phase_source=facts.phases.source,
        phases=_phases(facts),
        peak=measures(value for value, _ in peaks),
        end=measures(getattr(replay.after(end_of_run(facts)), f"{measure}_bytes") for measure in MEASURES),
        peak_phase=phase_of(facts.phases, peak_event),
        live_at_peak=live_rows(facts, peak_event),
        dangling=tuple(dangling_of(facts, None, rank.rank)),
        dangling_known=facts.dangling_known,
        dangling_why=facts.dangling_why,
        suspects=tuple(suspects_of(facts, None, rank.rank)),
        without=without_dangling(facts, None, peaks[MEASURES.index("allocated")][0]),
        outside=_outside(facts),
    )


def _over(facts: Facts) -> tuple[str, ...]:
    """What is said where the program went on after its training, and let go of more than it took."""
    over, last = end_of_run(facts), len(facts.replay) - 1
    if over == last:
        return ()
    went = facts.replay.after(over).allocated_bytes - facts.replay.after(last).allocated_bytes
    return (f"the run ends with its training: {went:,} bytes that went afterwards count as held",)


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """What a decoder noted of the container, as JSON can hold it."""
    return {key: _as_json(value) for key, value in facts.items() if key != "notes"}


def _as_json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _outside(facts: Facts) -> OutsideInfo | None:
    found = outside_by_phase(facts)
    if not found:
        return None
    (first, at_first), (last, at_last) = found[0], found[-1]
    return OutsideInfo(first_phase=first, first_bytes=at_first, last_phase=last, last_bytes=at_last)


def _phases(facts: Facts) -> tuple[PhaseInfo, ...]:
    phases, device = facts.phases, folded_device(facts)
    growth = phases.growth
    return tuple(
        PhaseInfo(
            phase=name,
            times=len(indices),
            peak=measures(phases.peak[indices].max(axis=0)),
            end=measures(phases.end[indices[-1]]),
            growth=measures(growth[indices[-1]]) if phases.whole[indices[-1]] else None,
            whole=bool(phases.whole[indices].all()),
            exact=bool(phases.exact[indices].all()),
            counted=bool(phases.counted[indices].any()),
            at_least=tuple(m for column, m in enumerate(MEASURES) if phases.least[indices, column].any()),
            **vars(device.get(name, DeviceCounts())),
        )
        for name, indices in folded_phases(phases).items()
    )


def live_rows(facts: Facts, event: int) -> tuple[LiveRow, ...]:
    """What is live after an event, by owner, category, birth phase and stack, the largest first.

    Their bytes sum to what is allocated then.
    """
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(event))
    folded, first_of = folded_births(facts)
    birth = first_of[facts.birth[live]]
    dangling = facts.dangling_since[live] <= event
    # ABSENT is -1, and keys count from 0
    group, count = group_keys(
        [facts.owner[live], facts.category[live], birth, dangling.astype(np.int8), facts.stack[live] + 1]
    )
    total, number = sums(group, table.block_bytes[live], count)
    first = np.zeros(count, np.int64)
    first[group[::-1]] = live[::-1]
    weakest = np.zeros(count, np.int64)
    np.maximum.at(weakest, group, facts.evidence[live])
    rows = []
    for g in np.lexsort((first, -total)).tolist():
        at = int(first[g])
        rows.append(
            LiveRow(
                owner=facts.owners[int(facts.owner[at])],
                category=CATEGORIES[int(facts.category[at])],
                birth_phase=folded[int(facts.birth[at])],
                dangling=bool(facts.dangling_since[at] <= event),
                evidence=EVIDENCE[int(weakest[g])],
                live_bytes=int(total[g]),
                live_count=int(number[g]),
                stack=facts.stack_lines(int(table.stack[at])),
            )
        )
    return tuple(rows)
