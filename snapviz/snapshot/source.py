"""From a path or URL to the bytes of a snapshot, ready to decode.

What a file is shows in its first bytes, never in its name: layers of gzip, xz and zstd (up to
three), then a pickle, JSON, or a memory_viz page with a pickle inside. A plain local file is mapped
and not read, so that its pages are the system's and not the process's.

Nothing here raises anything but ``SnapshotError``, which names the path.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.errors import SnapshotError
from snapviz.snapshot.compression import HEAD_BYTES, Layer, layer_name, refuse_unreadable
from snapviz.snapshot.identity import Identity
from snapviz.snapshot.opening import Opened, open_local, open_remote, shown
from snapviz.snapshot.page import embedded_pickle
from snapviz.snapshot.spool import Buffer, spooled

__all__ = ["Container", "Progress", "Source", "open_source"]

Container = Literal["pickle", "json", "html"]

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far and the bytes it has (0 where that is not known)."""

MAX_LAYERS = 3
EXPANSION = 1000
"""The most a stream may grow to, as a multiple of the file. Snapshots shrink 30- to 100-fold."""
EXPANSION_FREE_BYTES = 64 << 20
"""Bytes that any file may grow to, however small."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::|://)")
_LOCAL_URL = re.compile(r"(file|local)://", re.IGNORECASE)
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class _Content:
    data: npt.NDArray[np.uint8]
    container: Container
    compression: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class Source:
    """An open snapshot. Its bytes are read when they are first asked for, and not before.

    So that whoever finds ``identity`` in the cache never pays for reading. A mapped file that is
    cut short by someone else meanwhile is beyond help: the system ends a process that touches
    pages which are gone.
    """

    path: str
    """As it was given, without a URL's password and query."""
    identity: Identity
    """What the cache knows the file by."""
    size_bytes: int | None
    """Bytes of the file as it lies there; ``None`` where a remote store does not say."""
    _opened: Opened = field(repr=False)
    _progress: Progress | None = field(repr=False, default=None)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes to decode, decompressed and read-only; for a page, the pickle inside it.

        Raises ``SnapshotError``, as every property below does when it is the first one read.
        """
        return self._content.data

    @property
    def container(self) -> Container:
        """What was found inside all compression."""
        return self._content.container

    @property
    def compression(self) -> tuple[str, ...]:
        """Layers from the outermost in, such as ``("xz",)``; empty where there is none."""
        return self._content.compression

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in words for people."""
        return self._content.notes

    @property
    def offset_note(self) -> str:
        """What an offset in ``data`` counts from, in words; empty where it is the file itself."""
        if self.container == "html":
            return "in the pickle inside the page"
        return f"in the data that {' and '.join(self.compression)} holds" if self.compression else ""

    def verify_unchanged(self) -> None:
        """Raises ``SnapshotError`` where the file changed since it was opened.

        To be called after the data was used and before anything made of it is kept.
        """
        with _named(self.path):
            if self._opened.changed():
                raise SnapshotError("the file changed while it was being read; try again once it is complete")

    def close(self) -> None:
        """Lets go of the file. Arrays that were handed out stay valid."""
        self._opened.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @cached_property
    def _content(self) -> _Content:
        with _named(self.path):
            return _read(self._opened, self._progress)


def open_source(path: str | os.PathLike[str], progress: Progress | None = None) -> Source:
    """Opens a snapshot at a local path or at a URL that fsspec has a driver for.

    Raises ``SnapshotError`` for what is missing, not a regular file, empty or not permitted. ``-``
    is not standard input: a snapshot is read more than once.
    """
    name = os.fsdecode(path)
    remote = _URL.match(name) is not None and _LOCAL_URL.match(name) is None
    label = shown(name) if remote else name
    with _named(label):
        opened = open_remote(name) if remote else open_local(_LOCAL_URL.sub("", name, count=1))
        return Source(label, opened.identity, opened.size, opened, progress)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Puts the path into every ``SnapshotError`` that leaves the block."""
    try:
        yield
    except SnapshotError as error:
        raise error.at(path) from error.__cause__


def _read(opened: Opened, progress: Progress | None) -> _Content:
    counted = _Counted(opened, progress)
    head, chunks = _peeked(iter(counted))
    layers: list[Layer] = []
    while name := layer_name(head):
        if len(layers) == MAX_LAYERS:
            raise SnapshotError(f"compressed more than {MAX_LAYERS} times over: decompress it first", offset=0)
        layers.append(Layer(name, chunks, counted.allowed))
        head, chunks = _peeked(iter(layers[-1]))
    if not head:
        raise SnapshotError("empty once decompressed" if layers else "an empty file", offset=0)
    refuse_unreadable(head)
    buffer = (None if layers else opened.mapped()) or spooled(chunks)
    return _content(buffer, _container(head), layers)


def _content(buffer: Buffer, container: Container, layers: list[Layer]) -> _Content:
    notes = [
        f"{layer.left_out:,} bytes after the end of the {layer.name} stream were left out"
        for layer in layers
        if layer.left_out
    ]
    if container == "html":
        buffer, count = embedded_pickle(buffer)
        if count > 1:
            notes.append(f"the page holds {count} snapshots: the first is used")
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return _Content(data, container, tuple(layer.name for layer in layers), tuple(notes))


def _container(head: bytes) -> Container:
    """By the first byte that is not blank. No pickle begins with a blank or one of ``{ [ <``."""
    first = head.removeprefix(_BOM).lstrip(_BLANK)[:1]
    if first in (b"{", b"["):
        return "json"
    return "html" if first == b"<" else "pickle"


def _peeked(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a stream, and the stream as it was."""
    head = b""
    while len(head) < HEAD_BYTES and (more := next(chunks, b"")):
        head += more
    return head[:HEAD_BYTES], itertools.chain([head] if head else [], chunks)


class _Counted:
    """The chunks of a file, counted: for progress, and for what they may expand to."""

    def __init__(self, opened: Opened, progress: Progress | None) -> None:
        self._opened = opened
        self._progress = progress
        self._read = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._opened.chunks():
            self._read += len(chunk)
            if self._progress is not None:
                self._progress(self._read, self._opened.size or 0)
            yield chunk

    def allowed(self) -> int:
        return EXPANSION * max(self._read, self._opened.size or 0) + EXPANSION_FREE_BYTES
