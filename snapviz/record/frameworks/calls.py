"""What the calls of modules go through: what looks for whole models, and what notes when each of their modules runs.

``torch.nn.Module._compiled_call_impl`` (see ``steps``) is one attribute for both: the finder, between the calls of
whole models, and the noter inside of them, in the first steps. Nothing is put on a module, so that nothing is
pickled or copied with one.

torch.compile reads that attribute where it goes through a whole call, as for ``torch.compile(module)`` and for
modules with hooks, and compiles anew when it finds another (torch/_dynamo/variables/nn_module.py, 2.4 to 2.13). So
nothing is there while a compiled module runs, and no module is noted where a function was compiled, which nobody
sees called and which may call any of them.
"""

from __future__ import annotations

import contextlib
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from snapviz.record.guard import tell
from snapviz.record.sharded import is_thunder

__all__ = ["IMPL", "Call", "Calls"]

IMPL = "_compiled_call_impl"


class Call:
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

    def __deepcopy__(self, _: Any) -> Call:
        return self


class _Open(NamedTuple):
    """A call that goes on."""

    path: str
    row: int  # in the log
    thread: int
    again: bool  # in a backward


class Calls:
    """The calls of all modules.

    Args:
        auto: knows when names are read, and where to note.
        finder: what a call goes through while whole models are looked for.
        cover: puts something of ours around what is compiled and hides, on its module, what is on the class.
    """

    def __init__(self, auto: Any, finder: Call, cover: Callable[[Any], None]) -> None:
        import torch

        self._auto, self._cover = auto, cover
        self._module = torch.nn.Module
        self._compiling = torch.compiler.is_compiling
        self._graph_task = torch._C._current_graph_task_id  # −1 outside of a backward, see torch/utils/checkpoint.py
        self._finder, self._noter = finder, Call(self._call)
        self._looking = self._noting = self._failed = False
        self._inside = self._aside = 0
        self._functions = False
        """Whether a function was compiled, which may call modules."""
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}
        """Id of a module → its path."""
        self._open: list[_Open] = []
        self._home = 0
        """The thread of the whole model's call, or of the call of backward."""

    # ------------------------------------------------------------------ what is in the way

    @property
    def looking(self) -> bool:
        """Whether whole models are looked for, between their calls."""
        return self._looking

    def look(self, on: bool) -> None:
        """Begins to look for whole models, or ends it."""
        self._looking = on
        self._put()

    @property
    def noting(self) -> bool:
        """Whether calls are noted at the moment."""
        return self._noting

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Around the call of a whole model, and around backward: what is called in there is no whole model."""
        self._inside += 1
        self._put()
        try:
            yield
        finally:
            self._inside -= 1
            self._put()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Around what is compiled, or compiles: it finds what it would find without us."""
        self._aside += 1
        self._put()
        try:
            yield
        finally:
            self._aside -= 1
            self._put()

    def remove(self) -> None:
        """Takes everything away, for good."""
        self._failed = True
        self._looking = self._noting = False
        self._put()
        self._known.clear()

    def _put(self) -> None:
        wanted = None
        if not self._aside:
            outside = self._finder if self._looking and not self._inside else None
            wanted = self._noter if self._noting else outside
        present = vars(self._module).get(IMPL)
        if present is not wanted and (present is None or present is self._finder or present is self._noter):
            setattr(self._module, IMPL, wanted)

    # ------------------------------------------------------------------ whether modules are noted

    def compiles(self, what: Any = None, *_: Any, **__: Any) -> AbstractContextManager[None]:
        """Around ``torch.compile``: of a module it is seen when it runs, of a function it is not.

        torch's own, such as flex_attention, call no modules.
        """
        whole = isinstance(what, self._module) or getattr(what, "__func__", None) is self._module._call_impl
        if what is not None and not whole and not str(getattr(what, "__module__", "")).startswith("torch."):
            self._functions = True
        return nullcontext()

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Around the call of a whole model, or a backward: in there modules are noted, where names are read too."""
        if self._noting or not self._auto.reads_names or not self._may_note():
            yield
            return
        self._home = threading.get_ident()
        self._noting = True
        self._put()
        try:
            yield
        finally:
            self._noting = False
            self._open.clear()  # an interrupt may have left one
            self._put()

    def _may_note(self) -> bool:
        """Learns the paths of modules; False where none may be noted."""
        if self._failed:
            return False
        if self._functions or self._auto.windows.is_full:
            self._auto.windows.complete = False
            return False
        try:
            found = list(self._auto.windows.paths())
            for _, module in found:
                if _is_foreign(vars(module).get(IMPL)):
                    self._cover(module)
            self._known = {id(module): (weakref.ref(module), path) for path, module in reversed(found)}
        except Exception as error:
            self._fail(error)
        return not self._failed

    def _fail(self, error: Exception) -> None:
        """Notes no more, and says so once."""
        if self._failed:
            return
        self._failed, self._noting = True, False
        self._put()
        self._auto.windows.complete = False
        tell(f"no more calls of modules are noted ({type(error).__name__}: {error}); all else is recorded")

    # ------------------------------------------------------------------ one call

    def _call(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        """What stands on ``Module``: one frame of Python, as every allocation has it in its stack."""
        inner = module._call_impl
        if self._compiling():
            return inner(*args, **kwargs)
        if _is_compiled(module):
            return self.note(module, inner, args, kwargs)
        call = self._begin(module)
        try:
            return inner(*args, **kwargs)
        finally:
            self._end(call)

    def note(self, module: Any, inner: Callable[..., Any], args: Any, kwargs: Any, compiled: bool = False) -> Any:
        """Calls ``inner``, and notes it as a call of the module; ``compiled``: it is, whatever the module says."""
        call = self._begin(module)
        try:
            with self.aside() if compiled or _is_compiled(module) else nullcontext():
                return inner(*args, **kwargs)
        finally:
            self._end(call)

    def _begin(self, module: Any) -> _Open | None:
        try:
            ref, path = self._known.get(id(module), (None, ""))
            if not self._noting or ref is None or ref() is not module:
                return None
            return self._open_call(path, threading.get_ident(), self._graph_task() != -1)
        except Exception as error:
            self._fail(error)
            return None

    def _open_call(self, path: str, thread: int, again: bool) -> _Open | None:
        outer = self._open[-1] if self._open else None
        # autograd has threads of its own, and who called it waits meanwhile: these windows nest all the same
        if thread != (outer.thread if outer else self._home) and not (again and (outer is None or not outer.again)):
            self._auto.windows.complete = False
            return None
        if outer is not None and (outer.path, outer.again) == (path, again):
            return None  # what is wrapped, in its wrapper of the same path
        call = _Open(path, self._auto.windows.begin(path, again), thread, again)
        self._open.append(call)
        return call

    def _end(self, call: _Open | None) -> None:
        if call is None:
            return
        try:
            self._auto.windows.end(call.row)
            if call in self._open:
                del self._open[self._open.index(call) :]
        except Exception as error:
            self._fail(error)


def _is_compiled(module: Any) -> bool:
    """Whether it is what ``torch.compile`` or thunder made of a module."""
    return "_orig_mod" in (vars(module).get("_modules") or ()) or is_thunder(module)


def _is_foreign(impl: Any) -> bool:
    """Whether somebody else has put it on a module, past ``Module.compile``."""
    return impl is not None and not str(getattr(impl, "__module__", "")).startswith("snapviz.")
