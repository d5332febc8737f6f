"""What snapviz puts around functions of torch and of frameworks, so that a script need not be changed.

Each module has ``install(auto) -> undo``. What a framework's hook needs is put in place when the framework
is imported, and everything is taken away when the recording ends.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["HOOKS", "install"]

HOOKS = (
    "modules",
    "optimizers",
    "steps",
    "fsdp2",
    "fsdp1",
    "tensor_parallel",
    "ddp",
    "transformers",
    "thunder",
    "accelerate",
    "deepspeed",
)


def install(auto: Any) -> Callable[[], None]:
    """Puts every hook in place; what is returned takes them away, the last one first.

    A framework that looks otherwise than expected is left out, and said so.
    """
    from snapviz.record.frameworks.patching import Undo, all_of
    from snapviz.record.guard import tell

    undos: list[Undo] = []
    for name in HOOKS:
        try:
            undos.append(importlib.import_module(f"{__name__}.{name}").install(auto))
        except Exception as error:
            tell(f"calls of {name} make no phases ({type(error).__name__}: {error})")
    return all_of(undos)
