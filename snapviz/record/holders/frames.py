"""The locals of running and suspended functions: what ``gc.get_referrers`` never shows.

Before Python 3.13 reading ``frame.f_locals`` copies the locals into a dict that the frame then keeps. A
parameter that the function deletes later would live on in that copy, kept by the search itself, so what was
copied is taken out again. Where a trace function may be at work it stays: Python writes that dict back into
the frame when the trace function returns. Since 3.13 (PEP 667) it is a proxy and copies nothing.
"""

from __future__ import annotations

import inspect
import sys
import threading
import types
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from snapviz.record.holders.clock import Clock
from snapviz.record.holders.safe import is_a, items_of, where

__all__ = ["Local", "Locals", "generator_frame", "is_ours", "locals_of", "read_frames"]

_COPIES = sys.version_info < (3, 13)
_OURS = "snapviz.record"
_THREAD = 1 << 20
"""More frames than a stack has: those of the main thread come first."""

_SUSPENDED = (
    (types.GeneratorType, "gi_frame", "generator"),
    (types.CoroutineType, "cr_frame", "coroutine"),
    (types.AsyncGeneratorType, "ag_frame", "async generator"),
)


@dataclass(frozen=True, order=True)
class Local:
    """A local variable of a running function."""

    order: int  # outermost first: what is higher up the stack keeps for longer
    name: str
    function: str
    where: str


@dataclass
class Locals:
    """The locals of all threads."""

    by_id: dict[int, list[Local]]
    # of each object's id, every local that is it
    values: list[object]
    # the objects themselves, for tensors that the garbage collector does not list; cleared once read
    ours: set[int]
    # ids of what needs no other holder: what the recorder itself holds, and namespaces of bodies that run
    copies: dict[int, object]
    # the dicts that frames keep for f_locals, by id: a frame may end, and another object get its dict's id


def is_ours(frame: types.FrameType) -> bool:
    """Whether the recorder itself runs in the frame."""
    name = frame.f_globals.get("__name__")
    return type(name) is str and (name == _OURS or name.startswith(f"{_OURS}."))


def read_frames(clock: Clock, ignore: Collection[int]) -> Locals:
    """The locals of every frame of every thread, those of the recorder left out."""
    found = Locals({}, [], set(), {})
    for number, (_, top) in enumerate(sorted(sys._current_frames().items(), key=_main_first)):
        for order, frame in enumerate(reversed(_stack(top)), _THREAD * number):
            if clock.late():
                return found
            if _is_module(frame):
                continue
            if is_ours(frame):
                found.ours.update(map(id, locals_of(frame, found.copies).values()))
            else:
                _read(frame, order, found, ignore)
    return found


def _is_module(frame: types.FrameType) -> bool:
    """Whether the locals are a module's globals, which are named as such."""
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED and frame.f_locals is frame.f_globals


def _main_first(one: tuple[int, types.FrameType]) -> tuple[bool, int]:
    return one[0] != threading.main_thread().ident, one[0]


def _stack(top: types.FrameType | None) -> list[types.FrameType]:
    frames = []
    while top is not None:
        frames.append(top)
        top = top.f_back
    return frames


def _read(frame: types.FrameType, order: int, found: Locals, ignore: Collection[int]) -> None:
    code = frame.f_code
    place = where(code.co_filename, frame.f_lineno)
    if not code.co_flags & inspect.CO_OPTIMIZED:
        found.ours.add(id(frame.f_locals))
    for name, value in locals_of(frame, found.copies).items():
        # what came from outside belongs to a closure, which is named as one
        if type(name) is not str or name in code.co_freevars or id(value) in ignore:
            continue
        found.by_id.setdefault(id(value), []).append(Local(order, name, code.co_qualname, place))
        found.values.append(value)


def locals_of(frame: types.FrameType, copies: dict[int, object] | None = None) -> dict[str, Any]:
    """A copy of the frame's locals that leaves the frame as it was."""
    space = frame.f_locals
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # the body of a class or of exec may run in any mapping of the user's
        return dict(items_of(space)) if is_a(space, (dict,)) else {}
    taken = dict(space)
    if not _COPIES:
        return taken
    # the frame's own reference, the variable and the argument: one more is the user's locals()
    if sys.getrefcount(space) == 3 and not _may_be_traced(frame):
        if copies is not None:
            copies[id(space)] = space
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            space.pop(name, None)
    return taken


def _may_be_traced(frame: types.FrameType) -> bool:
    hooks = (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(), frame.f_trace)
    return any(hook is not None for hook in hooks)


def generator_frame(obj: object) -> tuple[types.FrameType, str] | None:
    """The frame of a generator or coroutine and what to call it, none for anything else."""
    for kind, attribute, name in _SUSPENDED:
        if type(obj) is kind:
            frame = getattr(obj, attribute)
            return None if frame is None else (frame, name)
    return None
