"""Optimizers: made, and stepping."""

from __future__ import annotations

from typing import Any

from snapviz.record.frameworks.patching import Undo, all_of, wrap

__all__ = ["install"]


def install(auto: Any) -> Undo:
    """``optimizer`` from where one is made; its steps are told, and when it has cleared its gradients."""
    import torch
    from torch.optim import optimizer

    compiling = torch.compiler.is_compiling

    def before(stepping: Any, *_: Any) -> None:
        if not compiling():
            auto.optimizer_begins(stepping)

    def after(stepping: Any, *_: Any) -> None:
        if not compiling():
            auto.optimizer_ended(stepping)

    return all_of(
        [
            wrap(optimizer.Optimizer, "__init__", lambda *_, **__: auto.activity("optimizer")),
            wrap(optimizer.Optimizer, "zero_grad", lambda *_, **__: auto.clearing()),
            optimizer.register_optimizer_step_pre_hook(before).remove,
            optimizer.register_optimizer_step_post_hook(after).remove,
        ]
    )
