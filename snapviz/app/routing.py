"""From the URL to a page: its layout, what has to be read first, and the state that its callbacks begin with."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update

from snapviz.app import shell
from snapviz.app.controls import notice
from snapviz.app.results import Results
from snapviz.app.runs import RunEntry
from snapviz.app.state import State as PageState
from snapviz.errors import SnapvizError

__all__ = ["asked_to_work", "ended", "register"]

_STAGES = 40
"""Messages after which a progress bar is nearly full: how many there will be is not known before."""


def register(app: Dash, results: Results, pages: list[ModuleType]) -> None:
    """The callbacks of the shell."""
    _route(app, results, pages)
    _work(app, results)
    _stop(app)
    _keep_in_step(app)


def _route(app: Dash, results: Results, pages: list[ModuleType]) -> None:
    by_name = {page.NAME: page for page in pages}

    @app.callback(
        Output("page", "children"),
        Output("shown", "data"),
        Output("state", "data"),
        Output("job", "data"),
        Output("status", "children"),
        Output("problem", "children"),
        Output("nav", "children"),
        Output("go", "data"),
        Output({"type": "ctl", "key": "base"}, "data"),
        Output({"type": "ctl", "key": "head"}, "data"),
        Output("listed", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("again", "data"),
        State("shown", "data"),
        State("listed", "data"),
    )
    def show(path: str, query: str, done: Any, shown: str | None, listed: str | None) -> tuple[Any, ...]:
        state = PageState.from_url(f"/{app.strip_relative_path(path or '/') or ''}", query or "")
        links, runs = shell.nav(pages, state, app.config.requests_pathname_prefix), _runs(results, state, listed)
        around = (links, no_update, *runs)
        page = by_name[state.page]
        if getattr(page, "NEEDS_RUNS", True):
            if not (state.base or state.head):
                pair = _pair(results)
                if pair is not None:
                    changes = {"base": pair[0], "head": pair[1], "replace": True}
                    return *(no_update,) * 4, [], [], links, changes, *runs
                return *_NOTHING, shell.empty(results), [], *around
            try:
                failed = _failure(done, state)
                if failed:
                    return *_NOTHING, notice(failed, grave=True, title="This cannot be shown."), [], *around
                if not _is_there(done, state, results):
                    return [], None, None, {"state": state.data(), "at": time.time()}, [], [], *around
            except SnapvizError as error:
                said = notice(results.runs.public(str(error)), grave=True, title="This cannot be shown.")
                return *_NOTHING, said, [], *around
        content = no_update if shown == state.page else page.layout(state, results)
        return content, state.page, state.data(), no_update, [], [], *around


def _runs(results: Results, state: PageState, listed: str | None) -> tuple[Any, Any, Any]:
    """What both pickers list, and a digest of it; nothing where they list just that: it can be a megabyte."""
    options = shell.options(results, state)
    digest = hashlib.sha256(repr(options).encode("utf-8", "replace")).hexdigest()
    return (no_update,) * 3 if digest == listed else (options, options, digest)


_NOTHING: tuple[Any, ...] = ([], None, None, no_update)
"""No page, nothing shown, no state, no job."""


def _is_there(done: dict[str, Any] | None, state: PageState, results: Results) -> bool:
    """Whether a page can be shown at once; what is quick to read is read here. Raises ``SnapvizError``."""
    if (done is not None and done.get("for") == state.data()) or results.is_prepared(state):
        return True
    if results.is_small(state):
        results.prepare(state, lambda *_: None)
        return True
    return False


def _failure(done: dict[str, Any] | None, state: PageState) -> str:
    """Why the runs of a state could not be read in the background; "" where they were, or nobody has tried."""
    return str(done.get("failed") or "") if done and done.get("for") == state.data() else ""


_PAIRS = (("main", "pr"), ("base", "head"), ("before", "after"), ("old", "new"))


def _pair(results: Results) -> tuple[str, str] | None:
    """Two runs that lie beside each other and are called as a pair is: what is shown where nobody has chosen."""
    known = {entry.id: entry for entry in results.runs.all() if not entry.problem}
    found = [
        (known[run_id], known[other])
        for run_id in known
        for folder, slash, name in (run_id.rpartition("/"),)
        for first, second in _PAIRS
        if name == first and (other := f"{folder}{slash}{second}") in known
    ]
    best = min(found, key=_first, default=None)
    return (best[0].id, best[1].id) if best else None


def _first(pair: tuple[RunEntry, RunEntry]) -> tuple[bool, int, int, str]:
    """Recordings that say when they were made, near the root, and of those the smallest: the soonest read."""
    undated = any(entry.manifest is None or not entry.manifest.created for entry in pair)
    return undated, pair[0].id.count("/"), sum(entry.size_bytes for entry in pair), pair[0].id


def _work(app: Dash, results: Results) -> None:
    running = [(Output(shell.PROGRESS_PANEL, "hidden"), False, True)]

    @app.callback(
        Output("done", "data"),
        Input("job", "data"),
        background=True,
        interval=250,
        running=running,
        progress=[Output("progress", "value"), Output("progress-text", "children")],
        cancel=[Input("cancel", "n_clicks"), Input("url", "search")],
        prevent_initial_call=True,
    )
    def work(set_progress: Any, data: dict[str, Any] | None) -> Any:
        state = PageState.of((data or {}).get("state"))
        # in a process of its own, which was forked while other threads may have held its locks
        try:
            fresh = results.fresh()
            fresh.prepare(state, _Meter(set_progress, fresh.runs.public))
        except SnapvizError as error:
            return {"for": state.data(), "failed": results.runs.public(str(error)), "at": time.time()}
        except MemoryError:
            return {"for": state.data(), "failed": "there is not enough memory to compare these", "at": time.time()}
        return {"for": state.data(), "at": time.time()}


def ended(data: dict[str, Any] | None, why: str = "") -> dict[str, Any]:
    """What ``work`` gives where it could not: something else has ended it, or ``why``."""
    state = PageState.of((data or {}).get("state"))
    return {"for": state.data(), "failed": why or _ENDED, "at": time.time()}


def asked_to_work() -> tuple[dict[str, Any] | None] | None:
    """What ``work`` was asked for, where the request at work asks for that: Dash shows nothing that it sets otherwise
    where it fails."""
    outputs = ctx.outputs_list
    if not isinstance(outputs, dict) or outputs.get("id") != "done":
        return None
    return (ctx.inputs.get("job.data"),)


_ENDED = (
    "Reading these runs was ended from outside before it was done: perhaps the server has not enough memory for them. "
    "Load this page again to try once more."
)


def _stop(app: Dash) -> None:
    @app.callback(
        Output("status", "children", allow_duplicate=True), Input("cancel", "n_clicks"), prevent_initial_call=True
    )
    def cancelled(_: int) -> Any:
        return notice("Reading was cancelled. ", html.A("Read them after all", href=""), title="Nothing is shown.")


class _Meter:
    """Words and shares of work as a bar that never goes back, and is not full before the end."""

    def __init__(self, show: Callable[[tuple[str, str]], None], public: Callable[[str], str]) -> None:
        self._show, self._public = show, public
        self._messages = 0
        self._words = ""
        self._last = 0.0

    def __call__(self, *told: Any) -> None:
        if len(told) == 1 and isinstance(told[0], str):
            self._words, self._messages = self._public(told[0])[:200], self._messages + 1
            within = 0.0
        else:
            done, whole = (int(told[0]), int(told[1])) if len(told) > 1 else (0, 0)
            within = min(1.0, done / whole) if whole else 0.0
        if time.monotonic() - self._last > 0.1 or within == 0.0:
            self._last = time.monotonic()
            share = 1 - 1 / (1 + (self._messages + within) / _STAGES * 4)
            self._show((str(round(100 * share)), self._words))


def _keep_in_step(app: Dash) -> None:
    """Controls, the URL and what callbacks ask for: in the browser, by ``assets/url.js``."""
    controls = {"type": "ctl", "key": ALL}
    app.clientside_callback(
        ClientsideFunction("snapviz", "controlsToUrl"),
        Output("synced", "data"),
        Input(controls, "value"),
        State(controls, "id"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("snapviz", "urlToControls"),
        Output(controls, "value"),
        Input("url", "search"),
        State(controls, "value"),
        State(controls, "id"),
    )
    app.clientside_callback(
        ClientsideFunction("snapviz", "goTo"),
        Output("synced", "data", allow_duplicate=True),
        Input("go", "data"),
        prevent_initial_call=True,
    )
    # from "done" to the callback that set the work going: a circle, which Dash does not follow by itself
    app.clientside_callback(
        ClientsideFunction("snapviz", "again"),
        Output("synced", "data", allow_duplicate=True),
        Input("done", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("snapviz", "title"),
        Output("footer", "title"),
        Input("state", "data"),
    )
