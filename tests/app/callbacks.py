"""The callbacks of the pages, asked as the browser asks: without one."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

from dash import Dash

from snapviz.app import create_app
from snapviz.app.state import State

__all__ = ["Pages"]

PLACES = {
    "state",
    "compare-where",
    "compare-what",
    "compare-row",
    "timeline-window",
    "timeline-cursor",
    "timeline-runs",
}
"""Stores from which callbacks begin: each has the state, or the part of it that matters there."""


class Pages(logging.Handler):
    """Asks every callback that begins from the state, and keeps what the server's log says."""

    def __init__(self, root: Path, kept: Path) -> None:
        super().__init__()
        self.app: Dash = create_app(root, cache_dir=kept, allowed_hosts=None)
        self.client = self.app.server.test_client()
        self.said: list[logging.LogRecord] = []
        listed = self.client.get("/_dash-dependencies").get_json()
        self.callbacks = [one for one in listed if _begins_from_state(one)]

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record)

    def of(self, page: str) -> list[dict[str, Any]]:
        """The callbacks of a page, by the ids that they give to."""
        prefix = "seg-" if page == "segments" else f"{page}-"
        return [one for one in self.callbacks if prefix in one["output"]]

    def problems(self, state: State) -> list[str]:
        """What a page's callbacks answer that no page should show; nothing where all is well."""
        found = []
        log = logging.getLogger("snapviz")
        log.addHandler(self)
        try:
            for callback in self.of(state.page):
                self.said.clear()
                answer = self._asked(callback, state)
                told = f"{state.url()} {callback['output'][:60]}"
                if answer.status_code not in (200, 204) or self.said:
                    why = [str(record.exc_info[1])[:500] for record in self.said if record.exc_info]
                    found.append(f"{told}: {answer.status_code} {why}")
                elif answer.status_code == 200:
                    found += [f"{told}: {word}" for word in _odd(answer.get_json())]
        finally:
            log.removeHandler(self)
        return found

    def _asked(self, callback: dict[str, Any], state: State) -> Any:
        def filled(given: dict[str, Any]) -> dict[str, Any]:
            place = given["id"] in PLACES and given["property"] == "data"
            return {"id": given["id"], "property": given["property"], "value": state.data() if place else None}

        return self.client.post(
            "/_dash-update-component",
            json={
                "output": callback["output"],
                "outputs": _outputs(callback["output"]),
                "inputs": [filled(given) for given in callback["inputs"]],
                "state": [filled(given) for given in callback["state"]],
                "changedPropIds": [f"{given['id']}.{given['property']}" for given in callback["inputs"]],
            },
        )


def _begins_from_state(one: dict[str, Any]) -> bool:
    inputs = {given["id"] for given in one["inputs"] if given["property"] == "data"}
    return not one.get("clientside_function") and not one.get("background") and bool(inputs & PLACES)


def _outputs(text: str) -> Any:
    def parsed(one: str) -> dict[str, Any]:
        name, _, prop = one.rpartition(".")
        return {"id": json.loads(name) if name.startswith("{") else name, "property": prop}

    if text.startswith(".."):
        return [parsed(one) for one in text.strip(".").split("...")]
    return parsed(text)


_NEVER = ("NaN", "nan MiB", "Infinity", "None", "undefined", "Traceback")
"""What is no text for people."""


def _odd(value: Any, key: str = "") -> list[str]:
    """Numbers that are none, and words that only a program could want, in an answer."""
    if isinstance(value, dict):
        return [odd for name, one in value.items() for odd in _odd(one, name)]
    if isinstance(value, list):
        return [odd for one in value for odd in _odd(one, key)]
    if isinstance(value, float) and not math.isfinite(value):
        return [f"{key}: {value}"]
    if isinstance(value, str) and key in ("children", "title", "aria-label", "label", "text", "hovertext", "name"):
        return [f"{key}: {value[:200]}" for never in _NEVER if never in value.split()]
    return []
