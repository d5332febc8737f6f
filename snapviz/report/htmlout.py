"""Blocks as HTML: text is escaped wherever it comes from, and no markup is ever taken from it."""

from __future__ import annotations

import html
from collections.abc import Iterable

from snapviz.report.blocks import (
    Amount,
    Block,
    Bullets,
    Details,
    Drawing,
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
from snapviz.report.layout import Column, Span
from snapviz.units import format_exact

__all__ = ["element", "elements", "inline"]


def elements(blocks: Iterable[Block]) -> str:
    """Blocks one after another."""
    return "\n".join(map(element, blocks))


def element(block: Block) -> str:
    """One block."""
    match block:
        case Heading():
            text = f"<h{block.level}>{inline(block.text)}</h{block.level}>"
        case Paragraph():
            text = f"<p{_class(block.style)}>{inline(block.text)}</p>"
        case Bullets():
            text = f"<ul>{_items(block.items)}</ul>"
        case Warnings():
            kind, title = ("grave", "not in these numbers") if block.grave else ("note", "before the numbers")
            text = f'<div class="warning {kind}" role="note" aria-label="{title}"><ul>{_items(block.items)}</ul></div>'
        case Table():
            text = _table(block)
        case Details():
            text = f"<details><summary>{inline(block.summary)}</summary>\n{elements(block.blocks)}\n</details>"
        case Figure():
            text = _figure(block)
    return text


def inline(spans: Inline) -> str:
    """Spans on one line."""
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    text = html.escape(span.text)
    match span:
        case Drawing():
            return span.svg
        case Folded() if span.lines:
            lines = "".join(f"<li><code>{html.escape(line)}</code></li>" for line in span.lines)
            return f'<details class="stack"><summary><code>{text}</code></summary><ol>{lines}</ol></details>'
        case Link():
            title = f' title="{format_exact(span.count)}"' if span.count is not None else ""
            return f'<a href="{html.escape(span.url)}"{title}>{_styled(span.style, text or "open")}</a>'
        case Amount():
            exact = f'value="{span.count}" title="{format_exact(span.count)}"'
            return f"<data {exact}{_class(span.style)}>{text}</data>"
    return _styled(span.style, text or "(empty)" * (span.style == "code"))


def _styled(style: str, text: str) -> str:
    if style == "code":
        return f"<code>{text}</code>"
    if style == "strong":
        return f"<strong>{text}</strong>"
    return f"<span{_class(style)}>{text}</span>" if style else text


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""


def _items(items: Iterable[Inline]) -> str:
    return "".join(f"<li>{inline(item)}</li>" for item in items)


def _table(block: Table) -> str:
    """A table that scrolls by itself where the page is narrow, and can be scrolled with keys."""
    if not block.rows:
        return ""
    caption = inline(prose(block.caption))
    head = "".join(_heading(column) for column in block.columns)
    body = "\n".join(_row(row, block.columns) for row in block.rows)
    name = html.escape(block.caption, quote=True)
    note = f'\n<p class="faint">{inline(block.note)}</p>' if block.note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">\n<table><caption>{caption}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{note}"
    )


def _heading(column: Column) -> str:
    text = inline(prose(column.heading))
    # a heading without words heads nothing
    return f'<th scope="col"{_class("number" * column.number)}>{text}</th>' if text else "<td></td>"


def _row(cells: Iterable[Inline], columns: Iterable[Column]) -> str:
    out = []
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        text = inline(cell)
        tag = 'th scope="row"' if not place and not column.number and text else "td"
        out.append(f"<{tag}{_class('number' * column.number)}>{text}</{tag[:2]}>")
    return f"<tr>{''.join(out)}</tr>"


def _figure(block: Figure) -> str:
    caption = f"<figcaption>{inline(block.caption)}</figcaption>" if block.caption else ""
    figure = f'<figure><div class="drawing" tabindex="0">{block.svg}</div>{caption}</figure>'
    beside = elements(block.beside)
    return f'<div class="beside">{figure}\n<div>{beside}</div></div>' if beside else figure
