"""What a replay can be asked, and the snapshot it belongs to."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.errors import UsageError
from snapviz.replay import START, Snapshot, replay_device
from snapviz.snapshot.columns import HOST_DEVICE
from snapviz.snapshot.objects import columns_from_objects
from tests.replay.builders import BASE, MIB, alloc, block, columns, event, free, gap, replay, segment, segment_alloc

UP_AND_DOWN = [
    segment_alloc(BASE, 2 * MIB),
    alloc(BASE, 512),
    alloc(BASE + 512, 1024),
    *free(BASE + 512, 1024),
    alloc(BASE + 512, 512),
]
FINAL = [segment(BASE, block(512), block(512), gap(2 * MIB - 1024))]


def test_after_and_end():
    found = replay(UP_AND_DOWN, FINAL)
    assert found.after(START) == found.start
    assert found.after(2).allocated_bytes == 1536
    assert found.after(3).allocated_bytes == 512
    assert found.after(3).active_bytes == 1536
    assert found.end == found.after(5)
    assert isinstance(found.end.allocated_bytes, int)
    for event_number in (-2, 6):
        with pytest.raises(IndexError):
            found.after(event_number)


def test_peak_counts_what_was_there_just_before():
    found = replay(UP_AND_DOWN, FINAL)
    assert found.peak("allocated", 0, 6) == (1536, 2)
    assert found.peak("allocated_bytes", 3, 6) == (1536, 2)
    assert found.peak("allocated", 4, 6) == (1024, 5)
    assert found.peak("allocated", 0, 0) == (0, START)
    assert found.peak("reserved", 0, 6) == (2 * MIB, 0)
    assert found.peak("active", 3, 3) == (1536, 2)
    with pytest.raises(UsageError, match="requested, allocated, active, reserved"):
        found.peak("free", 0, 1)
    with pytest.raises(IndexError):
        found.peak("active", 3, 7)


def test_windows_hold_both_their_ends():
    found = replay([e | {"time_us": t} for e, t in zip(UP_AND_DOWN, [10, 20, 20, 30, 40, 50], strict=True)], FINAL)
    assert found.window(20, 30) == (1, 4)
    assert found.window(0, 9) == (0, 0)
    assert found.window(21, 29) == (3, 3)
    assert found.window(51, 90) == (6, 6)
    assert found.window(30, 20) == (3, 3)


def test_windows_of_a_clock_that_went_back():
    found = replay([e | {"time_us": t} for e, t in zip(UP_AND_DOWN, [10, 20, 15, 30, 5, 50], strict=True)], FINAL)
    assert found.window(20, 30) == (1, 5)


def test_windows_without_times():
    found = replay_device(columns(UP_AND_DOWN, FINAL, timed=False), 0)
    assert not found.has_times
    with pytest.raises(UsageError, match=r"before 2\.2"):
        found.window(0, 1)
    assert replay([], FINAL).window(0, 1) == (0, 0)


def test_masks_sum_to_the_curves():
    found = replay(UP_AND_DOWN, FINAL)
    table = found.allocations
    assert len(table) == 3
    for at in range(-1, len(found)):
        assert table.block_bytes[table.allocated_after(at)].sum() == found.after(at).allocated_bytes
        assert table.block_bytes[table.active_after(at)].sum() == found.after(at).active_bytes
        assert table.requested_bytes[table.active_after(at)].sum() == found.after(at).requested_bytes


def test_widths_are_as_declared():
    found = replay(UP_AND_DOWN, FINAL)
    table = found.allocations
    assert {n: getattr(table, n).dtype.name for n in ("stack", "pool", "estimated", "stream", "address")} == {
        "stack": "int32",
        "pool": "int32",
        "estimated": "bool",
        "stream": "int64",
        "address": "int64",
    }
    assert all(getattr(found, f"{m}_bytes").dtype == np.int64 for m in ("requested", "allocated", "active", "reserved"))


def test_a_snapshot_replays_once_and_finds_its_device():
    snapshot = Snapshot(columns(UP_AND_DOWN, FINAL), "run/rank0.pickle")
    assert snapshot.devices == (0,)
    assert snapshot.replay() is snapshot.replay(0)
    with pytest.raises(UsageError, match=r"no device 3 \(it has: 0\)"):
        snapshot.replay(3)


def test_a_snapshot_of_several_devices_asks_which():
    root = {"segments": FINAL, "device_traces": [UP_AND_DOWN, [], [event("snapshot", 0, 0)]]}
    snapshot = Snapshot(columns_from_objects(root), "run/two.pickle")
    with pytest.raises(UsageError, match=r"run/two\.pickle: several devices have events \(0, 2\)"):
        snapshot.replay()
    assert snapshot.replay(2).end.active_bytes == 0
    assert len(snapshot.replay(1)) == 0


def test_a_snapshot_without_events_falls_back_to_segments_and_an_empty_one_says_so():
    assert Snapshot(columns([], FINAL)).replay().end.allocated_bytes == 1024
    with pytest.raises(UsageError, match="no device has events or segments"):
        Snapshot(columns([], [])).replay()


def test_pinned_host_memory_is_not_the_device():
    root = {"segments": FINAL, "device_traces": [UP_AND_DOWN], "host_traces": [[event("snapshot", 0, 0)]]}
    snapshot = Snapshot(columns_from_objects(root))
    assert snapshot.devices == (HOST_DEVICE, 0)
    assert snapshot.replay().device == 0
    assert snapshot.replay(HOST_DEVICE).device == HOST_DEVICE


def test_progress_is_told_what_happens():
    said: list[str] = []
    Snapshot(columns(UP_AND_DOWN, FINAL)).replay(progress=said.append)
    assert said == ["preparing", "replaying", "checking"]
