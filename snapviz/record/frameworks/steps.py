"""The forward of whole models, and backward.

A whole model, a root, is found when it is first called for training. To see it called, two attributes of
``torch.nn.Module`` would do: ``__call__``, which torch.compile compares with what it knows, and global
hooks, of which it warns. A third is left alone by all: ``_compiled_call_impl``, which ``Module.compile``
sets and a call goes through where it is there (torch/nn/modules/module.py, 2.4 to 2.14). It is neither
pickled nor copied, and what goes around it goes around every hook of a framework, FSDP's among them.

On ``Module`` it is there between calls of roots for the first two steps, and inside of them for the first three,
in which the calls of modules are noted (``calls``); later only on the classes of the roots that were found. So no
call of a submodule costs anything from then on.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from snapviz.record.frameworks.calls import IMPL, Call, Calls
from snapviz.record.frameworks.patching import Undo, all_of, wrap
from snapviz.record.guard import tell

__all__ = ["install"]

_LOOKED_FOR = 2
"""Steps in which other roots are looked for too: a second model may be called only when the first has stepped."""


def install(auto: Any) -> Undo:
    """Tells of forwards and backwards."""
    import torch

    roots = _Roots(auto)
    auto.aside = roots.aside

    def backward(tensors: Any = (), *_: Any, **__: Any) -> AbstractContextManager[Any]:
        return roots.backward() if auto.listening and _lies_on(tensors, auto.device_type) else nullcontext()

    def grad(outputs: Any = (), *_: Any, **__: Any) -> AbstractContextManager[Any]:
        return backward(outputs)

    return all_of(
        [
            roots.install(),
            wrap(torch.autograd, "backward", backward),
            wrap(torch.autograd, "grad", grad),
            wrap(torch.nn.Module, "compile", roots.covering),
            wrap(torch, "compile", roots.calls.compiles),
        ]
    )


def _lies_on(tensors: Any, device_type: str) -> bool:
    import torch

    if isinstance(tensors, torch.Tensor):
        return bool(tensors.device.type == device_type)
    if not isinstance(tensors, (list, tuple)):
        return True  # an iterator, or a node of the graph: it is not ours to use up
    return any(_lies_on(each, device_type) for each in tensors)


class _Roots:
    """The whole models of a process, found as they are called."""

    def __init__(self, auto: Any) -> None:
        import torch

        self._auto = auto
        self._torch = torch
        self._compiling = torch.compiler.is_compiling
        self._roots: dict[int, weakref.ref[Any]] = {}
        self._undos: list[Undo] = []
        self._odd: set[type] = set()
        self._calls: dict[type, Any] = {}
        finder = self._make(lambda module: self._is_root(module) or self._adopt(module))
        self.calls = Calls(auto, finder, self._cover)

    def install(self) -> Undo:
        """Begins to look for roots."""
        self.calls.look(True)

        def undo() -> None:
            self.calls.remove()
            self._set_on_classes(False)
            self._calls.clear()
            all_of(self._undos)()

        return undo

    # ------------------------------------------------------------------ what is put in the call's way

    def _make(self, is_root: Callable[[Any], bool]) -> Any:
        """A ``_compiled_call_impl`` of a class."""

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            inner = module._call_impl
            if self._compiling():
                return inner(*args, **kwargs)
            if self._trains(module) and is_root(module):
                return self._run(module, inner, args, kwargs)
            if self.calls.noting:
                return self.calls.note(module, inner, args, kwargs)
            return inner(*args, **kwargs)

        return Call(call)

    def _run(self, module: Any, inner: Callable[..., Any], args: Any, kwargs: Any, compiled: bool = False) -> Any:
        with self._inside(), self._auto.forward(), self.calls.noted():
            return self.calls.note(module, inner, args, kwargs, compiled)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        with self.calls.inside():
            try:
                yield
            finally:
                if self._auto.steps_begun > _LOOKED_FOR:
                    self.calls.look(False)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Around a compiler that reads Python code: it finds what it would find without us."""
        self._set_on_classes(False)
        try:
            with self.calls.aside():
                yield
        finally:
            self._set_on_classes(True)

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Around a backward: forwards that checkpointing runs again are no roots'."""
        with self._inside(), self._auto.backward(), self.calls.noted():
            yield

    # ------------------------------------------------------------------ roots

    def _trains(self, module: Any) -> bool:
        """Whether a call now may be one of training, and not inside of another."""
        if not self._auto.listening:
            return False
        return bool(self._torch.is_grad_enabled() or getattr(module, "training", False))

    def _is_root(self, module: Any) -> bool:
        known = self._roots.get(id(module))
        return known is not None and known() is module

    def _adopt(self, module: Any) -> bool:
        """Makes a root of a module that has parameters where it counts: a loss or a metric has none."""
        try:
            if not self._has_parameters(module):
                return False
            self._roots[id(module)] = weakref.ref(module)
            self._put_on(type(module))
        except Exception as error:  # a module's own parameters(), or a class that cannot be set on
            if type(module) not in self._odd:
                self._odd.add(type(module))
                tell(f"calls of a {type(module).__name__} are no steps ({type(error).__name__}: {error})")
            return False
        self._auto.saw(module)
        return True

    def _has_parameters(self, module: Any) -> bool:
        # FSDP may keep its shards in the host's memory
        sharded = hasattr(module, "_get_fsdp_state")
        return any(sharded or each.device.type == self._auto.device_type for each in module.parameters())

    def _put_on(self, cls: type) -> None:
        if cls not in self._calls and cls is not self._torch.nn.Module and IMPL not in vars(cls):
            self._calls[cls] = self._make(self._is_root)
            self._set_on_classes(True)

    def _set_on_classes(self, on: bool) -> None:
        for cls, call in self._calls.items():
            present = vars(cls).get(IMPL)
            if on and present is None:
                setattr(cls, IMPL, call)
            elif not on and present is call:
                delattr(cls, IMPL)

    # ------------------------------------------------------------------ Module.compile

    @contextlib.contextmanager
    def covering(self, module: Any, *_: Any, **__: Any) -> Iterator[None]:
        """Around ``Module.compile``: what it sets on the module hides what is on its class."""
        yield
        if vars(module).get(IMPL) is not None:
            self._cover(module)

    def _cover(self, module: Any) -> None:
        # weakly: to put something on a module must not keep it
        ref, inner = weakref.ref(module), vars(module)[IMPL]
        del module

        def call(*args: Any, **kwargs: Any) -> Any:
            module = ref()
            if module is None or self._compiling():
                return inner(*args, **kwargs)
            if self._trains(module) and self._is_covered_root(module):
                return self._run(module, inner, args, kwargs, compiled=True)
            if self.calls.noting:
                return self.calls.note(module, inner, args, kwargs, compiled=True)
            return inner(*args, **kwargs)

        def undo() -> None:
            module = ref()
            if module is not None and vars(module).get(IMPL) is call:
                vars(module)[IMPL] = inner

        vars(ref())[IMPL] = call
        self._undos.append(undo)

    def _is_covered_root(self, module: Any) -> bool:
        return self._is_root(module) or (self.calls.looking and self._adopt(module))
