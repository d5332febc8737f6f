"""transformers: ``from_pretrained`` and ``from_config``, to which every model's and every Auto class's come down."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from snapviz.record.frameworks.modules import default_device_type
from snapviz.record.frameworks.patching import Undo, all_of, wrap_method

__all__ = ["install"]

_NAMES = ("from_pretrained", "_from_config")


def install(auto: Any) -> Undo:
    """``materialize`` around them, unless the model is only sketched on the meta device."""

    def around(*_: Any, **__: Any) -> AbstractContextManager[Any]:
        return nullcontext() if default_device_type() == "meta" else auto.activity("materialize")

    return all_of([wrap_method("transformers.modeling_utils", "PreTrainedModel", name, around) for name in _NAMES])
