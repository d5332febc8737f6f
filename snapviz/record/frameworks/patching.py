"""Puts something around a function of a framework, and takes it away again."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from snapviz.record.frameworks import importing
from snapviz.record.guard import tell

__all__ = ["Context", "Undo", "all_of", "wrap", "wrap_method", "wrap_names"]

Context = Callable[..., AbstractContextManager[Any]]
"""Given the arguments of a call, what to enter around it."""

Undo = Callable[[], None]


def wrap(owner: Any, name: str, context: Context) -> Undo:
    """Enters ``context`` around calls of a function or method. What is returned puts back what was there.

    Where somebody else has put something in its place since, that stays, and what it calls is passed through.
    """
    own = name in vars(owner)
    present = inspect.getattr_static(owner, name)
    wrapped, disable = _around(present, context)
    setattr(owner, name, wrapped)

    def undo() -> None:
        disable()
        if vars(owner).get(name) is not wrapped:
            return
        if own:
            setattr(owner, name, present)
        else:
            delattr(owner, name)

    return undo


def wrap_method(module: str, cls: str, name: str, context: Context) -> Undo:
    """The same for a method of a class, as soon as its module is imported; nothing where it has none such."""
    undos: list[Undo] = []

    def put(there: Any) -> None:
        owner = getattr(there, cls, None)
        if callable(getattr(owner, name, None)):
            undos.append(wrap(owner, name, context))

    undos.append(importing.when_imported(module, put))
    return all_of(undos)  # with what is put there later


def wrap_names(modules: Sequence[str], name: str, context: Context) -> Undo:
    """The same for a function that several modules have under one name, as soon as each is imported.

    One that takes the name from another has the same function afterwards, as it had before.
    """
    made: dict[int, tuple[Any, Any, Undo]] = {}  # id of either → the original, what is around it, how to switch it off

    def put(module: Any) -> None:
        present = vars(module).get(name)
        if not callable(present) or inspect.isclass(present):
            return
        if id(present) not in made:
            wrapped, disable = _around(present, context)
            made[id(present)] = made[id(wrapped)] = (present, wrapped, disable)
        setattr(module, name, made[id(present)][1])

    def undo() -> None:
        unwatch()
        for _, _, disable in made.values():
            disable()
        for module in filter(None, map(sys.modules.get, modules)):
            present = vars(module).get(name)
            original, wrapped, _ = made.get(id(present), (None, None, None))
            if wrapped is present and wrapped is not None:
                setattr(module, name, original)

    unwatch = all_of([importing.when_imported(module, put) for module in modules])
    return undo


def all_of(undos: Sequence[Undo]) -> Undo:
    """Undoes all, the last one first; one that fails does not keep the others from it."""

    def undo() -> None:
        with contextlib.ExitStack() as stack:
            for each in undos:
                stack.callback(each)

    return undo


def _around(present: Any, context: Context) -> tuple[Any, Undo]:
    """What to put in the place of a function or its descriptor, and how to make it pass everything through."""
    import torch

    original = present.__func__ if isinstance(present, (classmethod, staticmethod)) else present
    compiling = torch.compiler.is_compiling
    enabled = [True]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # what torch.compile traces is left to it: there this is a constant, and nothing of ours is in its graph
        if compiling() or not enabled:
            return original(*args, **kwargs)
        try:
            around = context(*args, **kwargs)
        except Exception as error:
            enabled.clear()
            tell(f"calls of {original.__qualname__} make no more phases ({type(error).__name__}: {error})")
            around = nullcontext()
        with around:
            return original(*args, **kwargs)

    kind = type(present) if isinstance(present, (classmethod, staticmethod)) else None
    return (kind(call) if kind else call), enabled.clear
