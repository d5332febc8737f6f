"""Bytes as cells of tables and parts of sentences: rounded to read, exact where a pointer or a reader rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from snapviz.report.layout import clean
from snapviz.report.plots.icicle import signed_arrow
from snapviz.units import format_bytes, format_exact

__all__ = ["amount", "counts", "delta", "exactly", "frames", "name"]


def amount(count: int) -> Any:
    """``4.00 MiB``, with every byte in its title; nothing is a dash."""
    if not count:
        return html.Span("–", className="faint", title="0 bytes")
    return html.Span(format_bytes(count), title=format_exact(count))


def exactly(count: int) -> Any:
    """``4.00 MiB (4,194,304 bytes)``."""
    return html.Span([format_bytes(count), html.Span(f" ({format_exact(count)})", className="faint")])


def delta(count: int) -> Any:
    """``▲ +4.00 MiB`` in its colour, with every byte in its title."""
    style = "more" if count > 0 else "less" if count < 0 else "faint"
    return html.Span(signed_arrow(count), className=style, title=format_exact(count, signed=True))


def counts(base: int, head: int) -> str:
    """``0 → 8`` allocations, or ``8`` where it is the same."""
    return f"{head:,}" if base == head else f"{base:,} → {head:,}"


def name(text: str) -> Any:
    """A name from a file."""
    return html.Code(clean(text))


def frames(lines: Sequence[str], most: int = 60) -> Any:
    """A stack, innermost first, one frame a line."""
    if not lines:
        return html.P("no stack: another thread, or memory from before the recording", className="faint")
    more = [f"… {len(lines) - most:,} more frames"] if len(lines) > most else []
    return html.Pre("\n".join([*map(clean, lines[:most]), *more]), className="stack", tabIndex=0)
