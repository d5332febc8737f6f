"""DistributedDataParallel: a phase of its own, since nothing is sharded there and every rank keeps all of it."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_method

__all__ = ["install"]


def install(auto: Any) -> Undo:
    """``ddp`` around the constructor, which makes the buckets."""
    return wrap_method(
        "torch.nn.parallel.distributed",
        "DistributedDataParallel",
        "__init__",
        lambda *_, **__: auto.activity("ddp"),
    )
