"""Small traces as torch writes them, made by hand: events, segments, and the columns they give."""

from __future__ import annotations

from typing import Any

from snapviz.replay import Replay, replay_device
from snapviz.snapshot.columns import Columns
from snapviz.snapshot.objects import columns_from_objects

KIB = 1 << 10
MIB = 1 << 20
BASE = 0x7F00_0000_0000

Event = dict[str, Any]


def frames(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "filename": "train.py", "line": 1}]


def event(action: str, addr: int, size: int, **more: Any) -> Event:
    return {"action": action, "addr": addr, "size": size, "stream": 0} | more


def alloc(addr: int, size: int, **more: Any) -> Event:
    return event("alloc", addr, size, **more)


def free(addr: int, size: int, **more: Any) -> list[Event]:
    """Both halves of a free."""
    return [event("free_requested", addr, size, **more), event("free_completed", addr, size, **more)]


def segment_alloc(addr: int, size: int, **more: Any) -> Event:
    return event("segment_alloc", addr, size, **more)


def block(size: int, requested: int | None = None, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    """A block without an address: ``segment`` lays blocks out one after another."""
    return {"size": size, "requested_size": size if requested is None else requested, "state": state} | more


def gap(size: int) -> dict[str, Any]:
    return block(size, 0, "inactive")


def segment(address: int, *blocks: dict[str, Any], expandable: bool = False, **more: Any) -> dict[str, Any]:
    placed, at = [], address
    for item in blocks:
        placed.append({"address": at} | item)
        at += item["size"]
    active = [b for b in placed if b["state"] != "inactive"]
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "allocated_size": sum(b["size"] for b in active if b["state"] == "active_allocated"),
        "active_size": sum(b["size"] for b in active),
        "requested_size": sum(b["requested_size"] for b in active),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": expandable,
        "blocks": placed,
    } | more


def columns(
    events: list[Event], segments: list[dict[str, Any]], settings: dict[str, Any] | None = None, timed: bool = True
) -> Columns:
    """Columns of a snapshot of device 0. ``timed``: event i happens at i µs where it has no time."""
    trace = [{"time_us": i} | e if timed else e for i, e in enumerate(events)]
    snapshot = {"segments": segments, "device_traces": [trace], "allocator_settings": settings or {}}
    return columns_from_objects(snapshot)


def replay(events: list[Event], segments: list[dict[str, Any]], settings: dict[str, Any] | None = None) -> Replay:
    return replay_device(columns(events, segments, settings), 0)


def kinds(found: Replay) -> set[str]:
    """Kinds of all findings that are more than information."""
    return {finding.kind for finding in found.findings if finding.severity != "information"}
