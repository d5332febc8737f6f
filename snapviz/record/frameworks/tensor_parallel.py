"""Tensor parallelism: ``parallelize_module`` cuts parameters as FSDP does."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_names

__all__ = ["install"]

_MODULES = ("torch.distributed.tensor.parallel.api", "torch.distributed.tensor.parallel")


def install(auto: Any) -> Undo:
    """``shard`` around ``parallelize_module``."""
    return wrap_names(_MODULES, "parallelize_module", lambda *_, **__: auto.activity("shard"))
