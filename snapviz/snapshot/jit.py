"""How this floor's numba functions are compiled.

Without reference counting (``_nrt=False``): none of them makes an array, and counting the arrays of
a nested tuple at every call took nine tenths of the time. The small functions are inlined by LLVM,
since passing that tuple on would copy some sixty array descriptors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["inlined", "kernel"]


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Python calls; its machine code is kept on disk where there is a place for it."""
    try:
        return njit(cache=True, nogil=True, _nrt=False)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # a read-only install and no home: compiled once per process instead
        return njit(nogil=True, _nrt=False)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that only other numba functions call."""
    return njit(_nrt=False, forceinline=True)(function)  # type: ignore[no-any-return]
