"""Real recordings: torch's own counters, and what ``segments`` says, against the replay's."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from snapviz.replay import Replay, Snapshot
from snapviz.snapshot.objects import columns_from_objects
from tests.snapshot.oracle import unpickle

WHOLE = (
    "accel8_after_rank0",
    "accel8_before_notfixed_rank0",
    "accelerate_rank0",
    "accelerate_rank1",
    "alloc_expandable_rank0",
    "alloc_graph_rank0",
    "alloc_plain_rank0",
    "fake8_after_rank0",
    "fake8_before_fixed_rank0",
    "fake8_before_notfixed_rank0",
    "real2_after_rank0",
    "real2_after_rank1",
    "real2_before_notfixed_rank0",
    "real2_before_notfixed_rank1",
    "thunder_keep_rank0",
    "thunder_keep_rank1",
    "thunder_release_rank0",
    "thunder_release_rank1",
)
RING = "alloc_ring_rank0"

ESTIMATED = {
    "inductor-frames",
    "old-2023-block-history",
    "train-orphan-frees",
    "two-slots-two-events",
    "user-metadata-keys",
}
DOCTORED = "doctored-pool-list"
CORPUS = (
    *sorted(ESTIMATED),
    "bare-segment-list",
    "empty",
    "four-slots-full-step",
    "four-slots-no-time",
    "fullstep-annotations",
    "multi-gpu-expandable-oom",
    "npu-expandable-unmap",
    "npu-multi-device",
    "old-2023-block-history-oom",
    "one-event-32gb",
    "pair-ctx128-forward",
    "pair-ctx128-forward-mixed",
    "pair-grad",
    "pair-no-grad",
    "pair-small-bf16",
    "pair-small-fp32",
    "pair-xl-bf16-expandable",
    "pair-xl-fp32-expandable",
    "qlora-deep-stacks-no-time",
    "rl-pools-pending-free",
    "rl-private-pool-slot3",
    "segment-free",
    "segments-only",
    "snapshot-action",
    "tiny-expandable",
)


@cache
def objects(path: Path) -> Any:
    return unpickle(lzma.decompress(path.read_bytes()))


def snapshot(path: Path) -> Snapshot:
    return Snapshot(columns_from_objects(objects(path)), path)


def phases(folder: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((folder / f"{name}.json").read_text())["phases"]


def off(replay: Replay, phase: dict[str, Any]) -> dict[str, int]:
    """Replay minus torch's counters of one phase."""
    first, stop = replay.window(phase["t0"], phase["t1"])
    end = replay.after(stop - 1)
    ours = {
        "peak_allocated": replay.peak("allocated", first, stop)[0],
        "peak_reserved": replay.peak("reserved", first, stop)[0],
        "end_allocated": end.allocated_bytes,
        "end_reserved": end.reserved_bytes,
    }
    return {name: value - phase[name] for name, value in ours.items()}


def test_no_file_is_left_out(shared):
    recorded = {p.name.removesuffix(".pickle.xz") for p in (shared / "groundtruth").glob("*.xz")}
    assert recorded == {*WHOLE, RING}
    assert set(json.loads((shared / "corpus/manifest.json").read_text())) == {*CORPUS, DOCTORED}


@pytest.mark.parametrize("name", WHOLE)
def test_every_phase_equals_torchs_counters(shared, name):
    folder = shared / "groundtruth"
    replay = snapshot(folder / f"{name}.pickle.xz").replay()
    assert replay.exact
    assert replay.consistent
    assert replay.notes == ()
    assert replay.start.reserved_bytes == 0
    for phase in phases(folder, name):
        assert off(replay, phase) == dict.fromkeys(
            ("peak_allocated", "peak_reserved", "end_allocated", "end_reserved"), 0
        )


def test_a_ring_is_flagged_and_right_where_it_is_whole(shared):
    folder = shared / "groundtruth"
    replay = snapshot(folder / f"{RING}.pickle.xz").replay()
    assert replay.consistent
    assert not replay.exact
    assert [f.kind for f in replay.findings] == ["estimated-blocks", "older-blocks"]
    inside = [p for p in phases(folder, RING) if p["t0"] >= replay.time_us[0]]
    assert [p["name"] for p in inside] == ["train/step3", "empty_cache"]
    # the estimates are gone before the first of them begins
    assert replay.window(inside[0]["t0"], inside[0]["t1"])[0] > replay.estimated_until
    for phase in inside:
        assert not any(off(replay, phase).values())


@pytest.mark.parametrize("name", CORPUS)
def test_every_end_equals_the_segments(shared, name):
    path = shared / "corpus" / f"{name}.pickle.xz"
    told = json.loads((shared / "corpus/manifest.json").read_text())[name]
    found = snapshot(path)
    replays = [found.replay(device) for device in found.devices]
    for measure in ("reserved_bytes", "allocated_bytes", "active_bytes"):
        assert sum(getattr(replay.end, measure) for replay in replays) == told[measure]
    for replay in replays:
        assert replay.consistent, replay.notes
        assert vars(replay.end) == segment_sums(objects(path), replay.device)
        assert replay.exact == (not replay.allocations.estimated.any())
    assert (name in ESTIMATED) == (not all(replay.exact for replay in replays))
    assert name.startswith("npu") == any("torch_npu" in note for replay in replays for note in replay.notes)


def segment_sums(root: Any, device: int) -> dict[str, int]:
    """One device's totals from the segments' own fields; from blocks where torch 2.0 had no field."""
    segments = root["segments"] if isinstance(root, dict) else root
    mine = [s for s in segments if s["device"] == device]
    active = [b for s in mine for b in s["blocks"] if b["state"] != "inactive"]
    requested = [b["requested_size"] if "requested_size" in b else b["history"][0]["real_size"] for b in active]
    return {
        "requested_bytes": sum(requested),
        "allocated_bytes": sum(s["allocated_size"] for s in mine),
        "active_bytes": sum(s["active_size"] for s in mine),
        "reserved_bytes": sum(s["total_size"] for s in mine),
    }


def test_the_doctored_file_is_reported(shared):
    replay = snapshot(shared / "corpus" / f"{DOCTORED}.pickle.xz").replay()
    assert not replay.consistent
    assert not replay.exact
    found = {f.kind: f for f in replay.findings}
    assert found["block-sums"].count == 5
    assert {"segment-allocated", "segment-active", "outside-segments", "no-free-requested"} <= found.keys()
    assert replay.end.reserved_bytes == 262_144_000
    assert (replay.allocations.free_requested_event == replay.allocations.free_completed_event).all()


@pytest.mark.parametrize("name", ["alloc_plain_rank0", "alloc_expandable_rank0", "alloc_graph_rank0"])
@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.9])
def test_a_recording_cut_by_hand_agrees_with_the_whole(shared, name, share):
    root = objects(shared / "groundtruth" / f"{name}.pickle.xz")
    trace = root["device_traces"][0]
    cut = int(share * len(trace))
    whole = Snapshot(columns_from_objects(root)).replay(0)
    part = Snapshot(columns_from_objects(root | {"device_traces": [trace[cut:]]})).replay(0)
    assert part.consistent, part.notes
    after = part.estimated_until + 1
    for measure in ("requested", "allocated", "active", "reserved"):
        assert (whole.curve(measure)[cut + after :] == part.curve(measure)[after:]).all()
    missing = whole.after(cut - 1).allocated_bytes - part.start.allocated_bytes
    assert 0 <= missing <= int(part.allocations.estimated.sum()) << 20
    assert part.start.reserved_bytes == whole.after(cut - 1).reserved_bytes
    assert part.start.requested_bytes == whole.after(cut - 1).requested_bytes


def test_synthetic_files_keep_equal_sizes_apart_from_their_place(shared, monkeypatch):
    """The generator follows no torch rule: said so, and equal requests come out equal."""
    monkeypatch.syspath_prepend(str(shared))
    generate = pytest.importorskip("make_snapshot").generate
    replay = Snapshot(columns_from_objects(generate(events=6000, layers=4, n_unique=100))).replay()
    assert not replay.exact
    assert any("splitting and merging" in note for note in replay.notes)
    table = replay.allocations
    rounded = (table.requested_bytes + 511) // 512 * 512
    assert (table.block_bytes == rounded)[table.alloc_event >= 0].all()
    assert replay.end.allocated_bytes == sum(
        s["allocated_size"] for s in generate(events=6000, layers=4, n_unique=100)["segments"]
    )
