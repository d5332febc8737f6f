"""Opening what a path or URL names, without blocking, and without trusting what it is."""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat as modes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from snapviz.errors import SnapshotError
from snapviz.snapshot.identity import Identity, local_identity, remote_identity

__all__ = ["CHUNK_BYTES", "Opened", "open_local", "open_remote", "shown"]

CHUNK_BYTES = 1 << 20
"""Bytes read in one turn: large enough for a remote store, small enough to show progress."""

_KINDS = {
    modes.S_IFDIR: "a folder and not a snapshot file",
    modes.S_IFIFO: "a pipe: write the snapshot to a file first, it is read more than once",
    modes.S_IFSOCK: "a socket and not a file",
    modes.S_IFCHR: "a device and not a file",
    modes.S_IFBLK: "a device and not a file",
}


class Opened(Protocol):
    """A file that is open for reading, wherever it lies."""

    identity: Identity
    size: int | None

    def chunks(self) -> Iterator[bytes]:
        """Its bytes from the start, every time anew."""

    def mapped(self) -> mmap.mmap | None:
        """Its bytes as a map, where it is one that can be mapped."""

    def changed(self) -> bool:
        """Whether it is another than when it was opened."""

    def close(self) -> None:
        """Lets go of it."""


def shown(url: str) -> str:
    """A URL without the password and the signature that it may carry."""
    return re.sub(r"//[^/@]*@", "//", url.partition("?")[0])


def open_local(path: str) -> Opened:
    """Opens a regular file; anything else is refused before it is opened, for a pipe would block."""
    if path == "-":
        raise SnapshotError("standard input is not read: write the snapshot to a file first")
    if "\x00" in path:
        raise SnapshotError("not a path: it holds a null character")
    with _local_errors():
        _require_regular(Path(path).stat())
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(descriptor, "rb", buffering=0)
        try:
            return _Local(path, file)
        except BaseException:
            file.close()
            raise


class _Local:
    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._file = file
        self._stat = os.fstat(file.fileno())
        _require_regular(self._stat)  # once more: the path may name another file by now
        if self._stat.st_size == 0:
            raise SnapshotError("an empty file", offset=0)
        self.size: int | None = self._stat.st_size
        self.identity = local_identity(path, self._stat, self._read_at)

    def chunks(self) -> Iterator[bytes]:
        with _local_errors():
            self._file.seek(0)
        while True:
            with _local_errors():
                chunk = self._file.read(CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def mapped(self) -> mmap.mmap | None:
        try:
            return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # a file system that cannot map, or a file cut to nothing meanwhile
            return None

    def changed(self) -> bool:
        with _local_errors():
            now = os.fstat(self._file.fileno())
        before = self._stat
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            return True
        # A file that was renamed over or removed has a new ctime, and all its bytes as they were.
        return now.st_nlink == before.st_nlink and now.st_ctime_ns != before.st_ctime_ns

    def close(self) -> None:
        self._file.close()

    def _read_at(self, offset: int, count: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(count)


def _require_regular(stat: os.stat_result) -> None:
    if not modes.S_ISREG(stat.st_mode):
        raise SnapshotError(_KINDS.get(modes.S_IFMT(stat.st_mode), "not a regular file"))


@contextmanager
def _local_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SnapshotError("no such file") from error
    except PermissionError as error:
        raise SnapshotError("no permission to read it") from error
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise SnapshotError(_KINDS[modes.S_IFSOCK]) from error
        raise SnapshotError(f"cannot be read: {error.strerror or error}") from error


def open_remote(url: str) -> Opened:
    """Opens what an fsspec URL names; any driver may raise anything, and all of it is told as ours."""
    with _remote_errors(url):
        import fsspec.core

        system, path = fsspec.core.url_to_fs(url)
        return _Remote(url, system, path)


class _Remote:
    def __init__(self, url: str, system: Any, path: str) -> None:
        self._url, self._system, self._path = url, system, path
        info = self._info()
        if info.get("type") == "directory":
            raise SnapshotError(_KINDS[modes.S_IFDIR])
        if info.get("type", "file") != "file":
            raise SnapshotError("not a regular file")
        size = info.get("size")
        self.size: int | None = size if isinstance(size, int) else None
        if self.size == 0:
            raise SnapshotError("an empty file", offset=0)
        self.identity = remote_identity(url, info)

    def chunks(self) -> Iterator[bytes]:
        with _remote_errors(self._url):
            file = self._system.open(self._path, "rb")
        try:
            while chunk := self._next(file):
                yield chunk
        finally:
            file.close()

    def mapped(self) -> mmap.mmap | None:
        return None

    def changed(self) -> bool:
        with _remote_errors(self._url):
            info = self._info()
            return remote_identity(self._url, info) != self.identity or info.get("size") != self.size

    def close(self) -> None:
        pass

    def _next(self, file: Any) -> bytes:
        with _remote_errors(self._url):
            return bytes(file.read(CHUNK_BYTES))

    def _info(self) -> Mapping[str, Any]:
        self._system.invalidate_cache(self._path)  # a listing from before would know an older file
        info: Mapping[str, Any] = self._system.info(self._path)
        return info


@contextmanager
def _remote_errors(url: str) -> Iterator[None]:
    protocol = re.split("::|://", url, maxsplit=1)[0]
    try:
        yield
    except SnapshotError:
        raise
    except FileNotFoundError as error:
        raise SnapshotError("no such file") from error
    except PermissionError as error:
        raise SnapshotError("no permission to read it") from error
    except ImportError as error:
        raise SnapshotError(f"the driver for {protocol}:// is not installed: {error}") from error
    except Exception as error:
        raise SnapshotError(f"cannot be read: {type(error).__name__}: {error}") from error
