"""What stands around the timeline's picture: titles, what is not certain, what was found, groups at the peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dash import html

from snapviz.analyze.axis import start_of
from snapviz.analyze.describe import fake_group_of
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.overtime import OverTime, Side
from snapviz.analyze.remembered import remembered
from snapviz.analyze.run import Run
from snapviz.analyze.stacking import OTHER, Groups
from snapviz.analyze.stretches import Stretches
from snapviz.app.controls import notice, table
from snapviz.app.sides import whose
from snapviz.app.timelinesides import SIDES, Sides
from snapviz.replay.model import START
from snapviz.report.layout import clean, cut
from snapviz.report.plots.colours import DANGLING
from snapviz.report.plots.timeline import Titles
from snapviz.report.plots.timelinelayers import group_colour
from snapviz.report.plots.timelinemarks import annotations_drawn
from snapviz.report.plots.words import words
from snapviz.units import format_bytes

__all__ = ["bytes_cell", "groups_panel", "notices", "phases_table", "said", "signed_bytes", "titles"]

Int64 = npt.NDArray[np.int64]

_OTHERS = "#c3cad1"
_NOTES = 3
"""Notes of a run that stand above the picture; the others are one click away."""
_LONGEST = 90
_MOST_PHASES = 120
"""Phases in the table of the picture."""
_WHOLE = "all that is shown"


def titles(sides: Sides) -> Titles:
    """What stands above each panel, and in it where there is nothing."""
    names, empty = [], []
    for side, run, facts in zip(SIDES, sides.runs, sides.facts, strict=True):
        name = cut(clean(run.name), _LONGEST) if run is not None else ""
        names.append(words(f"{side} · {name} · rank {facts.rank if facts is not None else sides.rank}", 2 * _LONGEST))
        none = facts is not None and len(facts.replay) == 0
        empty.append(
            "no events are recorded: there is nothing to draw over time" if none else "nothing of it lies here"
        )
    return Titles((names[0], names[1]), (empty[0], empty[1]))


def notices(sides: Sides) -> list[Any]:
    """What cannot be told, or is not certain, before any number."""
    found = [notice(clean(failure), grave=True) for failure in sides.failures]
    found += [notice(*told, grave=True) for told in _broken(sides)]
    told = [
        _uncertain(run, facts) if facts is not None and run is not None else ()
        for run, facts in zip(sides.runs, sides.facts, strict=True)
    ]
    if told[0] == told[1]:
        found += _noted("base and head", told[0])
    else:
        found += [*_noted("base", told[0]), *_noted("head", told[1])]
    if any(facts is not None and len(facts.replay) and not facts.replay.has_times for facts in sides.facts):
        found.append(notice("Drawn by event, since the events of a run carry no times."))
    missing = [side for side, facts in zip(SIDES, sides.facts, strict=True) if facts is None]
    if missing and not sides.failures:
        found.append(html.P(f"No {missing[0]} is chosen: the other run is shown by itself.", className="faint"))
    return found


def _broken(sides: Sides) -> list[list[Any]]:
    """The ranks of each run that could not be read, by name; not the one that is asked for, which has its own words."""
    found = []
    for side, run in zip(SIDES, sides.runs, strict=True):
        others = [one for one in (run.failures if run is not None else ()) if one.rank != sides.rank]
        lines = [clean(f"{whose(one)} could not be read: {one.message}") for one in others[:_NOTES]]
        more = [html.Div(f"and {len(others) - _NOTES:,} more")] if len(others) > _NOTES else []
        if lines:
            found.append([html.Strong(f"{side}: "), *(html.Div(line) for line in lines), *more])
    return found


def _uncertain(run: Run, facts: Facts) -> tuple[str, ...]:
    """What is not known, not exact or not all of it, in words."""
    return tuple(dict.fromkeys(note for note in (fake_group_of(run), *facts.notes) if note))


def _noted(who: str, notes: Sequence[str]) -> list[Any]:
    if not notes:
        return []
    first, rest = [html.Div(clean(note)) for note in notes[:_NOTES]], [html.Div(clean(note)) for note in notes[_NOTES:]]
    more = [html.Details([html.Summary(f"{len(rest)} more"), *rest])] if rest else []
    # a lone note is one line with who it is about
    content = [clean(notes[0])] if len(notes) == 1 else [*first, *more]
    return [notice(*content, title=f"{who}:")]


def said(sides: Sides, seen: OverTime) -> list[Any]:
    """What the window and the search have to say before the picture."""
    found: list[Any] = [notice(without) for without in _without_phase(sides)]
    found += [html.P(text, className="faint") for text in _not_drawn(seen)]
    if sides.asked.text:
        text = cut(clean(sides.asked.text), 60)
        told = "; ".join(_hits(side, one) for side, one in zip(SIDES, seen.sides, strict=True) if one is not None)
        found.append(html.P([html.Strong(f"“{text}”"), f" is in {told}."], className="timeline-found"))
    return found


def _not_drawn(seen: OverTime) -> list[str]:
    """Annotations that are too many to be drawn."""
    counts = {
        name: sum(mark.count for mark in side.annotations)
        for name, side in zip(SIDES, seen.sides, strict=True)
        if side is not None and side.annotations and not annotations_drawn(side)
    }
    told = " and ".join(f"{count:,} annotations of {name}" for name, count in counts.items())
    return [f"{told} are too near each other to be drawn: zoom in to see them."] if told else []


def _hits(name: str, side: Side) -> str:
    number = f"{side.hit_count:,} allocation{'s' * (side.hit_count != 1)}"
    return f"{number} of {name} ({format_bytes(side.hit_bytes)}, whenever they live)"


def _without_phase(sides: Sides) -> list[str]:
    align = sides.asked.align
    return [
        f"{name} has no phase {cut(clean(align), _LONGEST)}: it begins at its first event."
        for name, facts, axis in zip(SIDES, sides.facts, sides.axes, strict=True)
        if align and facts is not None and axis is not None and start_of(facts, axis.kind, align) is None
    ]


def signed_bytes(delta: int) -> Any:
    """A difference with its sign and arrow, exact in its title."""
    if delta == 0:
        return html.Span("0", className="faint")
    arrow, style = ("▲", "more") if delta > 0 else ("▼", "less")
    return html.Span(f"{arrow} {format_bytes(delta, signed=True)}", className=style, title=f"{delta:+,} bytes")


def bytes_cell(count: int | None) -> Any:
    """Bytes rounded, exact in the title."""
    return "" if count is None else html.Span(format_bytes(count), title=f"{count:,} bytes")


def groups_panel(sides: Sides, seen: OverTime, groups: Groups, sizes: Sequence[Int64 | None]) -> Any:
    """The groups at the peak of what is shown: the picture's legend, and its text for who cannot see it."""
    both = all(one is not None for one in sizes)
    names = [*groups.labels, OTHER]
    rows = [
        _row(groups, at, name, [None if one is None else int(one[at]) for one in sizes], both)
        for at, name in enumerate(names)
        if any(one is not None and one[at] for one in sizes)
    ]
    total = [None if one is None else int(one.sum()) for one in sizes]
    rows.append(_cells("", "allocated", total, both, "total"))
    dangling = [None if one is None else _dangling_at_peak(sides, seen, at) for at, one in enumerate(sizes)]
    if any(dangling):
        rows.append(_cells(DANGLING, "of it dangling", dangling, both, "dangling-row"))
    shown = [at for at, one in enumerate(sizes) if one is not None]
    head = [groups.by, *(SIDES[at] for at in shown), *(["Δ"] if both else [])]
    where = ", ".join(f"{SIDES[at]} {_after(s.peak_event)}" for at in shown if (s := seen.sides[at]) is not None)
    return html.Div(
        [
            html.H2("At the peak of what is shown"),
            html.Table(
                [
                    html.Caption(f"allocated bytes by {groups.by}: {where}" if where else "nothing is shown"),
                    html.Thead(html.Tr([html.Td(), *(_heading(at, text) for at, text in enumerate(head))])),
                    html.Tbody(rows),
                ]
            ),
        ]
    )


def _after(event: int) -> str:
    return "before the first event" if event == START else f"after event {event:,}"


def phases_table(sides: Sides, seen: OverTime) -> Any:
    """The picture as a table: what each run peaks at in all that is shown, and in each phase of the run."""
    shown = [at for at, side in enumerate(seen.sides) if side is not None and side.high > side.low]
    peaks: dict[str, dict[int, int]] = {"": {at: seen.sides[at].peak_bytes for at in shown}}  # type: ignore[union-attr]
    for at in shown:
        for name, peak_bytes in _phase_peaks(sides.facts[at]).items():
            peaks.setdefault(name, {})[at] = peak_bytes
    rows = [
        [cut(clean(name), _LONGEST) or _WHOLE, *_compared(values, shown)]
        for name, values in list(peaks.items())[: _MOST_PHASES + 1]
    ]
    more = len(peaks) - 1 - _MOST_PHASES
    rows += [[f"and {more:,} more", *[""] * (len(rows[0]) - 1)]] if more > 0 else []
    head = ["phase", *(f"peak of {SIDES[at]}" for at in shown), *(["Δ"] if len(shown) == 2 else [])]
    return table("allocated bytes; those of a phase are of all of it", head, rows, numbers=range(1, len(head)))


def _phase_peaks(facts: Facts | None) -> dict[str, int]:
    """Folded phase → the most that is allocated in any of that name, in order of their starts."""
    return {} if facts is None else remembered(facts, "phase peaks", "", lambda: _found_peaks(facts))


def _found_peaks(facts: Facts) -> dict[str, int]:
    column = MEASURES.index("allocated")
    found = Stretches(facts).folded
    ordered = sorted(found, key=lambda name: (min(one.first for one in found[name]), name))
    return {name: max(int(one.peak[column]) for one in found[name]) for name in ordered}


def _compared(values: dict[int, int], shown: list[int]) -> list[Any]:
    cells: list[Any] = [_both(values[at]) if at in values else "" for at in shown]
    both = len(shown) == 2
    return cells + ([signed_bytes(values[1] - values[0])] if both and len(values) == 2 else [""] * both)


def _both(count: int) -> Any:
    """Rounded and exact."""
    return [format_bytes(count), html.Span(f" · {count:,}", className="faint")]


def _dangling_at_peak(sides: Sides, seen: OverTime, at: int) -> int:
    facts, side = sides.facts[at], seen.sides[at]
    if facts is None or side is None:
        return 0
    table = facts.replay.allocations
    dangles = table.allocated_after(side.peak_event) & (facts.dangling_since <= side.peak_event)
    return int(table.block_bytes[dangles].sum())


def _heading(at: int, text: str) -> Any:
    return html.Th(text, scope="col", className="number" if at else "")


def _row(groups: Groups, at: int, name: str, values: list[int | None], both: bool) -> Any:
    last = at == len(groups.keys)
    colour = _OTHERS if last else group_colour(groups.by, at, groups.keys[at])
    return _cells(colour, cut(clean(name), _LONGEST), values, both)


def _cells(colour: str, name: str, values: list[int | None], both: bool, style: str = "") -> Any:
    swatch = html.Span(className="swatch", style={"backgroundColor": colour}) if colour else ""
    numbers = [html.Td(bytes_cell(value), className="number") for value in values if value is not None]
    if both and values[0] is not None and values[1] is not None:
        numbers.append(html.Td(signed_bytes(values[1] - values[0]), className="number"))
    return html.Tr([html.Td(swatch), html.Th(name, scope="row"), *numbers], className=style)
