"""FSDP1: ``FullyShardedDataParallel``. Those it makes of the modules inside are within the outermost."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_method

__all__ = ["install"]


def install(auto: Any) -> Undo:
    """``shard`` around the constructor."""
    return wrap_method(
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        "FullyShardedDataParallel",
        "__init__",
        lambda *_, **__: auto.activity("shard"),
    )
