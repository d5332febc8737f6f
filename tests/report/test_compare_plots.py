"""The steps from base to head as a figure, and the curve of a few pixels."""

from __future__ import annotations

import base64
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.compare.diff import diff
from snapviz.report.plots.sparkline import sparkline
from snapviz.report.plots.waterfall import waterfall_figure
from snapviz.schema import Waterfall, WaterfallStep
from snapviz.units import format_exact
from tests.analyze.builders import MIB, sample


def way(begin: int, *steps: tuple[str, int]) -> Waterfall:
    told, level = [], begin
    for what, delta in steps:
        known = {"what": what, "categories": (what,), "base_count": 1, "head_count": 2, "evidence": "recorded"}
        told.append(WaterfallStep(delta_bytes=delta, from_bytes=level, to_bytes=level + delta, **known))  # type: ignore[arg-type]
        level += delta
    known = {"at": "peak", "rank": 0, "base_phase": None, "head_phase": None, "whole": True, "moved": ()}
    return Waterfall(from_bytes=begin, to_bytes=level, steps=tuple(told), **known)  # type: ignore[arg-type]


NAMES = ("main", "pr")


def test_the_pair_of_the_samples() -> None:
    (found, *_) = diff(sample("thunder_478/main"), sample("thunder_478/pr"), "peak").waterfall
    drawn = waterfall_figure(found, NAMES)
    go.Figure(drawn)
    bars = drawn["data"][0]
    assert bars["text"] == ["10.00 MiB", "▲ +4.00 MiB", "14.00 MiB"]
    assert bars["customdata"] == ["", "dangling parameter", ""]
    assert "▲ +4,194,304 bytes" in bars["hovertext"][1]
    assert drawn["layout"]["meta"]["begins_bytes"] == 0


@given(
    st.integers(0, 1 << 50),
    st.lists(st.tuples(st.sampled_from(["activation", "shard"]), st.integers(-(1 << 45), 1 << 45).filter(bool))),
)
def test_each_bar_begins_where_the_last_ended(begin: int, steps: list[tuple[str, int]]) -> None:
    found = way(begin, *steps)
    drawn = waterfall_figure(found, NAMES)
    bars = drawn["data"][0]
    edges = [(low, low + long) for low, long in zip(bars["base"], bars["x"], strict=True)]
    levels = [found.from_bytes, *(step.to_bytes for step in found.steps)]
    for (low, high), (one, other) in zip(edges[1:-1], pairwise(levels), strict=True):
        assert (low, high) == (min(one, other), max(one, other))
    assert edges[0][1] == found.from_bytes or edges[0][0] == found.from_bytes
    assert found.to_bytes in edges[-1]
    left, right = drawn["layout"]["xaxis"]["range"]
    assert left <= min(low for low, _ in edges)
    assert right >= max(high for _, high in edges)
    ticks = drawn["layout"]["xaxis"]["ticktext"]
    assert len(set(ticks)) == len(ticks)


def test_small_steps_on_much_memory_are_seen_and_said() -> None:
    drawn = waterfall_figure(way(40 << 30, ("activation", 100 << 10), ("shard", -(30 << 10))), NAMES)
    low, high = drawn["layout"]["xaxis"]["range"]
    assert high - low < MIB
    assert drawn["layout"]["meta"]["begins_bytes"] > 39 << 30
    assert "base" in drawn["layout"]["xaxis"]["ticktext"]
    assert drawn["data"][0]["text"][2] == "▼ -30.00 KiB"


def test_what_is_picked_stands_out() -> None:
    drawn = waterfall_figure(way(MIB, ("activation", MIB), ("shard", -7)), NAMES, "shard")
    assert drawn["data"][0]["marker"]["opacity"] == [0.35, 0.35, 1.0, 0.35]
    assert format_exact(-7, signed=True) in drawn["data"][0]["hovertext"][2]


@pytest.mark.parametrize("name", ["<b>x</b>", "&lt;i&gt;", "\u202e\x1b[31m", "a" * 5000])
def test_a_name_is_text(name: str) -> None:
    drawn = waterfall_figure(way(MIB, ("activation", MIB)), (name, name))
    for text in (*drawn["layout"]["yaxis"]["ticktext"], *drawn["data"][0]["hovertext"]):
        assert not {"\u202e", "\x1b"} & set(text)
        assert "<b>x" not in text
        assert len(text) < 400


# ------------------------------------------------------------------ the curve of a few pixels


def drawn(*values: tuple[int, int], floor: int, ceiling: int) -> ElementTree.Element:
    low, high = (np.array(side, np.int64) for side in zip(*values, strict=True))
    uri = sparkline(low, high, floor, ceiling)
    kind, _, data = uri.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(data))


def test_a_curve_reaches_its_peak_and_its_floor() -> None:
    area, line = drawn((0, 0), (0, 90), (40, 40), floor=0, ceiling=90)
    assert area.attrib["d"] == "M0 20V20H32V0H64V12H96V20Z"
    assert line.attrib["d"].startswith("M0 20V20H32V0H64V12H96")
    assert line.attrib["d"].endswith("V12H64V20H32V20H0Z")


def test_one_level_lies_in_the_middle() -> None:
    area, _ = drawn((5, 5), floor=5, ceiling=5)
    assert area.attrib["d"] == "M0 20V10H96V20Z"


def test_bytes_beyond_a_float_are_exact() -> None:
    big = 1 << 60
    area, _ = drawn((big, big), (big + 1, big + 1), floor=big, ceiling=big + 1)
    assert area.attrib["d"] == "M0 20V20H48V0H96V20Z"
