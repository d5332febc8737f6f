"""The address space as figures: segments in rows with every byte in a bar, and free memory over a run.

Legend: D bars, N shown events, K codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.addressspace import FreeLayers
from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.segmentblocks import DANGLING, Codes
from snapviz.analyze.segmentmap import Bars, Layout, row_px
from snapviz.report.layout import clean, cut
from snapviz.report.plots import colours
from snapviz.report.plots.base import Figure, figure, packed
from snapviz.units import format_bytes

__all__ = ["CURVE_PX", "KINDS", "Band", "Marks", "Picked", "free_over_time", "segment_map"]

Float64 = npt.NDArray[np.float64]

KINDS = ("pending", "free, in a busy segment", "free, pinned by little", "free, can be given back")
"""What is not live, in the order of its codes."""

_GREY = "140, 149, 159"
_FILLS = ("#b9a3d6", f"rgba({_GREY}, 0.34)", "rgba(245, 200, 66, 0.30)", f"rgba({_GREY}, 0.10)")
_PATTERNS = ("x", "", "/", "")
_DARK = {"bgcolor": "#24292f", "bordercolor": "#24292f", "font": {"size": 13, "color": "#ffffff"}}
"""Of hover labels: colours of bars are too light for the white words on them."""
_BESIDE = 2
"""Entries of a legend that have room side by side."""
CURVE_PX = 330
"""Height of free memory over a run."""
_PICKED = colours.HEAD
_LABEL = 40
_EDGES = 160
"""A bar shorter than one part in so many of a row has no edge: it would be all edge."""

_THICK = 0.84
"""Of a row, where rows are high enough to be told apart."""

_OUTLINED = 60
"""Bars of what is picked that are outlined."""


@dataclass(frozen=True)
class Picked:
    """Pieces that are picked: the first and the last."""

    first: int
    last: int


def segment_map(
    bars: Bars,
    layout: Layout,
    codes: Codes,
    heads: Sequence[str],
    hover: Sequence[str] | None = None,
    picked: Picked | None = None,
) -> Figure:
    """Segments in rows. ``heads`` are the names of the layout's groups, ``hover`` what each bar says, if it says more
    than its kind and size. ``customdata`` of a bar are its first and last piece."""
    names = [
        f"{clean(name)} · {format_bytes(int(size))}"
        for name, size in zip([*_labels_of(codes), *KINDS], codes.size_bytes, strict=True)
    ]
    data = []
    for code in _drawn(bars, codes):
        mine = np.flatnonzero(bars.code == code)
        data.append(_bar_trace(bars, layout, mine, names[code], _look(codes, code), hover))
    high, below = row_px(layout.rows), 40 + _legend_px(len(data))
    return figure(
        data,
        {
            "barmode": "overlay",
            "height": 8 + max(2, layout.rows) * high + below,
            "margin": {"l": 12, "r": 12, "t": 8, "b": below},
            "xaxis": _bytes_axis(layout.row_bytes),
            "yaxis": {"range": [layout.rows - 0.5, -0.5], "visible": False, "fixedrange": False},
            "legend": _legend(),
            "annotations": [
                _head(one.row + (layout.head_rows - 1) / 2, text)
                for one, text in zip(layout.groups, heads, strict=True)
            ],
            "shapes": _outlines(bars, picked) if picked is not None else [],
            "hovermode": "closest",
            "hoverlabel": _DARK,
            "clickmode": "event",
        },
    )


def _labels_of(codes: Codes) -> list[str]:
    """What is live, as a legend names it."""
    last = len(codes.labels) - 1
    return [
        "all others" if codes.rest and at == last else cut(one, _LABEL) or "not known"
        for at, one in enumerate(codes.labels)
    ]


def _drawn(bars: Bars, codes: Codes) -> list[int]:
    """The codes of a figure's traces, live ones by size first."""
    return [code for code in range(codes.pending + len(KINDS)) if (bars.code == code).any()]


def _look(codes: Codes, code: int) -> dict[str, Any]:
    if code >= codes.pending:
        at = code - codes.pending
        return {
            "color": _FILLS[at],
            "pattern": {"shape": _PATTERNS[at], "size": 5, "fgcolor": "rgba(176, 92, 0, 0.55)"},
        }
    return {"color": _colour(codes, code)}


def _colour(codes: Codes, code: int) -> str:
    label = codes.labels[code]
    if label == DANGLING:
        return colours.DANGLING
    if not label or (codes.rest and code == len(codes.labels) - 1):
        return colours.CATEGORY["unknown"]
    return colours.CATEGORY[label] if label in CATEGORIES else colours.by_name(label)


def _bar_trace(
    bars: Bars, layout: Layout, mine: npt.NDArray[np.intp], name: str, look: dict[str, Any], hover: Sequence[str] | None
) -> dict[str, Any]:
    size = bars.size_bytes[mine]
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "name": _escaped(name),
        "width": _THICK if row_px(layout.rows) > 6 else 1,
        "x": packed(size.astype(np.float32)),
        "base": packed(bars.left_bytes[mine].astype(np.float32)),
        "y": packed(bars.row[mine].astype(np.int16)),
        # not packed: Dash looks for what was clicked in the figure as it was sent
        "customdata": np.stack([bars.first[mine], bars.last[mine]], axis=1).tolist(),
        "marker": look
        | {
            "line": {
                "color": f"rgba({_GREY}, 0.9)",
                "width": packed(np.where(size * _EDGES > layout.row_bytes, 0.7, 0.0).astype(np.float32)),
            }
        },
        "hovertemplate": f"{_escaped(name)}<extra></extra>",
    }
    if hover is not None:
        trace |= {
            "hovertext": [_escaped(hover[at]) for at in mine.tolist()],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    return trace


def _escaped(text: str) -> str:
    """Plotly reads a little markup, entities and ``%{…}`` in hover texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")


def _legend_px(entries: int) -> int:
    return 20 * -(-entries // _BESIDE)


def _legend() -> dict[str, Any]:
    """At the bottom, below the axis: in places of the plot it would be moved into it while the page finds its size."""
    return {
        "orientation": "h",
        "yref": "container",
        "y": 0,
        "yanchor": "bottom",
        "x": 0,
        "font": {"size": 12},
        "traceorder": "normal",
    }


def _head(row: float, text: str) -> dict[str, Any]:
    return {
        "text": _escaped(clean(text)),
        "xref": "paper",
        "x": 0,
        "y": row,
        "xanchor": "left",
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12},
        "align": "left",
    }


def _outlines(bars: Bars, picked: Picked) -> list[dict[str, Any]]:
    found = np.flatnonzero((bars.first <= picked.last) & (bars.last >= picked.first))[:_OUTLINED]
    return [
        {
            "type": "rect",
            "x0": int(bars.left_bytes[at]),
            "x1": int(bars.left_bytes[at] + bars.size_bytes[at]),
            "y0": int(bars.row[at]) - 0.5,
            "y1": int(bars.row[at]) + 0.5,
            "line": {"color": _PICKED, "width": 3},
        }
        for at in found.tolist()
    ]


def _bytes_axis(most: int) -> dict[str, Any]:
    """An axis from 0 with ticks at round numbers of IEC units."""
    ticks = _round_ticks(most)
    return {
        "range": [0, most],
        "tickvals": ticks,
        "ticktext": [format_bytes(tick) if tick else "0" for tick in ticks],
        "zeroline": False,
        "fixedrange": False,
    }


def _round_ticks(most: int) -> list[int]:
    step = 1
    while step * 6 < most:
        step *= 2
    return list(range(0, most + 1, step))


# ------------------------------------------------------------------ over time

_LAYERS = (
    ("allocated", "allocated_bytes", "rgba(68, 119, 170, 0.80)"),
    ("pending", "pending_bytes", "#b9a3d6"),
    ("free, held by what lies beside it", "held_bytes", "rgba(240, 136, 32, 0.55)"),
    ("free, private pools", "private_bytes", "rgba(125, 143, 91, 0.55)"),
    ("free, can be given back", "whole_bytes", f"rgba({_GREY}, 0.28)"),
)
_BESIDES = ("reserved", "largest free block", "out of memory")
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_LETTERS = 90
"""Letters of phases' names that have room beside each other."""


@dataclass(frozen=True)
class Band:
    """A phase in places of an axis, or ``count`` neighbours that are too narrow to be told apart."""

    name: str
    low: float
    high: float
    count: int = 1


@dataclass(frozen=True)
class Marks:
    """What a curve is marked with, in places of its axis."""

    axis: dict[str, str]  # what is put to its ticks
    place: Float64  # [N] of each shown event
    bands: tuple[Band, ...]
    cursor: float | None
    ooms: tuple[tuple[int, float, int], ...]  # event, place, reserved bytes then


def free_over_time(found: FreeLayers, marks: Marks, top_bytes: int | None = None) -> Figure:
    """Reserved memory by what it is, over a run, on an axis up to ``top_bytes`` (none: its own highest).

    ``customdata`` of the points of ``reserved`` are their events.
    """
    most = top_bytes if top_bytes is not None else int(found.reserved_bytes.max(initial=0))
    unit, one = next((each for each in _UNITS if most >= 10 * each[1]), _UNITS[-1])
    x = packed(marks.place.astype(np.float32) if _fits_float32(marks.place) else marks.place)

    def line(name: str, values: npt.NDArray[np.int64], **more: Any) -> dict[str, Any]:
        # what a file that contradicts itself makes less than nothing is drawn as nothing
        shown = np.maximum(values, 0) / one
        hover = f"{name} %{{y:,.2f}} {unit}<extra></extra>"
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": x,
            "y": packed(shown.astype(np.float32)),
            "hovertemplate": hover,
        } | more

    data = _bands(marks)
    for name, field, colour in _LAYERS:
        values = getattr(found, field)
        if (values > 0).any():
            shape = {"shape": "hv", "width": 0}
            data.append(line(name, values, stackgroup="reserved", fillcolor=colour, line=shape))
    data.append(
        line(
            "reserved",
            found.reserved_bytes,
            customdata=found.event.tolist(),
            line={"shape": "hv", "width": 1.6, "color": colours.FAINT},
        )
    )
    if found.largest_bytes.any():
        dots = {"shape": "hv", "width": 1, "color": colours.MORE}
        data.append(line("largest free block", found.largest_bytes, line=dots))
    data += _oom_marks(marks, one, unit)
    # whatever there is to tell: beside another run's a curve of the same scale has the same height
    below = 34 + _legend_px(len(_LAYERS) + len(_BESIDES))
    return figure(
        data,
        {
            "height": CURVE_PX,
            # a window of one axis means nothing on the other
            "uirevision": "/".join(marks.axis),
            "margin": {"l": 64, "r": 12, "t": 8, "b": below},
            "xaxis": marks.axis | {"zeroline": False, "range": _range(marks.place)},
            "yaxis": {
                "title": {"text": unit},
                "rangemode": "tozero",
                "range": [0, 1.06 * most / one or 1],
                "overlaying": "y2",
            },
            "yaxis2": {"range": [0, 1], "visible": False, "fixedrange": True},
            "legend": _legend(),
            "hovermode": "x unified",
            "shapes": _cursor(marks),
            "annotations": _band_names(marks),
        },
    )


def _fits_float32(place: Float64) -> bool:
    return len(place) == 0 or float(np.abs(place).max()) < 1 << 24


def _range(place: Float64) -> list[float]:
    if len(place) == 0:
        return [0.0, 1.0]
    return [float(place[0]), max(float(place[-1]), float(place[0]) + 1e-6)]


def _oom_marks(marks: Marks, one: int, unit: str) -> list[dict[str, Any]]:
    if not marks.ooms:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "out of memory",
            "x": [place for _, place, _ in marks.ooms],
            "y": [reserved / one for _, _, reserved in marks.ooms],
            "customdata": [event for event, _, _ in marks.ooms],
            "marker": {"symbol": "x", "size": 11, "color": colours.DANGLING},
            "hovertemplate": f"out of memory, %{{y:,.2f}} {unit} reserved<extra></extra>",
        }
    ]


def _bands(marks: Marks) -> list[dict[str, Any]]:
    """Phases as one trace below the others: a shape for each costs the browser seconds."""
    if not marks.bands:
        return []
    ends = [_inside(marks, band) for band in marks.bands]
    return [
        {
            "type": "bar",
            "name": "phases",
            "showlegend": False,
            "yaxis": "y2",
            "x": [low for low, _ in ends],
            "width": [high - low for low, high in ends],
            "offset": 0,
            "y": [1] * len(ends),
            "marker": {
                "color": [f"rgba({_GREY}, {0.2 if at % 2 else 0.08})" for at in range(len(ends))],
                "line": {"width": 0},
            },
            "hovertext": [_band_words(band) for band in marks.bands],
            "hovertemplate": "phase %{hovertext}<extra></extra>",
        }
    ]


def _inside(marks: Marks, band: Band) -> tuple[float, float]:
    """What is seen of a band: it must not make the axis longer."""
    low, high = _range(marks.place)
    return max(band.low, low), max(min(band.high, high), band.low, low)


def _band_words(band: Band) -> str:
    times = f"{band.count:,} × " if band.count > 1 else ""
    return _escaped(f"{times}{cut(clean(band.name), _LABEL)}")


def _band_names(marks: Marks) -> list[dict[str, Any]]:
    low, high = _range(marks.place)
    room = (high - low) / _LETTERS
    named = [(_band_words(band), *_inside(marks, band)) for band in marks.bands]
    return [
        {
            "text": text,
            "x": start,
            "y": 1,
            "yref": "paper",
            "xanchor": "left",
            "yanchor": "top",
            "showarrow": False,
            "font": {"size": 11, "color": colours.FAINT},
        }
        for text, start, stop in named
        if stop - start > room * len(text)
    ]


def _cursor(marks: Marks) -> list[dict[str, Any]]:
    if marks.cursor is None:
        return []
    edge = {"color": _PICKED, "width": 2}
    return [{"type": "line", "yref": "paper", "x0": marks.cursor, "x1": marks.cursor, "y0": 0, "y1": 1, "line": edge}]
