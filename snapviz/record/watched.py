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

from snapviz.record.frameworks.patching import wrap
from snapviz.record.sharded import is_thunder

__all__ = ["Watched"]


class Watched:
    """Roots among modules, and optimizers, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._modules = _Known()
        self._children = _Known()
        """What has a parent: a parameter that it registers later, as tied weights are, makes it no root again."""
        self._optimizers = _Known()
        self._labels: dict[int, tuple[weakref.ref[Any], str]] = {}
        """What the names of a module or an optimizer begin with: once given it stays, or names would change."""
        self._undo: list[Callable[[], None]] = []

    def add(self, thing: Any, name: str | None = None) -> bool:
        """Watches a module or an optimizer from now on; False where it is neither."""
        import torch

        if isinstance(thing, torch.nn.Module):
            if name is not None or not self._has(thing):
                self._modules.add(thing)
        elif isinstance(thing, torch.optim.Optimizer):
            self._optimizers.add(thing)
        else:
            return False
        if name is not None:
            self._call(thing, name)
        return True

    def look_around(self) -> None:
        """Watches the modules and optimizers that there are already."""
        import torch

        for thing in gc.get_objects():
            # type() and not isinstance: a proxy may answer for its class, and do anything to find it out
            if issubclass(type(thing), torch.nn.Module):
                self._seen(thing)
            elif issubclass(type(thing), torch.optim.Optimizer):
                self._optimizers.add(thing)
        for parent in self._modules.alive():
            for child in parent.children():
                self._children.add(child)
        for child in self._children.alive():
            self._modules.drop(child)

    def install(self) -> None:
        """Begins to see modules and optimizers being made."""
        from torch.nn.modules import module
        from torch.optim import Optimizer

        handles = (
            module.register_module_parameter_registration_hook(lambda parent, *_: self._seen(parent)),
            module.register_module_module_registration_hook(lambda parent, _, child: self._adopted(parent, child)),
        )
        self._undo += [handle.remove for handle in handles]
        self._undo.append(wrap(Optimizer, "__init__", self._made))

    @contextlib.contextmanager
    def _made(self, optimizer: Any, *_: Any, **__: Any) -> Iterator[None]:
        """Around an optimizer's constructor."""
        yield
        self._optimizers.add(optimizer)

    def remove(self) -> None:
        """Takes every hook away."""
        while self._undo:
            self._undo.pop()()

    def modules(self) -> Iterator[tuple[str, Any]]:
        """Living roots, each with what its names begin with: the first has nothing, the others their class."""
        yield from self._labelled(self._modules.alive())

    def optimizers(self) -> Iterator[tuple[str, Any]]:
        """Living optimizers, each with a word that tells it from the others."""
        yield from self._labelled(self._optimizers.alive())

    def _labelled(self, things: list[Any]) -> Iterator[tuple[str, Any]]:
        taken = {label for thing in things if (label := self._label(thing)) is not None}
        for thing in things:
            label = self._label(thing)
            if label is None:
                label = _free_label(_class_name(thing), taken)
                taken.add(label)
                self._call(thing, label)
            yield label, thing

    def _label(self, thing: Any) -> str | None:
        ref, label = self._labels.get(id(thing), (None, None))
        return label if ref is not None and ref() is thing else None

    def _call(self, thing: Any, label: str) -> None:
        self._labels[id(thing)] = (weakref.ref(thing), label)

    def _supersede(self, parent: Any, child: Any) -> None:
        """Each transform of thunder makes a ThunderModule anew, of the same module: only the last one runs."""
        if not is_thunder(parent):
            return
        for older in self._modules.alive():
            if older is not parent and is_thunder(older) and older._modules.get("_model") is child:
                if (label := self._label(older)) is not None:
                    self._call(parent, label)
                self._modules.drop(older)
                self._children.add(older)

    def _has(self, module: Any) -> bool:
        """Whether a root has it among all that lies in it."""
        return any(module is part for root in self._modules.alive() for part in root.modules())

    def _seen(self, module: Any) -> None:
        if module not in self._children:
            self._modules.add(module)

    def _adopted(self, parent: Any, child: Any) -> None:
        if child is None:
            return
        self._supersede(parent, child)
        # what wraps a root is called what that was: its names are to be the same
        if (label := self._label(child)) is not None and child in self._modules and self._label(parent) is None:
            self._call(parent, label)
        self._modules.drop(child)
        self._children.add(child)
        self._seen(parent)


class _Known:
    """Things by identity, held weakly, in the order in which they came."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}

    def add(self, thing: Any) -> None:
        if thing in self:
            return
        key, refs = id(thing), self._refs
        refs.pop(key, None)  # of another that had this id
        with contextlib.suppress(TypeError):  # a class with __slots__ may not allow it
            refs[key] = weakref.ref(thing, lambda gone: refs.pop(key, None) if refs.get(key) is gone else None)

    def drop(self, thing: Any) -> None:
        self._refs.pop(id(thing), None)

    def alive(self) -> list[Any]:
        return [thing for ref in list(self._refs.values()) if (thing := ref()) is not None]

    def __contains__(self, thing: object) -> bool:
        ref = self._refs.get(id(thing))
        return ref is not None and ref() is thing


def _class_name(thing: Any) -> str:
    """The name of its class, without what ``fully_shard`` puts before it."""
    name = type(thing).__name__
    return name.removeprefix("FSDP") if hasattr(type(thing), "_get_fsdp_state") else name


def _free_label(name: str, taken: set[str]) -> str:
    """Nothing, for the first of all; then the class's name, numbered from the second."""
    if "" not in taken:
        return ""
    number = 1
    while (label := name if number == 1 else f"{name}#{number}") in taken:
        number += 1
    return label
