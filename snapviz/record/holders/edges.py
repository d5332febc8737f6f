"""How one object holds another: the hops a path is written from."""

from __future__ import annotations

import gc
import types
from collections.abc import Set
from typing import NamedTuple

from snapviz.record.holders.frames import generator_frame, locals_of
from snapviz.record.holders.safe import (
    CONTAINERS,
    base_names,
    is_a,
    items_of,
    key_text,
    namespace_of,
    slots_of,
)

__all__ = ["Hop", "Hops", "hops", "style_of"]

_STYLES = {
    "torch.nn.modules.container.ModuleList": "list",
    "torch.nn.modules.container.ModuleDict": "list",
    "torch.nn.modules.container.Sequential": "list",
    "torch.nn.modules.container.ParameterList": "list",
    "torch.nn.modules.container.ParameterDict": "list",
    "torch.nn.modules.module.Module": "module",
    "torch.optim.optimizer.Optimizer": "optimizer",
    "torch.autograd.function.FunctionCtx": "autograd",
    "torch.Tensor": "tensor",
}


class Hop(NamedTuple):
    """One hop of a path, from what holds to what is held."""

    kind: str
    # name: a string key or an attribute. item: an index or another key. key: being a key oneself. space:
    # from an object to its __dict__. closure, default: from a function to what holds those. cell, trace:
    # nothing a person sees. local: a variable of a suspended or ended call. inside: a place without a name
    text: str = ""
    # the name; of a space whose it is: object, module, or list for a module that only lists others
    names: tuple[str, ...] = ()
    # the variables of a closure, the arguments with a default


Hops = list[tuple[int, tuple[Hop, ...]]]
"""Ids of what is held, each with the hops to it."""


def style_of(obj: object) -> str:
    """What of torch's an object is: ``list`` (a module that only lists), ``module``, ``optimizer``, …"""
    return next((_STYLES[name] for name in base_names(obj) if name in _STYLES), "object")


def hops(parent: object, wanted: Set[int]) -> Hops:
    """Every way in which ``parent`` itself holds one of ``wanted``, which are ids."""
    if is_a(parent, CONTAINERS):
        found = _of_container(parent, wanted)
    elif type(parent) is types.CellType:
        found = [(one, (Hop("cell"),)) for one in _referents(parent, wanted)]
    elif type(parent) is types.FunctionType:
        found = _of_function(parent, wanted)
    elif type(parent) is types.TracebackType:
        found = [(one, (Hop("trace"),)) for one in _referents(parent, wanted)]
    elif is_a(parent, (type,)):
        # its __dict__ is shown as a proxy only: the dict itself is among what it refers to
        found = [(one, (Hop("space", "object"),)) for one in _referents(parent, wanted, dict)]
    else:
        return _of_call(parent, wanted) or _of_object(parent, wanted)
    return found or _of_object(parent, wanted)


def _referents(parent: object, wanted: Set[int], kind: type | None = None) -> list[int]:
    return [id(one) for one in gc.get_referents(parent) if id(one) in wanted and (kind is None or type(one) is kind)]


def _of_container(parent: object, wanted: Set[int]) -> Hops:
    found: Hops = []
    keyed = is_a(parent, (dict,))
    for key, value in items_of(parent):
        if id(value) in wanted:
            found.append((id(value), (Hop("name", key) if type(key) is str else Hop("item", _item(key)),)))
        if keyed and id(key) in wanted:
            found.append((id(key), (Hop("key"),)))
    return found


def _item(key: object) -> str:
    return "…" if key is None else key_text(key)


def _of_function(parent: types.FunctionType, wanted: Set[int]) -> Hops:
    code = parent.__code__
    arguments = code.co_varnames[: code.co_argcount]
    with_default = arguments[len(arguments) - len(parent.__defaults__ or ()) :]
    places = (
        (parent.__closure__, Hop("closure", names=code.co_freevars)),
        (parent.__defaults__, Hop("default", names=with_default)),
        (parent.__kwdefaults__, Hop("default")),
        (namespace_of(parent), Hop("space", "object")),
    )
    return [(id(each), (hop,)) for each, hop in places if each is not None and id(each) in wanted]


def _of_call(parent: object, wanted: Set[int]) -> Hops:
    """Locals of a generator that waits, or of a call that ended and whose frame something keeps."""
    suspended = generator_frame(parent)
    frame = suspended[0] if suspended else parent
    if type(frame) is not types.FrameType:
        return []
    return [(id(value), (Hop("local", name),)) for name, value in locals_of(frame).items() if id(value) in wanted]


def _of_object(parent: object, wanted: Set[int]) -> Hops:
    direct = _referents(parent, wanted)
    if not direct:
        return []
    style = style_of(parent)
    space = Hop("space", style if style in ("list", "module") else "object")
    names = namespace_of(parent)
    if names is not None and id(names) in wanted:
        return [(id(names), (space,))]
    # the values of a __dict__ that was never asked for lie in the object itself
    held = [*(items_of(names) if names is not None else ()), *slots_of(parent), *_of_exception(parent)]
    found: Hops = [
        (id(value), (space, Hop("name", name))) for name, value in held if type(name) is str and id(value) in wanted
    ]
    named = {one for one, _ in found}
    return found + [(one, (Hop("inside"),)) for one in dict.fromkeys(direct) if one not in named]


def _of_exception(parent: object) -> list[tuple[str, object]]:
    if not is_a(parent, (BaseException,)):
        return []
    kinds = ("__traceback__", "__context__", "__cause__", "args")
    return [(name, BaseException.__dict__[name].__get__(parent)) for name in kinds]
