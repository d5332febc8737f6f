"""Every analysis pass, in the order they run. The signature of each is ``Facts -> Facts``.

A pass may count on those above it: births on phases, categories on names, what is carried on both,
dangling on all of them.
"""

from __future__ import annotations

from snapviz.analyze.carry import find_carried, find_carried_modules
from snapviz.analyze.categories import find_categories
from snapviz.analyze.dangling import find_dangling
from snapviz.analyze.facts import Facts, Pass, start_facts
from snapviz.analyze.modules import find_modules
from snapviz.analyze.names import find_names
from snapviz.analyze.phases import find_births, find_phases
from snapviz.analyze.rules import Rule
from snapviz.analyze.suspects import find_suspects
from snapviz.analyze.trust import find_trust
from snapviz.replay.model import Replay
from snapviz.schema import RankRecord
from snapviz.snapshot.columns import Columns

__all__ = ["PASSES", "analyze"]

PASSES: tuple[Pass, ...] = (
    find_phases,
    find_trust,
    find_births,
    find_names,
    find_categories,
    find_carried,
    find_modules,
    find_carried_modules,
    find_dangling,
    find_suspects,
)


def analyze(
    rank: int,
    columns: Columns,
    replay: Replay,
    record: RankRecord | None = None,
    world_size: int | None = None,
    rules: tuple[Rule, ...] | None = None,
) -> Facts:
    """Everything the passes can say of one rank; ``rules`` as ``read_rules`` gives them, else the built-in ones."""
    facts = start_facts(rank, columns, replay, record, world_size, rules)
    for one in PASSES:
        facts = one(facts)
    return facts
