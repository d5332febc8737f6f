"""What is live at a moment, and where it came from: base, head and their difference as an icicle and a table."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update
from dash import State as Given

from snapviz.app import controls
from snapviz.app.pages.live_look import Looks
from snapviz.app.pages.live_parts import above, as_table, at_options, below, trail
from snapviz.app.results import Results
from snapviz.app.sides import rank_options
from snapviz.app.state import State
from snapviz.report.plots.icicle import icicle

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "live", "/live", "Live"

_BY = (("", "stack"), ("module", "module"), ("category", "category → owner"))
_LAYERS = (("", "together"), ("each", "each"))
_VIEWS = (("", "difference"), ("changes", "only changes"), ("base", "base"), ("head", "head"))
_MEASURES = (("allocated", "allocated"), ("requested", "requested"), ("active", "active"), ("reserved", "reserved"))


def layout(state: State, results: Results) -> Any:
    """The page before its numbers are there."""
    return html.Div(
        [
            html.Div(id="live-above"),
            html.Div(
                [
                    controls.select("at", "moment", _with(state.at, [("", "peak of the run")]), state.at, w=230),
                    controls.select("rank", "rank", [("", "…")], "", w=175),
                    controls.select("measure", "bytes", _MEASURES, state.measure, w=120),
                    controls.segmented("by", "group by", _BY, state.by),
                    controls.segmented("show", "layers", _LAYERS, state.show),
                    html.Div(
                        controls.segmented("view", "draw", _VIEWS, state.view),
                        id="live-draw",
                        hidden=not (state.base and state.head),
                    ),
                    html.Div(
                        [
                            controls.search("q", "search", state.q, "function, file, module or owner"),
                            html.Span(id="live-hits", className="live-hits faint", role="status"),
                        ],
                        className="live-search",
                    ),
                ],
                className="controls no-print",
            ),
            html.Nav(id="live-trail", className="trail", **{"aria-label": "where in the tree"}),
            controls.chart(
                "live-icicle", "What is live, as an icicle", table=html.Div(id="live-table"), className="icicle"
            ),
            html.Div(id="live-below"),
        ]
    )


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    looks = Looks(results)
    prefix = app.config.requests_pathname_prefix

    @app.callback(
        Output("live-above", "children"),
        Output("live-trail", "children"),
        Output("live-icicle", "figure"),
        Output("live-icicle", "style"),
        Output("live-below", "children"),
        Output("live-icicle", "clickData"),
        Output("live-draw", "hidden"),
        Output("live-hits", "children"),
        Output("live-table", "children"),
        Input("state", "data"),
    )
    def show(data: dict[str, Any] | None) -> tuple[Any, ...]:
        if not data or data["page"] != NAME:
            return (no_update,) * 9
        state = State.of(data)
        look = looks.of(state)
        controls.choices("at", _with(state.at, at_options(look)))
        controls.choices("rank", rank_options(results, state))
        nothing = not look.cells[0].width_bytes
        alone = look.alone is not None
        figure = icicle(look.cells, look.drawn, look.hits, chosen=look.at_chosen, alone=alone, revision=state.zoom)
        style = {"display": "none"} if nothing else {"height": f"{figure['layout']['height']}px"}
        parts = above(look, state, prefix), trail(look, state, prefix), figure, style, below(look, state, prefix)
        found = f"{len(look.steps_found):,} found" if look.q else ""
        return *parts, None, alone, found, as_table(look)

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("live-icicle", "clickData"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def zoom(clicked: dict[str, Any] | None, data: dict[str, Any] | None) -> Any:
        points = (clicked or {}).get("points") or []
        index = str(points[0].get("id", "")) if points else ""
        if not data or not index.isdecimal():
            return no_update
        return {"zoom": looks.of(State.of(data)).place(int(index[:9]))}


def _with(value: str, options: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The options, and what the address asks for if it is none of them."""
    known = any(value == one for one, _ in options)
    return options if known else [*options, (value, value)]
