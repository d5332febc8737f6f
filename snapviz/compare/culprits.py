"""Who holds the memory that a budget is about: the owners at a peak or an end, what dangles, what steps left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapviz.analyze.describe import dangling_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.growth import find_growth
from snapviz.analyze.info import live_rows
from snapviz.analyze.run import Run
from snapviz.compare.measuring import Meter
from snapviz.compare.spec import BudgetSpec
from snapviz.replay.model import START
from snapviz.schema import Culprits, LiveRow

__all__ = ["culprits_of"]


def culprits_of(run: Run, spec: BudgetSpec, rank: int) -> Culprits:
    """Those of one rank on which the budget could be judged. Raises ``RunError`` where there is none of that number."""
    facts = run.rank(rank).facts()
    live = _live(run.name, facts, spec)
    dangling = tuple(dangling_of(facts, None, rank)) if spec.figure == "dangling" else ()
    return Culprits(
        spec=str(spec),
        rank=rank,
        held_bytes=sum(row.live_bytes for row in live) + sum(one.block_bytes for one in dangling),
        live=live,
        dangling=dangling,
    )


def _live(name: str, facts: Facts, spec: BudgetSpec) -> tuple[LiveRow, ...]:
    if spec.figure == "dangling":
        return ()
    if spec.figure == "growth":
        return _left(facts)
    rows = live_rows(facts, Meter(name, facts).event(spec))
    return tuple(row for row in rows if spec.category in (None, row.category))


def _left(facts: Facts) -> tuple[LiveRow, ...]:
    growth = find_growth(facts)
    members = [one.members for one in growth.groups if one.way != "stopped"]
    if not members:
        return ()
    # as if all else had gone before the recording
    table = facts.replay.allocations
    kept = np.isin(np.arange(len(table)), np.concatenate(members))
    freed = np.where(kept, table.free_requested_event, START)
    only = replace(facts.replay, allocations=replace(table, free_requested_event=freed))
    return live_rows(replace(facts, replay=only), growth.steps.over)
