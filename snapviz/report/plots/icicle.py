"""What is live at a moment as an icicle: a cell is as wide as what it holds, those below it are what it is made of."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from snapviz.report.layout import clean, cut
from snapviz.report.plots.base import Figure, figure
from snapviz.report.plots.colours import CATEGORY, DANGLING, FREE, LESS, MORE, by_name
from snapviz.report.words import plural
from snapviz.schema import UNUSED
from snapviz.units import format_bytes, format_exact

__all__ = ["ALONE", "VIEWS", "Cell", "Drawn", "category_colour", "icicle", "signed_arrow"]

Drawn = Literal["difference", "changes", "base", "head"]

VIEWS: dict[Drawn, str] = {
    "difference": "A cell is as wide as the larger of what base and head hold in each of its parts.",
    "changes": "A cell is as wide as its parts have changed, growth and saving both counted: what did not change has "
    "no width.",
    "base": "A cell is as wide as what base holds.",
    "head": "A cell is as wide as what head holds.",
}
"""What is drawn → what its widths mean. Each is a sum over the same parts, so that cells fill those above them."""

ALONE = "A cell is as wide as what it holds."
"""The same of one run."""

_INK = "#1b1f24"
"""Of texts: on every colour of a cell it is dark enough, in a dark page too."""
_PALE = 0.4
"""How far a colour goes towards white, so that texts can be read on it."""
_SAME = "#d8dee4"
_REST = "#c3cad1"
"""Of cells that stand for several that are too small."""
_FADED = 0.72
"""How far a cell that is not searched for goes towards white."""

_ROW = 44
"""Pixels of a level: two lines of text."""
_MOST_LEVELS = 18
_ACROSS, _LETTER = 1_150, 7.2
"""Pixels of a picture, and of a letter: texts are cut to what their cell has room for, and plotly makes them smaller,
down to 10 pixels, where a page is narrower."""
_POINTED = 90
"""Letters of a name where somebody points."""
_SHORTEST = 4
"""Letters: a text that is cut to fewer says nothing."""


@dataclass(frozen=True)
class Cell:
    """One node; the first has no parent."""

    parent: int  # index of a cell before it, -1: none
    label: str  # what it is, in short
    group: str  # what its colour stands for, in base and in head: a category
    base_bytes: int
    head_bytes: int
    base_count: int
    head_count: int
    width_bytes: int
    hidden: int = 0  # branches that it stands for; 0: it is one itself

    @property
    def delta_bytes(self) -> int:
        """head − base."""
        return self.head_bytes - self.base_bytes


def icicle(
    cells: Sequence[Cell],
    drawn: Drawn,
    hits: Sequence[bool] | None = None,
    *,
    chosen: int | None = None,
    alone: bool = False,
    revision: str = "",
) -> Figure:
    """The figure. ``hits`` are the cells that are searched for, the others stand back; none: nothing is searched for.

    ``chosen`` has a border. ``alone``: there is only the run that is drawn. Only cells that have a width are in it; the
    id of each is its index among ``cells``.
    """
    kept = [at for at, cell in enumerate(cells) if cell.width_bytes > 0 or at == 0]
    shown = [cells[at] for at in kept]
    colours = [_colour(cell, drawn) for cell in shown]
    if hits is not None:
        colours = [one if hits[at] else _towards_white(one, _FADED) for one, at in zip(colours, kept, strict=True)]
    levels = _levels(cells, kept)
    whole = max(1, cells[0].width_bytes)
    room = [int(_ACROSS * cell.width_bytes / whole / _LETTER) - 1 for cell in shown]
    trace: dict[str, Any] = {
        "type": "icicle",
        "ids": [str(at) for at in kept],
        "parents": ["" if cell.parent < 0 else str(cell.parent) for cell in shown],
        "labels": [_text(cell.label, letters) for cell, letters in zip(shown, room, strict=True)],
        "values": [cell.width_bytes for cell in shown],
        "text": [_fitting(_amount(cell, drawn), letters) for cell, letters in zip(shown, room, strict=True)],
        "customdata": [_told_alone(cell, drawn, whole) if alone else _told(cell) for cell in shown],
        "branchvalues": "total",
        "sort": False,
        # plotly lets the ground shine through a leaf: in a dark page its text could not be read
        "leaf": {"opacity": 1},
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": False},
        "maxdepth": _MOST_LEVELS,
        "marker": {
            "colors": colours,
            "line": {"width": [3 if at == chosen else 0 for at in kept], "color": _INK},
        },
        "textfont": {"color": _INK},
        "textinfo": "label+text",
        "textposition": "middle left",
        "hovertemplate": "%{customdata}<extra></extra>",
        "root": {"color": "rgba(0,0,0,0)"},
    }
    layout = {
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "height": _ROW * min(levels, _MOST_LEVELS),
        "uniformtext": {"minsize": 10, "mode": "hide"},
        # plotly keeps how far somebody zoomed: that is the page's to know
        "uirevision": revision,
    }
    return figure([trace], layout)


def _levels(cells: Sequence[Cell], kept: Sequence[int]) -> int:
    depth: dict[int, int] = {-1: 0}
    for at in kept:
        depth[at] = depth[cells[at].parent] + 1
    return max(depth.values())


def _text(label: str, letters: int) -> str:
    """Plotly reads tags in a text: a name must not become one, ``<module>`` neither."""
    return html.escape(cut(clean(label), letters), quote=False) if letters >= _SHORTEST else ""


def _fitting(amount: str, letters: int) -> str:
    """A number is never cut."""
    return amount if len(amount) <= letters else ""


def signed_arrow(delta: int) -> str:
    """``▲ +4.00 MiB``, ``▼ -4.00 MiB``, ``± 0``."""
    if not delta:
        return "± 0"
    return f"{'▲' if delta > 0 else '▼'} {format_bytes(delta, signed=True)}"


def _amount(cell: Cell, drawn: Drawn) -> str:
    if drawn == "base":
        return format_bytes(cell.base_bytes)
    if drawn == "head":
        return format_bytes(cell.head_bytes)
    if not cell.delta_bytes and drawn == "difference":
        return f"{format_bytes(cell.head_bytes)}, the same"
    return signed_arrow(cell.delta_bytes)


def _told(cell: Cell) -> str:
    """The lines that a pointer shows."""
    lines = [f"<b>{_text(cell.label, _POINTED)}</b>"]
    lines.append(f"base {format_exact(cell.base_bytes)}, {plural(cell.base_count, 'allocation')}")
    lines.append(f"head {format_exact(cell.head_bytes)}, {plural(cell.head_count, 'allocation')}")
    lines.append(f"Δ {signed_arrow(cell.delta_bytes)} ({cell.delta_bytes:+,} bytes)")
    return "<br>".join(lines)


def _told_alone(cell: Cell, drawn: Drawn, whole: int) -> str:
    size, count = (cell.base_bytes, cell.base_count) if drawn == "base" else (cell.head_bytes, cell.head_count)
    told = f"{format_exact(size)}, {plural(count, 'allocation')}, {size / whole:.1%} of what is drawn"
    return f"<b>{_text(cell.label, _POINTED)}</b><br>{told}"


# ------------------------------------------------------------------ colours


def category_colour(category: str) -> str:
    """Of the cells that a category has most of."""
    own = {**CATEGORY, "dangling parameter": DANGLING, UNUSED: FREE}.get(category, by_name(category))
    return _towards_white(own, _PALE)


def _colour(cell: Cell, drawn: Drawn) -> str:
    if drawn in ("base", "head"):
        if cell.hidden or not cell.group:
            return _REST
        return category_colour(cell.group)
    delta = cell.delta_bytes
    if not delta:
        return _SAME
    # of what changed itself all colour, of what a small change lies in little: the eye follows it down
    share = min(1.0, abs(delta) / max(1, cell.width_bytes))
    return _towards_white(MORE if delta > 0 else LESS, _PALE + 0.5 * (1 - share) ** 2)


def _towards_white(colour: str, by: float) -> str:
    parts = bytes.fromhex(colour.removeprefix("#"))
    return "#" + "".join(f"{round(part + (255 - part) * by):02x}" for part in parts)
