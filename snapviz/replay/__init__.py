"""Columns to the allocator's exact state over time, one device at a time.

Importing this is cheap: numba is imported when something is replayed.
"""

from __future__ import annotations

from snapviz.replay.device import replay_device
from snapviz.replay.model import MEASURES, START, Allocations, Finding, Measures, Replay
from snapviz.replay.snapshot import Snapshot

__all__ = ["MEASURES", "START", "Allocations", "Finding", "Measures", "Replay", "Snapshot", "replay_device"]
