"""Records a rank's device memory in named phases, from inside the training process.

``with snapviz.record("runs/main"):`` around a training script, ``with snapviz.phase("shard"):`` inside it.
The package can be called itself, since ``snapviz.record`` is both its name and that of what it does.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from snapviz.record.current import active, phase

if TYPE_CHECKING:
    from snapviz.record.recorder import Recorder

__all__ = ["Recorder", "active", "phase"]


def __getattr__(name: str) -> object:
    if name != "Recorder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from snapviz.record.recorder import Recorder

    return Recorder


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Recorder:
        from snapviz.record.recorder import Recorder

        return Recorder(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
