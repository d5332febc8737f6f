"""Who holds the memory that a rule is about: the owners at a peak or an end, what dangles, what steps left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapviz.analyze.describe import dangling_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.info import live_rows
from snapviz.analyze.run import Run
from snapviz.compare.measuring import Meter
from snapviz.compare.rules import Rule
from snapviz.compare.steps import growth_of
from snapviz.replay.model import START
from snapviz.schema import Culprits, LiveRow

__all__ = ["culprits_of"]


def culprits_of(run: Run, rule: Rule, rank: int) -> Culprits:
    """Those of one rank on which the rule could be judged. Raises ``RunError`` where there is none of that number."""
    facts = run.rank(rank).facts()
    live = _live(run.name, facts, rule)
    dangling = tuple(dangling_of(facts, None, rank)) if rule.figure == "dangling" else ()
    return Culprits(
        rule=str(rule),
        rank=rank,
        held_bytes=sum(row.live_bytes for row in live) + sum(one.block_bytes for one in dangling),
        live=live,
        dangling=dangling,
    )


def _live(name: str, facts: Facts, rule: Rule) -> tuple[LiveRow, ...]:
    if rule.figure == "dangling":
        return ()
    if rule.figure == "growth":
        return _left(facts)
    rows = live_rows(facts, Meter(name, facts).event(rule))
    return tuple(row for row in rows if rule.category in (None, row.category))


def _left(facts: Facts) -> tuple[LiveRow, ...]:
    growth = growth_of(facts)
    if isinstance(growth, str):
        return ()
    # as if all else had gone before the recording
    table = facts.replay.allocations
    freed = np.where(growth.kept, table.free_requested_event, START)
    only = replace(facts.replay, allocations=replace(table, free_requested_event=freed))
    return live_rows(replace(facts, replay=only), growth.until)
