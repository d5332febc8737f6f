"""What is picked on the page of segments: an allocation, free memory and who keeps it, or a whole segment."""

from __future__ import annotations

from typing import Any

from dash import html

from snapviz.analyze.fragmentationparts import Pieces
from snapviz.analyze.segmentblocks import BY, FreePlace, LiveBlock, codes_of, lies_at
from snapviz.analyze.segmentmap import bars_of, laid_out
from snapviz.app.controls import chart, link, table
from snapviz.app.segmentviews import Name
from snapviz.app.spaces import Side
from snapviz.app.state import State
from snapviz.report.layout import clean
from snapviz.report.plots.segments import Picked, segment_map
from snapviz.report.segmentwords import block_words, free_words, hover_words, segment_words, stack_words, when_words
from snapviz.report.words import plural
from snapviz.units import format_bytes, format_exact

__all__ = ["lies"]

_ROWS = 60
"""Rows of a table on the page."""
_NEAR = 12
"""Frames of a stack that are open to the eye; the others below them."""
_LENS_ROWS = 14
"""Rows that one segment has in a picture of its own, at most."""
_LENS_PIECES = 60
"""Pieces that a row of it has room for."""


def lies(side: Side, name: Name, state: State, prefix: str) -> list[Any]:
    """What is picked."""
    assert side.moment is not None
    pieces = side.space.pieces(side.moment.event)
    picked = name.pieces(pieces)
    if picked is None:
        return [html.P("What was picked is not there at this moment.", className="faint")]
    close = link("close", state.with_(name=None), prefix, className="close")
    if picked.first != picked.last:
        return [close, *_several(side, pieces, picked, name, state, prefix)]
    found = lies_at(side.space, pieces, picked.first)
    if isinstance(found, LiveBlock):
        return [close, *_live(side, pieces, found), *_held(side, found, state, prefix)]
    segment = segment_words(side.space, pieces, found.segment)
    rows = [
        ("bytes", _both(found.size_bytes)),
        ("segment", f"#{found.segment}: {segment}, {format_bytes(int(pieces.table.size_bytes[found.segment]))}"),
        ("offset in it", _both(found.offset_bytes)),
    ]
    if found.block_bytes != found.size_bytes:
        rows.append(("part of a free block of", _both(found.block_bytes)))
    rows += [(way, block_words(one) if one else "the segment's edge") for way, one in _neighbours(found)]
    out = [close, html.H3(f"{format_bytes(found.size_bytes)} {free_words(found)}"), _list(rows)]
    if found.holder_count:
        unit = "page" if found.paged else "segment"
        said = f"{format_bytes(found.unit_free_bytes)} of this {unit} of {format_bytes(found.unit_bytes)} is free. "
        said += f"{plural(found.holder_count, 'block')} with {format_bytes(found.holder_bytes)} in it "
        said += "keep it from being given back:" if found.holder_count > 1 else "keeps it from being given back:"
        out += [html.P(said), html.Ul([html.Li(_holder(one)) for one in found.holders])]
    return out


def _neighbours(found: FreePlace) -> tuple[tuple[str, LiveBlock | None], ...]:
    return ("before it", found.before), ("after it", found.after)


def _holder(one: LiveBlock) -> list[Any]:
    return [block_words(one), html.Div(stack_words(one), className="faint mono")]


def _both(size: int) -> str:
    exact = format_exact(size)
    return exact if size < 1024 else f"{format_bytes(size)} ({exact})"


def _list(rows: list[tuple[str, Any]]) -> Any:
    return html.Dl([each for what, value in rows for each in (html.Dt(what), html.Dd(value))], className="facts")


def _live(side: Side, pieces: Pieces, one: LiveBlock) -> list[Any]:
    rows: list[tuple[str, Any]] = [
        ("bytes", _both(one.block_bytes)),
        ("asked for", format_exact(one.requested_bytes) + (" (the block may be larger)" if one.estimated else "")),
        ("owner", clean(one.owner) or "not known"),
        ("category", f"{one.category} ({one.evidence}{f': {clean(one.why)}' if one.why else ''})"),
        ("module", clean(one.module) or "not known"),
        ("born", _born(side, one)),
        ("freed", when_words(side.space, one.free_event) + (", and still held back" if one.pending else "")),
        ("segment", f"#{one.segment}: {segment_words(side.space, pieces, one.segment)}"),
        ("its stream", f"{int(pieces.table.stream[one.segment]):x}"),
        ("offset in it", _both(one.offset_bytes)),
    ]
    frames = [html.Li(clean(text)) for text in one.stack]
    stack: list[Any] = [html.Ol(frames[:_NEAR], className="stack mono")] if frames else [html.P("no stack is recorded")]
    if len(frames) > _NEAR:
        more = html.Summary(f"{len(frames) - _NEAR} more frames")
        stack.append(html.Details([more, html.Ol(frames[_NEAR:], className="stack mono", start=_NEAR + 1)]))
    words = "dangling" if one.dangling else ""
    return [html.H3(block_words(one), className=words), _list(rows), *stack]


def _born(side: Side, one: LiveBlock) -> str:
    when = when_words(side.space, one.alloc_event)
    return when if one.alloc_event < 0 else f"{clean(one.birth_phase)}, {when}"


def _held(side: Side, one: LiveBlock, state: State, prefix: str) -> list[Any]:
    """Who keeps what dangles, and the way to all that is known of it."""
    if not one.dangling:
        return []
    holders = next((each.holders for each in side.space.facts.dangling if each.allocation == one.allocation), ())
    told = [html.Li(clean(text), className="mono") for text in holders[:3]]
    there = link("what dangles", State(page="dangling").with_(base=state.base, head=state.head), prefix)
    return [html.P(["kept by" if told else "nobody looked who keeps it", " · ", there]), html.Ul(told)]


def _several(side: Side, pieces: Pieces, picked: Picked, name: Name, state: State, prefix: str) -> list[Any]:
    """Pieces that are drawn as one, or those of a segment, one by one."""
    segment = int(pieces.segment[picked.first])
    head = segment_words(side.space, pieces, segment)
    count = picked.last - picked.first + 1
    size = int(pieces.size_bytes[picked.first : picked.last + 1].sum())
    title = f"segment #{segment}: {head}" if name.segment else f"{plural(count, 'piece')} of segment #{segment}"
    rows = []
    for at in range(picked.first, min(picked.last + 1, picked.first + _ROWS)):
        found = lies_at(side.space, pieces, at)
        words = block_words(found) if isinstance(found, LiveBlock) else free_words(found)
        offset = f"{int(pieces.start[at] - pieces.table.address[segment]):,}"
        rows.append([link(words, state.with_(name=f"{name.side}:{at}"), prefix), offset, f"{pieces.size_bytes[at]:,}"])
    if count > _ROWS:
        rest = int(pieces.size_bytes[picked.first + _ROWS : picked.last + 1].sum())
        rows.append([f"{count - _ROWS:,} more", "", f"{rest:,}"])
    caption = f"{format_exact(size)} in {plural(count, 'piece')}, by address"
    lens = _lens(side, state, segment, picked, name.side)
    return [html.H3(title), lens, table(caption, ("what", "offset", "bytes"), rows, (1, 2))]


def _lens(side: Side, state: State, segment: int, picked: Picked, which: str) -> Any:
    """One segment in a picture of its own, with room for its smallest blocks."""
    assert side.moment is not None
    facts, pieces = side.space.facts, side.space.pieces(side.moment.event)
    codes = codes_of(facts, pieces, state.by if state.by in BY else BY[0])
    count, size = int((pieces.segment == segment).sum()), int(pieces.table.size_bytes[segment])
    row_bytes = -(-size // max(2, min(_LENS_ROWS, count // _LENS_PIECES)))
    layout = laid_out(pieces, row_bytes, only=segment)
    bars = bars_of(pieces, layout, codes.code)
    figure = segment_map(bars, layout, codes, [], hover_words(facts, pieces, bars), picked)
    label = f"segment #{segment} of {which}, by address"
    return chart(f"seg-lens-{which}", label, figure, height=figure["layout"]["height"], className="tall")
