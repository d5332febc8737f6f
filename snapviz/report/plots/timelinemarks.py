"""Phases, annotations, ends of memory and the peak of one run in a timeline, as traces."""

from __future__ import annotations

from typing import Any

from snapviz.analyze.marks import Mark
from snapviz.analyze.overtime import Side
from snapviz.analyze.phases import fold
from snapviz.replay.model import START
from snapviz.report.plots import colours
from snapviz.report.plots.words import words
from snapviz.units import format_bytes

__all__ = ["annotations_drawn", "marks_of", "oom_lines", "peak_mark", "phase_lines", "span_bars"]

_PHASE = "rgba(110,119,129,0.6)"
_MOST_ANNOTATIONS = 60
"""Annotations that are drawn: more of them lie one over the other."""

_MOST_LINES = 60
"""Starts of phases that are drawn as lines through a panel."""

_LONGEST = 80
"""Characters of a phase's or an annotation's name in a figure."""
_WIDTH, _LETTER = 1000, 6.2
"""Pixels that a picture is wide at least where people look closely, and that a letter takes."""
_ALPHA = "55"
"""Of phases: words on them are dark on a light page and light on a dark one."""


def span_bars(side: Side, axes: dict[str, str], low: float, high: float) -> list[dict[str, Any]]:
    """Phases as bars above a panel, one level below the other, cut to the window so that their names are in sight."""
    if not side.spans:
        return []
    ends = [(max(span.low, low), min(span.high, high)) for span in side.spans]
    names = [words(span.name, _LONGEST) for span in side.spans]
    texts = [
        name if span.count == 1 else f"{span.count:,} × {name}" for name, span in zip(names, side.spans, strict=True)
    ]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": "phases",
            "showlegend": False,
            "base": [start for start, _ in ends],
            "x": [stop - start for start, stop in ends],
            "y": [span.level + 0.5 for span in side.spans],
            "width": 0.86,
            "text": [
                _fitting(text, (stop - start) / max(high - low, 1))
                for text, (start, stop) in zip(texts, ends, strict=True)
            ],
            "textposition": "inside",
            "insidetextanchor": "start",
            "textangle": 0,
            "textfont": {"size": 11},
            "marker": {
                "color": [colours.by_name(fold(span.name)) + _ALPHA for span in side.spans],
                "line": {"width": 1, "color": [colours.by_name(fold(span.name)) for span in side.spans]},
            },
            # what a click on one zooms to
            "customdata": [[span.low, span.high] for span in side.spans],
            "hovertext": [
                f"{text}: at most {format_bytes(span.peak_bytes)} allocated, {span.peak_bytes:,} bytes"
                for text, span in zip(texts, side.spans, strict=True)
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "constraintext": "none",
            **axes,
        }
    ]


def _fitting(text: str, share: float) -> str:
    """A name, or its last part, or nothing: as much as a bar of a share of the picture's width has room for."""
    room = share * _WIDTH / _LETTER - 1
    parts = (text, text.rpartition("/")[2])
    return next((part for part in parts if len(part) <= room), "")


def phase_lines(side: Side, axes: dict[str, str], low: float, high_bytes: int) -> list[dict[str, Any]]:
    """Where phases begin, as lines through a panel, as long as they can be told apart."""
    starts = sorted({span.low for span in side.spans if span.count == 1 and span.level < 2 and span.low > low})
    if not 0 < len(starts) <= _MOST_LINES:
        return []
    return [_upright(starts, high_bytes, {"color": _PHASE, "width": 1, "dash": "dot"}) | axes]


def oom_lines(side: Side, axes: dict[str, str], high_bytes: int) -> list[dict[str, Any]]:
    """Where memory ran out, as lines through a panel."""
    if not side.ooms:
        return []
    found = _upright([mark.place for mark in side.ooms], high_bytes, {"color": colours.MORE, "width": 2}) | axes
    return [found | {"name": "out of memory", "legendgroup": "out of memory"}]


def _upright(places: list[float], high_bytes: int, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "a phase begins",
        "legendgroup": "a phase begins",
        "hoverinfo": "skip",
        "x": [place for one in places for place in (one, one, None)],
        # further up than anybody moves before it is drawn anew
        "y": [0, 8 * high_bytes, None] * len(places),
        "line": line,
    }


def marks_of(side: Side, axes: dict[str, str], height: float) -> list[dict[str, Any]]:
    """Annotations of the file, and where memory ran out, in a row below the phases."""
    kinds = [
        ("annotations", annotations_drawn(side), "triangle-down", colours.FAINT),
        ("out of memory", side.ooms, "x", colours.MORE),
    ]
    return [_markers(name, marks, symbol, colour, height) | axes for name, marks, symbol, colour in kinds if marks]


def annotations_drawn(side: Side) -> tuple[Mark, ...]:
    """The annotations of a picture; none where they are so many that they would be one band."""
    return side.annotations if len(side.annotations) <= _MOST_ANNOTATIONS else ()


def _markers(name: str, marks: tuple[Mark, ...], symbol: str, colour: str, height: float) -> dict[str, Any]:
    texts = [
        words(mark.text, _LONGEST) + (f" and {mark.count - 1:,} more here" if mark.count > 1 else "") for mark in marks
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        # the line of the other kind stands in the legend
        **({"legendgroup": name} if symbol == "triangle-down" else {"showlegend": False}),
        "x": [mark.place for mark in marks],
        "y": [height] * len(marks),
        "marker": {"symbol": symbol, "size": 9, "color": colour},
        "hovertext": texts,
        "hovertemplate": "%{hovertext}<extra>" + name + "</extra>",
        "cliponaxis": False,
    }


def peak_mark(side: Side, axes: dict[str, str]) -> dict[str, Any]:
    """The highest point of the window."""
    when = "before the first event" if side.peak_event == START else f"event {side.peak_event:,}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "peak",
        "showlegend": False,
        "x": [side.peak_place],
        "y": [side.peak_bytes],
        "marker": {"symbol": "circle-open", "size": 9, "color": colours.MORE, "line": {"width": 2}},
        "hovertemplate": f"peak of what is shown: {side.peak_bytes:,} bytes, {when}<extra></extra>",
        **axes,
    }
