"""lightning-thunder: ``thunder.jit``, and the two that distribute. Since 0.2 these call ``jit`` with transforms.

A function or module is read by thunder's own interpreter when it is first called, through the calls of modules.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from snapviz.record.frameworks.patching import Undo, all_of, wrap_names

__all__ = ["install"]

_JIT = ("thunder",)
_DISTRIBUTED = ("thunder.distributed",)
_READER = ("thunder.core.jit_ext", "thunder")


def install(auto: Any) -> Undo:
    """``shard``, ``ddp`` or ``jit``, by what is asked for."""

    def jit(*_: Any, transforms: Any = None, **__: Any) -> AbstractContextManager[Any]:
        return auto.activity(_kind(transforms))  # type: ignore[no-any-return]

    return all_of(
        [
            wrap_names(_READER, "thunder_general_jit", lambda *_, **__: auto.aside()),
            wrap_names(_JIT, "jit", jit),
            wrap_names(_DISTRIBUTED, "fsdp", lambda *_, **__: auto.activity("shard")),
            wrap_names(_DISTRIBUTED, "ddp", lambda *_, **__: auto.activity("ddp")),
        ]
    )


def _kind(transforms: Any) -> str:
    """What ``jit`` does with the module's parameters: its transforms are applied before it returns."""
    given = transforms if isinstance(transforms, (list, tuple)) else [transforms]
    names = [type(each).__name__ for each in given]
    if any(name.startswith("FSDP") for name in names):
        return "shard"
    return "ddp" if any(name.startswith("DDP") for name in names) else "jit"
