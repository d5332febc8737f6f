"""The address space as a figure: segments in rows with every byte in a bar.

Legend: D bars, K codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.segmentblocks import DANGLING, Codes
from snapviz.analyze.segmentmap import Bars, Layout, row_px
from snapviz.report.layout import clean, cut
from snapviz.report.plots import colours
from snapviz.report.plots.base import Figure, figure, packed
from snapviz.report.plots.words import escaped
from snapviz.units import format_bytes

__all__ = ["GREY", "KINDS", "LONGEST_LABEL", "PICKED", "Picked", "legend_below", "legend_px", "segment_map"]

Float64 = npt.NDArray[np.float64]

KINDS = ("pending", "free, in a busy segment", "free, pinned by little", "free, can be given back")
"""What is not live, in the order of its codes."""

GREY = "140, 149, 159"
_FILLS = ("#b9a3d6", f"rgba({GREY}, 0.34)", "rgba(245, 200, 66, 0.30)", f"rgba({GREY}, 0.10)")
_PATTERNS = ("x", "", "/", "")
_DARK = {"bgcolor": "#24292f", "bordercolor": "#24292f", "font": {"size": 13, "color": "#ffffff"}}
"""Of hover labels: colours of bars are too light for the white words on them."""
_BESIDE = 2
"""Entries of a legend that have room side by side."""
PICKED = colours.HEAD
LONGEST_LABEL = 40
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
    high, below = row_px(layout.rows), 40 + legend_px(len(data))
    return figure(
        data,
        {
            "barmode": "overlay",
            "height": 8 + max(2, layout.rows) * high + below,
            "margin": {"l": 12, "r": 12, "t": 8, "b": below},
            "xaxis": _bytes_axis(layout.row_bytes),
            "yaxis": {"range": [layout.rows - 0.5, -0.5], "visible": False, "fixedrange": False},
            "legend": legend_below(),
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
        "all others" if codes.rest and at == last else cut(one, LONGEST_LABEL) or "not known"
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
        "name": escaped(name),
        "width": _THICK if row_px(layout.rows) > 6 else 1,
        "x": packed(size.astype(np.float32)),
        "base": packed(bars.left_bytes[mine].astype(np.float32)),
        "y": packed(bars.row[mine].astype(np.int16)),
        # not packed: Dash looks for what was clicked in the figure as it was sent
        "customdata": np.stack([bars.first[mine], bars.last[mine]], axis=1).tolist(),
        "marker": look
        | {
            "line": {
                "color": f"rgba({GREY}, 0.9)",
                "width": packed(np.where(size * _EDGES > layout.row_bytes, 0.7, 0.0).astype(np.float32)),
            }
        },
        "hovertemplate": f"{escaped(name)}<extra></extra>",
    }
    if hover is not None:
        trace |= {
            "hovertext": [escaped(hover[at]) for at in mine.tolist()],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    return trace


def legend_px(entries: int) -> int:
    """Height of a legend of so many entries."""
    return 20 * -(-entries // _BESIDE)


def legend_below() -> dict[str, Any]:
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
        "text": escaped(clean(text)),
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
            "line": {"color": PICKED, "width": 3},
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
