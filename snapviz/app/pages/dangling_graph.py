"""The graph of holders as a drawing of boxes and arrows that is text: it can be read out, copied and printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from snapviz.report.layout import clean, cut
from snapviz.report.plots.holders import HolderNode, holder_graph
from snapviz.report.words import fold_names, plural
from snapviz.schema import UNEXPLAINED, Dangling
from snapviz.units import format_bytes, format_exact

__all__ = ["graph"]

_LONGEST = 90
_CHILDREN = 24
_NAMES = 3
_DEEPEST = 60
"""Levels that are drawn: a path has at most 40 hops."""


def graph(found: Sequence[Dangling]) -> Any:
    """From names in the program to the tensors: who holds them."""
    drawn = holder_graph(found)
    if not drawn.roots:
        return html.P(
            f"No holder of {'it' if len(found) == 1 else 'them'} is known: the recorder did not look, or found none.",
            className="faint",
        )
    said = []
    if drawn.more:
        said.append(f"{plural(drawn.more, 'more way')} in which some of them are held.")
    if drawn.unheld:
        said.append(f"Of {plural(len(drawn.unheld), 'parameter')} no holder is known.")
    return html.Div(
        [
            html.Ul([_item(root, 0) for root in drawn.roots], className="holders"),
            *(html.P(text, className="faint") for text in said),
        ],
        className="scroll",
        tabIndex=0,
        role="region",
        **{"aria-label": "who holds it: paths of references from a name in the program to the tensor"},
    )


def _item(node: HolderNode, level: int) -> Any:
    parts: list[Any] = []
    if node.edge:
        said = "is a" if node.edge == "is" else html.Code(cut(node.edge, _LONGEST))
        parts.append(html.Span(said, className="edge", title=node.edge))
    parts.append(_tensors(node) if node.is_leaf else _holder(node, root=level == 0))
    if node.children and level < _DEEPEST:
        below = [_item(child, level + 1) for child in node.children[:_CHILDREN]]
        parts.append(html.Ul(below))
    return html.Li(parts)


def _holder(node: HolderNode, root: bool) -> Any:
    lines = [html.Code(cut(node.what, _LONGEST) or "…", className="what")]
    lines += [html.Span(cut(node.where, _LONGEST), className="where")] if node.where else []
    if root:
        kind = "nobody can explain it" if node.kind == UNEXPLAINED else node.kind.replace("_", " ")
        lines += [html.Span(clean(kind), className="kind")] if kind else []
    if root or len(node.children) > 1:
        lines.append(html.Span(_held(node), className="where", title=format_exact(node.block_bytes)))
    return html.Div(lines, className="hop root" if root else "hop")


def _held(node: HolderNode) -> str:
    return f"{plural(node.parameters, 'parameter')}, {format_bytes(node.block_bytes)}"


def _tensors(node: HolderNode) -> Any:
    labels = [label for label, _ in fold_names(node.names)]
    shown = [html.Code(cut(clean(label), _LONGEST), className="what") for label in labels[:_NAMES]]
    more = [html.Span(f"and {len(labels) - _NAMES:,} more kinds", className="where")] if len(labels) > _NAMES else []
    amount = format_bytes(node.block_bytes) if len(node.names) == 1 else _held(node)
    size = html.Span(amount, className="where", title=format_exact(node.block_bytes))
    return html.Div([*shown, *more, size], className="hop tensor")
