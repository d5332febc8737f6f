"""Free memory over a run as a figure: what of reserved memory is allocated, and why the rest is free.

Legend: N shown events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.addressspace import FreeLayers
from snapviz.report.layout import clean, cut
from snapviz.report.plots import colours
from snapviz.report.plots.base import Figure, figure, packed
from snapviz.report.plots.segments import GREY, LONGEST_LABEL, PICKED, legend_below, legend_px
from snapviz.report.plots.words import escaped

__all__ = ["CURVE_PX", "Band", "Marks", "free_over_time"]

Float64 = npt.NDArray[np.float64]

CURVE_PX = 330
"""Height of free memory over a run."""

_LAYERS = (
    ("allocated", "allocated_bytes", "rgba(68, 119, 170, 0.80)"),
    ("pending", "pending_bytes", "#b9a3d6"),
    ("free, held by what lies beside it", "held_bytes", "rgba(240, 136, 32, 0.55)"),
    ("free, private pools", "private_bytes", "rgba(125, 143, 91, 0.55)"),
    ("free, can be given back", "whole_bytes", f"rgba({GREY}, 0.28)"),
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
    below = 34 + legend_px(len(_LAYERS) + len(_BESIDES))
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
                # its own: plotly sets ticks of what lies over an axis where that one has them
                "tickmode": "auto",
            },
            "yaxis2": {"range": [0, 1], "visible": False, "fixedrange": True},
            "legend": legend_below(),
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
                "color": [f"rgba({GREY}, {0.2 if at % 2 else 0.08})" for at in range(len(ends))],
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
    return escaped(f"{times}{cut(clean(band.name), LONGEST_LABEL)}")


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
    edge = {"color": PICKED, "width": 2}
    return [{"type": "line", "yref": "paper", "x0": marks.cursor, "x1": marks.cursor, "y0": 0, "y1": 1, "line": edge}]
