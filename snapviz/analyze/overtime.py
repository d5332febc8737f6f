"""One rank of two runs over the same stretch of an axis: all the numbers that a timeline's figure is drawn from.

Legend: C columns, R rows of pixels, G groups, N points. Places are of an ``Axis``, heights bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.axis import Axis, AxisKind, Window, axis_of
from snapviz.analyze.bands import bands, extremes, values_after
from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.marks import Mark, Span, annotation_marks, oom_marks, phase_spans
from snapviz.analyze.picking import find_text
from snapviz.analyze.remembered import remembered
from snapviz.analyze.stacking import STACKINGS, Groups, largest_groups, layer

__all__ = [
    "DANGLES",
    "DIMMED",
    "DIMMED_DANGLES",
    "DRAWN",
    "MOST_GROUPS",
    "NOTHING",
    "SHADES",
    "VIEWS",
    "Asked",
    "Line",
    "OverTime",
    "Picture",
    "Side",
    "axes_of",
    "over_time",
    "peak_groups",
    "side_window",
]

Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

VIEWS = ("bands", "curves", *STACKINGS)
"""How the same time can be drawn: every allocation, the curves alone, or stacked by groups."""

DRAWN = ("allocated", "active", "reserved")
"""Measures that are drawn as curves."""

MOST_GROUPS = 10

SHADES = 4
"""Shades of one colour, so that neighbouring bands can be told apart; the last is of a band's upper edge."""
NOTHING = 0
"""Code of a cell above everything; from 1 on come the categories, each in its shades."""
DANGLES = 1 + len(CATEGORIES) * SHADES
"""First code of what dangles."""
DIMMED = DANGLES + SHADES
"""First code of what a search leaves out."""
DIMMED_DANGLES = DIMMED + SHADES
"""The same, where it dangles."""

_LINE_COLUMNS = 400
_STACK_COLUMNS = 330
_BAND_COLUMNS = 1200
_BAND_ROWS = 320
_LIVE_CELLS = 60_000_000
"""Live allocations times columns that are looked at for one picture: about a tenth of a second."""
_EDGE_ROWS = 4
"""Rows from which on a band has an edge."""
_HEADROOM = 0.12
"""Of the height, above the highest curve: the peak's label stands there."""
_NARROW = 1 / 250
"""Part of a window that a phase must fill to be drawn by itself."""


@dataclass(frozen=True)
class Asked:
    """What is to be seen. Places are of the axis, none: as far as the runs go."""

    kind: AxisKind = "time"
    align: str = ""
    view: str = "bands"  # one of VIEWS
    x0: int | None = None
    x1: int | None = None
    y0: int | None = None
    y1: int | None = None
    text: str = ""  # that allocations are searched for


@dataclass(frozen=True)
class Line:
    """A step curve: each value lasts until the next place."""

    places: Float64  # [N]
    value_bytes: Int64  # [N]


@dataclass(frozen=True)
class Picture:
    """Every allocation as a band, in codes (``NOTHING`` and so on)."""

    codes: UInt8  # [R, C] row 0 is the bottom
    low: int
    high: int
    low_bytes: int
    high_bytes: int


@dataclass(frozen=True)
class Side:
    """One run in the window."""

    low: int  # what there is of it in the window; low is high where nothing is
    high: int
    lines: dict[str, Line]  # by measure
    peak_bytes: int  # allocated, in the window; of START where there are no events
    peak_event: int
    peak_place: float
    edges: Float64  # [C + 1] of the layers
    stacked: Int64  # [G + 1, C] none where the view has no groups
    dangling: Int64  # [C] allocated bytes of what dangles then
    hits: Int64  # [C] of what the search finds
    hit_count: int
    hit_bytes: int  # of all that it finds, whenever it lives
    picture: Picture | None
    spans: tuple[Span, ...]
    annotations: tuple[Mark, ...]
    ooms: tuple[Mark, ...]


@dataclass(frozen=True)
class OverTime:
    """Both runs in one window; a side is none where there is no such run or rank."""

    kind: AxisKind
    whole: tuple[int, int]  # as far as the runs go
    low: int
    high: int
    low_bytes: int
    high_bytes: int
    groups: Groups | None  # of a view that stacks them
    sides: tuple[Side | None, Side | None]


def axes_of(facts: Sequence[Facts | None], asked: Asked) -> list[Axis | None]:
    """The axis of each side. By event for both where either has events without times."""
    untimed = any(one is not None and len(one.replay) and not one.replay.has_times for one in facts)
    kind: AxisKind = "event" if untimed else asked.kind
    return [None if one is None else axis_of(one, kind, asked.align) for one in facts]


def _whole(axes: Sequence[Axis | None]) -> tuple[int, int]:
    known = [axis for axis in axes if axis is not None and len(axis.replay)]
    return min((axis.low for axis in known), default=0), max((axis.high for axis in known), default=1)


def _limits(axes: Sequence[Axis | None], asked: Asked) -> tuple[int, int]:
    """The window that is asked for; all of it where that is none, or has nothing in it."""
    low, high = _whole(axes)
    first = low if asked.x0 is None else asked.x0
    last = high if asked.x1 is None else asked.x1
    return (first, last) if first < last and first < high and last > low else (low, high)


def side_window(facts: Sequence[Facts | None], asked: Asked, side: int) -> Window | None:
    """The columns in which one side is drawn: a place in the picture lies in one of them. None where nothing is."""
    axes = axes_of(facts, asked)
    axis, one = axes[side], facts[side]
    if axis is None or one is None:
        return None
    found = axis.window(*_limits(axes, asked), _columns(one, asked.view))
    return found if len(found.columns) else None


def _columns(facts: Facts, view: str) -> int:
    if view in STACKINGS:
        return _STACK_COLUMNS
    return remembered(facts, "columns", "", lambda: _band_columns(facts)) if view == "bands" else _LINE_COLUMNS


def _band_columns(facts: Facts) -> int:
    table = facts.replay.allocations
    event = facts.replay.peak("allocated", 0, len(facts.replay))[1]
    live = int(table.allocated_after(event).sum())
    return max(_BAND_COLUMNS // 8, min(_BAND_COLUMNS, _LIVE_CELLS // max(live, 1)))


def over_time(facts: Sequence[Facts | None], asked: Asked) -> OverTime:
    """Base and head in one window: each its own facts, none where there is no such run or rank."""
    axes = axes_of(facts, asked)
    low, high = _limits(axes, asked)
    # a run beside itself is worked out once
    told = 1 if facts[0] is facts[1] else 2
    windows = [side_window(facts, asked, side) for side in range(told)]
    groups = None
    if asked.view in STACKINGS:
        moments = [(one, w.peak_event) for one, w in zip(facts, windows, strict=False) if one is not None and w]
        groups = largest_groups(moments, asked.view, MOST_GROUPS)
    lines = [_lines(one, low, high) for one in axes[:told]]
    top = max((int(line.value_bytes.max(initial=0)) for some in lines for line in some.values()), default=0)
    bottom = asked.y0 if asked.y0 is not None and asked.y0 >= 0 else 0
    ceiling = asked.y1 if asked.y1 is not None else max(1, int(top * (1 + _HEADROOM)))
    heights = (bottom, ceiling) if bottom < ceiling else (0, max(1, int(top * (1 + _HEADROOM))))
    sides = [
        None if one is None or axis is None else _side(one, axis, window, some, groups, asked, ((low, high), heights))
        for one, axis, window, some in zip(facts[:told], axes, windows, lines, strict=False)
    ]
    kind = next((axis.kind for axis in axes if axis is not None), asked.kind)
    return OverTime(kind, _whole(axes), low, high, *heights, groups, (sides[0], sides[-1]))


def _lines(axis: Axis | None, low: int, high: int) -> dict[str, Line]:
    """The curves of a side, as steps from the beginning of its window to its end."""
    if axis is None:
        return {}
    window = axis.window(low, high, _LINE_COLUMNS)
    return {measure: _line(axis, window, measure) for measure in DRAWN} if len(window.columns) else {}


def _line(axis: Axis, window: Window, measure: str) -> Line:
    ends = np.array([axis.event_at(window.low), axis.event_at(window.high - 1)], np.int64)
    before = int(getattr(axis.replay.start, f"{measure}_bytes"))
    found = extremes(axis.replay.curve(measure), window.columns, before)
    events = np.unique(np.concatenate([found, ends]))
    values = values_after(axis.replay, measure, events)
    # what does not change needs no point
    kept = np.flatnonzero(np.append(True, np.diff(values) != 0))
    places = np.maximum(axis.places(events[kept]), float(window.low))
    return Line(np.append(places, float(window.high)), np.append(values[kept], values[-1]))


def _side(
    facts: Facts,
    axis: Axis,
    window: Window | None,
    lines: dict[str, Line],
    groups: Groups | None,
    asked: Asked,
    limits: tuple[tuple[int, int], tuple[int, int]],
) -> Side:
    (low, high), heights = limits
    found = find_text(facts, asked.text)
    nothing = window is None
    window = window or axis.window(low, low, 1)
    since = np.where(found.mask, facts.replay.allocations.alloc_event, len(facts.replay))
    peak = values_after(facts.replay, "allocated", np.array([window.peak_event]))
    narrow = (high - low) * _NARROW
    return Side(
        low=window.low,
        high=window.low if nothing else window.high,
        lines=lines,
        peak_bytes=int(peak[0]),
        peak_event=window.peak_event,
        peak_place=max(axis.place(window.peak_event), float(window.low)),
        edges=np.array(window.edges, np.float64),
        stacked=groups.over(facts, window.columns) if groups is not None else np.zeros((0, 0), np.int64),
        dangling=layer(facts, window.columns, facts.dangling_since),
        hits=layer(facts, window.columns, since),
        hit_count=found.count,
        hit_bytes=found.block_bytes,
        picture=_picture(facts, window, heights, found.mask, bool(asked.text)) if asked.view == "bands" else None,
        spans=phase_spans(facts, axis, low, high, narrow),
        annotations=annotation_marks(facts, axis, low, high),
        ooms=oom_marks(facts, axis, low, high),
    )


def _picture(facts: Facts, window: Window, heights: tuple[int, int], hit: Bool, searched: bool) -> Picture | None:
    columns = window.columns
    low = heights[0]
    high = min(heights[1], int(values_after(facts.replay, "allocated", columns.shown).max(initial=0)))
    if high <= low:
        return None
    found = bands(facts, columns, min(_BAND_ROWS, high - low), low, high)
    codes = _codes(facts, found.allocation, columns.shown, hit if searched else None)
    return Picture(codes, window.low, window.high, low, low + len(codes) * found.row_bytes)


def _codes(facts: Facts, allocation: npt.NDArray[np.int32], shown: Int64, hit: Bool | None) -> UInt8:
    """[R, C] codes of cells."""
    code = remembered(facts, "shades", "", lambda: _shaded(facts))
    if hit is not None:
        code = np.where(np.append(hit, True), code, _dimmed(code, DIMMED))
    # an index of -1, above everything, takes the last
    out: UInt8 = code[allocation]
    if facts.dangling:
        strong = _dimmed(code, DANGLES)
        strong = strong if hit is None else np.where(np.append(hit, True), strong, _dimmed(code, DIMMED_DANGLES))
        dangles = np.append(facts.dangling_since, len(facts.replay))[allocation] <= shown
        out = np.where(dangles, strong[allocation], out)
    edge = _upper_edges(allocation)
    # every kind of code begins at 1 plus a multiple of SHADES
    out[edge] = (out[edge] - 1) // SHADES * SHADES + SHADES
    return out


def _shaded(facts: Facts) -> UInt8:
    """[A + 1] the code of each allocation, then that of nothing."""
    shade = np.resize(np.arange(SHADES - 1, dtype=np.uint8), len(facts.category))
    return np.append(1 + facts.category.astype(np.uint8) * np.uint8(SHADES) + shade, np.uint8(NOTHING))


def _dimmed(code: UInt8, kind: int) -> UInt8:
    """The same shades of another kind; nothing stays nothing."""
    found = np.uint8(kind) + (code - np.uint8(1)) % np.uint8(SHADES)
    found[-1] = NOTHING
    return found


def _upper_edges(allocation: npt.NDArray[np.int32]) -> Bool:
    """[R, C] the uppermost row of every band that is high enough to have an edge."""
    edge = np.zeros(allocation.shape, bool)
    if len(allocation) > _EDGE_ROWS:
        below = allocation[:-_EDGE_ROWS] == allocation[_EDGE_ROWS - 1 : -1]
        edge[_EDGE_ROWS - 1 : -1] = below & (allocation[_EDGE_ROWS - 1 : -1] != allocation[_EDGE_ROWS:])
    return edge & (allocation >= 0)


def peak_groups(facts: Sequence[Facts | None], seen: OverTime) -> tuple[Groups, list[Int64 | None]]:
    """Groups at the peak of each side in the window, and the bytes of each, all others last: by category where the
    view has none. None for a side that has nothing in the window."""
    there = [
        (one, side.peak_event) if one is not None and side is not None and side.high > side.low else None
        for one, side in zip(facts, seen.sides, strict=True)
    ]
    groups = seen.groups or largest_groups([one for one in there if one], "category", len(CATEGORIES))
    return groups, [groups.at(*one) if one else None for one in there]
