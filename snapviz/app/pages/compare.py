"""The first screen: the verdict in words, what changed in which phase, why, and who holds it.

All of it comes from one report. A part is drawn again only when what it shows changes: ``assets/compare.js`` cuts the
state into what the upper half, the table and the drawer hang on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
from dash import MATCH, ClientsideFunction, Dash, Input, Output, dcc, html, no_update
from dash import State as Held
from flask import Response, request

from snapviz.analyze.facts import Facts
from snapviz.analyze.marks import phase_window
from snapviz.analyze.moments import parse_at
from snapviz.analyze.sparks import spark_of, sparks
from snapviz.app import controls
from snapviz.app.pages import compare_drawer, compare_grid, compare_rows, compare_single, compare_top, compare_why
from snapviz.app.pages.compare_steps import growth_line, steps_in_words
from snapviz.app.results import Results
from snapviz.app.sides import numbers_of, shown_point
from snapviz.app.state import State
from snapviz.compare.rank import RankDiff
from snapviz.compare.view import view_of
from snapviz.errors import SnapvizError
from snapviz.report.diffsaid import full_names
from snapviz.report.difftables import short_names
from snapviz.schema import DiffReport

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "compare", "/", "Compare"

_CSV = "export/rows.csv"

_BY = [("", "cause")]
_BY += [(name, name) for name in ("stack", "phase", "category", "owner", "module", "rank")]
_MODES = (("delta", "delta"), ("ratio", "ratio"), ("absolute", "absolute"))
_MEASURES = (("allocated", "allocated"), ("requested", "requested"), ("active", "active"), ("reserved", "reserved"))
_THRESHOLDS = ("0.1%", "1%", "5%", "1 MiB", "10 MiB", "100 MiB", "1 GiB")
_VIEWS = (("", "folded"), ("each", "each"))


def layout(state: State, results: Results) -> Any:
    """The page, before anything is known."""
    loading = html.P("comparing …", className="faint")
    return html.Div(
        [
            dcc.Store(id="compare-where"),
            dcc.Store(id="compare-what"),
            dcc.Store(id="compare-row"),
            html.Section(loading, id="compare-top"),
            html.Section(id="compare-phases", **{"aria-label": "phases"}),
            _controls(state),
            html.Section(id="compare-why", **{"aria-label": "why"}),
            html.Section(id="compare-table", **{"aria-label": "reasons"}),
            html.Div(id="compare-besides"),
            dmc.Drawer(
                id="compare-drawer",
                opened=False,
                position="right",
                size="min(54rem, 100vw)",
                padding="lg",
                className="compare-drawer",
                closeButtonProps={"aria-label": "close"},
                overlayProps={"backgroundOpacity": 0.25},
            ),
        ],
        className="compare",
    )


def _controls(state: State) -> Any:
    thresholds = [("", "none"), *((text, text) for text in _THRESHOLDS)]
    if state.threshold and state.threshold not in _THRESHOLDS:
        thresholds.append((state.threshold, state.threshold))
    pair = [
        controls.segmented("mode", "rows", _MODES, state.mode),
        controls.select("measure", "bytes", _MEASURES, state.measure, w=130),
        controls.select("threshold", "fold below", thresholds, state.threshold, w=110),
        controls.segmented("view", "names", _VIEWS, state.view),
        controls.search("q", "search", state.q, "name, stack, phase"),
    ]
    return html.Div(
        [
            controls.select("at", "moment", [(state.at, state.at or "the run's peak")], state.at, w=260),
            controls.select("rank", "rank", [("", "worst")], w=170),
            controls.select("by", "group by", _BY, state.by, w=210),
            html.Div(pair, id="compare-pair-controls", className="controls"),
        ],
        className="controls compare-controls no-print",
    )


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    prefix = app.config.requests_pathname_prefix or "/"
    app.clientside_callback(
        ClientsideFunction("snapviz", "compareParts"),
        Output("compare-where", "data"),
        Output("compare-what", "data"),
        Output("compare-row", "data"),
        Input("state", "data"),
        Held("compare-where", "data"),
        Held("compare-what", "data"),
        Held("compare-row", "data"),
    )
    _upper(app, results, prefix)
    _lower(app, results, prefix)
    _rows(app, results)
    _drawer(app, results, prefix)
    _download(app, results)


def _is_pair(state: State) -> bool:
    return bool(state.base and state.head)


# ------------------------------------------------------------------ the upper half


def _upper(app: Dash, results: Results, prefix: str) -> None:
    @app.callback(
        Output("compare-top", "children"),
        Output({"type": "ctl", "key": "at"}, "data", allow_duplicate=True),
        Output({"type": "ctl", "key": "rank"}, "data", allow_duplicate=True),
        Output("compare-pair-controls", "hidden"),
        Output("compare-besides", "children"),
        Input("compare-where", "data"),
        prevent_initial_call=True,
    )
    def top(data: Mapping[str, Any] | None) -> Any:
        state = State.of(data)
        href = compare_top.href_of(state, prefix)
        if not _is_pair(state):
            return _single(results, state, prefix)
        report = results.report(state)
        at, rank = compare_why.at_options(report, state), compare_why.rank_options(report, state)
        return compare_top.top(report, href), at, rank, False, compare_why.besides(report)

    @app.callback(
        Output("compare-phases", "children"),
        Input("compare-where", "data"),
        prevent_initial_call=True,
    )
    def phases(data: Mapping[str, Any] | None) -> Any:
        state = State.of(data)
        if not _is_pair(state):
            return []
        report = results.report(state)
        point = shown_point(report, state.at)
        names = compare_top.named(report, state)
        shapes = _sparks(results, report, state, names)
        at = point.at if point is not None else ""
        table = compare_top.phases(report, state, compare_top.href_of(state, prefix), shapes, at)
        return [html.H2("Where"), *table]


def _single(results: Results, state: State, prefix: str) -> tuple[Any, ...]:
    """What ``top`` gives where one run alone is chosen."""
    run_id = state.base or state.head
    run = results.run(run_id)
    report = compare_single.ask_of(run, state)
    compare_single.usage_of(report)
    assert report.worst_rank is not None
    facts = results.facts(run_id, report.worst_rank)
    above, below = compare_single.single(report, facts, compare_top.href_of(state, prefix))
    above[-1:-1] = growth_line(facts)
    ranks = compare_single.rank_choices([rank.rank for rank in run.ranks], state)
    return above, compare_single.at_choices(facts, state), ranks, True, below


def _sparks(results: Results, report: DiffReport, state: State, names: list[str]) -> compare_top.Drawings:
    """The shapes of phases on the rank that the table shows, and where each lies: from disk, so that nothing has to be
    replayed for the first screen."""
    rank = compare_top.rank_of(report, state)
    if rank is None:
        return compare_top.Drawings()
    made = lambda: _drawings(_pair(results, state, rank), names, state.measure)  # noqa: E731
    return compare_top.Drawings.of(results.kept("shapes and steps", state, made, rank, state.measure, names))


def _drawings(pair: tuple[Facts, Facts], names: list[str], measure: str) -> Any:
    base, head = pair
    shapes = []
    for facts in pair:
        found = sparks(facts, [name for name in names if name], measure)
        shapes.append({"": spark_of(facts.replay, 0, len(facts.replay), measure)} | found)
    windows = {name: phase_window((head, base), name, measure) for name in names if name}
    known = {name: one for name, one in windows.items() if one}
    steps = steps_in_words(reversed(pair), names)
    return compare_top.Drawings(shapes[0], shapes[1], known, steps).data()


def _pair(results: Results, state: State, rank: int) -> tuple[Facts, Facts]:
    """Base's and head's facts of a rank that is in both."""
    base, head = numbers_of(results, state)[rank]
    assert base is not None
    assert head is not None
    return results.facts(state.base, base), results.facts(state.head, head)


# ------------------------------------------------------------------ the lower half


def _lower(app: Dash, results: Results, prefix: str) -> None:
    @app.callback(
        Output("compare-why", "children"),
        Output("compare-table", "children"),
        Input("compare-what", "data"),
        prevent_initial_call=True,
    )
    def why(data: Mapping[str, Any] | None) -> Any:
        state = State.of(data)
        if not _is_pair(state):
            return [], []
        report = results.report(state)
        listing = compare_rows.listing_of(report, state)
        if listing is None:
            return [html.P(_NO_POINT, className="faint")], []
        href = compare_top.href_of(state, prefix)
        shown = compare_grid.shown_items(report, listing, state)
        sums = compare_why.sums(listing, shown, short_names(report))
        if not listing.items and all(one.delta == 0 for one in listing.rest):
            return [*compare_why.same(listing, href), sums], []
        parts = compare_why.why(report, listing, state, href, html.Div(sums, id=_id("compare-sums", state)))
        return parts, _table(report, listing, len(shown), state, prefix)

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("compare-waterfall", "clickData"),
        Held("state", "data"),
        prevent_initial_call=True,
    )
    def pick(clicked: Any, data: Mapping[str, Any] | None) -> Any:
        if not clicked or not clicked.get("points"):
            return no_update  # a chart that was just drawn
        step = clicked["points"][0].get("customdata")
        # the same step again lets go of it
        return {"name": None if step == State.of(data).name else step or None}


_NO_POINT = "No rank has this point on both sides: choose another one above."


def _table(report: DiffReport, listing: compare_rows.Listing, lines: int, state: State, prefix: str) -> list[Any]:
    url = f"{prefix.rstrip('/')}/{_CSV}?{replace(state, row='').query()}"
    return [
        html.Div(
            [
                html.Span("Enter or a click opens a row; bytes are filtered in MiB", className="faint"),
                html.A("CSV", href=url, download="", className="tool", title="these rows, all of them, in exact bytes"),
            ],
            className="compare-above no-print",
        ),
        compare_why.grid(_id("compare-rows", state), report, lines),
    ]


def _id(kind: str, state: State) -> dict[str, str]:
    """Another table, which begins at its first row, for another state."""
    text = replace(state, row="").url()
    return {"type": kind, "of": hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}


def _rows(app: Dash, results: Results) -> None:
    @app.callback(
        Output({"type": "compare-rows", "of": MATCH}, "getRowsResponse"),
        Output({"type": "compare-sums", "of": MATCH}, "children"),
        Input({"type": "compare-rows", "of": MATCH}, "getRowsRequest"),
        Held("compare-what", "data"),
        prevent_initial_call=True,
    )
    def rows(asked: Mapping[str, Any] | None, data: Mapping[str, Any] | None) -> Any:
        state = State.of(data)
        if not asked or not _is_pair(state):
            return no_update, no_update
        report = results.report(state)
        listing = compare_rows.listing_of(report, state)
        if listing is None:
            return {"rowData": [], "rowCount": 0}, no_update
        shown = compare_grid.shown_items(report, listing, state, asked.get("filterModel"))
        ordered = compare_grid.in_order(shown, asked.get("sortModel") or [])
        first, stop = (int(asked.get(key) or 0) for key in ("startRow", "endRow"))
        part = [compare_grid.grid_row(item) for item in ordered[first : min(stop, first + 1000)]]
        sums = compare_why.sums(listing, shown, short_names(report)) if first == 0 else no_update
        return {"rowData": part, "rowCount": len(ordered)}, sums

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input({"type": "compare-rows", "of": MATCH}, "cellClicked"),
        prevent_initial_call=True,
    )
    def opened(clicked: Mapping[str, Any] | None) -> Any:
        return {"row": clicked["rowId"]} if clicked and clicked.get("rowId") else no_update


# ------------------------------------------------------------------ the drawer


def _drawer(app: Dash, results: Results, prefix: str) -> None:
    @app.callback(
        Output("compare-drawer", "opened"),
        Output("compare-drawer", "title"),
        Output("compare-drawer", "children"),
        Input("compare-row", "data"),
        prevent_initial_call=True,
    )
    def show(data: Mapping[str, Any] | None) -> Any:
        state = State.of(data)
        if not state.row or not _is_pair(state):
            return False, no_update, no_update
        report = results.report(state)
        found = compare_rows.found_row(report, state)
        if found is None:
            return True, "This row is not there", [html.P(_NO_ROW)]
        listing, item = found
        sides = _sides(results, report, state, listing, item)
        return True, compare_drawer.title_of(item), compare_drawer.drawer(report, listing, item, sides, state, prefix)

    @app.callback(
        Output("go", "data", allow_duplicate=True),
        Input("compare-drawer", "opened"),
        Held("state", "data"),
        prevent_initial_call=True,
    )
    def closed(is_open: bool, data: Mapping[str, Any] | None) -> Any:
        return {"row": None} if not is_open and State.of(data).row else no_update


_NO_ROW = (
    "These runs have no such row at this point, or it did not change there, or it is grouped otherwise: close this and "
    "choose it in the table."
)


def _sides(
    results: Results, report: DiffReport, state: State, listing: compare_rows.Listing, item: compare_rows.Item
) -> tuple[compare_drawer.Side, compare_drawer.Side]:
    number = item.rank if item.rank is not None else listing.ranks[0].rank
    base, head = _pair(results, state, number)
    view = view_of(state.by or None, state.mode, state.measure)
    chosen = RankDiff(number, base, head, view).members(parse_at(listing.point.at), item.rows)
    names = full_names(report)
    return compare_drawer.Side(names[0], base, chosen[0]), compare_drawer.Side(names[1], head, chosen[1])


# ------------------------------------------------------------------ the file


def _download(app: Dash, results: Results) -> None:
    def rows() -> Response:
        state = State.from_url("/", request.query_string.decode("ascii", "replace"))
        try:
            report = results.report(state)
            listing = compare_rows.listing_of(report, state)
        except SnapvizError as error:
            return Response(results.runs.public(str(error)), 400, mimetype="text/plain")
        if listing is None:
            return Response(_NO_POINT, 404, mimetype="text/plain")
        text = compare_grid.as_csv(listing, compare_grid.shown_items(report, listing, state))
        headers = {"Content-Disposition": 'attachment; filename="rows.csv"'}
        return Response(text, mimetype="text/csv", headers=headers)

    where = f"{(app.config.routes_pathname_prefix or '/').rstrip('/')}/{_CSV}"
    app.server.add_url_rule(where, f"snapviz-rows-{id(app)}", rows)
