"""Ranks as figures: phase × rank as a heatmap, and how far apart the ranks of each phase are.

Legend: P phases, R ranks, C columns of one rank or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snapviz.compare.rankgrid import MISSING, WHOLE, Drawn
from snapviz.report.layout import clean, cut_left
from snapviz.report.plots import colours
from snapviz.report.plots.base import Figure, figure, packed
from snapviz.report.plots.words import escaped
from snapviz.schema import Spread
from snapviz.units import format_bytes

__all__ = ["SEQUENTIAL", "WIDEST_PX", "column_labels", "heatmap", "phase_labels", "spreads", "uncertain"]

SEQUENTIAL = ((0.0, "#eaf2fa"), (0.25, "#b5d2ea"), (0.5, "#6aa5d2"), (0.75, "#2a6fae"), (1.0, "#0a3161"))
_DIVERGING = (
    (0.0, "#1f5f9f"), (0.25, "#83b3dd"), (0.5, "#eef0f2"), (0.75, "#f0bd85"), (1.0, "#c96a10"),
)  # fmt: skip
"""Blue has less, orange more."""

_LABEL = 34
_LABELLED = 24
"""Columns that are each named."""
_TEXTS = (400, 8)
"""Cells, and columns, that have their value in them."""
_SAID = 2_500
"""Cells that each say what they are; of more plotly makes the words."""
WIDEST_PX = 190
"""Of a column: of one rank or two the page need not be filled."""
_UNREAD = "rgba(140, 149, 159, 0.35)"


def phase_labels(phases: Sequence[str]) -> list[str]:
    """A name for each phase that no other has, cut from its left: phases mostly differ in their ends."""
    found: dict[str, int] = {}
    out = []
    for phase in phases:
        name = escaped(cut_left(clean(phase), _LABEL)) if phase != WHOLE else "the whole run"
        found[name] = found.get(name, 0) + 1
        out.append(name if found[name] == 1 else f"{name} ({found[name]})")
    return out


def column_labels(columns: Sequence[tuple[int, int]]) -> list[str]:
    """``rank 3``, ``ranks 8-15``."""
    return [f"rank {first}" if first == last else f"ranks {first}-{last}" for first, last in columns]


def heatmap(cells: Drawn, delta: bool, outliers: Sequence[tuple[int, int]] = ()) -> Figure:
    """Peaks, or with ``delta`` differences. ``outliers`` are rows and columns that are marked."""
    rows, columns = phase_labels(cells.phases), column_labels(cells.columns)
    known = cells.value_bytes != MISSING
    values = np.where(known, cells.value_bytes, 0)
    most = float(np.abs(values).max(initial=0)) or 1.0
    z = np.where(known, values.astype(np.float64), np.nan)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": packed(z),
        "zmin": -most if delta else 0,
        "zmax": most,
        "colorscale": [list(one) for one in (_DIVERGING if delta else SEQUENTIAL)],
        "xgap": 2 if len(columns) <= 64 else 0,
        "ygap": 2 if len(rows) <= 64 else 1,
        "hoverongaps": False,
        "colorbar": _bar(most, delta),
        "hovertemplate": "%{y}<br>%{x}: %{z:+,.0f} bytes<extra></extra>"
        if delta
        else "%{y}<br>%{x}: %{z:,.0f} bytes<extra></extra>",
    }
    if values.size <= _SAID:
        trace |= {"hovertext": _said(cells, delta), "hovertemplate": "%{hovertext}<extra></extra>"}
    if values.size <= _TEXTS[0] and len(columns) <= _TEXTS[1]:
        trace |= {"text": _texts(cells, delta, set(outliers)), "texttemplate": "%{text}"}
        trace["textfont"] = {"size": _font(len(columns))}
    data = [trace, *_missing(cells, rows, columns), *_unread(cells, rows, columns), *_marks(rows, columns, outliers)]
    return figure(
        data,
        {
            "height": 80 + len(rows) * (26 if len(rows) <= 24 else 18),
            "margin": {"l": 220, "r": 10, "t": 30, "b": 10},
            "xaxis": _columns_axis(columns),
            "yaxis": {
                "type": "category",
                "categoryarray": rows,
                "categoryorder": "array",
                "range": [len(rows) - 0.5, -0.5],
                "showgrid": False,
                "ticks": "",
                "tickfont": {"size": 12},
            },
            "showlegend": False,
            "clickmode": "event",
            "shapes": _unread_shapes(cells, len(rows)),
            "hoverlabel": {"bgcolor": "#24292f", "font": {"color": "#ffffff"}},
        },
    )


def _font(columns: int) -> int:
    return 12 if columns <= 4 else 10


def _columns_axis(columns: Sequence[str]) -> dict[str, Any]:
    axis = {
        "type": "category",
        "side": "top",
        "range": [-0.5, len(columns) - 0.5],
        "showgrid": False,
        "ticks": "",
        "categoryarray": list(columns),
        "categoryorder": "array",
    }
    if len(columns) <= _LABELLED:
        return axis | {"tickvals": list(columns), "tickangle": 0 if len(columns) <= 12 else -90}
    step = -(-len(columns) // 16)
    return axis | {"tickvals": list(columns[::step]), "tickangle": 0}


def _bar(most: float, delta: bool) -> dict[str, Any]:
    ticks = [-most, 0, most] if delta else [0, most / 2, most]
    return {
        "tickvals": ticks,
        "ticktext": [format_bytes(round(one), signed=delta) for one in ticks],
        "thickness": 12,
        "outlinewidth": 0,
        "len": 1,
    }


def uncertain(least: bool, delta: bool) -> str:
    """What stands before a peak that may have been higher, or a difference of such."""
    return ("~ " if delta else "≥ ") if least else ""


def _amount(value: int, least: bool, delta: bool) -> str:
    sign = ("▲ " if value > 0 else "▼ " if value < 0 else "") if delta else ""
    return f"{uncertain(least, delta)}{sign}{format_bytes(value, signed=delta)}"


def _texts(cells: Drawn, delta: bool, outliers: set[tuple[int, int]]) -> list[list[str]]:
    return [
        [
            "" if value == MISSING else _amount(value, least, delta) + (" ◆" if (row, column) in outliers else "")
            for column, (value, least) in enumerate(zip(values, leasts, strict=True))
        ]
        for row, (values, leasts) in enumerate(
            zip(cells.value_bytes.tolist(), cells.at_least.tolist(), strict=True),
        )
    ]


def _said(cells: Drawn, delta: bool) -> list[list[str]]:
    names = [clean(phase) if phase != WHOLE else "the whole run" for phase in cells.phases]
    names = [escaped(name) for name in names]
    columns = zip(cells.value_bytes.tolist(), cells.rank.tolist(), cells.at_least.tolist(), strict=True)
    return [
        [
            f"{name}<br>rank {rank}: " + (_exact(value, least, delta) if value != MISSING else "has no such phase")
            for value, rank, least in zip(*row, strict=True)
        ]
        for name, row in zip(names, columns, strict=True)
    ]


def _exact(value: int, least: bool, delta: bool) -> str:
    return f"{_amount(value, least, delta)} ({value:{'+' if delta else ''},} bytes)"


def _missing(cells: Drawn, rows: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """A word in each cell of a rank that has no such phase: on the page's ground, and so in its ink."""
    spots = np.argwhere(cells.value_bytes == MISSING)
    spots = spots[~np.isin(spots[:, 1], cells.unread)]
    if len(spots) == 0 or cells.value_bytes.size > _TEXTS[0] or len(columns) > _TEXTS[1]:
        return []
    return [
        {
            "type": "scatter",
            "mode": "text",
            "x": [columns[column] for column in spots[:, 1].tolist()],
            "y": [rows[row] for row in spots[:, 0].tolist()],
            "text": "–",
            "hovertemplate": "%{x} has nothing to compare here<extra></extra>",
        }
    ]


def _unread(cells: Drawn, rows: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """What is said of ranks that could not be read, on the grey of their columns."""
    if not cells.unread:
        return []
    spots = [(columns[column], row) for column in cells.unread for row in rows]
    said = len(columns) <= _TEXTS[1]
    return [
        {
            "type": "scatter",
            "mode": "text" if said else "markers",
            "x": [column for column, _ in spots],
            "y": [row for _, row in spots],
            "text": "unread",
            "textfont": {"size": _font(len(columns))},
            "marker": {"symbol": "x-thin", "size": 4, "color": colours.FAINT, "line": {"width": 1}},
            "hovertemplate": "%{x} could not be read<extra></extra>",
        }
    ]


def _unread_shapes(cells: Drawn, rows: int) -> list[dict[str, Any]]:
    return [
        {
            "type": "rect",
            "x0": column - 0.5,
            "x1": column + 0.5,
            "y0": -0.5,
            "y1": rows - 0.5,
            "line": {"width": 0},
            "fillcolor": _UNREAD,
            "layer": "below",
        }
        for column in cells.unread
    ]


def _marks(rows: Sequence[str], columns: Sequence[str], outliers: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """A mark on outliers where cells have no words."""
    if not outliers or (len(columns) <= _TEXTS[1] and len(rows) * len(columns) <= _TEXTS[0]):
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [columns[column] for _, column in outliers],
            "y": [rows[row] for row, _ in outliers],
            "marker": {"symbol": "diamond-open", "size": 7, "color": "#1b1f24", "line": {"width": 1.5}},
            "hoverinfo": "skip",
        }
    ]


# ------------------------------------------------------------------ how far apart


def spreads(sides: Sequence[tuple[str, str, Sequence[Spread]]], phases: Sequence[str]) -> Figure:
    """For each phase the lowest, median and highest rank and outliers, a line for each run: name, colour, spreads."""
    rows = phase_labels(phases)
    most = max((one.max_bytes for _, _, some in sides for one in some), default=0)
    unit, one = next(((u, b) for u, b in (("GiB", 1 << 30), ("MiB", 1 << 20)) if most >= 10 * b), ("KiB", 1 << 10))
    data = []
    for at, (name, colour, some) in enumerate(sides):
        by_phase = {each.phase or WHOLE: each for each in some}
        found = [(row, by_phase[phase]) for row, phase in enumerate(phases) if phase in by_phase]
        shift = (at - (len(sides) - 1) / 2) * 0.32
        data += _side(clean(name), colour, [(row + shift, each) for row, each in found], one)
    return figure(
        data,
        {
            "height": 80 + 26 * len(rows),
            "margin": {"l": 220, "r": 24, "t": 8, "b": 40},
            "xaxis": {"title": {"text": unit}, "rangemode": "tozero", "zeroline": False},
            "yaxis": {
                "tickvals": list(range(len(rows))),
                "ticktext": rows,
                "range": [len(rows) - 0.5, -0.5],
                "showgrid": False,
                "zeroline": False,
                "tickfont": {"size": 12},
            },
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
            "hovermode": "closest",
        },
    )


def _side(name: str, colour: str, found: Sequence[tuple[float, Spread]], unit: int) -> list[dict[str, Any]]:
    def points(kind: str, symbol: str, fields: tuple[str, str], size: int) -> dict[str, Any]:
        value, rank = fields
        texts = [f"{kind}: rank {getattr(s, rank)}, {format_bytes(getattr(s, value))}" for _, s in found]
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [getattr(s, value) / unit for _, s in found],
            "y": [y for y, _ in found],
            "text": texts,
            "hovertemplate": f"{escaped(name)}, %{{text}}<extra></extra>",
            "marker": {"symbol": symbol, "size": size, "color": colour, "line": {"width": 2, "color": colour}},
            "name": escaped(name),
            "legendgroup": escaped(name),
            "showlegend": False,
        }

    line: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": [x for _, s in found for x in (s.min_bytes / unit, s.max_bytes / unit, None)],
        "y": [v for y, _ in found for v in (y, y, None)],
        "line": {"color": colour, "width": 3},
        "hoverinfo": "skip",
        "name": escaped(name),
        "legendgroup": escaped(name),
    }
    outliers = [(y, s) for y, s in found if s.outliers]
    marks = [
        line,
        points("lowest", "line-ns", ("min_bytes", "best_rank"), 9),
        points("median", "circle", ("median_bytes", "median_rank"), 8),
        points("highest", "line-ns", ("max_bytes", "worst_rank"), 9),
    ]
    if outliers:
        texts = [f"outliers: ranks {', '.join(map(str, s.outliers[:12]))}" for _, s in outliers]
        marks.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [s.max_bytes / unit for _, s in outliers],
                "y": [y for y, _ in outliers],
                "text": texts,
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"symbol": "diamond-open", "size": 13, "color": colours.MORE, "line": {"width": 2}},
                "name": "has outliers",
                "showlegend": False,
            }
        )
    return marks
