"""The parts of the Segments page: pure functions of finished numbers to components and figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import html

from snapviz.analyze.axis import axis_of
from snapviz.analyze.fragmentation import fragmentation_at
from snapviz.analyze.fragmentationparts import Pieces
from snapviz.analyze.segmentblocks import BY, LiveBlock, SegmentFigures, codes_of, dangling_at, lies_at, segments
from snapviz.analyze.segmentmap import ORDERS, bars_of, laid_out, row_bytes_for
from snapviz.app.controls import link, table
from snapviz.app.spaces import Side
from snapviz.app.state import State
from snapviz.report.fragmentationtext import doubts_in_words, parts_in_words, reserved_in_words
from snapviz.report.layout import clean
from snapviz.report.plots.base import Figure
from snapviz.report.plots.freememory import Band, Marks, free_over_time
from snapviz.report.plots.segments import Picked, segment_map
from snapviz.report.segmentwords import (
    block_words,
    group_heads,
    hover_words,
    segment_words,
    when_words,
)
from snapviz.report.words import plural
from snapviz.snapshot.columns import ABSENT
from snapviz.units import format_bytes, format_exact

__all__ = [
    "Name",
    "alone",
    "compared",
    "curve",
    "map_of",
    "phase_table",
    "shared_row_bytes",
    "summary",
    "table_of",
]

_ROWS = 30
"""Rows of a table on the page."""


@dataclass(frozen=True)
class Name:
    """What is picked, as ``State.name`` has it: ``head:12``, ``head:12-40`` pieces, ``head:s3`` a segment."""

    side: str
    first: int
    last: int
    segment: bool

    @classmethod
    def of(cls, text: str) -> Name | None:
        """None where a text names nothing."""
        found = re.fullmatch(r"(base|head):(s?)([0-9]{1,9})(?:-([0-9]{1,9}))?", text)
        if found is None:
            return None
        first = int(found[3])
        return cls(found[1], first, max(first, int(found[4] or first)), bool(found[2]))

    def pieces(self, pieces: Pieces) -> Picked | None:
        """The first and last piece; none where this moment has none such."""
        if not self.segment:
            return Picked(self.first, self.last) if self.last < len(pieces.start) else None
        mine = np.flatnonzero(pieces.segment == self.first)
        return Picked(int(mine[0]), int(mine[-1])) if len(mine) else None


# ------------------------------------------------------------------ in words


def summary(side: Side) -> list[Any]:
    """What a moment is made of, after what its numbers cannot say."""
    moment, facts = side.moment, side.space.facts
    if moment is None:
        return [html.P(f"rank {facts.rank} has no moment {clean(side.wanted.text)}.", className="faint")]
    point = fragmentation_at(side.space, side.wanted, moment)
    doubts = doubts_in_words(facts.replay.consistent, point, side.wanted.measure)
    doubts += [clean(note) for note in facts.notes[:4]]
    parts, total = point.parts, point.parts.reserved_bytes
    when = f"rank {facts.rank}, {when_words(side.space, moment.event)}"
    where = f", in {clean(moment.phase)}" if moment.phase not in (None, "run") else ""
    rows = [
        [words, html.Span(format_bytes(size), title=format_exact(size)), share]
        for _, size, share, words in parts_in_words(point)
    ]
    caption = f"{side.which}: the parts sum to {format_exact(total)}"
    free = total - parts.allocated_bytes - parts.pending_bytes
    largest = max((one.largest_free_bytes for one in point.pools), default=0)
    head = [
        _figure("reserved", total),
        _figure("allocated", parts.allocated_bytes),
        _figure("free", free),
        _figure("largest free block", largest),
        _figure("can be given back", parts.whole_bytes),
    ]
    return [
        *[html.Div(text, className="notice") for text in doubts],
        html.P(f"{when}{where}", className="faint"),
        html.P(reserved_in_words(point)),
        html.Dl(head, className="figures"),
        html.Details(
            [
                html.Summary("reserved memory, every byte of it"),
                table(
                    caption,
                    ("what", "bytes", "of reserved"),
                    rows,
                    (1, 2),
                ),
            ]
        ),
    ]


_COMPARED = (
    ("allocated", ("allocated_bytes",)),
    ("pending", ("pending_bytes",)),
    ("free and cannot be given back", ("busy_bytes", "mostly_free_bytes")),
    ("kept by private pools", ("private_bytes",)),
    ("free and can be given back", ("whole_bytes",)),
    ("unexplained", ("unexplained_bytes",)),
)


def compared(base: Side, head: Side) -> str:
    """What head reserves more or less than base at the moments of both, and what it is: the parts sum to it."""
    assert base.moment is not None
    assert head.moment is not None
    one, two = (fragmentation_at(side.space, side.wanted, side.moment).parts for side in (base, head) if side.moment)
    delta = two.reserved_bytes - one.reserved_bytes
    more = f"{format_bytes(abs(delta))} {'more' if delta > 0 else 'less'} than" if delta else "exactly as much as"
    text = f"{clean(head.name)} reserves {more} {clean(base.name)} {_moment_words(base, head)}"
    text += f" ({format_bytes(two.reserved_bytes)} against {format_bytes(one.reserved_bytes)})" if delta else ""
    parts = [(what, sum(getattr(two, f) - getattr(one, f) for f in fields)) for what, fields in _COMPARED]
    held = [dangling_at(side.space.facts, side.moment.event) for side in (base, head) if side.moment]
    dangling = f" ({format_bytes(held[1] - held[0], signed=True)} of it dangling)" if held[0] != held[1] else ""
    told = [
        f"{format_bytes(size, signed=True)} {what}{dangling if what == 'allocated' else ''}"
        for what, size in parts
        if size
    ]
    return f"{text}: {', '.join(told)}." if told else f"{text}, and every part of it is the same."


def alone(side: Side) -> str:
    """What one run reserves at its moment: the parts sum to it."""
    assert side.moment is not None
    parts = fragmentation_at(side.space, side.wanted, side.moment).parts
    text = f"{clean(side.name)} reserves {format_bytes(parts.reserved_bytes)} {clean(side.wanted.title)}"
    told = [(what, sum(getattr(parts, field) for field in fields)) for what, fields in _COMPARED]
    said = ", ".join(f"{format_bytes(size)} {what}" for what, size in told if size)
    return f"{text}: {said}." if said else f"{text}."


def _moment_words(base: Side, head: Side) -> str:
    return clean(head.wanted.title) if base.wanted.text == head.wanted.text else "at these two moments"


def _figure(what: str, size: int) -> Any:
    return html.Div([html.Dt(what), html.Dd(format_bytes(size), title=format_exact(size))])


# ------------------------------------------------------------------ figures


def curve(side: Side, axis: str, top_bytes: int, window: tuple[float, float] | None = None) -> Figure:
    """Free memory over a run, or over a window of it, with where the moment is."""
    space, replay = side.space, side.space.facts.replay
    timed = axis == "time" and replay.has_times and replay.time_us.max() > replay.time_us[0]
    rising = np.maximum.accumulate(replay.time_us) if timed else replay.time_us
    zero = int(rising[0]) if timed else 0

    def place(event: Any) -> Any:
        at = np.asarray(event, np.int64)
        return (rising[np.maximum(at, 0)] - zero) / 1e6 if timed else at.astype(np.float64)

    along = axis_of(space.facts, "time" if timed else "event")
    first, stop = 0, len(replay)
    if window is not None:
        edges = np.array(window) * 1e6 + zero if timed else np.array(window)
        first, stop = (int(e) for e in (np.searchsorted(rising, edges) if timed else np.clip(edges, 0, stop)))
    found = space.layers(first=first, stop=max(stop, first))
    ooms = space.ooms[-200:]
    shown = place(found.event)
    unit = 1e6 if timed else 1.0
    marks = Marks(
        axis={"ticksuffix": " s"} if timed else {"tickprefix": "event ", "showtickprefix": "first", "tickformat": ",d"},
        place=shown,
        bands=tuple(
            Band(span.name, span.low / unit, span.high / unit, span.count)
            for span in space.bands(along, shown[0] * unit, shown[-1] * unit)
        ),
        cursor=float(place(side.moment.event)) if side.moment is not None else None,
        ooms=tuple((int(e), float(place(e)), int(replay.reserved_bytes[e])) for e in ooms),
    )
    return free_over_time(found, marks, top_bytes)


def phase_table(side: Side, state: State, prefix: str) -> Any:
    """Free memory over the folded phases; each goes to where most of it could not be used."""
    cursor = "bt" if side.which == "base" else "ht"
    found = side.space.phases
    rows: list[list[Any]] = []
    for one in found[:_ROWS]:
        times = f" ×{one.times}" if one.times > 1 else ""
        name = f"{'' if one.whole else '≥ '}{clean(one.phase)}{times}"
        sizes = (one.reserved_peak_bytes, one.held_free_bytes, one.lowest_largest_bytes, one.grown_bytes)
        there = state.with_(**{cursor: one.held_free_event, "name": None})
        rows.append([link(name, there, prefix), *(html.Span(format_bytes(s), title=format_exact(s)) for s in sizes)])
    if len(found) > _ROWS:
        rows.append([f"{len(found) - _ROWS:,} more phases", "", "", "", ""])
    head = ("phase", "reserved peak", "held free, most", "largest free block, least", "large segments grew by")
    return table(
        f"{side.which}: free memory by phase; a phase leads to the event at which most is held free",
        head,
        rows,
        (1, 2, 3, 4),
    )


def map_of(side: Side, state: State, row_bytes: int, name: Name | None) -> tuple[Figure, str]:
    """The segments of a moment, and in words what is in the picture."""
    assert side.moment is not None
    facts, pieces = side.space.facts, side.space.pieces(side.moment.event)
    codes = codes_of(facts, pieces, state.by if state.by in BY else BY[0])
    layout = laid_out(pieces, row_bytes, state.view if state.view in ORDERS else ORDERS[0])
    bars = bars_of(pieces, layout, codes.code)
    picked = name.pieces(pieces) if name is not None else None
    drawn = segment_map(
        bars, layout, codes, group_heads(side.space, pieces, layout), hover_words(facts, pieces, bars), picked
    )
    words = f"{plural(len(pieces.table), 'segment')} in {format_bytes(int(pieces.table.size_bytes.sum()))}, "
    words += f"{plural(len(pieces.start), 'piece')}; a row is {format_bytes(row_bytes)}"
    if len(bars) < len(pieces.start):
        words += ". What is smaller than a pixel is drawn together with its neighbours: click to list it"
    if layout.more:
        words += f". {plural(layout.more, 'more segment')} with {format_bytes(layout.more_bytes)} have no room here"
    return drawn, words


def shared_row_bytes(sides: list[Side]) -> int:
    """Bytes of a row that suit both runs, so that they can be compared by eye."""
    moments = [(side.space, side.moment) for side in sides if side.moment is not None]
    return max((row_bytes_for(space.pieces(moment.event)) for space, moment in moments), default=1)


# ------------------------------------------------------------------ the table


def table_of(side: Side, state: State, prefix: str) -> Any:
    """The segments of a moment in figures, as the picture has them in order."""
    assert side.moment is not None
    facts, pieces = side.space.facts, side.space.pieces(side.moment.event)
    figures = segments(pieces)
    order = {"free": -(figures.busy_bytes + figures.mostly_free_bytes), "address": np.arange(len(pieces.table))}
    ordered = np.argsort(order.get(state.view, -figures.size_bytes), kind="stable")
    rows = [
        _segment_row(side, pieces, figures, int(g), link(f"#{g}", state.with_(name=f"{side.which}:s{g}"), prefix))
        for g in ordered[:_ROWS]
    ]
    rest = ordered[_ROWS:]
    if len(rest):
        rows.append([f"{len(rest):,} more", "", *_sizes(figures, rest), ""])
    caption = f"{side.which}: segments of rank {facts.rank}"
    head = ("segment", "pool", "size", "allocated", "free", "largest free", "blocks", "largest live block in it")
    return table(caption, head, rows, (2, 3, 4, 5, 6))


def _segment_row(side: Side, pieces: Pieces, figures: SegmentFigures, segment: int, name: Any) -> list[Any]:
    one = np.array([segment])
    largest = int(figures.largest[segment])
    block = int(np.searchsorted(pieces.start, _address(side, largest))) if largest != ABSENT else ABSENT
    found = lies_at(side.space, pieces, block) if block != ABSENT else None
    pinned = "pinned by " if figures.mostly_free_bytes[segment] else ""
    words = f"{pinned}{block_words(found)}" if isinstance(found, LiveBlock) else "nothing"
    return [name, segment_words(side.space, pieces, segment), *_sizes(figures, one), words]


def _address(side: Side, allocation: int) -> int:
    return int(side.space.facts.replay.allocations.address[allocation])


def _sizes(figures: SegmentFigures, some: Any) -> list[Any]:
    sums = [int(values[some].sum()) for values in (figures.size_bytes, figures.allocated_bytes, figures.free_bytes)]
    sums.append(int(figures.largest_free_bytes[some].max()))
    return [
        *(html.Span(format_bytes(size), title=format_exact(size)) for size in sums),
        f"{int(figures.blocks[some].sum()):,}",
    ]
