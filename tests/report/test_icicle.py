"""The icicle: cells that fill those above them, exact amounts, and names that are nothing but names."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from snapviz.report.plots.colours import LESS, MORE
from snapviz.report.plots.icicle import VIEWS, Cell, Drawn, category_colour, icicle
from tests.report.hostile import TEXTS

MIB = 1 << 20


def cell(parent: int, label: str, base: int, head: int, width: int | None = None, **rest: Any) -> Cell:
    wide = max(base, head) if width is None else width
    return Cell(parent, label, rest.pop("group", ""), base, head, bool(base), bool(head), wide, **rest)


CELLS = [
    cell(-1, "all", 3 * MIB, 4 * MIB, 5 * MIB),
    cell(0, "grew", MIB, 3 * MIB),
    cell(0, "shrank", 2 * MIB, MIB),
    cell(0, "nothing of it", 0, 0),
]


def trace(cells: list[Cell], drawn: Drawn = "difference", **rest: Any) -> dict[str, Any]:
    found = icicle(cells, drawn, **rest)
    go.Figure(found)  # raises for what plotly does not know
    data: dict[str, Any] = found["data"][0]
    return data


@pytest.mark.parametrize("drawn", VIEWS)
def test_every_view_is_a_figure_that_plotly_takes(drawn: Drawn) -> None:
    data = trace(CELLS, drawn)
    assert data["branchvalues"] == "total"
    assert len({len(data[key]) for key in ("ids", "parents", "labels", "values", "text", "customdata")}) == 1


def test_amounts_have_a_sign_a_word_and_every_byte() -> None:
    data = trace(CELLS)
    assert data["ids"] == ["0", "1", "2"]
    assert data["parents"] == ["", "0", "0"]
    assert data["text"] == ["▲ +1.00 MiB", "▲ +2.00 MiB", "▼ -1.00 MiB"]
    assert data["customdata"][2] == (
        "<b>shrank</b><br>base 2,097,152 bytes, 1 allocation<br>head 1,048,576 bytes, 1 allocation"
        "<br>Δ ▼ -1.00 MiB (-1,048,576 bytes)"
    )
    assert trace(CELLS, "base")["text"][1] == "1.00 MiB"
    assert trace([cell(-1, "all", MIB, MIB)])["text"] == ["1.00 MiB, the same"]


def test_what_changed_itself_has_the_whole_colour() -> None:
    cells = [cell(-1, "all", MIB, 2 * MIB), cell(0, "new", 0, MIB), cell(0, "gone", MIB, 0), cell(0, "a bit", 8, 9)]
    colours = [bytes.fromhex(colour[1:]) for colour in trace(cells)["marker"]["colors"]]
    for colour, full in ((colours[1], MORE), (colours[2], LESS)):
        # as pale as texts need it, and no paler
        assert [round(255 - (255 - part) * 0.6) for part in bytes.fromhex(full[1:])] == list(colour)
    assert min(colours[3]) > min(colours[1])


def test_texts_are_cut_to_their_cells_and_numbers_never() -> None:
    name = "forward model.py → linear functional.py"
    data = trace([cell(-1, "all", 100, 100), cell(0, name, 60, 60), cell(0, name, 12, 12), cell(0, name, 1, 1)], "head")
    assert data["labels"][1] == name
    assert name.startswith(data["labels"][2].removesuffix("…"))
    assert data["labels"][2].endswith("…")
    assert (data["labels"][3], data["text"][2], data["text"][3]) == ("", "12 B", "")


def test_what_is_not_searched_for_stands_back() -> None:
    plain = trace(CELLS)["marker"]["colors"]
    found = trace(CELLS, hits=[False, True, False, False])["marker"]["colors"]
    assert (found[1] == plain[1], found[2] == plain[2]) == (True, False)


@pytest.mark.parametrize("name", [*TEXTS, "<module>", '<a href="javascript:alert(1)">x</a>', "<b>bold</b>", "&lt;"])
def test_a_name_never_becomes_markup(name: str) -> None:
    data = trace([cell(-1, name, 1, 1, group=name)], "head")
    assert "<" not in data["labels"][0] + data["customdata"][0].replace("<br>", "").replace("<b>", "", 1).replace(
        "</b>", "", 1
    )
    assert len(data["labels"][0]) < 1_000


def test_of_one_run_alone_nothing_is_compared() -> None:
    cells = [cell(-1, "all", 0, 4 * MIB), cell(0, "one", 0, 3 * MIB, group="shard"), cell(0, "other", 0, MIB)]
    data = trace(cells, "head", alone=True)
    assert data["text"] == ["4.00 MiB", "3.00 MiB", "1.00 MiB"]
    assert data["customdata"][1] == "<b>one</b><br>3,145,728 bytes, 1 allocation, 75.0% of what is drawn"
    assert data["marker"]["colors"][1] == category_colour("shard")
    assert len({category_colour(one) for one in ("shard", "parameter", "dangling parameter", "no such")}) == 4
