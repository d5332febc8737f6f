"""Bytes of unknown number, in memory while they are few and in a file while they are many."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import IO

from snapviz.errors import SnapshotError

__all__ = ["IN_MEMORY_BYTES", "Buffer", "spooled"]

Buffer = bytearray | mmap.mmap

IN_MEMORY_BYTES = 64 << 20
"""Bytes held in memory at most. Beyond, they go to an unlinked file in the temporary folder (TMPDIR
says which), whose pages the system can drop and read again."""


def spooled(chunks: Iterable[bytes]) -> Buffer:
    """All of ``chunks`` as one buffer. Raises ``SnapshotError`` where the temporary folder is full."""
    held = bytearray()
    for chunk in (stream := iter(chunks)):
        held += chunk
        if len(held) > IN_MEMORY_BYTES:
            return _in_file(held, stream)
    return held


def _in_file(held: bytearray, rest: Iterable[bytes]) -> mmap.mmap:
    with _temporary_file() as file:
        _write(file, held)
        held.clear()
        for chunk in rest:
            _write(file, chunk)
        return _mapped(file)


def _temporary_file() -> IO[bytes]:
    import tempfile

    try:
        return tempfile.TemporaryFile(prefix="snapviz-")
    except OSError as error:
        raise _no_room(error) from error


def _write(file: IO[bytes], chunk: bytes | bytearray) -> None:
    # Only what the temporary file raises is about the temporary file: the chunks raise for themselves.
    try:
        file.write(chunk)
    except OSError as error:
        raise _no_room(error) from error


def _mapped(file: IO[bytes]) -> mmap.mmap:
    try:
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> SnapshotError:
    where = "the temporary folder (TMPDIR names another)"
    return SnapshotError(f"decompressing needs a file in {where}, which failed: {error.strerror or error}")
