"""How this floor's numba functions are compiled.

Without reference counting (``_nrt=False``): none of them makes an array, and counting the arrays of
a nested tuple at every call took nine tenths of the time. The small functions are inlined by LLVM,
since passing that tuple on would copy some sixty array descriptors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

from snapviz.snapshot.stamp import code_stamp

__all__ = ["announced", "inlined", "kernel", "stamped"]

_HERE = Path(__file__).parent
_COMPILED = tuple(
    _HERE / f"{name}.py"
    for name in (
        "columns",
        "containers",
        "intern",
        "jit",
        "layout",
        "machine",
        "opcodes",
        "rows",
        "rules",
        "vocabulary",
    )
)
"""What the machine is compiled from."""

COMPILING = "compiling, once after an install (some 20 s)"


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Python calls; its machine code is kept on disk where there is a place for it."""
    try:
        dispatcher = njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # a read-only install and no home: compiled once per process instead
        return njit(nogil=True, _nrt=False)(function)  # type: ignore[no-any-return]
    return stamped(dispatcher, *_COMPILED)


def stamped(dispatcher: Any, *places: Path) -> Callable[..., Any]:
    """The function, its kept machine code held for what all these sources (or folders of them) are now.

    numba looks at the file of the function alone, and would go on using code into which last week's
    version of another file is compiled.
    """
    # a cache that is not kept has no such file; a numba that keeps it otherwise falls back to its own rule
    with contextlib.suppress(AttributeError):
        dispatcher._cache._cache_file._source_stamp = code_stamp(*places)
        _guard(dispatcher._cache)
    return dispatcher  # type: ignore[no-any-return]


def _guard(cache: Any) -> None:
    """Makes kept machine code a help and not a condition: garbage is compiled anew, a full disk is no error.

    numba unpickles what it finds and writes where it can, and lets whatever goes wrong there end the
    command, at every start until someone finds and deletes the files.
    """
    load, save = cache.load_overload, cache.save_overload

    def load_overload(*key: Any) -> Any:
        try:
            return load(*key)
        except Exception:
            with contextlib.suppress(Exception):
                cache.flush()
            return None

    def save_overload(*made: Any) -> None:
        with contextlib.suppress(Exception):
            save(*made)

    cache.load_overload, cache.save_overload = load_overload, save_overload


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that only other numba functions call."""
    return njit(_nrt=False, forceinline=True)(function)  # type: ignore[no-any-return]


@contextmanager
def announced(progress: Callable[..., None] | None, words: str) -> Iterator[None]:
    """Tells ``progress`` when numba compiles inside the block, and ``words``, what goes on, when it has.

    Nothing is said of code that is found on disk.
    """
    if progress is None:
        yield
        return
    with event.install_listener("numba:compile", _Announcer(progress, words)):
        yield


class _Announcer(event.Listener):  # type: ignore[misc]
    def __init__(self, progress: Callable[..., None], words: str) -> None:
        self._progress, self._words = progress, words

    def on_start(self, event: object) -> None:
        self._progress(COMPILING)

    def on_end(self, event: object) -> None:
        self._progress(self._words)
