"""The timeline's figure: what plotly takes, no larger than it may be, whatever the names are."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapviz.analyze.facts import Facts
from snapviz.analyze.overtime import VIEWS, Asked, over_time
from snapviz.report.plots.ticks import byte_ticks, event_ticks, time_ticks
from snapviz.report.plots.timeline import Titles, cursor_shapes, height_of, timeline
from snapviz.report.plots.timelinemarks import annotations_drawn
from tests.analyze.builders import MIB, Trace
from tests.analyze.test_timeline import facts_of, steps
from tests.test_sample_runs import sample

TITLES = Titles(("base", "head"), ("nothing", "no events"))
PAIRS = [
    ("thunder_478/main", "thunder_478/pr"),
    ("fsdp2_after", "fsdp2_before_notfixed"),
    ("litgpt_eager_8/main", "litgpt_eager_8/pr"),
]


def facts(*names: str) -> list[Facts | None]:
    return [sample(name).ranks[0].facts() for name in names]


def drawn(some: list[Facts | None], asked: Asked, *cursors: float | None) -> dict[str, Any]:
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="plotly comes with the extra app")
    figure = timeline(over_time([*some, None][:2], asked), TITLES, cursors)
    graph_objects.Figure(figure)
    return figure


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: names[1])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["time", "event"])
def test_it_is_a_figure_and_not_too_large(names: tuple[str, str], view: str, kind: str) -> None:
    figure = drawn(facts(*names), Asked(kind, view=view, text="o"), 3.0, 4.0)  # type: ignore[arg-type]
    assert len(json.dumps(figure)) < 290_000
    assert len(figure["layout"]["images"]) == (2 if view == "bands" else 0)
    assert figure["layout"]["xaxis2"]["matches"] == "x"
    assert figure["layout"]["yaxis2"]["matches"] == "y"
    assert len(figure["data"]) < 60


def test_the_exact_peak_stands_in_it() -> None:
    figure = drawn(facts("thunder_478/main", "thunder_478/pr"), Asked())
    texts = [note["text"] for note in figure["layout"]["annotations"]]
    assert texts == ["base", "peak 10.00 MiB · 10,486,272 bytes", "head", "peak 14.00 MiB · 14,680,576 bytes"]
    marks = [trace for trace in figure["data"] if trace["name"] == "peak"]
    assert [mark["y"] for mark in marks] == [[10_486_272], [14_680_576]]


def test_each_curve_is_named_once() -> None:
    figure = drawn(facts("thunder_478/main", "thunder_478/pr"), Asked(view="curves"))
    named = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert named == ["reserved", "active", "allocated", "a phase begins", "annotations", "dangling"]
    (dangling,) = [trace for trace in figure["data"] if trace["name"] == "dangling"]
    assert (dangling["xaxis"], dangling["line"]["color"]) == ("x2", "#d6006c")
    values = np.frombuffer(base64.b64decode(dangling["y"]["bdata"]), dangling["y"]["dtype"])
    assert values.max() == 4 << 20


def test_the_picture_lies_where_its_bytes_are_and_its_dangling_bands_are_of_their_colour() -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow comes with the extra app")
    figure = drawn(facts("thunder_478/pr"), Asked("event"))
    (picture,) = figure["layout"]["images"]
    assert (picture["x"], picture["sizex"]) == (-1, 21)
    assert picture["y"] == picture["sizey"] >= 14_680_576
    pixels = np.array(image.open(io.BytesIO(base64.b64decode(picture["source"].partition(",")[2]))).convert("RGBA"))
    assert pixels[0, 0].tolist() == [0, 0, 0, 0]
    shades = {tuple(pixel) for pixel in pixels[-1].tolist()}
    assert (0xD6, 0x00, 0x6C, 255) in {(r, g, b, a) for r, g, b, a in shades} or any(
        r > 0xD0 and g < 0x60 and b > 0x60 for r, g, b, _ in shades
    )


def test_names_of_a_hostile_file_are_cut_and_escaped() -> None:
    trace, _ = steps()
    made = facts_of(trace, *[(f"<b onload=x>\x1b[31m{i}" + "y" * 900, 1000 + 30 * i, 1020 + 30 * i) for i in range(5)])
    hostile = replace(made, owners=tuple(f"<script>\u202e{'z' * 9000}{i}" for i, _ in enumerate(made.owners)))
    figure = drawn([hostile], Asked(view="owner"))
    text = json.dumps(figure, ensure_ascii=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "y" * 200 not in text
    assert "z" * 200 not in text
    # where plotly reads tags, none is left
    for trace in figure["data"]:
        assert "<" not in trace["name"]
        for key in ("text", "hovertext"):
            assert not any("<" in one for one in trace.get(key, ()))


def test_one_run_has_all_the_room_and_none_says_so() -> None:
    trace, phases = steps()
    alone = drawn([None, facts_of(trace, *phases)], Asked(), 5.0)
    assert "xaxis2" not in alone["layout"]
    assert alone["layout"]["annotations"][0]["text"] == "head"
    assert alone["layout"]["shapes"][0]["xref"] == "x"
    seen = over_time([facts_of(Trace()), facts_of(trace)], Asked())
    figure = timeline(seen, TITLES)
    assert figure["layout"]["annotations"][1]["text"] == "nothing"
    assert height_of(seen) == figure["layout"]["height"]
    low, high = figure["layout"]["yaxis2"]["domain"]
    assert 0 <= low < high < figure["layout"]["yaxis"]["domain"][0]


def test_where_memory_ran_out_is_a_line() -> None:
    trace = Trace()
    trace.alloc(20)
    event = {"action": "oom", "addr": -1, "size": 60 * MIB, "stream": 0, "frames": [], "device_free": 5}
    trace.events.append(event | {"time_us": trace.tick()})
    figure = drawn([facts_of(trace)], Asked("event"))
    lines = [one for one in figure["data"] if one["name"] == "out of memory"]
    assert [one["x"] for one in lines] == [[2, 2, None], [2]]
    assert lines[1]["hovertext"] == ["62,914,560 bytes asked for, the device had 5 free"]


def test_cursors() -> None:
    assert cursor_shapes([None, None]) == []
    shapes = cursor_shapes([None, 7.0])
    assert {(one["x0"], one["x1"], one["xref"]) for one in shapes} == {(7.0, 7.0, "x2")}


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0, 64 << 30, ["0", "16 GiB", "32 GiB", "48 GiB", "64 GiB"]),
        (0, 3 << 29, ["0", "0.25 GiB", "0.5 GiB", "0.75 GiB", "1 GiB", "1.25 GiB", "1.5 GiB"]),
        (0, 700 << 20, ["0", "128 MiB", "256 MiB", "384 MiB", "512 MiB", "640 MiB"]),
        (36 << 30, (36 << 30) + (1 << 18), ["36,864 MiB", "36,864.0625 MiB", "36,864.125 MiB"]),
        (0, 1, ["0", "1 B"]),
    ],
)
def test_ticks_of_bytes_are_binary(low: int, high: int, shown: list[str]) -> None:
    ticks = byte_ticks(low, high)
    inside = [text for value, text in zip(ticks["tickvals"], ticks["ticktext"], strict=True) if low <= value <= high]
    assert inside[: len(shown)] == shown
    assert len(inside) <= 7


def test_ticks_of_times_and_events() -> None:
    def inside(ticks: dict[str, Any], low: int, high: int) -> list[str]:
        pairs = zip(ticks["tickvals"], ticks["ticktext"], strict=True)
        return [text for value, text in pairs if low <= value <= high]

    assert inside(time_ticks(0, 2_100_000), 0, 2_100_000) == ["0", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]
    assert inside(time_ticks(0, 45_000), 0, 45_000)[1] == "5 ms"
    assert inside(time_ticks(12_345_000, 12_345_020), 12_345_000, 12_345_020)[1] == "12.345005 s"
    assert inside(time_ticks(-3, 3), -3, 3)[0] == "-3 µs"
    assert inside(event_ticks(-1, 100_000), -1, 100_000)[-1] == "100,000"


def test_annotations_that_lie_one_over_the_other_are_left_out() -> None:
    seen = over_time(facts("leak", "leak"), Asked())
    side = seen.sides[0]
    assert side is not None
    assert annotations_drawn(side) == side.annotations != ()
    many = replace(side, annotations=side.annotations[:1] * 61)
    assert annotations_drawn(many) == ()
