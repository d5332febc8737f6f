"""Runs: what there is to choose from, and what was dropped here.

Choosing is a link, so that each choice is an address; a page has a hundred runs, the filter finds the others.
"""

from __future__ import annotations

import hashlib
from typing import Any

from dash import Dash, Input, Output, ctx, dcc, html, no_update
from dash import State as Given

from snapviz.app import controls
from snapviz.app.results import Results
from snapviz.app.runrows import COLUMNS, NAMES, Column, matching, name_of, ordered
from snapviz.app.runs import RunEntry
from snapviz.app.state import State
from snapviz.app.uploads import UploadLimits
from snapviz.errors import SnapvizError
from snapviz.report.layout import clean, cut

__all__ = ["NAME", "NEEDS_RUNS", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "runs", "/runs", "Runs"
NEEDS_RUNS = False

_ON_A_PAGE = 100
_LONGEST = 120
"""Characters of a text from a file."""

_DROPPED_AT_ONCE = 50
"""Runs that are listed as dropped by one browser."""

_LOOK_AGAIN_MS = 5_000
_LOOK_AGAIN_REMOTE_MS = 60_000
"""ms between looks at the directory while the page is open; each look at a URL asks its store."""


def layout(state: State, results: Results) -> Any:
    """The page, before its list is there."""
    every_ms = _LOOK_AGAIN_REMOTE_MS if "://" in results.runs.label else _LOOK_AGAIN_MS
    return html.Div(
        [
            html.H1("Runs"),
            html.Div(
                [
                    controls.search("q", "Find a run", state.q, "name, branch, commit, device …"),
                    html.Button("Look again", id="rescan", type="button", className="tool", title="read the directory"),
                    html.Span(id="runs-found", className="faint", **{"aria-live": "polite"}),
                ],
                className="controls",
            ),
            html.Div(id="runs-chosen"),
            html.Div(id="runs-dropped"),
            html.Div(id="runs-list"),
            _drop_place(),
            dcc.Interval(id="runs-look", interval=every_ms),
            dcc.Store(id="runs-digest"),
        ],
        className="runs-page",
    )


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    prefix = app.config.requests_pathname_prefix
    limits: UploadLimits = app.server.extensions["snapviz_uploads"].limits

    @app.callback(
        Output("runs-found", "children"),
        Output("runs-chosen", "children"),
        Output("runs-dropped", "children"),
        Output("runs-list", "children"),
        Output("runs-digest", "data"),
        Input("state", "data"),
        Input("uploads", "data"),
        Input("rescan", "n_clicks"),
        Input("runs-look", "n_intervals"),
        Given("runs-digest", "data"),
    )
    def show(data: dict[str, Any], dropped: Any, _: Any, __: Any, digest: str | None) -> tuple[Any, ...]:
        state = State.of(data)
        entries = results.runs.all(again=ctx.triggered_id == "rescan")
        uploads = _dropped(results, dropped)
        now = _digest(entries, uploads, results.runs.problem)
        if ctx.triggered_id == "runs-look" and now == digest:
            return (no_update,) * 5
        page = _Page(state, prefix)
        return (
            _found(results, len(entries)),
            page.chosen(_chosen(results, state)),
            page.dropped(uploads, limits),
            page.listed(results, entries),
            now,
        )


def _digest(entries: list[RunEntry], uploads: list[RunEntry], problem: str) -> str:
    told = repr(([(entry.id, entry.stamp) for entry in (*entries, *uploads)], problem))
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]


def _dropped(results: Results, data: Any) -> list[RunEntry]:
    """The uploads whose ids this browser has, newest first; what is not there any more is left out."""
    found = []
    for each in data[:_DROPPED_AT_ONCE] if isinstance(data, list) else []:
        entry = _entry(results, str(each.get("id", ""))) if isinstance(each, dict) else None
        if entry is not None and entry.uploaded:
            found.append(entry)
    return found


def _entry(results: Results, run_id: str) -> RunEntry | None:
    try:
        return results.runs.get(run_id)
    except SnapvizError:
        return None


def _chosen(results: Results, state: State) -> list[tuple[str, RunEntry | None]]:
    sides = (("base", state.base), ("head", state.head))
    return [(side, _entry(results, run_id) if run_id else None) for side, run_id in sides]


def _found(results: Results, count: int) -> Any:
    label = cut(clean(results.runs.public(results.runs.label)), _LONGEST)
    if results.runs.problem:
        return controls.notice(
            clean(results.runs.public(results.runs.problem)), title="The directory cannot be read now.", grave=True
        )
    more = " or more" if results.runs.truncated else ""
    return [f"{count:,}{more} run{'' if count == 1 else 's'} in ", html.Code(label)]


def _drop_place() -> Any:
    return html.Section(
        [
            html.H2("Open something else"),
            html.P(
                "Drop a snapshot, an archive of a run (zip, tar, tar.gz, tar.xz, tar.zst) or a run's folder anywhere "
                "on this page, or choose it:"
            ),
            html.Button("Files …", id="choose-files", type="button", className="tool"),
            html.Button("A folder …", id="choose-folder", type="button", className="tool"),
        ],
        className="drop-place no-print",
    )


class _Page:
    """What the page shows for one state."""

    def __init__(self, state: State, prefix: str) -> None:
        self._state, self._prefix = state, prefix

    def chosen(self, sides: list[tuple[str, RunEntry | None]]) -> Any:
        """Which runs are chosen, and where to go with them."""
        if not any(entry for _, entry in sides):
            return html.P("Choose a base, such as main, and a head, such as the pull request.", className="faint")
        both = all(entry for _, entry in sides)
        words = [html.Span([html.B(f"{side} "), name_of(entry)], className="side") for side, entry in sides if entry]
        target = self._state.with_(page="compare", q=None, show=None, view=None)
        go = controls.link("Compare them →" if both else "Show it alone →", target, self._prefix, className="go")
        return html.Div([*words, go], className="chosen")

    def dropped(self, entries: list[RunEntry], limits: UploadLimits) -> Any:
        """What this browser has dropped."""
        if not entries:
            return []
        kept = f"kept for {limits.keep_s / 3600:g} h after its last use, seen by whoever has its address"
        table = self._table("Dropped here", entries, sorts=False)
        return html.Section([html.H2("Dropped here"), html.P(f"Each is {kept}.", className="faint"), table])

    def listed(self, results: Results, entries: list[RunEntry]) -> Any:
        """The runs of the directory: those that are searched for, sorted, a page of them."""
        if not entries:
            return _how_to_record()
        found = matching(entries, self._state.q)
        if not found:
            return html.P(f"No run here has “{cut(clean(self._state.q), _LONGEST)}” in its name, branch or commit.")
        first = self._first(len(found))
        shown = ordered(found, self._state.view)[first : first + _ON_A_PAGE]
        return [
            *self._said(results),
            self._table("Runs", shown, sorts=True),
            self._pages(first, len(found)),
        ]

    def _said(self, results: Results) -> list[Any]:
        if not results.runs.truncated:
            return []
        return [controls.notice("There are more than are looked through here: serve a folder further down.")]

    def _first(self, count: int) -> int:
        page = int(self._state.show) if self._state.show.isascii() and self._state.show.isdigit() else 1
        return max(0, min(page - 1, (count - 1) // _ON_A_PAGE)) * _ON_A_PAGE

    def _pages(self, first: int, count: int) -> Any:
        if count <= _ON_A_PAGE:
            return []
        page, last = first // _ON_A_PAGE + 1, (count - 1) // _ON_A_PAGE + 1
        steps = [
            controls.link(text, self._state.with_(show=str(to) if to > 1 else None), self._prefix)
            for text, to, there in (("← before", page - 1, page > 1), ("next →", page + 1, page < last))
            if there
        ]
        words = f"{first + 1:,} to {min(first + _ON_A_PAGE, count):,} of {count:,}"
        return html.Nav([html.Span(words, className="faint"), *steps], className="pages", **{"aria-label": "more runs"})

    def _table(self, caption: str, entries: list[RunEntry], sorts: bool) -> Any:
        """A table of runs; a column in which nothing is known of any of them takes up no room."""
        columns = [column for column in COLUMNS if any(column.known(entry) for entry in entries)]
        heads = [self._head(column) if sorts else _plain_head(column) for column in columns]
        first = [
            html.Th("Choose", scope="col", className="choices"),
            self._head(NAMES) if sorts else _plain_head(NAMES),
        ]
        rows = [self._row(entry, columns) for entry in entries]
        return html.Div(
            html.Table(
                [html.Caption(caption, className="unseen"), html.Thead(html.Tr(first + heads)), html.Tbody(rows)]
            ),
            className="scroll runs-table",
            tabIndex=0,
            role="region",
            **{"aria-label": caption},
        )

    def _head(self, column: Column) -> Any:
        """The head of a column, which sorts by it, and the other way round where it already does."""
        if not column.key:
            return _plain_head(column)
        key, here, down = column.key, self._state.view.lstrip("-") or "name", self._state.view.startswith("-")
        wanted = ("" if key == "name" else key) if key != here or down else f"-{key}"
        mark = "" if key != here else " ▼" if down else " ▲"
        target = self._state.with_(view=wanted, show=None)
        link = controls.link(f"{column.title}{mark}", target, self._prefix, className="sort")
        order = {"aria-sort": "descending" if down else "ascending"} if key == here else {}
        return html.Th(link, scope="col", className=column.style, **order)

    def _row(self, entry: RunEntry, columns: list[Column]) -> Any:
        cells = [
            html.Td(self._choices(entry) if not entry.refused else "", className="choices"),
            html.Td(self._opened(entry), className="run-name"),
        ]
        if entry.problem:
            why = ["cannot be opened: ", cut(clean(entry.problem), 300)]
            return html.Tr([*cells, html.Td(why, colSpan=len(columns) or None, className="why")], className="broken")
        return html.Tr([*cells, *(html.Td(column.cell(entry), className=column.style) for column in columns)])

    def _choices(self, entry: RunEntry) -> list[Any]:
        links = []
        for side in ("base", "head"):
            here = getattr(self._state, side) == entry.id
            links.append(
                controls.link(
                    side,
                    self._state.with_(**{side: None if here else entry.id}, **_NOWHERE),
                    self._prefix,
                    className=f"choose {side}{' here' if here else ''}",
                    title=f"{'no longer ' if here else ''}{side}: {cut(clean(entry.id), _LONGEST)}",
                    **({"aria-current": "true"} if here else {}),
                )
            )
        if entry.uploaded:
            links.append(_forget(entry))
        return links

    def _opened(self, entry: RunEntry) -> Any:
        if entry.problem:
            return name_of(entry)
        state = State(page="compare", head=entry.id)
        return controls.link(name_of(entry), state, self._prefix, title="show this run alone", className="open")


_NOWHERE = dict.fromkeys(("rank", "row", "bt", "ht", "x0", "x1", "y0", "y1", "name"))
"""Places in one run mean nothing in another."""


def _forget(entry: RunEntry) -> Any:
    """A button that removes what was dropped, by ``assets/drop.js``."""
    words = f"remove {name_of(entry)} from the server"
    return html.Button(
        "×", type="button", className="forget", title=words, **{"aria-label": words, "data-upload": entry.id}
    )


def _plain_head(column: Column) -> Any:
    return html.Th(column.title, scope="col", className=column.style)


def _how_to_record() -> Any:
    return html.Section(
        [
            html.H2("No run here yet"),
            html.P("Record a run of your training as it is, every rank of it:"),
            html.Pre("snapviz record -o runs/main --steps 5 -- train.py"),
            html.P(
                [
                    "or under ",
                    html.Code("torchrun"),
                    ": see ",
                    html.Code("snapviz record --help"),
                    ". Record main and your branch, and choose one as base, the other as head. What ",
                    html.Code("torch.cuda.memory._dump_snapshot"),
                    " writes is a run as well, with less known.",
                ]
            ),
        ],
        className="empty",
    )
