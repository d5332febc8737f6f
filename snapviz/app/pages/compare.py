"""The first screen: what differs, in words."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from snapviz.app.results import Results
from snapviz.app.state import State

__all__ = ["NAME", "PATH", "TITLE", "layout", "register"]

NAME, PATH, TITLE = "compare", "/", "Compare"


def layout(state: State, results: Results) -> Any:
    """The page."""
    return html.Div(html.H1(id="verdict"))


def register(app: Dash, results: Results) -> None:
    """Its callbacks."""

    @app.callback(Output("verdict", "children"), Input("state", "data"))
    def show(data: dict[str, Any]) -> Any:
        state = State.of(data)
        return results.report(state).verdict if state.base and state.head else "one run"
