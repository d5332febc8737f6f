"""Modules that come to lie on the device: moved there, or built there."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

from snapviz.record.frameworks.patching import Undo, all_of, wrap
from snapviz.record.holders.frames import locals_of

__all__ = ["default_device_type", "install"]


def install(auto: Any) -> Undo:
    """``materialize`` where a module's tensors move to the device, or a parameter is made on it."""
    import torch
    from torch.nn.modules import module

    cls = torch.nn.Module

    def moved(self: Any, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
        try:
            wanted = torch._C._nn._parse_to(*args, **kwargs)[:2]
        except (TypeError, RuntimeError):  # what cannot be meant is for torch to say
            return nullcontext()
        return _around_move(auto, self, wanted)

    def to_cuda(self: Any, *_: Any, **__: Any) -> AbstractContextManager[Any]:
        return _around_move(auto, self, (torch.device("cuda"), None))

    def emptied(*_: Any, device: Any = None, **__: Any) -> AbstractContextManager[Any]:
        return auto.activity("materialize") if device is None or _type(device) == auto.device_type else nullcontext()

    def made(*args: Any, **__: Any) -> AbstractContextManager[Any]:
        # frames: this one, the wrapper around Module.__init__, the constructor that calls it
        if auto.listening and _device_meant(sys._getframe(2), args, auto.steady) == auto.device_type:
            auto.touch("materialize")
        return nullcontext()

    def registered(_: Any, __: str, parameter: Any) -> None:
        if not torch.compiler.is_compiling() and _is_new(parameter, auto.device_type):
            auto.touch("materialize")

    wraps = (("to", moved), ("cuda", to_cuda), ("to_empty", emptied), ("__init__", made))
    handle = module.register_module_parameter_registration_hook(registered)
    return all_of([handle.remove, *(wrap(cls, name, context) for name, context in wraps)])


def default_device_type() -> str:
    """Where torch makes tensors that nobody says a device for: ``cpu``, ``cuda``, ``meta``."""
    import torch

    return str(torch.get_default_device().type)


def _around_move(auto: Any, module: Any, wanted: tuple[Any, Any]) -> AbstractContextManager[Any]:
    if auto.listening and _moves(module, wanted, auto.device_type):
        return auto.activity("materialize")  # type: ignore[no-any-return]
    return nullcontext()


def _moves(module: Any, wanted: tuple[Any, Any], device_type: str) -> bool:
    """Whether any tensor of a module is made anew on the device: elsewhere now, or of another type there."""
    device, dtype = wanted
    for tensor in chain(module.parameters(), module.buffers()):
        target = device or tensor.device
        other_type = dtype is not None and tensor.is_floating_point() and tensor.dtype != dtype
        if target.type == device_type and (target.type != tensor.device.type or other_type):
            return True
    return False


def _device_meant(frame: Any, made: tuple[Any, ...], steady: bool) -> str:
    """Where a constructor will make its parameters: as its own argument says, else as torch's default does.

    ``made``: the arguments of ``Module.__init__``, the module before all.

    It is asked before the first of them is there, which the registration is not. The default says little, since
    a loss is made there too: it counts only where nothing has begun yet (not ``steady``).
    """
    code = frame.f_code
    # only of a constructor that has such an argument: to read the locals of any other frame, such as the program's
    # main(), would keep what it lets go of
    if code.co_name == "__init__" and "device" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        local = locals_of(frame)
        if made and local.get(code.co_varnames[0]) is made[0] and local["device"] is not None:
            return _type(local["device"])
    return "" if steady else default_device_type()


def _type(device: Any) -> str:
    import torch

    try:
        return str(torch.device(device).type)
    except (TypeError, RuntimeError):  # something else of that name
        return ""


def _is_new(parameter: Any, device_type: str) -> bool:
    """Whether it is a plain parameter on the device: a DTensor is registered anew where weights are tied."""
    return parameter is not None and not hasattr(parameter, "_local_tensor") and parameter.device.type == device_type
