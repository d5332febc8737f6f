"""What should have been gone: every whole parameter that outlived its sharding, who holds it, and what it costs."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update

from snapviz.app import controls
from snapviz.app.pages.dangling_look import Looks
from snapviz.app.pages.dangling_parts import above, below
from snapviz.app.results import Results
from snapviz.app.state import State

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "dangling", "/dangling", "Dangling"

_SHOWN = (("", "alike together"), ("each", "each"))


def layout(state: State, results: Results) -> Any:
    """The page before its numbers are there."""
    return html.Div(
        [
            html.Div(id="dangling-above"),
            html.Div(
                [
                    controls.select("rank", "rank", [("", "all")], "", w=110),
                    controls.segmented("show", "parameters", _SHOWN, state.show),
                    controls.search("q", "search", state.q, "parameter or holder"),
                ],
                className="controls no-print",
            ),
            html.Div(id="dangling-below"),
        ]
    )


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""
    looks = Looks(results)
    prefix = app.config.requests_pathname_prefix

    @app.callback(
        Output("dangling-above", "children"),
        Output("dangling-below", "children"),
        Input("state", "data"),
    )
    def show(data: dict[str, Any] | None) -> tuple[Any, Any]:
        if not data or data["page"] != NAME:
            return no_update, no_update
        state = State.of(data)
        look = looks.of(state)
        ranks = [("", "all"), *((str(one), str(one)) for one in look.ranks)]
        controls.choices("rank", ranks)
        return above(look, state, prefix), below(look, state, prefix)
