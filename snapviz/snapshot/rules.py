"""What a snapshot's dicts mean: the keys that are read, and what each may hold.

Both decoders (pickle bytes and plain Python objects) follow these tables, so that they cannot
disagree about what is known, what is ignored and what is refused.
"""

from __future__ import annotations

from snapviz.errors import SnapshotError
from snapviz.snapshot.columns import ACTIONS, BLOCK_STATES, MAX_DEVICES

__all__ = [
    "ACTION_CODES",
    "BLOCK_STATE_CODES",
    "KNOWN_KEYS",
    "STAGE_CODES",
    "check_devices",
    "ignored_key",
    "ignored_value",
    "next_address",
]

ACTION_CODES = {name: code for code, name in enumerate(ACTIONS) if code}
BLOCK_STATE_CODES = {name: code for code, name in enumerate(BLOCK_STATES)} | {"active_awaiting_free": 2}
STAGE_CODES = {"START": 0, "END": 1}

KNOWN_KEYS: dict[str, tuple[str, ...]] = {
    "event": (
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "frames",
        "pool_id",
        "user_metadata",
        "compile_context",
        "device_free",
        "forward_frames",
    ),
    "segment": (
        "device",
        "address",
        "total_size",
        "allocated_size",
        "active_size",
        "requested_size",
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "frames",
        "blocks",
    ),
    "block": ("address", "size", "requested_size", "state", "frames", "history"),
    "history entry": ("addr", "real_size", "frames"),
    "annotation": ("name", "stage", "device", "time_us"),
    "frame": ("name", "filename", "line"),
    "snapshot": (
        "segments",
        "device_traces",
        "allocator_settings",
        "external_annotations",
        "host_segments",
        "host_traces",
    ),
}
"""Keys that are read, by the kind of dict. Any other is counted and left out."""


def ignored_key(kind: str, key: str) -> str:
    """The words under which an unknown key is counted."""
    return f"{kind} key {key!r}"


def ignored_value(kind: str, value: str) -> str:
    """The words under which an unknown action, state or stage is counted."""
    return f"{kind} {value!r}"


def next_address(address: int, size: int) -> int:
    """Where a block without an address starts (torch 2.0), behind one at ``address``; -1 beyond 2**62."""
    following = address + max(size, 0)
    return following if following < 1 << 62 else -1


def check_devices(lowest: int, highest: int, where: str) -> None:
    """Raises ``SnapshotError`` for device numbers that no machine has."""
    for device in (lowest, highest):
        if not -1 <= device < MAX_DEVICES:
            raise SnapshotError(f"{where}: device {device:,}, where a number below {MAX_DEVICES:,} was expected")
