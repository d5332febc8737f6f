"""What pins mostly free memory, as lines of a report."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.report.layout import Line, Span, clean, line, pad, wrapped
from snapviz.report.words import frames_in_words, plural
from snapviz.schema import FragmentationPoint, Pin, Pinner
from snapviz.units import format_bytes

__all__ = ["pin_lines", "pinner_words", "pins_in_lines"]

_ROOM = 12
_TOLD = 2
"""Kinds of blocks that are told of one row."""


def pin_lines(point: FragmentationPoint, width: int, top: int) -> list[Line]:
    """What pins mostly free memory at a moment, ``top`` rows of it; none where nothing is mostly free."""
    if point.parts.mostly_free_bytes == 0:
        return []
    size = format_bytes(point.parts.mostly_free_bytes)
    lines = [line(), *wrapped(f"what pins the {size} in what is mostly free", width, style="strong")]
    lines += pins_in_lines(point.pins[:top], width)
    rest, count = point.pins[top:], point.more_pins
    freed = sum(one.freed_bytes for one in rest) + point.more_pins_bytes
    if freed:
        pieces = sum(one.pieces for one in rest) + count
        lines.append(line(pad(format_bytes(freed), _ROOM, right=True), f"  in {pieces:,} more"))
    return lines


def pins_in_lines(pins: Sequence[Pin], width: int) -> list[Line]:
    """A row for each, and below it which blocks hold it."""
    lines: list[Line] = []
    for one in pins:
        kind = "page" if one.expandable else "segment"
        where = f"{plural(one.pieces, kind)} of {format_bytes(one.piece_bytes)}{' in all' * (one.pieces > 1)}"
        where += "" if one.pool == "default" else f", {clean(one.pool)}"
        text = f"free in {where}, pinned by {format_bytes(one.pinned_bytes)} ({plural(one.pinned_blocks, 'block')})"
        lines += _hung(format_bytes(one.freed_bytes), text, width)
        for pinner in one.pinners[:_TOLD]:
            told = f"{format_bytes(pinner.block_bytes)} " * (len(one.pinners) > 1) + pinner_words(pinner)
            lines += [[Span(" " * (_ROOM + 2)), *rest] for rest in wrapped(told, width - _ROOM - 2, "", "  ")]
            frames = frames_in_words(pinner.stack, None, width - _ROOM - 4)
            lines.append(line(" " * (_ROOM + 4), Span(frames, "faint")))
        if len(one.pinners) > _TOLD:
            rest = one.pinned_bytes - sum(pinner.block_bytes for pinner in one.pinners[:_TOLD])
            lines.append(line(" " * (_ROOM + 2), f"and {format_bytes(rest)} of other kinds"))
    return lines


def _hung(amount: str, text: str, width: int) -> list[Line]:
    rows = wrapped(text, width - _ROOM - 2, "", "  ")
    starts = [pad(amount, _ROOM, right=True) + "  ", *[" " * (_ROOM + 2)] * (len(rows) - 1)]
    return [[Span(start), *row] for start, row in zip(starts, rows, strict=True)]


def pinner_words(one: Pinner) -> str:
    """A kind of blocks: ``activation layers.3.mlp · born train/step0/forward``."""
    what = "unknown purpose" if one.category == "unknown" else one.category
    name = one.owner or one.module
    parts = [f"{what} {name}".strip(), plural(one.blocks, "block"), f"born {one.birth_phase}"]
    parts += ["freed, pending"] if one.pending else []
    parts += [one.why] if one.why else []
    return clean(" · ".join(parts))
