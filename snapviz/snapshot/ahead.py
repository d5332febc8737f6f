"""Touching the decoder's buffers ahead of it, on another processor.

A page that is written for the first time is cleared by the system, and in a virtual machine fetched from
its host before: for the buffers of a large snapshot that can take as long as decoding. The decoder is one
thread without the interpreter's lock, so another can do that meanwhile. How much will be needed follows
from how much the first part of the file took; what is beyond it stays untouched and costs nothing.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.snapshot.buffers import Buffers, groups

__all__ = ["SAMPLE_BYTES", "Ahead"]

Array = npt.NDArray[Any]

SAMPLE_BYTES = 4 << 20
"""Decoded before the rest is guessed: a hundredth of a second, and some 40,000 events."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE (Linux 5.14, include/uapi/asm-generic/mman-common.h): as if written, contents kept."""
_STEPS = 16
_WORTH_BYTES = 1 << 20


class Ahead:
    """A thread that touches what is about to be written; ``with`` ends it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._groups: set[int] = set()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self, buffers: Buffers, in_use: npt.NDArray[np.int64], done: float) -> None:
        """Begins where it has not; ``in_use``: entries of each group after a share ``done`` of the file."""
        if not sys.platform.startswith("linux") or self._thread or not 0 < done < 1:
            return
        found = list(_columns(buffers, in_use, done))
        self._groups = {group for group, _, _ in found}
        columns = [(column, expected) for _, column, expected in found]
        self._thread = threading.Thread(target=self._run, args=(columns, done), daemon=True)
        self._thread.start()

    def replaced(self, group: int) -> None:
        """The buffers of a group are about to be replaced: more is needed than was reckoned."""
        if group in self._groups:
            self._end()

    def _end(self) -> None:
        """Ends it; nothing of the buffers is held any more, and it may begin anew."""
        if self._thread:
            self._stop.set()
            self._thread.join()
            self._stop.clear()
        self._thread, self._groups = None, set()

    def _run(self, columns: list[tuple[Array, int]], done: float) -> None:
        advise = ctypes.CDLL(None, use_errno=True).madvise
        edges = np.linspace(done, 1, _STEPS + 1)
        for begin, end in itertools.pairwise(edges):
            for column, expected in columns:
                if self._stop.is_set() or not _touch(advise, column[int(expected * begin) : int(expected * end)]):
                    return


def _columns(buffers: Buffers, in_use: npt.NDArray[np.int64], done: float) -> Iterator[tuple[int, Array, int]]:
    """Group, column, and how many of its entries the whole file will take, of each that is worth it."""
    for name, group in groups():
        array = getattr(buffers, name)
        expected = min(int(in_use[group] / done), array.shape[-1])
        if expected * array.itemsize >= _WORTH_BYTES:
            yield from ((group, column, expected) for column in (array if array.ndim == 2 else [array]))


def _touch(advise: Any, part: Array) -> bool:
    """Touches the whole pages of a part of a column; whether the system does that."""
    page = mmap.PAGESIZE
    begin = part.ctypes.data // page * page
    length = (part.ctypes.data + part.nbytes) // page * page - begin
    return length <= 0 or advise(ctypes.c_void_p(begin), ctypes.c_size_t(length), _POPULATE_WRITE) == 0
