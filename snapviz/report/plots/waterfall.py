"""The way from base to head as a figure: a bar for each step, from the level before it to the level after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snapviz.report.layout import clean, cut, cut_left
from snapviz.report.plots.base import Figure, figure
from snapviz.report.plots.colours import BASE, FAINT, HEAD, by_sign
from snapviz.report.plots.words import escaped
from snapviz.report.reasons import category_in_words
from snapviz.report.words import block_counts
from snapviz.schema import Waterfall, WaterfallStep
from snapviz.units import format_bytes, format_exact

__all__ = ["waterfall_figure"]

_LABEL = 34
"""Characters of a name on the axis."""

_ROW = 34
"""Pixels of a bar with its gap."""

_TICKS = 4


@dataclass(frozen=True)
class _Bar:
    label: str
    begin: int
    end: int
    text: str
    hover: str
    colour: str
    key: str
    # what a click on it picks; "" for the two ends


def waterfall_figure(found: Waterfall, names: tuple[str, str], picked: str = "") -> Figure:
    """Horizontal bars, base's total first and head's last. ``names`` are the runs'; ``picked`` is a step's name, and
    the others stand back.

    The axis begins at 0 but where the steps would be too short to see; ``layout.meta.begins_bytes`` says where.
    ``customdata`` of a bar is the name of its step.
    """
    low, high = _range(found)
    bars = [_total(names[0], found.from_bytes, low, BASE), *map(_step, found.steps)]
    bars.append(_total(names[1], found.to_bytes, low, HEAD))
    place = list(range(len(bars)))
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": place,
        "base": [min(bar.begin, bar.end) for bar in bars],
        "x": [abs(bar.end - bar.begin) for bar in bars],
        "text": [bar.text for bar in bars],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [bar.hover for bar in bars],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [bar.key for bar in bars],
        "marker": {
            "color": [bar.colour for bar in bars],
            "opacity": [1.0 if picked in ("", bar.key) else 0.35 for bar in bars],
        },
        "width": 0.62,
        "showlegend": False,
    }
    return figure([trace], _layout(found, bars, low, high))


def _layout(found: Waterfall, bars: list[_Bar], low: int, high: int) -> dict[str, Any]:
    ticks, labels = _ticks(low, high, found.from_bytes)
    room = max(1, high - low) * 26 // 100
    least = min(min(bar.begin, bar.end) for bar in bars)
    return {
        "height": _ROW * len(bars) + 56,
        "margin": {"l": 10, "r": 24, "t": 8, "b": 40},
        "bargap": 0.2,
        "meta": {"begins_bytes": low, "at": found.at, "rank": found.rank},
        "xaxis": {
            "range": [low - (room // 4 if least < low else 0), high + room],
            "tickvals": ticks,
            "ticktext": labels,
            "tickangle": 0,
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis": {
            "tickvals": list(range(len(bars))),
            "ticktext": [bar.label for bar in bars],
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "shapes": _levels(bars),
        "hovermode": "closest",
        "dragmode": False,
    }


def _levels(bars: list[_Bar]) -> list[dict[str, Any]]:
    """A thin line from where one step ends to where the next begins."""
    return [
        {
            "type": "line",
            "x0": bar.end,
            "x1": bar.end,
            "y0": place + 0.31,
            "y1": place + 0.69,
            "line": {"color": FAINT, "width": 1, "dash": "dot"},
        }
        for place, bar in enumerate(bars[:-1])
    ]


def _total(name: str, count: int, low: int, colour: str) -> _Bar:
    whole = escaped(cut_left(clean(name), 4 * _LABEL))
    label = "<br>".join(map(escaped, _lines(clean(name))))
    return _Bar(label, low, count, format_bytes(count), f"{whole}: {format_exact(count)}", colour, "")


def _lines(name: str) -> list[str]:
    """A run's name in at most two lines, the first as long as can be, broken after a slash or a dash where there is
    one: its end tells it apart."""
    if len(name) <= _LABEL:
        return [name]
    breaks = [at + 1 for at in range(_LABEL) if name[at] in "/-_. "]
    at = breaks[-1] if breaks and breaks[-1] > _LABEL // 3 else _LABEL
    return [name[:at], cut_left(name[at:], _LABEL)]


def _step(step: WaterfallStep) -> _Bar:
    delta, names = step.delta_bytes, ", ".join(map(category_in_words, step.categories))
    what = category_in_words(step.what)
    told = [
        f"<b>{escaped(what)}</b>" + (f" ({escaped(cut(clean(names), 120))})" if len(step.categories) > 1 else ""),
        f"{'▲' if delta > 0 else '▼'} {format_exact(delta, signed=True)}",
        f"{format_exact(step.from_bytes)} → {format_exact(step.to_bytes)}",
        f"{block_counts(step.base_count, step.head_count)} · {step.evidence}",
    ]
    text = f"{'▲' if delta > 0 else '▼'} {format_bytes(delta, signed=True)}"
    return _Bar(escaped(what), step.from_bytes, step.to_bytes, text, "<br>".join(told), by_sign(delta), step.what)


def _range(found: Waterfall) -> tuple[int, int]:
    """Where the axis begins and ends: at 0, but where the way from base to head would be too short to see."""
    levels = [found.from_bytes, found.to_bytes, *(step.to_bytes for step in found.steps)]
    low, high = min(levels), max(levels)
    begins = max(0, low - (high - low) // 4) if low > 4 * (high - low) > 0 else min(0, low)
    return begins, max(high, begins + 1)


def _ticks(low: int, high: int, base: int) -> tuple[list[int], list[str]]:
    """Round places on the axis, a power of two apart, and their labels: where those would read alike, how far from
    base each is."""
    step = 1
    while (high - low) // step > _TICKS:
        step *= 2
    ticks = list(range(-(-low // step) * step, high + 1, step))
    labels = [format_bytes(tick) for tick in ticks]
    if len(set(labels)) == len(labels):
        return ticks, labels
    ticks = list(range(base - (base - low) // step * step, high + 1, step))
    return ticks, [format_bytes(tick - base, signed=True) if tick != base else "base" for tick in ticks]
