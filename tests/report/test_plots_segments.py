"""The figures of segments and ranks: what plotly takes, what they hold, and what markup in a name does."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.axis import axis_of
from snapviz.analyze.phases import end_of_run
from snapviz.analyze.segmentblocks import DANGLING, codes_of
from snapviz.analyze.segmentmap import bars_of, laid_out, row_bytes_for
from snapviz.compare.rankgrid import MISSING, WHOLE, RankGrid, drawn, grid_of
from snapviz.compare.ranks import ranks
from snapviz.replay.model import START
from snapviz.report.plots import colours
from snapviz.report.plots.freememory import Band, Marks, free_over_time
from snapviz.report.plots.ranks import column_labels, heatmap, phase_labels, spreads
from snapviz.report.plots.segments import KINDS, Picked, segment_map
from snapviz.report.segmentwords import group_heads, hover_words
from tests.analyze.builders import sample
from tests.analyze.test_fragmentation import facts_of, objects
from tests.replay.builders import BASE, MIB, block, frames, gap, segment

go = pytest.importorskip("plotly.graph_objects")

HOSTILE = "<b>x</b><script>alert(1)</script>%{y}&lt;\x1b[31m\u202e"


def unpacked(spec: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(spec["bdata"]), np.dtype(spec["dtype"]))


def drawn_map(space: AddressSpace, event: int, picked: Picked | None = None, by: str = "category") -> dict[str, Any]:
    pieces = space.pieces(event)
    codes = codes_of(space.facts, pieces, by)
    layout = laid_out(pieces, row_bytes_for(pieces))
    bars = bars_of(pieces, layout, codes.code)
    heads, hover = group_heads(space, pieces, layout), hover_words(space.facts, pieces, bars)
    return segment_map(bars, layout, codes, heads, hover, picked)


@pytest.mark.parametrize("name", ["single", "cuda_graph", "thunder_478/pr"])
def test_a_map_has_every_byte(name: str) -> None:
    space = AddressSpace(sample(name).ranks[0].facts())
    event = space.facts.replay.peak("reserved", 0, len(space.facts.replay))[1]
    found = drawn_map(space, event, Picked(0, 1))
    go.Figure(found)
    json.dumps(found)
    total = sum(float(unpacked(trace["x"]).astype(np.float64).sum()) for trace in found["data"])
    assert total == space.facts.replay.after(event).reserved_bytes
    pieces = {at for trace in found["data"] for first, last in trace["customdata"] for at in range(first, last + 1)}
    assert pieces == set(range(len(space.pieces(event).start)))
    assert len(found["layout"]["shapes"]) >= 1


def test_what_dangles_has_its_own_colour() -> None:
    space = AddressSpace(sample("thunder_478/pr").ranks[0].facts())
    found = drawn_map(space, end_of_run(space.facts))
    (trace,) = [one for one in found["data"] if one["name"].startswith(DANGLING)]
    assert trace["marker"]["color"] == colours.DANGLING
    assert trace["name"] == "dangling · 4.00 MiB"
    assert "p1" in trace["hovertext"][0]


def test_streams_are_told_by_their_place_and_names_have_room() -> None:
    many = [segment(BASE + i * 64 * MIB, block(2 * MIB), stream=0x32DA5770 - i // 20) for i in range(120)]
    space = AddressSpace(facts_of(objects([], many)))
    pieces = space.pieces(START)
    layout = laid_out(pieces, 2 * MIB)
    heads = group_heads(space, pieces, layout)
    told = {f"large pool · default · side stream {at} · 20 segments, 40.00 MiB" for at in range(1, 7)}
    assert set(heads) == told
    found = segment_map(
        bars_of(pieces, layout, codes_of(space.facts, pieces).code), layout, codes_of(space.facts, pieces), heads
    )
    # 5 pixels a row: a line of text takes several
    assert layout.head_rows == 4
    rows = {one["y"] for one in found["layout"]["annotations"]}
    assert rows == {group.row + 1.5 for group in layout.groups}
    assert found["layout"]["legend"]["yref"] == "container"


def test_markup_in_names_is_text() -> None:
    one = segment(BASE, block(4 * MIB, frames=frames(HOSTILE)), gap(2 * MIB))
    space = AddressSpace(facts_of(objects([], [one])))
    facts = space.facts
    named = type(facts)(**{**vars(facts), "owner": np.zeros(1, np.int32), "owners": (HOSTILE,)})
    space.facts = named
    for by in ("owner", "category"):
        text = json.dumps(drawn_map(space, START, by=by)["data"][0])
        assert "<b>" not in text.replace("<extra></extra>", "")
        assert "<script" not in text
        assert "%{y}" not in text


def test_layers_are_what_they_say_and_the_axis_is_as_asked() -> None:
    space = AddressSpace(sample("single").ranks[0].facts())
    found = space.layers()
    marks = Marks({"ticksuffix": " s"}, found.event / 10, (Band("<i>a</i>", 0.0, 50.0),), 3.0, ((5, 0.5, 1 << 20),))
    figure = free_over_time(found, marks, 1 << 34)
    go.Figure(figure)
    assert figure["layout"]["yaxis"]["title"]["text"] == "GiB"
    stacked = [one for one in figure["data"] if one.get("stackgroup")]
    total = sum(unpacked(one["y"]).astype(np.float64) for one in stacked)
    (reserved,) = [one for one in figure["data"] if one["name"] == "reserved"]
    assert np.allclose(total, unpacked(reserved["y"]), rtol=1e-5)
    assert reserved["customdata"] == found.event.tolist()
    assert any(one["name"] == "out of memory" for one in figure["data"])
    assert all("<i>" not in one["text"] for one in figure["layout"]["annotations"])


def test_a_thousand_phases_are_few_bands() -> None:
    facts = sample("single").ranks[0].facts()
    count, last = 1_000, len(facts.replay)
    phases = facts.phases
    edges = np.linspace(int(facts.replay.rising_us[0]), int(facts.replay.rising_us[-1]), count + 1).astype(np.int64)
    events = np.linspace(0, last, count + 1).astype(np.int64)
    many = replace(
        phases,
        names=tuple(f"train/step{at}" for at in range(count)),
        first=events[:-1],
        stop=events[1:],
        start_us=edges[:-1],
        stop_us=edges[1:],
        peak=np.zeros((count, phases.peak.shape[1]), np.int64),
    )
    space = AddressSpace(facts)
    space.facts = type(facts)(**{**vars(facts), "phases": many})
    axis = axis_of(space.facts, "time")
    low, high = float(axis.place(0)), float(axis.place(last - 1))
    assert [one.count for one in space.bands(axis, low, high)] == [count]
    near = space.bands(axis, low, low + (high - low) / 50)
    assert 15 < len(near) <= 202
    found = space.layers()
    bands = tuple(Band(f"step{at}", at / 1_000, (at + 1) / 1_000) for at in range(1_000))
    figure = free_over_time(found, Marks({}, found.event / last, bands, 0.5, ()))
    go.Figure(figure)
    # five layers, two lines, and all the phases as one
    assert len(figure["data"]) <= 8
    assert len(figure["layout"]["shapes"]) == 1
    assert len(figure["layout"]["annotations"]) < 90
    assert len(json.dumps(figure)) < 300_000


def test_layers_of_nothing_are_a_figure() -> None:
    space = AddressSpace(facts_of(objects([], [segment(BASE, gap(2 * MIB))])))
    found = space.layers()
    go.Figure(free_over_time(found, Marks({}, found.event.astype(np.float64), (), None, ())))


def test_kinds_of_free_have_their_names() -> None:
    space = AddressSpace(facts_of(objects([], [segment(BASE, gap(20 * MIB))])))
    (trace,) = drawn_map(space, START)["data"]
    assert trace["name"] == f"{KINDS[3]} · 20.00 MiB"


# ------------------------------------------------------------------ ranks


def grid(values: list[list[int]], unread: dict[int, str] | None = None) -> RankGrid:
    cells = np.array(values, np.int64)
    phases = (WHOLE, *(f"{HOSTILE}{i}" for i in range(1, len(cells))))
    return RankGrid(phases, tuple(range(cells.shape[1])), cells, np.zeros(cells.shape, bool), unread or {})


def test_a_heatmap_has_every_cell_with_words() -> None:
    found = heatmap(drawn(grid([[5 * MIB, 7 * MIB, MISSING], [5 * MIB, MISSING, MISSING]], {2: "cut"})), delta=False)
    go.Figure(found)
    cells, missing, unread = found["data"]
    assert (missing["x"], missing["y"]) == (["rank 1"], [phase_labels((WHOLE, f"{HOSTILE}1"))[1]])
    assert np.array_equal(unpacked(cells["z"])[:2], [5 * MIB, 7 * MIB])
    assert np.isnan(unpacked(cells["z"])[[2, 4, 5]]).all()
    assert cells["text"][0][:2] == ["5.00 MiB", "7.00 MiB"]
    assert cells["hovertext"][0][1] == "the whole run<br>rank 1: 7.00 MiB (7,340,032 bytes)"
    assert cells["hovertext"][1][1].endswith("rank 1: has no such phase")
    assert set(unread["x"]) == {"rank 2"}
    assert "<b>" not in json.dumps(found)
    (shape,) = found["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == (1.5, 2.5)


def test_a_difference_has_a_sign_and_a_middle() -> None:
    found = heatmap(drawn(grid([[5 * MIB, -7 * MIB, 0]])), delta=True)
    (cells,) = found["data"]
    assert cells["text"] == [["▲ +5.00 MiB", "▼ -7.00 MiB", "0"]]
    assert (cells["zmin"], cells["zmax"]) == (-7 * MIB, 7 * MIB)


def test_a_large_grid_is_small_enough_to_send() -> None:
    values = np.arange(512 * 40).reshape(40, 512) * MIB
    cells = drawn(grid(values.tolist(), {511: "cut"}))
    assert len(cells.columns) == 512
    assert len(json.dumps(heatmap(cells, delta=False, outliers=[(0, 3)]))) < 300_000
    wide = drawn(grid((np.arange(5_000 * 40).reshape(40, 5_000)).tolist()))
    assert len(wide.columns) <= 600
    assert column_labels(wide.columns)[0] == "ranks 0-8"
    assert len(json.dumps(heatmap(wide, delta=False))) < 300_000


def test_labels_are_never_the_same_twice() -> None:
    labels = phase_labels([WHOLE, "a/" + "x" * 60, "b/" + "x" * 60, "the whole run"])
    assert len(set(labels)) == 4


def test_spreads_of_two_runs_are_a_figure() -> None:
    report = ranks(sample("uneven_ranks"))
    assert report.spread is not None
    some = [report.spread, *report.phases]
    found = spreads([(HOSTILE, colours.BASE, some), ("head", colours.HEAD, some)], [one.phase or WHOLE for one in some])
    go.Figure(found)
    assert "<b>" not in json.dumps(found).replace("<extra></extra>", "")
    (highest,) = [one for one in found["data"] if one.get("text", [""])[0].startswith("highest")][:1]
    assert highest["text"][0] == f"highest: rank {report.spread.worst_rank}, 397.16 MiB"
    assert grid_of(report).phases[0] == WHOLE
