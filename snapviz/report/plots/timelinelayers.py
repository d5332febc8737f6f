"""Curves, stacked areas and bands of one run in a timeline, as traces and pictures.

Legend: C columns, R rows of pixels, G groups, N points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.overtime import DANGLES, DIMMED, DRAWN, SHADES, Picture, Side
from snapviz.analyze.stacking import OTHER, Groups
from snapviz.report.plots import colours
from snapviz.report.plots.base import packed, png
from snapviz.report.plots.words import words

__all__ = ["curve_traces", "group_colour", "layer_traces", "picture_image", "stack_traces"]

Int64 = npt.NDArray[np.int64]

_CURVES: dict[str, dict[str, Any]] = {
    "allocated": {"color": "#2f74d0", "width": 1.75},
    "active": {"color": "#a06cd5", "width": 1},
    "reserved": {"color": "#8c959f", "width": 1.5, "dash": "4px,3px"},
}
_FILL = "rgba(47,116,208,0.18)"
_HITS = "#0f8b8d"
_OTHERS = "#c3cad1"
_DIM, _DIM_DANGLES = "#b7bfc7", "#d99bbb"
_LONGEST = 70
"""Characters of a group's name in a figure."""

_LIGHTER = (0.0, 0.12, 0.24)
"""How far each shade of a colour goes to white."""
_DARKER = 0.35
"""How far the edge of a band goes to black."""


def curve_traces(side: Side, axes: dict[str, str], filled: bool) -> list[dict[str, Any]]:
    """The three curves, reserved first and so at the back."""
    found = []
    for measure in reversed(DRAWN):
        line = side.lines.get(measure)
        if line is None:
            continue
        fill = {"fill": "tozeroy", "fillcolor": _FILL} if filled and measure == "allocated" else {}
        found.append(
            _steps(measure, line.places, line.value_bytes, _CURVES[measure]) | fill | axes,
        )
    return found


def _steps(name: str, x: npt.NDArray[Any], y: Int64, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "x": packed(_small(x)),
        "y": packed(y),
        "line": {"shape": "hv"} | line,
        "hovertemplate": "%{y:,} bytes<extra>" + name + "</extra>",
    }


def _small(places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Places in half the bytes, where they fit."""
    whole = places.astype(np.int64) if len(places) and np.abs(places).max() < 1 << 31 else None
    return whole.astype(np.int32) if whole is not None and (whole == places).all() else places


def layer_traces(side: Side, axes: dict[str, str], areas: bool, bands: bool) -> list[dict[str, Any]]:
    """What dangles and what a search finds, over all else; bands show both by themselves."""
    wanted = [("dangling", side.dangling, colours.DANGLING, not bands), ("found", side.hits, _HITS, True)]
    found = []
    for name, values, colour, drawn in wanted:
        if not drawn or not values.any():
            continue
        kept = np.flatnonzero(np.append(True, np.diff(values) != 0))
        x, y = np.append(side.edges[kept], side.edges[-1]), np.append(values[kept], values[-1])
        fill = {"fill": "tozeroy", "fillcolor": _faint(colour)} if areas and not bands else {}
        found.append(_steps(name, x, y, {"color": colour, "width": 2}) | fill | axes)
    return found


def _faint(colour: str) -> str:
    red, green, blue = _rgb(colour)
    return f"rgba({red},{green},{blue},0.35)"


# ------------------------------------------------------------------ stacked


def group_colour(by: str, at: int, key: str) -> str:
    """Of the group at a place among the largest: categories have their own."""
    if by == "category" and key in colours.CATEGORY:
        return colours.CATEGORY[key]
    return colours.PALETTE[at % len(colours.PALETTE)]


def stack_traces(groups: Groups, side: Side, axes: dict[str, str]) -> list[dict[str, Any]]:
    """Areas from the largest group at the bottom to all others at the top."""
    x = packed(_small(side.edges))
    found = []
    for at, values in enumerate(side.stacked):
        if not values.any():
            continue
        last = at == len(groups.keys)
        colour = _OTHERS if last else group_colour(groups.by, at, groups.keys[at])
        name = words(OTHER if last else groups.labels[at], _LONGEST)
        line = {"width": 0.5, "color": _mixed(colour, "#000000", 0.25)}
        trace = _steps(name, side.edges, np.append(values, values[-1]), line)
        stack = {
            "stackgroup": axes["yaxis"],
            "fillcolor": colour,
            "x": x,
            "showlegend": False,
            "hoveron": "points+fills",
        }
        found.append(trace | stack | axes)
    return found


# ------------------------------------------------------------------ bands


def picture_image(picture: Picture, number: str) -> dict[str, Any]:
    """Every allocation as a band, behind all else."""
    return {
        "source": png(picture.codes[::-1], _palette()),
        "xref": f"x{number}",
        "yref": f"y{number}",
        "x": picture.low,
        "y": picture.high_bytes,
        "sizex": picture.high - picture.low,
        "sizey": picture.high_bytes - picture.low_bytes,
        "sizing": "stretch",
        "layer": "below",
    }


def _palette() -> list[str]:
    """A colour of each code of a picture."""
    shades: Callable[[str], list[str]] = lambda colour: [  # noqa: E731
        *(_mixed(colour, "#ffffff", share) for share in _LIGHTER),
        _mixed(colour, "#000000", _DARKER),
    ]
    found = ["#00000000"]
    for category in CATEGORIES:
        found += shades(colours.CATEGORY[category])
    assert len(found) == DANGLES
    found += shades(colours.DANGLING)
    assert len(found) == DIMMED
    found += [f"{colour}66" for colour in shades(_DIM)] + [f"{colour}aa" for colour in shades(_DIM_DANGLES)]
    assert len(found) == DIMMED + 2 * SHADES
    return found


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))


def _mixed(colour: str, other: str, share: float) -> str:
    """A colour that has gone a share of the way to another."""
    pairs = zip(_rgb(colour), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
