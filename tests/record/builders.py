"""A stand-in for torch's recording calls, and small things to record with it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snapviz.analyze.run import load_run
from snapviz.record.backend import MEASURES, HistorySettings, Reading
from snapviz.record.phases import now_us
from snapviz.schema import RankRecord, RunManifest, read_manifest

__all__ = ["FakeBackend", "manifest", "record_of"]

MIB = 1 << 20
FRAMES = [{"name": "main", "filename": "/repo/train.py", "line": 7}]


class FakeBackend:
    """An allocator in memory, on one of two devices: each allocation has a segment of its own, which stays.

    ``alloc`` and ``free`` are what a program would do through tensors; ``own`` takes a CPU tensor's storage
    for memory of the device until it dies, so that censuses and events speak of the same addresses.
    """

    device_type = "cpu"

    def __init__(self, unavailable: str | None = None, recording: bool = False) -> None:
        self.unavailable = unavailable
        self.recording = recording
        self.ready = True
        self.waiting: list[Callable[[], None]] = []
        self.device = 0
        self.settings: HistorySettings | None = None
        self.calls: list[str] = []
        self.events: list[list[dict[str, Any]]] = [[], []]
        self.segments: dict[int, dict[str, Any]] = {}
        self.current = [dict.fromkeys(MEASURES, 0) for _ in range(2)]
        self.peaks = [dict.fromkeys(MEASURES, 0) for _ in range(2)]
        self.retries = self.ooms = 0
        self.live: dict[int, tuple[int, int]] = {}
        self._next = 0x7000_0000_0000

    # what a program does

    def alloc(self, requested: int, address: int | None = None) -> int:
        rounded = -(-requested // 512) * 512
        if address is None:
            address = self._next
            self._next += max(rounded, 2 * MIB)
        device = self.device
        self._add(device, reserved=rounded if address not in self.segments else 0)
        if address not in self.segments:
            self._event(device, "segment_alloc", address, rounded)
        self.segments[address] = {"device": device, "rounded": rounded}
        self._event(device, "alloc", address, requested)
        self._add(device, allocated=rounded, active=rounded, requested=requested)
        self.live[address] = (requested, rounded)
        return address

    def free(self, address: int) -> None:
        requested, rounded = self.live.pop(address)
        device = self.segments[address]["device"]
        self._event(device, "free_requested", address, requested)
        self._event(device, "free_completed", address, requested)
        self._add(device, allocated=-rounded, active=-rounded, requested=-requested)

    def own(self, tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        address = self.alloc(storage.nbytes(), storage.data_ptr())
        weakref.finalize(storage, lambda: address in self.live and self.free(address))
        return tensor

    def _event(self, device: int, action: str, address: int, size: int) -> None:
        if self.recording:
            event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": now_us()}
            self.events[device].append(event | {"frames": FRAMES})

    def _add(self, device: int, **change: int) -> None:
        for measure, by in change.items():
            self.current[device][measure] += by
            self.peaks[device][measure] = max(self.peaks[device][measure], self.current[device][measure])

    # snapviz.record.backend.Backend

    def missing(self) -> str | None:
        return self.unavailable

    def is_ready(self) -> bool:
        return self.ready

    def when_ready(self, then: Callable[[], None]) -> None:
        if self.ready:
            then()
        else:
            self.waiting.append(then)

    def become_ready(self) -> None:
        """What the first use of a device does."""
        self.ready = True
        for then in self.waiting:
            then()

    def current_device(self) -> int:
        return self.device

    def device_count(self) -> int:
        return 2

    def before_program_resets(self, then: Callable[[], None]) -> None:
        self.before_reset = then

    def program_resets_peaks(self) -> None:
        """What a program's own reset_peak_memory_stats does."""
        self.before_reset()
        self.peaks[self.device] = dict(self.current[self.device])

    def is_recording(self) -> bool:
        return self.recording

    def is_fresh(self, device: int) -> bool:
        return not any(segment["device"] == device for segment in self.segments.values())

    def start(self, settings: HistorySettings) -> None:
        self.settings, self.recording = settings, True
        self.calls.append("start")

    def stop(self) -> None:
        self.recording = False
        self.calls.append("stop")

    def snapshot(self) -> dict[str, Any] | None:
        if not self.ready:
            return None
        segments = []
        for address, segment in self.segments.items():
            requested, rounded = self.live.get(address, (0, segment["rounded"]))
            state = "active_allocated" if address in self.live else "inactive"
            used = rounded if address in self.live else 0
            block = {"address": address, "size": rounded, "requested_size": requested, "state": state, "frames": FRAMES}
            segments.append(
                {
                    "device": segment["device"],
                    "address": address,
                    "total_size": segment["rounded"],
                    "allocated_size": used,
                    "active_size": used,
                    "requested_size": requested,
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": FRAMES,
                    "blocks": [block],
                }
            )
        limit = self.settings.max_entries if self.settings else 0
        traces = [events[-limit:] for events in self.events]
        return {"segments": segments, "device_traces": traces, "allocator_settings": {"max_split_size": -1}}

    def synchronize(self, device: int) -> None:
        self.calls.append("synchronize")

    def read(self, device: int, whole_device: bool = True) -> Reading:
        free = 100 * MIB if whole_device else None
        return Reading(
            dict(self.current[device]),
            dict(self.peaks[device]),
            self.retries,
            self.ooms,
            free,
            None if free is None else 160 * MIB,
        )

    def reset_peaks(self, device: int) -> None:
        self.peaks[device] = dict(self.current[device])

    def describe(self, device: int) -> dict[str, str]:
        return {"torch": "0.0.fake", "device": f"stand-in {device}"}


def manifest(directory: Path) -> RunManifest:
    return read_manifest((directory / "run.json").read_text(), str(directory))


def record_of(directory: Path, rank: int = 0) -> RankRecord:
    record = next(found.record for found in load_run(directory).ranks if found.rank == rank)
    assert record is not None
    return record
