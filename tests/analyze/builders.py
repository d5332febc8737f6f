"""Small builders: snapshots, records and runs in a few lines, from the plain objects torch pickles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from snapviz.analyze.run import Rank, Run, load_run
from snapviz.replay.snapshot import Snapshot, load_snapshot
from snapviz.schema import Dangling, RankRecord
from snapviz.snapshot.objects import columns_from_objects

__all__ = ["SAMPLES", "Trace", "frame", "kept", "load_for_tests", "record", "run_of", "sample"]

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_snapshots"

MIB = 1 << 20


def frame(name: str, filename: str = "/repo/model.py", line: int = 1) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def kept(name: str, *holders: tuple[str, str], size: int = 1, run: Literal["base", "head"] | None = "head") -> Dangling:
    """A parameter that dangles, with its holders and their kinds."""
    return Dangling(
        run=run,
        rank=0,
        name=name,
        names=(name,),
        allocation=0,
        requested_bytes=size,
        block_bytes=size,
        birth_phase="materialize",
        should_go_in="shard",
        gone_in=None,
        dtype=None,
        shape=None,
        stack=(),
        holders=tuple(path for path, _ in holders),
        holder_kinds=tuple(kind for _, kind in holders),
    )


class Trace:
    """A recording that begins at the first allocation. Every allocation gets a segment of its own, so
    that its block is exactly as large as it is asked for (sizes are multiples of 2 MiB)."""

    def __init__(self, device: int = 0, start_us: int = 1_000) -> None:
        self.device = device
        self.now = start_us
        self.events: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self.segments: dict[int, dict[str, Any]] = {}
        self._next = 0x7F00_0000_0000
        self._cached: dict[int, list[int]] = {}

    def tick(self, by: int = 10) -> int:
        self.now += by
        return self.now

    def alloc(self, mib: int, *frames: dict[str, Any]) -> int:
        """Allocates ``mib`` (even, at least 20) MiB with a stack, innermost first; returns the address."""
        assert mib >= 20
        assert mib % 2 == 0
        size, stack = mib * MIB, list(frames)
        free = self._cached.get(size)
        if free:
            address = free.pop()
        else:
            address, self._next = self._next, self._next + size + 2 * MIB
            self._event("segment_alloc", address, size, stack)
            self.segments[address] = self._segment(address, size)
        self._event("alloc", address, size, stack)
        self.segments[address] |= {"allocated_size": size, "active_size": size, "requested_size": size}
        block = {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": stack}
        self.segments[address]["blocks"] = [block]
        return address

    def free(self, address: int, *frames: dict[str, Any]) -> None:
        segment = self.segments[address]
        size = segment["total_size"]
        for action in ("free_requested", "free_completed"):
            self._event(action, address, size, list(frames))
        segment |= {"allocated_size": 0, "active_size": 0, "requested_size": 0}
        segment["blocks"] = [segment["blocks"][0] | {"state": "inactive", "requested_size": 0, "frames": []}]
        self._cached.setdefault(size, []).append(address)

    def mark(self, stage: str, name: str) -> None:
        self.annotations.append({"name": name, "stage": stage, "device": self.device, "time_us": self.tick()})

    def objects(self) -> dict[str, Any]:
        return {
            "segments": list(self.segments.values()),
            "device_traces": [[] for _ in range(self.device)] + [self.events],
            "external_annotations": self.annotations,
            "allocator_settings": {"max_split_size": -1, "expandable_segments": False},
        }

    def snap(self) -> Snapshot:
        return Snapshot(columns_from_objects(self.objects()))

    def _event(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        event = {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames}
        self.events.append(event | {"time_us": self.tick()})

    def _segment(self, address: int, size: int) -> dict[str, Any]:
        return {
            "device": self.device,
            "address": address,
            "total_size": size,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "blocks": [],
        }


def run_of(
    *traces: Trace | dict[str, Any], name: str = "run", records: Iterable[RankRecord | None] = (), **rest: Any
) -> Run:
    """A run whose rank r is the r-th trace (or snapshot's plain objects)."""
    known = [*records] + [None] * len(traces)
    ranks = []
    for number, (trace, record) in enumerate(zip(traces, known, strict=False)):
        snap = trace.snap() if isinstance(trace, Trace) else Snapshot(columns_from_objects(trace))
        device = trace.device if isinstance(trace, Trace) else snap.devices[0]
        ranks.append(Rank(number, device, f"rank{number}", snap, record, record.world_size if record else None))
    return Run(name, name, None, tuple(ranks), **rest)


def record(
    phases: Iterable[tuple[str, int, int]],
    boundaries: Iterable[tuple[int, Iterable[tuple[str, str, int, int]]]] = (),
    **rest: Any,
) -> RankRecord:
    """A rank record: phases (name, start, stop), boundaries (time, [(kind, name, address, bytes)])."""
    document = {
        "schema_version": 1,
        "rank": 0,
        "world_size": 2,
        "phases": tuple({"name": n, "start_us": a, "stop_us": b} for n, a, b in phases),
        "boundaries": tuple(
            {
                "time_us": time,
                "names": tuple({"kind": k, "name": n, "address": a, "nbytes": b} for k, n, a, b in names),
            }
            for time, names in boundaries
        ),
    }
    return RankRecord.model_validate(document | rest)


@lru_cache(maxsize=64)
def _read(path: str, _stamp: int) -> Snapshot:
    return load_snapshot(path, cache=False)


def load_for_tests(path: str) -> Snapshot:
    """A loader for ``load_run`` that reads, and replays, each file once in a session."""
    return _read(path, Path(path).stat().st_mtime_ns if Path(path).exists() else 0)


def sample(name: str) -> Run:
    return load_run(SAMPLES / name, loader=load_for_tests)
