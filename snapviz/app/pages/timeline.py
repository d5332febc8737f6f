"""Memory over time: base above head, every allocation of any stretch, and what there is at a moment of it."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Dash, Input, Output, Patch, ctx, dcc, html, no_update
from dash import State as Given

from snapviz.analyze.axis import start_of
from snapviz.analyze.marks import phase_ends
from snapviz.analyze.overtime import over_time, peak_groups
from snapviz.analyze.phases import fold
from snapviz.app import controls
from snapviz.app.results import Results
from snapviz.app.sides import rank_options
from snapviz.app.state import State
from snapviz.app.timelinemoment import allocation_panel, cursor_panel, under_words
from snapviz.app.timelinesides import Sides, clicked, picked, pointed, sides_of, stepped
from snapviz.app.timelinewords import groups_panel, notices, phases_table, said, titles
from snapviz.report.layout import clean, cut
from snapviz.report.plots.timeline import cursor_shapes, timeline

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "timeline", "/timeline", "Timeline"

_VIEWS = [
    ("", "allocations"),
    ("curves", "curves"),
    ("category", "by category"),
    ("owner", "by owner"),
    ("module", "by module"),
    ("phase", "by phase"),
    ("stack", "by stack"),
]

_TOOLS = [
    ("in", "+", "zoom in (W)"),
    ("out", "−", "zoom out (S)"),
    ("left", "←", "move left (A)"),
    ("right", "→", "move right (D)"),
    ("height", "↕", "fit the height"),
    ("fit", "fit", "all of it again (F)"),
]

_MOST_PHASES = 400
"""Phases that can be chosen among; a name is typed faster than a list is read."""
_LONGEST = 90


def layout(state: State, results: Results) -> Any:
    """The page."""
    return html.Div(
        [
            html.H1("Memory over time", className="timeline-title"),
            html.Div(id="timeline-notes"),
            _controls(state),
            html.Div(id="timeline-said", **{"aria-live": "polite"}),
            controls.chart(
                "timeline-chart",
                "memory over time, base above head",
                zoomable=True,
                height=700,
                className="timeline",
                table=html.Div(id="timeline-table"),
                config={"doubleClick": "autosize"},
            ),
            html.P(id="timeline-under", className="timeline-under no-print"),
            html.P(
                "Click a moment or a band to see what it is. Drag to zoom, Shift and drag to move, wheel to zoom, "
                "double-click for all of it. A click on a phase zooms to it.",
                className="faint no-print",
            ),
            html.Div(
                [
                    html.Section(
                        [html.Div(id="timeline-moment"), html.Div(id="timeline-allocation", **{"aria-live": "polite"})]
                    ),
                    html.Section(id="timeline-groups"),
                ],
                className="timeline-below",
            ),
            *(dcc.Store(id=f"timeline-{name}") for name in ("window", "cursor", "runs", "click", "hover", "sink")),
        ],
        className="timeline-page",
    )


def _controls(state: State) -> Any:
    tools = [
        html.Button(sign, type="button", className="tool", title=told, **{"aria-label": told, "data-timeline": name})
        for name, sign, told in _TOOLS
    ]
    pair = [
        controls.select("align", "begin both at", _align([], state.align), state.align),
        controls.segmented("show", "cursors", [("", "linked"), ("apart", "apart")], state.show),
    ]
    return html.Div(
        [
            controls.segmented("view", "draw", _VIEWS, state.view),
            controls.segmented("axis", "along", [("time", "time"), ("event", "events")], state.axis),
            controls.select("rank", "rank", [("", "…")], "" if state.rank is None else str(state.rank)),
            dmc.Select(
                id="timeline-phase",
                label="go to phase",
                data=[],
                value=None,
                searchable=True,
                size="xs",
                placeholder=_phase_named(state),
            ),
            html.Div(pair, id="timeline-pair", className="controls", hidden=not (state.base and state.head)),
            controls.search("q", "search", state.q, "owner, module, phase or stack"),
            html.Div(tools, className="timeline-tools", role="group", **{"aria-label": "zoom and move"}),
        ],
        className="controls timeline-controls no-print",
    )


def _phase_named(state: State) -> str:
    """What stands where a phase is chosen: the one that the moment names."""
    found = state.at.removeprefix("phase:").removesuffix(":peak").removesuffix(":end")
    return cut(clean(found), _LONGEST) if state.at.startswith("phase:") else "…"


def _align(names: list[str], chosen: str) -> list[tuple[str, str]]:
    known = names if not chosen or chosen in names else [chosen, *names]
    return [("", "their first event"), *((name, cut(clean(name), _LONGEST)) for name in known)]


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    _in_the_browser(app)
    _options(app, results)
    _drawing(app, results)
    _cursors(app, results)


def _in_the_browser(app: Dash) -> None:
    app.clientside_callback(
        ClientsideFunction("snapviz", "timelineParts"),
        *(Output(f"timeline-{name}", "data") for name in ("window", "cursor", "runs")),
        Input("state", "data"),
        *(Given(f"timeline-{name}", "data") for name in ("window", "cursor", "runs")),
    )
    for name, part in (("timelineMoved", "relayoutData"), ("timelineTo", "clickData")):
        app.clientside_callback(
            ClientsideFunction("snapviz", name),
            Output("timeline-sink", "data", allow_duplicate=True),
            Input("timeline-chart", part),
            prevent_initial_call=True,
        )


def _options(app: Dash, results: Results) -> None:
    """What can be chosen depends on the runs."""

    @app.callback(
        Output({"type": "ctl", "key": "align"}, "data"),
        Output({"type": "ctl", "key": "rank"}, "data"),
        Output("timeline-phase", "data"),
        Output("timeline-notes", "children"),
        Output("timeline-phase", "placeholder"),
        Output("timeline-pair", "hidden"),
        Input("timeline-runs", "data"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def show(_: Any, data: dict[str, Any]) -> tuple[Any, ...]:
        state = State.of(data)
        sides = sides_of(state, results)
        names = list(dict.fromkeys(name for one in sides.facts if one is not None for name in one.phases.names))
        folded = list(dict.fromkeys(map(fold, names)))[:_MOST_PHASES]
        return (
            controls.data_of(_align(folded, state.align)),
            controls.data_of(rank_options(results, state)),
            controls.data_of([(name, cut(clean(name), _LONGEST)) for name in names[:_MOST_PHASES]]),
            notices(sides),
            _phase_named(state),
            not (state.base and state.head),
        )

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Output("timeline-phase", "value"),
        Input("timeline-phase", "value"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def jump(phase: str | None, data: dict[str, Any]) -> tuple[Any, Any]:
        if not phase:
            return no_update, no_update
        return _to_phase(sides_of(State.of(data), results), phase), None


def _to_phase(sides: Sides, phase: str) -> Any:
    """The window that holds a phase in both runs."""
    ends = []
    for facts, axis in zip(sides.facts, sides.axes, strict=True):
        if facts is not None and axis is not None and start_of(facts, axis.kind, phase) is not None:
            starts, stops = phase_ends(facts, axis)
            ends += [(starts[i], stops[i]) for i, name in enumerate(facts.phases.names) if name == phase]
    if not ends:
        return no_update
    low, high = int(min(start for start, _ in ends)), int(max(stop for _, stop in ends))
    return {"x0": low, "x1": max(high, low + 1), "y0": None, "y1": None}


def _drawing(app: Dash, results: Results) -> None:
    @app.callback(
        Output("timeline-chart", "figure"),
        Output("timeline-chart", "style"),
        Output("timeline-said", "children"),
        Output("timeline-groups", "children"),
        Output("timeline-table", "children"),
        Input("timeline-window", "data"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def draw(_: Any, data: dict[str, Any]) -> tuple[Any, ...]:
        state = State.of(data)
        sides = sides_of(state, results)
        seen = over_time(sides.facts, sides.asked)
        figure = timeline(seen, titles(sides), [sides.places[at] for at in sides.drawn])
        groups = groups_panel(sides, seen, *peak_groups(sides.facts, seen))
        return (
            figure,
            {"height": f"{figure['layout']['height']}px"},
            said(sides, seen),
            groups,
            phases_table(sides, seen),
        )


def _cursors(app: Dash, results: Results) -> None:
    @app.callback(
        Output("timeline-chart", "figure", allow_duplicate=True),
        Output("timeline-moment", "children"),
        Output("timeline-allocation", "children"),
        Input("timeline-cursor", "data"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def show(_: Any, data: dict[str, Any]) -> tuple[Any, ...]:
        state = State.of(data)
        sides = sides_of(state, results)
        figure = Patch()
        figure["layout"]["shapes"] = cursor_shapes([sides.places[at] for at in sides.drawn])
        prefix = app.config.requests_pathname_prefix
        chosen = picked(sides, state)
        return figure, cursor_panel(sides, state, prefix), allocation_panel(sides, state, chosen, prefix)

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("timeline-click", "data"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def click(at: dict[str, Any] | None, data: dict[str, Any]) -> Any:
        place = _place(at)
        if place is None:
            return no_update
        state = State.of(data)
        return clicked(sides_of(state, results), state, *place) or no_update

    @app.callback(
        Output("timeline-under", "children"),
        Input("timeline-hover", "data"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def hover(at: dict[str, Any] | None, data: dict[str, Any]) -> Any:
        place = _place(at)
        if place is None:
            return no_update
        sides = sides_of(State.of(data), results)
        return under_words(sides, pointed(sides, *place))

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input({"type": "timeline-step", "side": ALL, "by": ALL}, "n_clicks"),
        Given("state", "data"),
        prevent_initial_call=True,
    )
    def step(clicks: list[int | None], data: dict[str, Any]) -> Any:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            return no_update
        state = State.of(data)
        moved = stepped(sides_of(state, results), state, ctx.triggered_id["side"], ctx.triggered_id["by"])
        return moved | {"replace": True} if moved else no_update


def _place(at: dict[str, Any] | None) -> tuple[int, float, float] | None:
    """Panel, place and height of the pointer; none for what the browser did not mean."""
    panel, place, height = ((at or {}).get(key) for key in ("panel", "x", "y"))
    if not isinstance(panel, int) or not all(isinstance(one, (int, float)) for one in (place, height)):
        return None
    return panel, float(place or 0), float(height or 0)
