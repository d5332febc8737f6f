"""What pages are put together from: controls that stand in the URL, links that keep the state, charts and tables.

A control has the id ``{"type": "ctl", "key": KEY}``; ``assets/url.js`` keeps it and the key of the query the same, both
ways. Its default is ``""``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html, set_props

from snapviz.app.state import State

__all__ = [
    "Option",
    "chart",
    "choices",
    "data_of",
    "link",
    "notice",
    "search",
    "segmented",
    "select",
    "switch",
    "table",
]

Option = tuple[str, str]
"""Value and label."""

_GRAPH = {
    "displaylogo": False,
    "responsive": True,
    "scrollZoom": False,
    "displayModeBar": False,
    # plotly's own buttons for its cloud never show, and nothing is asked of it
    "plotlyServerURL": "",
    "showTips": False,
}


def _id(key: str) -> dict[str, str]:
    return {"type": "ctl", "key": key}


def data_of(options: Iterable[Option]) -> list[dict[str, str]]:
    """Options as Mantine's components take them."""
    return [{"value": value, "label": text} for value, text in options]


def select(key: str, label: str, options: Sequence[Option], value: str = "", **more: Any) -> Any:
    """A choice among many, with search among them."""
    return dmc.Select(
        id=_id(key),
        label=label,
        data=data_of(options),
        value=value,
        allowDeselect=False,
        searchable=len(options) > 7,
        nothingFoundMessage="nothing like that",
        size="xs",
        comboboxProps={"withinPortal": True},
        **more,
    )


def choices(key: str, options: Sequence[Option]) -> None:
    """Within a callback: gives a ``select`` other options. Several pages may have one of a key: none owns it."""
    set_props(_id(key), {"data": data_of(options)})


def segmented(key: str, label: str, options: Sequence[Option], value: str = "") -> Any:
    """A choice among few, all of them seen."""
    control = dmc.SegmentedControl(id=_id(key), data=data_of(options), value=value, size="xs")
    return html.Div(
        [html.Div(label, className="control-label", **{"aria-hidden": "true"}), control],
        className="control",
        role="group",
        **{"aria-label": label},
    )


def search(key: str, label: str, value: str = "", placeholder: str = "") -> Any:
    """A text to look for, as it stands; ``/`` goes there."""
    return dmc.TextInput(
        id=_id(key),
        label=label,
        value=value,
        placeholder=placeholder,
        debounce=350,
        size="xs",
        className="search-input",
        rightSection=dmc.Kbd("/", size="xs"),
    )


def switch(key: str, label: str, on: str, value: str = "") -> Any:
    """On or off: the key's value is ``on`` or nothing."""
    return segmented(key, label, [("", "off"), (on, "on")], value)


def link(text: Any, state: State, prefix: str = "", **more: Any) -> Any:
    """A link to another state: one that can be copied, opened beside, and sent to somebody."""
    classes = f"spa {more.pop('className', '')}".strip()
    return html.A(text, href=state.url(prefix), className=classes, **more)


def notice(*content: Any, grave: bool = False, title: str = "") -> Any:
    """What has to be read before the numbers below it."""
    head = [html.Strong(f"{title} ")] if title else []
    return html.Div([*head, *content], className=f"notice{' grave' if grave else ''}")


def chart(chart_id: str, label: str, figure: Any = None, table: Any = None, **more: Any) -> Any:
    """A chart with its accessible name, its table, and its export as PNG and SVG.

    ``more``: ``height`` in pixels, ``zoomable`` (keys W A S D F), ``className``, ``config`` of plotly.
    """
    zoomable = bool(more.pop("zoomable", False))
    classes = f"chart {'zoomable ' if zoomable else ''}{more.pop('className', '')}".strip()
    graph = dcc.Graph(
        id=chart_id,
        figure=figure if figure is not None else {"data": [], "layout": _EMPTY},
        config=_GRAPH | more.pop("config", {}),
        style={"height": f"{more.pop('height', 320)}px"},
        responsive=True,
    )
    assert not more, more
    buttons = html.Div(
        [
            html.Button(
                kind.upper(),
                className=f"export-{kind}",
                type="button",
                title=f"save “{label}” as {kind.upper()}",
                **{"data-chart": chart_id, "aria-label": f"save {label} as {kind.upper()}"},
            )
            for kind in ("png", "svg")
        ],
        className="chart-buttons no-print",
    )
    below = [html.Details([html.Summary("as a table"), table], className="chart-table")] if table is not None else []
    drawing = html.Div(graph, role="img", tabIndex=0 if zoomable else None, **{"aria-label": label})
    return html.Figure([buttons, drawing, *below], className=classes)


_EMPTY = {"xaxis": {"visible": False}, "yaxis": {"visible": False}, "paper_bgcolor": "rgba(0,0,0,0)"}


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> Any:
    """A plain table; columns ``numbers`` are set to the right."""
    style = ["number" if at in numbers else "" for at in range(len(head))]
    return html.Div(
        html.Table(
            [
                html.Caption(caption),
                html.Thead(html.Tr([html.Th(text, scope="col", className=style[i]) for i, text in enumerate(head)])),
                html.Tbody([html.Tr([_cell(cell, style[i]) for i, cell in enumerate(row)]) for row in rows]),
            ]
        ),
        className="scroll",
        tabIndex=0,
        role="region",
        **{"aria-label": caption},
    )


def _cell(content: Any, style: str) -> Any:
    """A cell, which is what a span alone in it would be: the browser has half as many components to look after."""
    known = content.to_plotly_json()["props"] if isinstance(content, html.Span) else {}
    if isinstance(known.get("children"), str) and known.keys() <= {"children", "title", "className"}:
        classes = f"{style} {known.get('className', '')}".strip()
        return html.Td(**known | {"className": classes})
    return html.Td(content, className=style)
