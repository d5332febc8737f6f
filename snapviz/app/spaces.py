"""Address spaces of ranks, prepared once a worker: those that were asked for last."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.fragmentationpoints import Wanted, moment_at, oom_events, parse_wanted
from snapviz.app.recent import Recent
from snapviz.app.results import Results
from snapviz.app.sides import names_of, numbers_of, rank_of
from snapviz.app.state import State
from snapviz.compare.view import view_of
from snapviz.errors import UsageError
from snapviz.schema import Moment

__all__ = ["SIDES", "Side", "Spaces", "moments_of", "number_of"]

SIDES = ("base", "head")

_KEPT = 3
"""Of two million events each has some 150 MB of curves."""


@dataclass(frozen=True)
class Side:
    """Base or head at the moment that a state asks for."""

    which: str  # base or head
    name: str  # of the run
    space: AddressSpace
    wanted: Wanted
    moment: Moment | None  # none: it has none such


class Spaces:
    """Prepared address spaces. Safe to share between threads."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._lock = threading.Lock()
        self._kept: Recent[tuple[str, int], AddressSpace] = Recent(_KEPT)

    def space(self, run_id: str, rank: int) -> AddressSpace:
        """That of one rank. Raises ``SnapvizError``."""
        facts = self._results.facts(run_id, rank)
        # two who ask at once share one: what it prepares is dear
        with self._lock:
            found = self._kept.get((run_id, rank))
            if found is None or found.facts is not facts:
                found = self._kept.put((run_id, rank), AddressSpace(facts))
            return found

    def side(self, state: State, side: str) -> Side:
        """Base or head at its moment. Raises ``SnapvizError``."""
        run_id = getattr(state, side)
        space = self.space(run_id, number_of(self._results, state, side))
        name = names_of(self._results, state)[SIDES.index(side)]
        event = state.bt if side == "base" else state.ht
        if event is not None:
            if not -1 <= event < len(space.facts.replay):
                raise UsageError(f"{name} has no event {event:,}: it has {len(space.facts.replay):,}")
            return Side(side, name, space, Wanted(None, event=event), moment_at(space.facts, event))
        # a peak is that of the state's measure, as on every other page
        wanted = replace(parse_wanted(state.at or "peak"), measure=view_of(measure=state.measure).options.measure)
        return Side(side, name, space, wanted, space.when(wanted))


def number_of(results: Results, state: State, side: str) -> int:
    """The number of the rank that a state shows, in base or in head. Raises ``RunError`` where that has no such rank,
    or none at all."""
    rank = rank_of(results, state)
    own = numbers_of(results, state).get(rank, (None, None))[SIDES.index(side)]
    # the run says what is wrong with a rank that it lacks
    return results.run(getattr(state, side)).rank(rank if own is None else own).rank


def moments_of(space: AddressSpace, most: int) -> list[tuple[str, str]]:
    """What ``--at`` takes, and in words: where memory ran out, then the run's peak and end, then phases."""
    count = len(oom_events(space.facts))
    ooms = [(f"oom:{n}", f"memory ran out ({n} of {count})") for n in range(max(1, count - 7), count + 1)]
    phases = [(f"phase:{name}:{end}", f"{end} of {name}") for name in space.stretches.folded for end in ("peak", "end")]
    return [("", "peak of the run"), ("end", "end of the run"), *ooms, *phases][:most]
