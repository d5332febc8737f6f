"""The one way this floor compiles a function, and the types of the arrays that it compiles for.

Every function is compiled for one signature, when its module is imported: a writable array, a
read-only and a memory-mapped one would be three types to numba, but all of them pass for the
read-only types below. Import this only where a replay is run: it imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types

from snapviz.snapshot.jit import stamped

__all__ = ["BITS", "BLOCKS", "COUNTS", "FLAG", "INT", "TABLE", "Addresses", "Bools", "Bytes", "Ids", "inner", "jit"]

_HERE = Path(__file__).parent
_COMPILED = (
    *(
        _HERE / f"{name}.py"
        for name in ("coordinates", "freekernels", "heap", "jit", "kernels", "ledger", "lives", "rules")
    ),
    _HERE.parent / "snapshot" / "columns.py",
)
"""What the kernels are compiled from."""

Function = TypeVar("Function", bound=Callable[..., Any])

INT, FLAG = types.int64, types.boolean
BLOCKS = types.Array(types.int32, 2, "C")
BITS = types.Array(types.uint64, 1, "C")
TABLE = types.Array(types.int64, 2, "C")
COUNTS = types.Array(types.int64, 1, "C")
Addresses = types.Array(types.int64, 1, "C", readonly=True)
Ids = types.Array(types.int32, 1, "C", readonly=True)
Bytes = types.Array(types.int8, 1, "C", readonly=True)
Bools = types.Array(types.boolean, 1, "C", readonly=True)


def jit(signature: Any) -> Callable[[Function], Function]:
    """``numba.njit`` for one signature, without the GIL, cached on disk where there is a place for it.

    Without a place (a read-only install and no home directory) numba refuses ``cache=True``; then
    the function is compiled once per process instead.
    """

    def compiled(function: Function) -> Function:
        try:
            dispatcher = numba.njit(cache=True, nogil=True)(function)
        except RuntimeError:
            dispatcher = numba.njit(nogil=True)(function)
        stamped(dispatcher, *_COMPILED)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return]

    return compiled


def inner(signature: Any) -> Callable[[Function], Function]:
    """A function that only other compiled functions call: compiled, for this signature, when one of those is.

    Its machine code becomes part of theirs. Loading each of these from the disk as well, at every
    start, would take longer than a small replay.
    """

    def compiled(function: Function) -> Function:
        dispatcher = numba.njit(nogil=True)(function)
        resolve = dispatcher.get_call_template

        def compile_first(*call: Any) -> Any:
            if not dispatcher.overloads:
                dispatcher.compile(signature)
                dispatcher.disable_compile()
            return resolve(*call)

        # numba asks this when it meets a call; left to itself it would compile for each constant anew
        dispatcher.get_call_template = compile_first
        return dispatcher  # type: ignore[no-any-return]

    return compiled
