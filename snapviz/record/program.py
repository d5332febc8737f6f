"""Runs somebody's program in this process as ``python`` would have run it.

Written out instead of ``runpy``, which clears the program's globals as soon as it is done: its models have
to be there when the recording ends, and in what runs at exit.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from snapviz.errors import InputError, UsageError

__all__ = ["Program", "find_program", "hide_own_frames"]

_OWN = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True)
class Program:
    """A script or a module, and its arguments."""

    argv: tuple[str, ...]
    path_entry: str
    # what python puts first on sys.path
    module: ModuleType
    # what becomes __main__
    load: Callable[[], CodeType]
    # may raise what python would have: a SyntaxError

    def run(self) -> BaseException | None:
        """Runs it to its end; what it raised, SystemExit too, with none of our frames."""
        sys.argv[:] = self.argv
        if not sys.flags.safe_path:
            sys.path[:1] = [self.path_entry]
        # for good: pickle, multiprocessing and what runs at exit look for it there
        sys.modules["__main__"] = self.module
        try:
            _execute(self.load, self.module)
        except BaseException as error:
            return error
        return None


def find_program(command: list[str]) -> Program:
    """What ``SCRIPT ARGS`` or ``-m MODULE ARGS`` names. Raises ``UsageError`` or ``InputError`` where there is none."""
    if command[:1] == ["-m"]:
        if len(command) < 2:
            raise UsageError("-m needs the name of a module")
        return _module(command[1], command[2:])
    if not command or command[0].startswith("-"):
        raise UsageError(
            "say what to run after --: a script (-- train.py ARGS), or a module (-- -m package.train ARGS)"
        )
    return _script(command[0], command[1:])


def hide_own_frames(error: BaseException) -> None:
    """Has Python show an error, when it ends the process, as if the program had run alone."""
    show = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            _clean(value, set())
            trace = value.__traceback__
        show(kind, value, trace)

    sys.excepthook = hook


def _execute(load: Callable[[], CodeType], module: ModuleType) -> None:
    exec(load(), module.__dict__)


def _script(path: str, arguments: list[str]) -> Program:
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such script")
    if not Path(path).is_file():
        raise InputError(f"{path}: is not a file; name the script in it")
    full = os.path.abspath(path)  # noqa: PTH100 - as python does it: links are kept
    module = _main(full)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)

    def load() -> CodeType:
        with io.open_code(full) as file:
            return compile(file.read(), full, "exec", dont_inherit=True)

    return Program((path, *arguments), str(Path(path).resolve().parent), module, load)


def _module(name: str, arguments: list[str]) -> Program:
    here = str(Path.cwd())
    spec = _spec(name, here)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__", here)
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    if spec is None or get_code is None or spec.origin is None:
        raise InputError(f"there is no module {name} that can be run")
    module = _main(spec.origin)
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
    module.__cached__ = spec.cached  # type: ignore[attr-defined]
    full_name = spec.name

    def load() -> CodeType:
        code = get_code(full_name)
        assert isinstance(code, CodeType)
        return code

    return Program((spec.origin, *arguments), here, module, load)


def _spec(name: str, here: str) -> importlib.machinery.ModuleSpec | None:
    before = list(sys.path)
    if not sys.flags.safe_path:
        sys.path[:1] = [here]
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise InputError(f"the module {name} cannot be found: {error}") from None
    finally:
        sys.path[:] = before


def _main(path: str) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    module.__cached__ = None  # type: ignore[attr-defined]
    return module


def _clean(error: BaseException, seen: set[int]) -> None:
    """Takes our frames out of an error's traceback, and out of those that led to it."""
    if id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _without_own(_after_start(error.__traceback__))
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            _clean(other, seen)


def _after_start(trace: TracebackType | None) -> TracebackType | None:
    """What lies in the program."""
    entry = trace
    while entry is not None:
        if entry.tb_frame.f_code is _execute.__code__:
            return entry.tb_next
        entry = entry.tb_next
    return trace


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            kept.append(trace)
        trace = trace.tb_next
    following = None
    for entry in reversed(kept):
        following = TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return following
