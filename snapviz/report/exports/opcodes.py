"""Pickle, written piece by piece: what `pickle.dump` would write of plain dicts and lists, without having them.

``pickle.Pickler`` wants the whole object, and its memo keeps every dict of it alive: gigabytes for two
million events. Here only what is shared (strings, frames, stacks) is remembered, by number. Protocol 4
without frames; of its opcodes only those that torch's web viewer knows (torch/utils/viz/MemoryViz.js).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

__all__ = ["START", "STOP", "Shared", "batches", "integer", "long_integer", "plain", "text"]

_Key = TypeVar("_Key")


START, STOP = b"\x80\x04", b"."

_MEMOIZE = b"\x94"
_BATCH = 1_000
"""Items of one APPENDS, as in CPython: the web viewer passes them all as arguments of one call."""


long_integer: Callable[[int], bytes] = partial(struct.Struct("<BBq").pack, 0x8A, 8)
"""Any int64, in ten bytes and at once."""


def integer(value: int) -> bytes:
    """Any int64, in as few bytes as it takes."""
    if 0 <= value < 256:
        return b"K%c" % value
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    return long_integer(value)


def text(raw: bytes) -> bytes:
    """A string of UTF-8, surrogates allowed."""
    if len(raw) < 256:
        return b"\x8c%c" % len(raw) + raw
    return b"X" + len(raw).to_bytes(4, "little") + raw


def plain(value: Any) -> bytes:
    """A value as JSON has them: nothing in it is shared."""
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return b"}(" + b"".join(plain(key) + plain(item) for key, item in value.items()) + b"u"
    assert isinstance(value, Sequence)
    return b"]" + b"".join(batches(map(plain, value)))


def batches(items: Iterable[bytes]) -> Iterable[bytes]:
    """The items of a list that is on the stack, in pieces to be written one after another."""
    piece: list[bytes] = []
    for item in items:
        piece.append(item)
        if len(piece) == _BATCH:
            yield b"(" + b"".join(piece) + b"e"
            piece.clear()
    if piece:
        yield b"(" + b"".join(piece) + b"e"


class Shared(dict[_Key, bytes]):
    """What is written once and referred to afterwards, by key: the first look gives its definition, every other one
    a reference. So what is looked up has to be written, in that order.

    ``number`` counts everything that is shared in one file.
    """

    def __init__(self, number: Iterator[int], define: Callable[[_Key], bytes]) -> None:
        super().__init__()
        self._number, self._define = number, define

    def __missing__(self, key: _Key) -> bytes:
        # what it is made of is numbered before it
        content = self._define(key)
        index = next(self._number)
        self[key] = b"h%c" % index if index < 256 else b"j" + index.to_bytes(4, "little")
        return content + _MEMOIZE
