"""The forward of whole models, and backward.

A whole model, a root, is found when it is first called for training. To see it called, two attributes of
``torch.nn.Module`` would do: ``__call__``, which torch.compile compares with what it knows, and global
hooks, of which it warns. A third is left alone by all: ``_compiled_call_impl``, which ``Module.compile``
sets and a call goes through where it is there (torch/nn/modules/module.py, 2.4 to 2.14). It is neither
pickled nor copied, and what goes around it goes around every hook of a framework, FSDP's among them.

On ``Module`` it is there only between calls of roots and for the first two steps; later only on the
classes of the roots that were found. So no call of a submodule ever costs anything in a step.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from snapviz.record.frameworks.patching import Undo, all_of, wrap
from snapviz.record.guard import tell

__all__ = ["install"]

_NAME = "_compiled_call_impl"
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
        ]
    )


def _lies_on(tensors: Any, device_type: str) -> bool:
    import torch

    if isinstance(tensors, torch.Tensor):
        return bool(tensors.device.type == device_type)
    if not isinstance(tensors, (list, tuple)):
        return True  # an iterator, or a node of the graph: it is not ours to use up
    return any(_lies_on(each, device_type) for each in tensors)


class _Call:
    """A function as a class has it, which is nothing where the class is pickled by value.

    cloudpickle and dill write a class of the program's own file with all that is in it, and neither a recorder nor
    its lock can go along.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, module: Any, _: type | None = None) -> Any:
        return self if module is None else types.MethodType(self._function, module)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()

    def __deepcopy__(self, _: Any) -> _Call:
        return self


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
        self._looking = True
        self._finder = self._make(lambda module: self._is_root(module) or self._adopt(module))

    def install(self) -> Undo:
        """Begins to look for roots."""
        self._look(True)

        def undo() -> None:
            self._looking = False
            self._look(False)
            self._set_on_classes(False)
            self._calls.clear()
            all_of(self._undos)()

        return undo

    # ------------------------------------------------------------------ what is put in the call's way

    def _make(self, is_root: Callable[[Any], bool]) -> Any:
        """A ``_compiled_call_impl`` of a class."""

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            inner = module._call_impl
            if self._compiling() or not self._trains(module) or not is_root(module):
                return inner(*args, **kwargs)
            return self._run(inner, args, kwargs)

        return _Call(call)

    def _run(self, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with self._not_looking(), self._auto.forward():
            return inner(*args, **kwargs)

    @contextlib.contextmanager
    def _not_looking(self) -> Iterator[None]:
        on = vars(self._torch.nn.Module).get(_NAME) is self._finder
        self._look(False)
        try:
            yield
        finally:
            self._looking = self._looking and self._auto.steps_begun <= _LOOKED_FOR
            if on and self._looking:
                self._look(True)

    def _look(self, on: bool) -> None:
        present = vars(self._torch.nn.Module).get(_NAME)
        if on and present is None:
            self._torch.nn.Module._compiled_call_impl = self._finder
        elif not on and present is self._finder:
            self._torch.nn.Module._compiled_call_impl = None

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Around a compiler that reads Python code: it finds what it would find without us."""
        self._set_on_classes(False)
        try:
            with self._not_looking():
                yield
        finally:
            self._set_on_classes(True)

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Around a backward: forwards that checkpointing runs again are no roots'."""
        with self._not_looking(), self._auto.backward():
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
        if cls not in self._calls and cls is not self._torch.nn.Module and _NAME not in vars(cls):
            self._calls[cls] = self._make(self._is_root)
            self._set_on_classes(True)

    def _set_on_classes(self, on: bool) -> None:
        for cls, call in self._calls.items():
            present = vars(cls).get(_NAME)
            if on and present is None:
                setattr(cls, _NAME, call)
            elif not on and present is call:
                delattr(cls, _NAME)

    # ------------------------------------------------------------------ Module.compile

    @contextlib.contextmanager
    def covering(self, module: Any, *_: Any, **__: Any) -> Iterator[None]:
        """Around ``Module.compile``: what it sets on the module hides what is on its class."""
        yield
        inner = vars(module).get(_NAME)
        if inner is not None:
            # weakly: to put something on a module must not keep it
            self._cover(weakref.ref(module), inner)

    def _cover(self, ref: weakref.ref[Any], inner: Callable[..., Any]) -> None:
        def call(*args: Any, **kwargs: Any) -> Any:
            module = ref()
            if module is None or self._compiling() or not self._trains(module) or not self._is_covered_root(module):
                return inner(*args, **kwargs)
            return self._run(inner, args, kwargs)

        def undo() -> None:
            module = ref()
            if module is not None and vars(module).get(_NAME) is call:
                vars(module)[_NAME] = inner

        vars(ref())[_NAME] = call
        self._undos.append(undo)

    def _is_covered_root(self, module: Any) -> bool:
        return self._is_root(module) or (self._looking and self._adopt(module))
