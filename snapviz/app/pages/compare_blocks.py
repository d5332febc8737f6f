"""A report's blocks (``report.blocks``) as components: text is text, whatever a file put into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import html

from snapviz.app import controls
from snapviz.report.blocks import (
    Amount,
    Block,
    Bullets,
    Details,
    Figure,
    Folded,
    Heading,
    Inline,
    Link,
    Paragraph,
    Table,
    Warnings,
    prose,
)
from snapviz.report.layout import Span
from snapviz.units import format_exact

__all__ = ["amount_of", "blocks_of", "spans_of"]


def blocks_of(blocks: Iterable[Block]) -> list[Any]:
    """Blocks one after another; drawings are left out, what stands beside them is not."""
    return [part for block in blocks for part in _block(block)]


def _block(block: Block) -> list[Any]:
    found: list[Any]
    match block:
        case Heading():
            found = [html.H3(spans_of(block.text))]
        case Paragraph():
            found = [html.P(spans_of(block.text), className=block.style)]
        case Bullets():
            found = [html.Ul([html.Li(spans_of(item)) for item in block.items])]
        case Warnings():
            said = html.Ul([html.Li(spans_of(item)) for item in block.items])
            found = [controls.notice(said, grave=block.grave)]
        case Table():
            found = _table(block)
        case Details():
            found = [html.Details([html.Summary(spans_of(block.summary)), *blocks_of(block.blocks)])]
        case Figure():
            found = blocks_of(block.beside)
    return found


def _table(block: Table) -> list[Any]:
    if not block.rows:
        return []
    numbers = [at for at, column in enumerate(block.columns) if column.number]
    heads = [column.heading for column in block.columns]
    rows = [[spans_of(cell) for cell in row] for row in block.rows]
    note = [html.P(spans_of(block.note), className="faint")] if block.note else []
    return [controls.table(block.caption, heads, rows, numbers), *note]


def spans_of(spans: Inline | str) -> list[Any]:
    """Spans on one line; a plain text is taken for prose."""
    return [_span(span) for span in (prose(spans) if isinstance(spans, str) else spans)]


def _span(span: Span) -> Any:
    text = span.text or "(empty)" * (span.style == "code")
    match span:
        case Link():
            exact = {"title": format_exact(span.count)} if span.count is not None else {}
            return html.A(_styled(span.style, text or "open"), href=span.url, className="spa", **exact)
        case Folded() if span.lines:
            lines: Sequence[Any] = [html.Li(html.Code(line)) for line in span.lines]
            return html.Details([html.Summary(html.Code(text)), html.Ol(lines)], className="stack")
        case Amount():
            return html.Span(text, title=format_exact(span.count), className=span.style)
    return _styled(span.style, text)


def _styled(style: str, text: str) -> Any:
    if style == "code":
        return html.Code(text)
    if style == "strong":
        return html.Strong(text)
    return html.Span(text, className=style) if style else text


def amount_of(text: str, count: int, style: str = "") -> Any:
    """A rounded number of bytes with the exact one in its tooltip."""
    return html.Span(text, title=format_exact(count), className=style)
