"""Reserved memory explained as text: golden for real recordings, and what no report may do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz import load_run
from snapviz.analyze.fragmentation import fragmentation
from snapviz.report.fragmentationtext import fragmentation_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import width_of
from snapviz.schema import FragmentationReport
from tests.analyze.builders import load_for_tests, run_of, sample
from tests.analyze.test_fragmentation import GIB, pinned, starved
from tests.replay.builders import BASE, MIB, block, gap, segment
from tests.replay.test_segments import RECORDED
from tests.report.test_text import text_of


def recorded(name: str, *at: str) -> FragmentationReport:
    path = next(one for one in RECORDED if one.name.startswith(f"{name}."))
    return fragmentation(load_run(path, loader=load_for_tests), at or ("peak", "end"))


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", ["plain_oom", "plain_mempool", "expandable_streams", "plain_ring"])
def test_recorded_programs(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = fragmentation_lines(recorded(name), width, 4)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


def test_a_run_of_several_ranks(snapshot: SnapshotAssertion) -> None:
    assert text_of(fragmentation_lines(fragmentation(sample("uneven_ranks"), ["peak"]), 80, 3)) == snapshot


@pytest.mark.parametrize("top", [0, 1, 1000])
@pytest.mark.parametrize("width", [10, 60, 100, 131])
def test_any_width_and_any_number_of_rows(width: int, top: int) -> None:
    for name in ("expandable_graph", "plain_mempool", "collected"):
        lines = fragmentation_lines(recorded(name), width, top)
        longest = max(sum(width_of(span.text) for span in spans) for spans in lines)
        # numbers are never cut: tables may be wider than asked for
        assert longest <= max(width, 96)


def test_little_that_pins_much_reads_so() -> None:
    text = text_of(fragmentation_lines(fragmentation(run_of(pinned()), ["end"]), 100))
    assert "  518.00 MiB  free in 1 segment of 520.00 MiB, pinned by 2.00 MiB (1 block)\n" in text
    assert "activation train.py:1\n" in text
    assert "With expandable_segments at most 640.00 MiB of that could be used again." in " ".join(text.split())


@pytest.mark.parametrize(
    ("size", "device_free", "words"),
    [
        (600 * MIB, 30 * MIB, "30.00 MiB free, 570.00 MiB too little; with what is free in pieces it had enough"),
        (4 * GIB, 30 * MIB, "3.97 GiB too little, and what is free in pieces would not have made up for it"),
        (
            4 * GIB,
            5 * GIB,
            "had 5.00 GiB free, which is enough: what refused it was most likely a limit on the process",
        ),
        (4 * GIB, None, "what the device had free is not recorded, so why there was no more to have cannot be told"),
    ],
)
def test_why_memory_ran_out(size: int, device_free: int | None, words: str) -> None:
    text = text_of(fragmentation_lines(fragmentation(run_of(starved(size, device_free)), ["oom"]), 100))
    told = " ".join(text.split())
    assert words in told
    assert "the largest is 514.00 MiB, of 658.00 MiB free for large requests of its stream" in told
    assert ("≤ 640.00 MiB expandable_segments:True" in told) == (size == 600 * MIB)


def test_what_a_file_says_moves_no_cursor() -> None:
    evil = "a\x1b[31m\u202e[bold]\r\n"
    made: dict[str, Any] = starved(4 * GIB, 30 * MIB)
    for one in [*made["device_traces"][0], *made["segments"][0]["blocks"]]:
        one["frames"] = [{"name": evil, "filename": f"{evil}.py", "line": 1}]
    made["segments"][0]["segment_type"] = evil
    report = fragmentation(run_of(made, name=evil, notes=(evil,)))
    text = text_of(fragmentation_lines(report, 80))
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    assert json.loads(to_json(report))["ranks"][0]["ooms"] == 1


def test_nothing_at_all() -> None:
    empty = {"segments": [], "device_traces": [[], [{"action": "snapshot", "addr": 0, "size": 0}]]}
    text = text_of(fragmentation_lines(fragmentation(run_of(empty)), 80))
    assert "0 bytes reserved" in text
    assert "At the reserved peak of the run nothing is reserved." in text


def test_a_moment_is_told_once() -> None:
    made = {"segments": [segment(BASE, block(MIB), gap(MIB))], "device_traces": [[]]}
    text = text_of(fragmentation_lines(fragmentation(run_of(made)), 80))
    assert "at the end of the run, rank 0: as at the reserved peak of the run\n" in text
    assert text.count("bytes reserved") == 1
