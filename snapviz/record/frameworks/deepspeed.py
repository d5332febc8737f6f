"""DeepSpeed: ``deepspeed.initialize`` partitions what the engine holds."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_names

__all__ = ["install"]


def install(auto: Any) -> Undo:
    """``shard`` around ``initialize``."""
    return wrap_names(("deepspeed",), "initialize", lambda *_, **__: auto.activity("shard"))
