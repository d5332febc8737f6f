"""What is around every page: the pickers of both runs, the links between pages, what is being read, what went wrong."""

from __future__ import annotations

import json
from dataclasses import fields
from types import ModuleType
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from snapviz import __version__
from snapviz.app.controls import link
from snapviz.app.results import Results
from snapviz.app.runs import RunEntry
from snapviz.app.state import State
from snapviz.errors import SnapvizError
from snapviz.report.layout import clean, cut
from snapviz.units import format_bytes

__all__ = ["PROGRESS_PANEL", "empty", "frame", "nav", "options"]

PROGRESS_PANEL = "progress-panel"
"""Id of what is shown while runs are read."""

_LONGEST = 120
"""Characters of a name or branch in a picker."""

_KEYS = (
    ("W  S", "zoom in and out"),
    ("A  D", "move left and right"),
    ("F", "fit: all of it again"),
    ("/", "search"),
    ("1 … 7", "go to a page"),
    ("X", "swap base and head"),
    ("Esc", "close what is open"),
    ("?", "this help"),
)


def frame(pages: list[ModuleType], prefix: str = "", most_bytes: int = 0) -> Any:
    """The layout of the app; ``most_bytes`` of a file may be dropped on it."""
    return dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh=False),
            *_stores(),
            html.A("to the content", href="#main", className="skip"),
            _header(pages, prefix),
            html.Main(
                [
                    html.Div(id="problem", role="alert"),
                    html.Div(id="status", **{"aria-live": "polite"}),
                    _progress(),
                    html.Div(id="page"),
                ],
                id="main",
                tabIndex=-1,
            ),
            html.Div(id="drop-zone", **{"data-most": str(most_bytes)}),
            _help(),
            html.Footer(id="footer"),
        ],
        defaultColorScheme="auto",
        theme={"primaryColor": "blue", "fontFamily": _FONT, "fontFamilyMonospace": _MONO},
    )


_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif'
_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def _stores() -> list[Any]:
    defaults = {field.name: field.default for field in fields(State) if field.name != "page"}
    return [
        dcc.Store(id="state"),
        dcc.Store(id="go"),
        dcc.Store(id="job"),
        dcc.Store(id="done"),
        dcc.Store(id="again"),
        dcc.Store(id="listed"),
        dcc.Store(id="shown"),
        dcc.Store(id="synced"),
        # what was dropped here, known to this tab alone
        dcc.Store(id="uploads", storage_type="session"),
        html.Div(id="snapviz-defaults", hidden=True, **{"data-defaults": json.dumps(defaults)}),
    ]


def _header(pages: list[ModuleType], prefix: str) -> Any:
    brand = link("snapviz", State(), prefix, className="brand", title="snapviz: where memory went")
    return html.Header(
        [
            html.Div(
                [brand, html.Nav(id="nav", **{"aria-label": "pages"}, children=nav(pages, State(), prefix)), _tools()],
                className="bar",
            ),
            html.Div(
                [
                    _picker("base", "base"),
                    html.Button(
                        "⇄",
                        id="swap",
                        type="button",
                        title="swap base and head (X)",
                        **{"aria-label": "swap base and head"},
                    ),
                    _picker("head", "head"),
                ],
                className="pickers",
            ),
        ],
        className="no-print-controls",
    )


def _picker(key: str, label: str) -> Any:
    return dmc.Select(
        id={"type": "ctl", "key": key},
        label=label,
        data=[],
        searchable=True,
        clearable=True,
        limit=200,
        size="sm",
        className="picker",
        placeholder="choose a run: type a name, branch, commit, device …",
        nothingFoundMessage="no such run here",
        renderOption={"function": "snapvizRun"},
        filter={"function": "snapvizRuns"},
        maxDropdownHeight=420,
    )


def _tools() -> Any:
    return html.Div(
        [
            html.Button("Print", id="print-page", type="button", className="tool"),
            html.Button(
                "Save as HTML",
                id="export-html",
                type="button",
                className="tool",
                **{"data-version": __version__},
            ),
            dmc.ColorSchemeToggle(
                lightIcon="☀", darkIcon="☾", size="md", variant="subtle", **{"aria-label": "light or dark"}
            ),
            html.Button("?", id="help-button", type="button", className="tool", **{"aria-label": "keys and help"}),
        ],
        className="tools no-print",
    )


def _progress() -> Any:
    return html.Div(
        [
            html.Div(
                [
                    html.Strong("Reading the runs"),
                    html.Span(id="progress-text", className="faint", children="starting"),
                    html.Button("Cancel", id="cancel", type="button", className="tool"),
                ],
                className="progress-words",
            ),
            html.Progress(id="progress", max="100", value="0", **{"aria-label": "reading the runs"}),
        ],
        id=PROGRESS_PANEL,
        hidden=True,
    )


def _help() -> Any:
    rows = [html.Tr([html.Td([dmc.Kbd(key) for key in keys.split("  ")]), html.Td(what)]) for keys, what in _KEYS]
    return dmc.Modal(
        [
            html.Table(html.Tbody(rows), className="keys"),
            html.P("Letters are off while you type. Everything you see is in the page's address: copy it to show it."),
            html.P("▲ head has more, ▼ head has less. Dangling: a whole parameter that should have been gone."),
        ],
        id="help",
        title="Keys",
        opened=False,
        closeButtonProps={"aria-label": "close"},
        size="md",
    )


def nav(pages: list[ModuleType], state: State, prefix: str = "") -> list[Any]:
    """Links to every page, with what of the state goes along."""
    links = []
    for number, page in enumerate(pages, 1):
        here = state.page == page.NAME
        links.append(
            link(
                page.TITLE,
                state.to(page.NAME),
                prefix,
                className="here" if here else "",
                title=f"{page.TITLE} ({number})",
                **({"aria-current": "page"} if here else {}),
            )
        )
    return links


# ------------------------------------------------------------------ runs to choose


def options(results: Results, state: State) -> list[dict[str, str]]:
    """The runs as a picker has them: the id, and what is searched for and shown below it."""
    found = {entry.id: _option(entry) for entry in results.runs.all()}
    for run_id in (state.base, state.head):
        if run_id and run_id not in found:
            found[run_id] = _unlisted(results, run_id)
    return list(found.values())


def _option(entry: RunEntry) -> dict[str, str]:
    return {"value": entry.id, "label": _label(entry), "about": _about(entry)}


def _unlisted(results: Results, run_id: str) -> dict[str, str]:
    """What was dropped here, or is gone: a picker that does not know its own value would clear it, and the address."""
    try:
        return _option(results.runs.get(run_id))
    except SnapvizError:
        return {"value": run_id, "label": cut(clean(run_id), _LONGEST), "about": "not here (any more)"}


def _label(entry: RunEntry) -> str:
    return f"{cut(clean(entry.name), _LONGEST)} (dropped here)" if entry.uploaded else cut(clean(entry.id), _LONGEST)


def _about(entry: RunEntry) -> str:
    """Branch, commit, date, world size and device of a run, in one line."""
    manifest = entry.manifest
    parts = [entry.branch, entry.commit[:10]]
    if manifest is not None:
        parts += [(manifest.created or "")[:10], manifest.device or ""]
        parts.append(f"world size {manifest.world_size}" if manifest.world_size else "")
        parts.append(f"torch {manifest.torch}" if manifest.torch else "")
    elif not entry.problem:
        parts.append("snapshot" if entry.kind == "snapshot" else f"{entry.snapshots} snapshots")
    parts += [format_bytes(entry.size_bytes), f"cannot be read: {entry.problem}" if entry.problem else ""]
    return " · ".join(cut(clean(part), _LONGEST) for part in parts if part)


def empty(results: Results) -> Any:
    """What is shown where no run is chosen."""
    if not results.runs.all():
        said = [
            html.H1("No runs here yet"),
            html.P(
                [
                    html.Code(clean(results.runs.public(results.runs.label))),
                    " holds no run and no snapshot. Record one:",
                ]
            ),
            html.Pre("snapviz record -o runs/main --steps 5 -- train.py"),
            html.P("or drop a snapshot, or an archive of a run, anywhere on this page."),
        ]
    else:
        said = [
            html.H1("Which two runs?"),
            html.P(
                "Choose base (what you compare with, such as main) and head (the pull request) above. One alone is "
                "shown by itself. You can also drop a snapshot, or an archive of a run, anywhere on this page."
            ),
        ]
    return html.Section(said, className="empty")
