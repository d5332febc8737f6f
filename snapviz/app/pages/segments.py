"""Segments: the address space at a moment, block by block, and free memory over the run, of base and of head."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update

from snapviz.app import controls
from snapviz.app.results import Results
from snapviz.app.segmentpicked import lies
from snapviz.app.segmentviews import (
    Name,
    alone,
    compared,
    curve,
    map_of,
    phase_table,
    shared_row_bytes,
    summary,
    table_of,
)
from snapviz.app.sides import doubts_of, rank_options
from snapviz.app.spaces import SIDES, Side, Spaces, moments_of
from snapviz.app.state import State as PageState
from snapviz.errors import SnapvizError
from snapviz.report.layout import clean
from snapviz.report.plots.freememory import CURVE_PX

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "segments", "/segments", "Segments"

_MOMENTS = 240
_LEAST_PX = 150
_BY = [("", "category"), ("owner", "owner"), ("phase", "phase"), ("module", "module")]
_PEAK_OF = "peak of (snapviz fragmentation: reserved)"
_MEASURES = [("allocated", "allocated"), ("reserved", "reserved")]
_ORDER = [("", "size"), ("free", "held free"), ("address", "address")]
_NOTHING: dict[str, Any] = {"data": [], "layout": {}}
_AXES = [("time", "time"), ("event", "event")]


def layout(state: PageState, results: Results) -> Any:
    """The page: both sides' places, which the callbacks fill."""
    return html.Div(
        [
            html.H1("The address space", id="seg-verdict"),
            html.Div(
                [
                    controls.select("rank", "rank", [("", "…")], w=185),
                    dmc.Select(
                        id="seg-at", label="moment", data=[], value="", size="xs", searchable=True, w=260,
                        allowDeselect=False,
                    ),
                    controls.segmented("measure", _PEAK_OF, _MEASURES, state.measure),
                    controls.segmented("by", "colour by", _BY, state.by if state.by in dict(_BY) else ""),
                    controls.segmented("view", "order", _ORDER, state.view if state.view in dict(_ORDER) else ""),
                    controls.segmented("axis", "axis", _AXES, state.axis),
                ],
                className="controls no-print",
            ),
            html.Div([_side(side) for side in SIDES], className="sides"),
            dcc.Store(id="seg-opened", data=[]),
        ],
        className="segments",
    )  # fmt: skip


def _side(side: str) -> Any:
    of = f"of {side}"
    return html.Section(
        [
            html.H2(id=f"seg-title-{side}"),
            html.Div(id=f"seg-summary-{side}", **{"aria-live": "polite"}),
            html.Div(
                controls.chart(
                    f"seg-curve-{side}",
                    f"reserved memory {of} over the run: allocated, pending and kinds of free",
                    table=_later(f"seg-curve-table-{side}"),
                    height=CURVE_PX,
                    zoomable=True,
                ),
                title="click: the map at that moment",
            ),
            dcc.Store(id=f"seg-axis-{side}"),
            html.Div(id=f"seg-lies-{side}", className="lies", **{"aria-live": "polite"}),
            html.P(id=f"seg-words-{side}", className="faint"),
            html.Div(
                controls.chart(
                    f"seg-map-{side}",
                    f"segments {of}, block by block",
                    table=_later(f"seg-table-{side}"),
                    height=_LEAST_PX,
                ),
                className="tall",
            ),
        ],
        id=f"seg-side-{side}",
        **{"aria-label": side},
    )


def _later(table_id: str) -> Any:
    """The place of a table, which ``assets/segments.js`` asks for when somebody opens what it is in: Dash looks at
    every component of a page whenever anything is answered."""
    return html.Div(id=table_id, className="later")


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    spaces = Spaces(results)
    prefix = app.config.requests_pathname_prefix
    _controls(app, results, spaces)
    _verdict(app, spaces)
    for side in SIDES:
        _shown(app, spaces, side, results)
        _curve(app, spaces, side)
        _map(app, spaces, side, prefix)
    _tables(app, spaces, prefix)
    _clicks(app)


def _there(spaces: Spaces, state: PageState, side: str) -> Side | None:
    """A side; none where no run is chosen, or it has no such rank or moment (which its summary says)."""
    if state.page != NAME or not getattr(state, side):
        return None
    try:
        return spaces.side(state, side)
    except SnapvizError:
        return None


def _controls(app: Dash, results: Results, spaces: Spaces) -> None:
    @app.callback(Output("seg-at", "data"), Output("seg-at", "value"), Input("state", "data"))
    def options(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        if state.page != NAME:
            return no_update, no_update
        controls.choices("rank", rank_options(results, state))
        found: dict[str, str] = {}
        for side in SIDES:
            there = _there(spaces, state, side)
            if there is not None:
                found |= dict(moments_of(there.space, _MOMENTS))
        picked = state.bt is not None or state.ht is not None
        value = "picked" if picked else state.at
        moments = [(key, clean(text)) for key, text in found.items()]
        if picked:
            moments.insert(0, ("picked", "picked on a curve"))
        elif value not in found:
            moments.append((value, clean(value)))
        return controls.data_of(moments), value

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("seg-at", "value"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    def moment(value: str | None, data: dict[str, Any] | None) -> Any:
        state = PageState.of(data)
        if value in (None, "picked") or (value == state.at and state.bt is None and state.ht is None):
            return no_update
        return {"at": value, "bt": None, "ht": None, "name": None}


def _verdict(app: Dash, spaces: Spaces) -> None:
    @app.callback(Output("seg-verdict", "children"), Input("state", "data"))
    def verdict(data: dict[str, Any] | None) -> Any:
        state = PageState.of(data)
        sides = [found for side in SIDES if (found := _there(spaces, state, side)) is not None and found.moment]
        if len(sides) == len(SIDES):
            return compared(*sides)
        return alone(sides[0]) if sides else "The address space"


def _shown(app: Dash, spaces: Spaces, side: str, results: Results) -> None:
    @app.callback(
        Output(f"seg-side-{side}", "hidden"),
        Output(f"seg-title-{side}", "children"),
        Output(f"seg-summary-{side}", "children"),
        Input("state", "data"),
    )
    def show(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        run_id = getattr(state, side)
        if not run_id:
            return True, [], []
        tag = html.Span(side, className=f"tag {side}")
        try:
            there = spaces.side(state, side)
            missing = doubts_of(results.run(run_id), None, there.space.facts.rank)
            title = [tag, " ", html.Span(clean(there.name), title=clean(run_id))]
            return False, title, [*(controls.notice(clean(words)) for words in missing), *summary(there)]
        except SnapvizError as error:
            return False, [tag, " ", clean(run_id)], controls.notice(results.runs.public(str(error)), grave=True)


def _curve(app: Dash, spaces: Spaces, side: str) -> None:
    def drawn(state: PageState, moved: dict[str, Any] | None) -> Any:
        there = _there(spaces, state, side)
        if there is None or len(there.space.facts.replay) < 2:
            return _NOTHING
        both = [found for one in SIDES if (found := _there(spaces, state, one)) is not None]
        top = max(one.space.facts.replay.peak("reserved", 0, len(one.space.facts.replay))[0] for one in both)
        low, high = (moved or {}).get("xaxis.range[0]"), (moved or {}).get("xaxis.range[1]")
        window = (float(low), float(high)) if low is not None and high is not None else None
        return curve(there, state.axis, top, window)

    @app.callback(
        Output(f"seg-curve-{side}", "figure"),
        Output(f"seg-curve-{side}", "style"),
        Output(f"seg-axis-{side}", "data"),
        Input("state", "data"),
        State(f"seg-curve-{side}", "relayoutData"),
        State(f"seg-axis-{side}", "data"),
    )
    def draw(data: dict[str, Any] | None, moved: dict[str, Any] | None, axis: str | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        # a window in seconds means nothing in events
        figure = drawn(state, moved if axis == state.axis else None)
        return figure, {"height": f"{CURVE_PX}px"} if figure["data"] else {"display": "none"}, state.axis

    # apart from the other: a graph that finds its size says so too, and of two answers only the later one is taken
    @app.callback(
        Output(f"seg-curve-{side}", "figure", allow_duplicate=True),
        Input(f"seg-curve-{side}", "relayoutData"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    def zoom(moved: dict[str, Any] | None, data: dict[str, Any] | None) -> Any:
        there = any(key.startswith("xaxis.") for key in moved or {})
        return drawn(PageState.of(data), moved) if there else no_update


def _map(app: Dash, spaces: Spaces, side: str, prefix: str) -> None:
    @app.callback(
        Output(f"seg-map-{side}", "figure"),
        Output(f"seg-map-{side}", "style"),
        Output(f"seg-words-{side}", "children"),
        Output(f"seg-lies-{side}", "children"),
        Input("state", "data"),
    )
    def draw(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        there = _there(spaces, state, side)
        if there is None or there.moment is None:
            return _NOTHING, {"display": "none"}, "", []
        both = [found for one in SIDES if (found := _there(spaces, state, one)) is not None]
        if not len(there.space.pieces(there.moment.event).table):
            return _NOTHING, {"display": "none"}, "No segment is there at this moment.", []
        named = Name.of(state.name)
        mine = named if named is not None and named.side == side else None
        figure, words = map_of(there, state, shared_row_bytes(both), mine)
        picked = lies(there, mine, state, prefix) if mine is not None else []
        style = {"height": f"{figure['layout']['height']}px"}
        return figure, style, words, picked


_TABLES = {f"seg-{which}table-{side}": (side, which) for side in SIDES for which in ("curve-", "")}


def _tables(app: Dash, spaces: Spaces, prefix: str) -> None:
    @app.callback(
        [Output(table_id, "children") for table_id in _TABLES],
        Input("state", "data"),
        Input("seg-opened", "data"),
        prevent_initial_call=True,
    )
    def tell(data: dict[str, Any] | None, opened: list[str] | None) -> list[Any]:
        state = PageState.of(data)
        return [
            _table(_there(spaces, state, side), which, state, prefix) if table_id in (opened or ()) else []
            for table_id, (side, which) in _TABLES.items()
        ]


def _table(there: Side | None, which: str, state: PageState, prefix: str) -> Any:
    if there is None or (not which and there.moment is None):
        return html.P("Nothing is there.", className="faint")
    return phase_table(there, state, prefix) if which else table_of(there, state, prefix)


def _clicks(app: Dash) -> None:
    """Of both sides at once: the browser asks for each callback of a page that opens."""

    def chosen(sides: tuple[dict[str, Any] | None, ...]) -> tuple[str, Any] | None:
        """The side that was clicked, and what is there."""
        side = str(ctx.triggered_id or "").rpartition("-")[2]
        clicked = sides[SIDES.index(side)] if side in SIDES else None
        found = [point["customdata"] for point in (clicked or {}).get("points", ()) if "customdata" in point]
        return (side, found[0]) if found else None

    def moment(*sides: dict[str, Any] | None) -> Any:
        found = chosen(sides)
        return {"bt" if found[0] == "base" else "ht": int(found[1]), "name": None} if found else no_update

    def block(*sides: dict[str, Any] | None) -> Any:
        found = chosen(sides)
        if not found:
            return no_update
        first, last = map(int, found[1])
        return {"name": f"{found[0]}:{first}" + (f"-{last}" if last > first else "")}

    for graph, picked in (("curve", moment), ("map", block)):
        app.callback(
            Output("go", "data", allow_duplicate=True),
            [Input(f"seg-{graph}-{side}", "clickData") for side in SIDES],
            prevent_initial_call=True,
        )(picked)
    # a picture of one segment is there for one side at most
    for side in SIDES:
        app.callback(
            Output("go", "data", allow_duplicate=True),
            Input(f"seg-lens-{side}", "clickData"),
            prevent_initial_call=True,
        )(block if side == "base" else lambda clicked: block(None, clicked))
