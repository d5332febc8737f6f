"""What the steps of a run leave behind, as one report.

Legend: S steps, m allocations of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.describe import broken_ranks, fake_group_of, summary_of
from snapviz.analyze.each import each_rank
from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.analyze.groups import sums
from snapviz.analyze.growth import AFTER, TIMES, Growing, Growth, find_growth, lower_median
from snapviz.analyze.phases import fold
from snapviz.analyze.run import Rank, Run
from snapviz.schema import (
    LEAKS_VERSION,
    FullDevice,
    GrowingGroup,
    LeaksReport,
    PhaseRecord,
    RankLeaks,
    StepGrowth,
    StepShare,
)

__all__ = ["leaks"]

Int64 = npt.NDArray[np.int64]

_NAMED = 8
"""Owners and modules of a group that are told."""


def leaks(
    run: Run,
    rank: int | None = None,
    after: int = AFTER,
    times: int = TIMES,
    progress: Callable[[str], None] | None = None,
) -> LeaksReport:
    """The report of a run. Raises ``RunError`` for a ``rank`` that could not be read, ``UsageError``."""
    ranks = run.ranks if rank is None else (run.rank(rank),)
    found = [_rank(one, facts, after, times) for one, facts in each_rank(ranks, progress)]
    found.sort(key=lambda one: (-one.rate_bytes, _WORST.index(one.status), one.rank))
    return LeaksReport(
        schema_version=LEAKS_VERSION,
        run=summary_of(run),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None, rank)),
        after=after,
        times=times,
        ranks=tuple(found),
    )


Status = Literal["leak", "may leak", "rises", "no leak", "too few steps", "no steps", "no events"]
_WORST: tuple[Status, ...] = ("leak", "may leak", "rises", "too few steps", "no steps", "no events", "no leak")


def _rank(rank: Rank, facts: Facts, after: int, times: int) -> RankLeaks:
    growth = find_growth(facts, after, times)
    rate = growth.rate_bytes
    births = [fold(birth) for birth in facts.births] if growth.groups else []
    return RankLeaks(
        rank=rank.rank,
        status=_status(facts, growth),
        notes=(*facts.notes, *_notes(facts, growth)),
        step_source=facts.phases.source,
        steps=_steps(growth),
        median_delta_bytes=growth.median_delta,
        rate_bytes=rate,
        groups=tuple(_group(facts, growth, one, births) for one in growth.groups),
        full=_full(facts, rate),
    )


def _status(facts: Facts, growth: Growth) -> Status:
    if len(growth.steps) == 0:
        return "no steps" if len(facts.replay) else "no events"
    if len(growth.steps) < 3:
        return "too few steps"
    ways = {one.way for one in growth.groups}
    if "grows" in ways:
        return "leak"
    if "may grow" in ways:
        return "may leak"
    return "rises" if _rises(growth) else "no leak"


def _rises(growth: Growth) -> bool:
    """Whether the ends of steps grow from most steps to the next, and are all higher in the later half."""
    ends = growth.end_bytes[: growth.judged]
    # one that is higher than the first step's is a warm-up
    if len(ends) < 3 or lower_median(np.diff(ends)) <= 0:
        return False
    half = (len(ends) + 1) // 2
    return int(ends[half:].min()) > int(ends[:half].max())


def _notes(facts: Facts, growth: Growth) -> list[str]:
    notes = []
    count = len(growth.steps)
    if 3 <= count <= growth.times:
        notes.append(
            f"{count} steps are recorded, and what the last leaves behind cannot be told: a leak is certain where "
            f"{growth.times} steps show it, so record at least {growth.times + 1}"
        )
    if facts.truncated and count:
        notes.append(f"steps are told from {growth.steps.names[0]} on: what was before is not known")
    if count and not facts.exact and bool(facts.replay.allocations.estimated.any()):
        notes.append("some sizes are estimated, and with them what is said to be left behind")
    return notes


def _steps(growth: Growth) -> tuple[StepGrowth, ...]:
    deltas = [None, *growth.deltas.tolist()]
    kept = growth.kept_bytes().tolist()
    rows = zip(
        growth.steps.names,
        growth.end_bytes.tolist(),
        growth.certain.tolist(),
        growth.whole.tolist(),
        growth.left_after_bytes.tolist(),
        growth.left_after_count.tolist(),
        growth.left_bytes.tolist(),
        growth.left_count.tolist(),
        strict=True,
    )
    return tuple(
        StepGrowth(
            step=name,
            end_bytes=end,
            delta_bytes=deltas[i],
            exact=exact,
            whole=whole,
            left_after_bytes=None if after < 0 else after,
            left_after_count=None if after < 0 else after_count,
            left_bytes=left,
            left_count=left_count,
            growing_bytes=kept[i],
        )
        for i, (name, end, exact, whole, after, after_count, left, left_count) in enumerate(rows)
    )


# ------------------------------------------------------------------ what grows


def _group(facts: Facts, growth: Growth, one: Growing, births: Sequence[str]) -> GrowingGroup:
    table = facts.replay.allocations
    size = table.block_bytes[one.members]
    largest = int(one.members[int(np.argmax(size))])
    gaps = set(np.diff(one.steps).tolist())
    names = growth.steps.names
    return GrowingGroup(
        way=one.way,
        owners=_largest(facts.owners, facts.owner[one.members], size)[:_NAMED],
        categories=_largest(CATEGORIES, facts.category[one.members], size),
        evidence=EVIDENCE[int(facts.evidence[one.members].max())],
        modules=_largest(facts.modules, facts.module[one.members], size)[:_NAMED],
        birth_phases=_largest(births, facts.birth[one.members], size),
        stack=facts.stack_lines(int(table.stack[largest])),
        kept_bytes=one.total_bytes,
        kept_count=len(one.members),
        step_bytes=lower_median(one.step_bytes),
        step_count=lower_median(one.step_counts),
        every=gaps.pop() if len(gaps) == 1 else None,
        since=names[int(one.steps[0])],
        until=names[int(one.steps[-1])],
        last_judged=names[one.last_judged],
        oldest_freed=one.oldest_freed,
        steps=tuple(
            StepShare(step=names[step], kept_bytes=kept, kept_count=count)
            for step, kept, count in zip(
                one.steps.tolist(), one.step_bytes.tolist(), one.step_counts.tolist(), strict=True
            )
        ),
    )


def _largest(texts: Sequence[str], index: npt.NDArray[np.integer], size: Int64) -> tuple[str, ...]:
    """The distinct texts that are known, those with the most bytes first."""
    distinct, inverse = np.unique(index, return_inverse=True)
    total, _ = sums(inverse.reshape(-1).astype(np.int64), size, len(distinct))
    known: dict[str, int] = {}
    for one, held in zip(distinct.tolist(), total.tolist(), strict=True):
        if texts[one]:
            known[texts[one]] = known.get(texts[one], 0) + held
    return tuple(sorted(known, key=lambda text: (-known[text], text)))


# ------------------------------------------------------------------ when the device is full


def _full(facts: Facts, rate: int) -> FullDevice | None:
    known = _last_reading(facts)
    if known is None or rate <= 0:
        return None
    counters = known.counters
    assert counters is not None
    assert counters.device_free_bytes is not None
    cached = max(0, counters.end_reserved_bytes - counters.peak_allocated_bytes)
    return FullDevice(
        phase=known.name,
        free_bytes=counters.device_free_bytes,
        cached_bytes=cached,
        more_steps=(counters.device_free_bytes + cached) // rate,
    )


def _last_reading(facts: Facts) -> PhaseRecord | None:
    """The last phase at whose end the record says what was free on the device."""
    phases = facts.record.phases if facts.record is not None else ()
    known = [phase for phase in phases if phase.counters and phase.counters.device_free_bytes is not None]
    return max(known, key=lambda phase: phase.stop_us) if known else None
