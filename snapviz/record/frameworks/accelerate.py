"""accelerate: ``Accelerator.prepare``, which moves, wraps and shards as its plugins say."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from snapviz.record.frameworks.patching import Undo, wrap_method

__all__ = ["install"]

_SHARDS = ("FSDP", "DEEPSPEED", "MEGATRON_LM", "TP")


def install(auto: Any) -> Undo:
    """``shard``, ``ddp`` or ``materialize`` around ``prepare`` of a model; ``optimizer`` around that of one alone."""

    def around(accelerator: Any, *things: Any, **_: Any) -> AbstractContextManager[Any]:
        import torch

        if any(isinstance(thing, torch.nn.Module) for thing in things):
            return auto.activity(_kind(accelerator))  # type: ignore[no-any-return]
        if any(isinstance(thing, torch.optim.Optimizer) for thing in things):
            return auto.activity("optimizer")  # type: ignore[no-any-return]
        return nullcontext()

    return wrap_method("accelerate.accelerator", "Accelerator", "prepare", around)


def _kind(accelerator: Any) -> str:
    chosen = getattr(accelerator, "distributed_type", "NO")
    name = str(getattr(chosen, "value", chosen))
    if name in _SHARDS or getattr(getattr(accelerator, "parallelism_config", None), "tp_enabled", False):
        return "shard"
    return "materialize" if name == "NO" else "ddp"
