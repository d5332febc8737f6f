"""FSDP2: ``fully_shard``, wherever it lay in torch 2.4 to 2.14."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_names

__all__ = ["install"]

_MODULES = (
    "torch.distributed.fsdp._fully_shard._fully_shard",  # where it is defined from 2.6 on
    "torch.distributed.fsdp._fully_shard",
    "torch.distributed.fsdp",
    "torch.distributed._composable.fsdp.fully_shard",  # and before
    "torch.distributed._composable.fsdp",
    "torch.distributed._composable.fully_shard",  # an older one, over FSDP1, until 2.6
    "torch.distributed._composable",
)


def install(auto: Any) -> Undo:
    """``shard`` around ``fully_shard``."""
    return wrap_names(_MODULES, "fully_shard", lambda *_, **__: auto.activity("shard"))
