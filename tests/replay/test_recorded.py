"""The replay against torch's own counters, for small programs under every allocator setting.

Recorded on an H200 with torch 2.11 by ``tests/gpu/record_allocator.py``; see ``tests/gpu/README.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from snapviz import load_snapshot
from snapviz.replay import MEASURES, Replay

RECORDED = Path(__file__).resolve().parents[1] / "data" / "allocator"
NAMES = sorted(file.stem for file in RECORDED.glob("*.json") if not file.stem.startswith("written_by"))
CUT = {"expandable_ring", "plain_ring", "plain_ring_streams"}
"""Recordings whose ring overflowed, so that they begin in the middle."""


def read(name: str) -> tuple[Replay, dict[str, Any]]:
    about = json.loads((RECORDED / f"{name}.json").read_text())
    return load_snapshot(RECORDED / f"{name}.pickle.xz").replay(), about


def test_every_recording_is_here() -> None:
    assert len(NAMES) == 23
    assert set(NAMES) > CUT


@pytest.mark.parametrize("name", NAMES)
def test_counters_of_every_phase(name: str) -> None:
    replay, about = read(name)
    checked = 0
    for phase in about["phases"]:
        if name in CUT and phase["t0"] < replay.time_us[0]:
            continue  # it began before what the ring kept
        first, stop = replay.window(phase["t0"], phase["t1"])
        for measure in MEASURES:
            end = getattr(replay.after(stop - 1), f"{measure}_bytes")
            peak, _ = replay.peak(measure, first, stop)
            assert (peak, end) == (phase[f"peak_{measure}"], phase[f"end_{measure}"]), (phase["name"], measure)
            checked += 1
    assert checked == (16 if name not in CUT else checked)
    for measure in MEASURES:
        assert getattr(replay.end, f"{measure}_bytes") == about["end"][measure]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_exact_says_so_and_what_is_not_does_not(name: str) -> None:
    replay, _ = read(name)
    assert replay.consistent, replay.notes
    begun_late = name in CUT or name == "plain_midway"
    estimated = bool(replay.allocations.estimated.any())
    assert replay.exact == (not estimated)
    assert estimated <= begun_late
    assert bool(replay.start.active_bytes) == begun_late
