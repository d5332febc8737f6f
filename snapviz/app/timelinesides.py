"""What a state of the timeline means for each run: its rank's facts, its axis, where its cursor is, what is picked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from snapviz.analyze.axis import Axis, AxisKind
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.moments import At, moment, parse_at
from snapviz.analyze.overtime import VIEWS, Asked, axes_of, side_window
from snapviz.analyze.picking import pick
from snapviz.analyze.run import Run
from snapviz.analyze.stretches import Stretches
from snapviz.app.results import Results
from snapviz.app.sides import numbers_of, rank_of
from snapviz.app.state import State
from snapviz.errors import SnapvizError, UsageError
from snapviz.replay.model import START
from snapviz.report.layout import clean
from snapviz.schema import MeasureName

__all__ = ["SIDES", "Sides", "asked_of", "clicked", "named", "picked", "pointed", "sides_of", "stepped"]

SIDES = ("base", "head")

_PICKED = re.compile(r"(base|head)\.(\d{1,9})\.(\d{1,12})")


@dataclass(frozen=True)
class Sides:
    """Base and head of one rank; a side is none where no run is chosen or its rank cannot be read."""

    rank: int
    runs: tuple[Run | None, Run | None]
    facts: tuple[Facts | None, Facts | None]
    failures: tuple[str, ...]  # why a side is missing, in words
    asked: Asked
    events: tuple[int | None, int | None]  # the cursors; none where a side is missing
    chosen: tuple[bool, bool]  # whether somebody put the cursor there
    when: str  # where a cursor is that nobody put anywhere, in words
    astray: tuple[bool, bool]  # whether a side has no such moment: its cursor is at its peak

    @property
    def axes(self) -> list[Axis | None]:
        """Of each side."""
        return axes_of(self.facts, self.asked)

    @property
    def places(self) -> tuple[float | None, float | None]:
        """Where the cursors are drawn: those that somebody put there."""
        there = zip(self.axes, self.events, self.chosen, strict=True)
        found = [axis.place(event) if axis and event is not None and put else None for axis, event, put in there]
        return found[0], found[1]

    @property
    def drawn(self) -> list[int]:
        """The sides that there are, from above to below."""
        return [at for at, facts in enumerate(self.facts) if facts is not None]


def asked_of(state: State) -> Asked:
    """What a state asks to see; what it cannot mean is as if it were not there."""
    kind: AxisKind = "event" if state.axis == "event" else "time"
    view = state.view if state.view in VIEWS else "bands"
    assert kind in get_args(AxisKind)
    return Asked(kind, state.align, view, state.x0, state.x1, state.y0, state.y1, state.q.strip())


def sides_of(state: State, results: Results) -> Sides:
    """Both sides of a state. Raises ``SnapvizError`` where neither can be shown."""
    rank = rank_of(results, state)
    own = numbers_of(results, state).get(rank, (None, None))
    runs: list[Run | None] = [None, None]
    facts: list[Facts | None] = [None, None]
    failures: list[str] = []
    for at, run_id in enumerate((state.base, state.head)):
        if not run_id:
            continue
        try:
            runs[at] = results.run(run_id)
            facts[at] = results.facts(run_id, _or(own[at], rank))
        except SnapvizError as error:
            failures.append(f"{SIDES[at]}: {results.runs.public(str(error))}")
    if failures and not any(facts):
        raise UsageError("; ".join(failures))
    wanted = _at(state)
    moments = [None if one is None else _moment(one, wanted, state.measure) for one in facts]
    events = [
        None if one is None or found is None else found[0] if put is None else max(START, min(put, len(one.replay) - 1))
        for one, found, put in zip(facts, moments, (state.bt, state.ht), strict=True)
    ]
    return Sides(
        rank=rank,
        runs=(runs[0], runs[1]),
        facts=(facts[0], facts[1]),
        failures=tuple(failures),
        asked=asked_of(state),
        events=(events[0], events[1]),
        chosen=(state.bt is not None, state.ht is not None),
        when=_title(wanted, state.measure),
        astray=(_is_astray(moments[0]), _is_astray(moments[1])),
    )


def _or(number: int | None, rank: int) -> int:
    """A rank's number in a run; where that lacks it, the number that it is missed by."""
    return rank if number is None else number


def _at(state: State) -> At:
    """The moment that a state names; the peak where it names none that a timeline has."""
    try:
        return parse_at(state.at or "peak")
    except UsageError:
        return parse_at("peak")


def _title(at: At, measure: str) -> str:
    what = f"{measure} peak" if at.peak and measure != "allocated" else "peak" if at.peak else "end"
    return f"at the {what} of {clean(at.phase) if at.phase else 'each run'}"


def _moment(facts: Facts, at: At, measure: str) -> tuple[int, bool]:
    """The event of a cursor that nobody put anywhere, and whether the moment is there: else it is the run's peak."""
    known: MeasureName = next(one for one in MEASURES if one == measure)
    # what the stretches of a run with many phases cost is for those who name one
    found = moment(facts, Stretches(facts), at, known) if at.phase is not None or not at.peak else None
    if found is not None:
        return found.event, True
    return facts.replay.peak(known, 0, len(facts.replay))[1], at.phase is None


def _is_astray(found: tuple[int, bool] | None) -> bool:
    return found is not None and not found[1]


# ------------------------------------------------------------------ the cursors


def _linked(state: State) -> bool:
    return state.show != "apart"


def clicked(sides: Sides, state: State, panel: int, place: float, height: float) -> dict[str, object]:
    """The changes of a click: the cursor of the side whose panel was clicked, the other's with it, what was picked."""
    found = pointed(sides, panel, place, height)
    if found is None:
        return {}
    at, event, allocation = found
    return _moved(sides, state, at, event) | {"name": None if allocation is None else named(at, sides.rank, allocation)}


def pointed(sides: Sides, panel: int, place: float, height: float) -> tuple[int, int, int | None] | None:
    """The side of a panel, the event that is shown at a place in it, and the allocation at a height where every one
    is drawn; none where nothing is."""
    if not 0 <= panel < len(sides.drawn):
        return None
    at = sides.drawn[panel]
    facts, window = sides.facts[at], side_window(sides.facts, sides.asked, at)
    if facts is None or window is None:
        return None
    event, allocation = pick(facts, window, place, height)
    return at, event, allocation if sides.asked.view == "bands" else None


def stepped(sides: Sides, state: State, at: int, by: int) -> dict[str, object]:
    """The changes of moving a cursor by some events."""
    facts, event = sides.facts[at], sides.events[at]
    if facts is None or event is None:
        return {}
    return _moved(sides, state, at, max(START, min(event + by, len(facts.replay) - 1)))


def _moved(sides: Sides, state: State, at: int, event: int) -> dict[str, object]:
    """A cursor at an event, and where they are linked the other at the same place."""
    keys, axes = ("bt", "ht"), sides.axes
    changes: dict[str, object] = {keys[at]: event}
    here, other = axes[at], axes[1 - at]
    if _linked(state) and here is not None and other is not None:
        changes[keys[1 - at]] = other.event_at(here.place(event))
    return changes


def named(at: int, rank: int, allocation: int) -> str:
    """How the address names a picked allocation."""
    return f"{SIDES[at]}.{rank}.{allocation}"


def picked(sides: Sides, state: State) -> tuple[int, int] | None:
    """The side and the allocation that an address names; none where there is no such."""
    found = _PICKED.fullmatch(state.name)
    if found is None or int(found[2]) != sides.rank:
        return None
    at, allocation = SIDES.index(found[1]), int(found[3])
    facts = sides.facts[at]
    return (at, allocation) if facts is not None and allocation < len(facts.replay.allocations) else None
