"""The figure of memory over time: base above head, zoomed and moved together.

Legend: C columns, R rows of pixels, G groups.

Heights are laid out in pixels and given to plotly as shares of the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snapviz.analyze.overtime import OverTime, Side
from snapviz.report.plots.base import Figure, figure
from snapviz.report.plots.ticks import byte_ticks, event_ticks, time_ticks
from snapviz.report.plots.timelinelayers import curve_traces, layer_traces, picture_image, stack_traces
from snapviz.report.plots.timelinemarks import annotations_drawn, marks_of, oom_lines, peak_mark, phase_lines, span_bars
from snapviz.units import format_bytes

__all__ = ["Titles", "cursor_shapes", "height_of", "timeline"]

_PANEL, _ALONE = 235, 400
"""Pixels of a panel where there are two, and where there is one."""
_TITLE, _LEVEL, _GAP = 24, 19, 12
_TOP, _BOTTOM = 34, 36
_MARGIN = {"l": 84, "r": 14, "t": _TOP, "b": _BOTTOM}

_CURSOR, _HALO = "#1b1f24", "rgba(255,255,255,0.75)"


@dataclass(frozen=True)
class Titles:
    """What stands above each panel: text that is safe to show. ``empty`` is said in a panel without anything."""

    names: tuple[str, str]
    empty: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class _Place:
    """Where a side is drawn."""

    number: str  # what its axes are called after: "" or "2"
    strip: str  # number of the axis of its phases: "3" or "4"
    panel: tuple[float, float]  # share of the plot, from below
    phases: tuple[float, float]
    title: float


def timeline(seen: OverTime, titles: Titles, cursors: Sequence[float | None] = ()) -> Figure:
    """Both runs in one window. ``cursors`` are places on the axis, one for each panel from above to below."""
    places = _places(seen)
    data: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for _, side, place in _drawn(seen, places):
        data += _traces(seen, side, place)
        axes |= _axes(seen, side, place, bottom=place is places[-1])
    _once_in_the_legend(data)
    layout = {
        "height": height_of(seen),
        "margin": _MARGIN,
        "barmode": "overlay",
        "bargap": 0,
        "dragmode": "zoom",
        "hovermode": "closest",
        "hoverdistance": 12,
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "yref": "paper", "font": {"size": 12}},
        # another window is another figure: what was zoomed by hand is in the state by now
        "uirevision": f"{seen.kind} {seen.low} {seen.high} {seen.low_bytes} {seen.high_bytes}",
        "meta": {"x": [seen.low, seen.high], "y": [seen.low_bytes, seen.high_bytes], "whole": list(seen.whole)},
        "images": [
            picture_image(side.picture, place.number)
            for _, side, place in _drawn(seen, places)
            if side.picture is not None
        ],
        **axes,
        "shapes": cursor_shapes(cursors),
        "annotations": _notes(seen, titles, places),
    }
    return figure(data, layout)


def _once_in_the_legend(data: list[dict[str, Any]]) -> None:
    """Both panels have curves of one name: an entry for both shows and hides both."""
    named = set()
    for trace in data:
        group = trace.get("legendgroup")
        trace.setdefault("showlegend", group is not None and group not in named)
        named.add(group)


def _drawn(seen: OverTime, places: Sequence[_Place]) -> list[tuple[int, Side, _Place]]:
    sides = [(at, side) for at, side in enumerate(seen.sides) if side is not None]
    return [(at, side, place) for (at, side), place in zip(sides, places, strict=True)]


def height_of(seen: OverTime) -> int:
    """Pixels of the whole figure."""
    sides = [side for side in seen.sides if side is not None]
    panel = _PANEL if len(sides) > 1 else _ALONE
    tops = sum(_TITLE + _LEVEL * _levels(side) + panel for side in sides)
    return _TOP + _BOTTOM + tops + _GAP * max(0, len(sides) - 1)


def _levels(side: Side) -> int:
    phases = max((span.level + 1 for span in side.spans), default=0)
    return phases + bool(annotations_drawn(side) or side.ooms)


def _places(seen: OverTime) -> list[_Place]:
    """From above to below."""
    sides = [side for side in seen.sides if side is not None]
    whole = height_of(seen) - _TOP - _BOTTOM
    panel = _PANEL if len(sides) > 1 else _ALONE
    found, down = [], 0
    for at, side in enumerate(sides):
        title = 1 - down / whole
        strip = down + _TITLE
        top = strip + _LEVEL * _levels(side)
        phases = (1 - top / whole, 1 - strip / whole)
        found.append(
            _Place("" if at == 0 else "2", str(3 + at), (max(0.0, 1 - (top + panel) / whole), phases[0]), phases, title)
        )
        down = top + panel + _GAP
    return found


def _axes(seen: OverTime, side: Side, place: _Place, bottom: bool) -> dict[str, Any]:
    x = time_ticks if seen.kind == "time" else event_ticks
    number = place.number
    levels = _levels(side)
    return {
        f"xaxis{number}": {
            "range": [seen.low, seen.high],
            "anchor": f"y{number}",
            "showticklabels": bottom,
            "ticks": "outside" if bottom else "",
            "zeroline": False,
            # lines over bands would look like gaps in them
            "showgrid": side.picture is None,
            "gridcolor": "#e4e8ec",
            **({"matches": "x"} if number else {}),
            **x(seen.low, seen.high),
        },
        f"yaxis{number}": {
            "range": [seen.low_bytes, seen.high_bytes],
            "domain": list(place.panel),
            "anchor": f"x{number}",
            "zeroline": False,
            "showgrid": side.picture is None,
            "gridcolor": "#e4e8ec",
            **({"matches": "y"} if number else {}),
            **byte_ticks(seen.low_bytes, seen.high_bytes),
        },
        f"yaxis{place.strip}": {
            "range": [max(levels, 1), 0],
            "domain": list(place.phases),
            "anchor": f"x{number}",
            "fixedrange": True,
            "visible": False,
        },
    }


def _traces(seen: OverTime, side: Side, place: _Place) -> list[dict[str, Any]]:
    if side.high <= side.low:
        return []
    x, strip = f"x{place.number}", f"y{place.strip}"
    shared = {"xaxis": x, "yaxis": f"y{place.number}"}
    data = stack_traces(seen.groups, side, shared) if seen.groups is not None else []
    data += curve_traces(side, shared, filled=side.picture is None and seen.groups is None)
    data += layer_traces(side, shared, areas=seen.groups is None, bands=side.picture is not None)
    data += phase_lines(side, shared, seen.low, seen.high_bytes)
    data += oom_lines(side, shared, seen.high_bytes)
    data += span_bars(side, {"xaxis": x, "yaxis": strip}, seen.low, seen.high)
    data += marks_of(side, {"xaxis": x, "yaxis": strip}, _levels(side) - 0.5)
    return [*data, peak_mark(side, shared)]


# ------------------------------------------------------------------ cursors and words


def cursor_shapes(cursors: Sequence[float | None]) -> list[dict[str, Any]]:
    """The lines of the cursors, one for each panel that is drawn from above to below; none where it has no cursor."""
    return [
        shape
        for at, place in enumerate(cursors)
        if place is not None
        for shape in _cursor(place, "" if at == 0 else "2")
    ]


def _cursor(place: float, number: str) -> list[dict[str, Any]]:
    """A line that is seen on light and on dark."""
    line = {
        "type": "line", "xref": f"x{number}", "yref": f"y{number} domain", "x0": place, "x1": place, "y0": 0, "y1": 1,
    }  # fmt: skip
    return [
        line | {"line": {"color": _HALO, "width": 5}},
        line | {"line": {"color": _CURSOR, "width": 1.5, "dash": "4px,2px"}},
    ]


def _notes(seen: OverTime, titles: Titles, places: Sequence[_Place]) -> list[dict[str, Any]]:
    notes = []
    for at, side, place in _drawn(seen, places):
        notes.append(_title(titles.names[at], place))
        notes.append(_peak_text(seen, side, place) if side.high > side.low else _nothing(titles.empty[at], place))
    return notes


def _title(text: str, place: _Place) -> dict[str, Any]:
    return _note(text, 0, place.title, "left", "top") | {"font": {"size": 13, "weight": 600}}


def _nothing(text: str, place: _Place) -> dict[str, Any]:
    return _note(text, 0.5, sum(place.panel) / 2, "center", "middle") | {"font": {"size": 14}}


def _note(text: str, x: float, y: float, xanchor: str, yanchor: str) -> dict[str, Any]:
    return {
        "text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": xanchor, "yanchor": yanchor,
        "showarrow": False,
    }  # fmt: skip


def _peak_text(seen: OverTime, side: Side, place: _Place) -> dict[str, Any]:
    share = (side.peak_place - seen.low) / max(seen.high - seen.low, 1)
    anchor = "left" if share < 0.2 else "right" if share > 0.8 else "center"
    text = f"peak {format_bytes(side.peak_bytes)} · {side.peak_bytes:,} bytes"
    return {
        "text": text, "x": side.peak_place, "xref": f"x{place.number}", "xanchor": anchor, "showarrow": False,
        "y": side.peak_bytes, "yref": f"y{place.number}", "yanchor": "bottom", "yshift": 7, "font": {"size": 12},
        # the line of what is reserved may lie there
        "bgcolor": "rgba(255,255,255,0.88)", "borderpad": 1, "name": "peak",
    }  # fmt: skip
