"""Ranks: the peak of every rank in every phase, how far they are apart, which are outliers, and why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dash import Dash, Input, Output, State, html, no_update

from snapviz.analyze.marks import phase_window
from snapviz.app import controls
from snapviz.app.rankviews import Pair, drawn_grid, foreign, grid_table, rank_table, spread_figure, spread_table, words
from snapviz.app.recent import Recent
from snapviz.app.results import Results
from snapviz.app.sides import names_of
from snapviz.app.state import State as PageState
from snapviz.compare.rankgrid import WHOLE
from snapviz.compare.ranks import ranks
from snapviz.errors import SnapvizError
from snapviz.report.plots.ranks import WIDEST_PX, column_labels, heatmap, phase_labels
from snapviz.schema import RanksReport
from snapviz.snapshot.columns import ABSENT

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "ranks", "/ranks", "Ranks"

_MEASURES = [(name, name) for name in ("allocated", "reserved", "active", "requested")]
_SHOWN = [("", "head − base"), ("head", "head"), ("base", "base"), ("spread", "head, from its median")]
_ALONE = [("", "peak"), ("spread", "from its median")]
"""Of one run: what there is to show."""
_KEPT = 8
"""Reports that a worker keeps parsed."""


def layout(state: PageState, results: Results) -> Any:
    """The page."""
    return html.Div(
        [
            html.Div(id="ranks-words", **{"aria-live": "polite"}),
            html.Div(
                [
                    controls.segmented("measure", "peak of", _MEASURES, state.measure),
                    controls.segmented("show", "show", _shown(state), state.show if state.show in dict(_SHOWN) else ""),
                ],
                className="controls no-print",
            ),
            html.H2("Peaks by phase and rank", id="ranks-grid-title"),
            html.Div(
                controls.chart(
                    "ranks-grid",
                    "peak by phase and rank",
                    table=html.Div(id="ranks-grid-table"),
                    className="clickable",
                ),
                title="click a cell: that rank's timeline, at that phase",
            ),
            html.Div(id="ranks-table"),
            html.H2("How far apart ranks are"),
            html.P(id="ranks-spread-words", className="faint"),
            html.Div(
                controls.chart(
                    "ranks-spread",
                    "lowest, median and highest rank of each phase",
                    table=html.Div(id="ranks-spread-table"),
                ),
                id="ranks-spread-place",
            ),
            html.Div(id="ranks-foreign"),
        ],
        className="ranks",
    )


def _shown(state: PageState) -> list[controls.Option]:
    return _SHOWN if state.base and state.head else _ALONE


class _Reports:
    """Reports of the ranks of runs: on disk, and the last of them parsed."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._kept: Recent[str, RanksReport] = Recent(_KEPT)

    def of(self, run_id: str, measure: str) -> RanksReport:
        """Of one run. Raises ``SnapvizError``."""
        alone = PageState(head=run_id)
        key = self._results.key("ranks", alone, measure)
        found = self._kept.get(key)
        if found is None:

            def make() -> str:
                return ranks(self._results.run(run_id), measure=measure).model_dump_json()

            text = self._results.kept("ranks", alone, make, measure)
            found = self._kept.put(key, RanksReport.model_validate_json(text))
        return found

    def pair(self, state: PageState) -> Pair:
        """Of both runs, as far as they are chosen. Raises ``SnapvizError``."""
        one, two = (self.of(run, state.measure) if run else None for run in (state.base, state.head))
        return Pair(one, two, *names_of(self._results, state), self._results.runs.public)


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    reports = _Reports(results)
    prefix = app.config.requests_pathname_prefix
    _words(app, reports, prefix)
    _grid(app, reports)
    _spread(app, reports)
    _click(app, results, reports)


def _words(app: Dash, reports: _Reports, prefix: str) -> None:
    @app.callback(
        Output("ranks-words", "children"),
        Output("ranks-table", "children"),
        Output("ranks-foreign", "children"),
        Input("state", "data"),
    )
    def show(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        if state.page != NAME:
            return no_update, no_update, no_update
        controls.choices("show", _shown(state))
        pair = reports.pair(state)
        return words(pair, state, prefix), rank_table(pair, state, prefix), foreign(pair)


def _grid(app: Dash, reports: _Reports) -> None:
    @app.callback(
        Output("ranks-grid", "figure"),
        Output("ranks-grid", "style"),
        Output("ranks-grid-title", "children"),
        Input("state", "data"),
    )
    def draw(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        if state.page != NAME:
            return (no_update,) * 3
        shown = drawn_grid(reports.pair(state), state.show)
        figure = heatmap(shown.cells, shown.delta, shown.outliers)
        widest = 330 + WIDEST_PX * len(shown.cells.columns)
        style = {"height": f"{figure['layout']['height']}px", "maxWidth": f"{widest}px"}
        return figure, style, shown.title

    @app.callback(Output("ranks-grid-table", "children"), Input("state", "data"))
    def tell(data: dict[str, Any] | None) -> Any:
        state = PageState.of(data)
        return grid_table(drawn_grid(reports.pair(state), state.show)) if state.page == NAME else no_update


def _spread(app: Dash, reports: _Reports) -> None:
    @app.callback(
        Output("ranks-spread", "figure"),
        Output("ranks-spread", "style"),
        Output("ranks-spread-place", "hidden"),
        Output("ranks-spread-words", "children"),
        Output("ranks-spread-table", "children"),
        Input("state", "data"),
    )
    def draw(data: dict[str, Any] | None) -> tuple[Any, ...]:
        state = PageState.of(data)
        if state.page != NAME:
            return (no_update,) * 5
        pair = reports.pair(state)
        figure, told = spread_figure(pair)
        if figure is None:
            return {"data": [], "layout": {}}, {"display": "none"}, True, told, []
        return figure, {"height": f"{figure['layout']['height']}px"}, False, told, spread_table(pair)


def _click(app: Dash, results: Results, reports: _Reports) -> None:
    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("ranks-grid", "clickData"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    def go(clicked: dict[str, Any] | None, data: dict[str, Any] | None) -> Any:
        state = PageState.of(data)
        point = next(iter((clicked or {}).get("points", ())), None)
        if point is None or state.page != NAME:
            return no_update
        cells = drawn_grid(reports.pair(state), state.show).cells
        row = _place(phase_labels(cells.phases), point.get("y"))
        column = _place(column_labels(cells.columns), point.get("x"))
        if ABSENT in (row, column):
            return no_update
        return _timeline(results, state, cells.phases[row], int(cells.rank[row, column]))


def _place(labels: Sequence[str], label: Any) -> int:
    return list(labels).index(label) if label in labels else ABSENT


def _timeline(results: Results, state: PageState, phase: str, rank: int) -> dict[str, Any]:
    """The timeline of a rank, zoomed to the phase: of several of its name to the one that peaks highest."""
    sides = []
    for run_id in (state.head, state.base) if phase != WHOLE else ():
        with suppress(SnapvizError):  # the timeline says which side it has not
            sides += [results.facts(run_id, rank)] if run_id else []
    found = phase_window(sides, phase, state.measure)
    window = {} if found is None else {"align": found.align, "axis": found.kind, "x0": found.low, "x1": found.high}
    return state.to("timeline", rank=rank, **window).data()
