"""The modules and optimizers of a process whose tensors are named: those it is told of, and those it sees made.

Modules are seen by torch's registration hooks (torch/nn/modules/module.py): what registers a parameter is a
root until something registers it as its child. Everything is held weakly: to watch must not keep.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Watched"]


class Watched:
    """Roots among modules, and optimizers, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._modules: dict[int, weakref.ref[Any]] = {}
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._names: dict[int, str] = {}
        self._undo: list[Callable[[], None]] = []

    def add(self, thing: Any, name: str | None = None) -> bool:
        """Watches a module or an optimizer from now on; False where it is neither."""
        import torch

        if isinstance(thing, torch.nn.Module):
            table = self._modules
        elif isinstance(thing, torch.optim.Optimizer):
            table = self._optimizers
        else:
            return False
        _put(table, thing)
        if name is not None:
            self._names[id(thing)] = name
        return True

    def install(self) -> None:
        """Begins to see modules and optimizers being made; those there are already are looked for once."""
        import torch
        from torch.nn.modules import module

        for thing in gc.get_objects():
            # type() and not isinstance: a proxy may answer for its class, and do anything to find it out
            if issubclass(type(thing), torch.nn.Module):
                self._seen(thing)
            elif issubclass(type(thing), torch.optim.Optimizer):
                _put(self._optimizers, thing)
        for parent in [ref() for ref in self._modules.values()]:
            for child in () if parent is None else parent.children():
                self._modules.pop(id(child), None)
        handles = (
            module.register_module_parameter_registration_hook(lambda parent, *_: self._seen(parent)),
            module.register_module_module_registration_hook(lambda parent, _, child: self._adopted(parent, child)),
        )
        self._undo += [handle.remove for handle in handles]
        self._undo.append(_see_optimizers(self))

    def remove(self) -> None:
        """Takes every hook away."""
        while self._undo:
            self._undo.pop()()

    def modules(self) -> Iterator[tuple[str, Any]]:
        """Living roots, each with what its names begin with: nothing where there is one, else its class."""
        alive = [module for ref in list(self._modules.values()) if (module := ref()) is not None]
        yield from zip(self._labels(alive), alive, strict=True)

    def optimizers(self) -> Iterator[tuple[str, Any]]:
        """Living optimizers, each with a word that tells it from the others."""
        alive = [optimizer for ref in list(self._optimizers.values()) if (optimizer := ref()) is not None]
        yield from zip(self._labels(alive), alive, strict=True)

    def _labels(self, things: list[Any]) -> list[str]:
        if len(things) == 1:
            return [self._names.get(id(things[0]), "")]
        taken: dict[str, int] = {}
        labels = []
        for thing in things:
            name = self._names.get(id(thing), type(thing).__name__)
            taken[name] = taken.get(name, 0) + 1
            labels.append(name if taken[name] == 1 else f"{name}#{taken[name]}")
        return labels

    def _seen(self, module: Any) -> None:
        _put(self._modules, module)

    def _adopted(self, parent: Any, child: Any) -> None:
        if child is not None:
            self._modules.pop(id(child), None)
            self._seen(parent)


def _put(table: dict[int, weakref.ref[Any]], thing: Any) -> None:
    known = table.get(id(thing))
    if known is not None and known() is thing:
        return
    key = id(thing)
    with contextlib.suppress(TypeError):  # a class with __slots__ may not allow it
        table[key] = weakref.ref(thing, lambda gone: table.get(key) is gone and table.pop(key, None))


def _see_optimizers(watched: Watched) -> Callable[[], None]:
    """Watches each optimizer once its constructor begins; undone by what is returned."""
    from torch.optim import Optimizer

    original = Optimizer.__init__

    def seen(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _put(watched._optimizers, self)

    Optimizer.__init__ = seen

    def undo() -> None:
        if Optimizer.__init__ is seen:
            Optimizer.__init__ = original

    return undo
