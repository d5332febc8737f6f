"""A path, local or remote, and what is asked of it: whether it is a folder, what is in it, a small file."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from snapviz.errors import RunError
from snapviz.snapshot.opening import shown

__all__ = ["LARGEST_DOCUMENT", "Place", "label_of"]

LARGEST_DOCUMENT = 256 << 20
"""Bytes of a JSON document; a rank record of a large model with hundreds of boundaries has a tenth."""


def label_of(path: str) -> str:
    """A path as messages and reports name it: a URL without its password or signature."""
    return shown(path) if "://" in path else path


class Place:
    """A path, local or remote."""

    def __init__(self, path: str) -> None:
        remote = "://" in path
        self.path = path if path.endswith("://") else path.rstrip("/") or path
        self.label = label_of(self.path)
        self._fs: Any = None
        if remote:
            # only here: fsspec takes longer to import than a small diff takes to make
            with self.errors():
                from fsspec.core import url_to_fs

                self._fs, self._inner = url_to_fs(self.path)

    @property
    def name(self) -> str:
        """The last part of the path: a run's name where no manifest gives one."""
        if self._fs:
            return PurePosixPath(self.label.partition("://")[2]).name or self.label
        return Path(self.path).absolute().name or self.path

    def is_folder(self) -> bool:
        """Whether it holds files. Raises ``RunError`` where that cannot be asked."""
        with self.errors():
            return bool(self._fs.isdir(self._inner)) if self._fs else Path(self.path).is_dir()

    def names(self) -> list[str]:
        """File names in it, sorted. Raises ``RunError``."""
        with self.errors():
            if self._fs:
                return sorted(PurePosixPath(name).name for name in self._fs.ls(self._inner, detail=False))
            return sorted(path.name for path in Path(self.path).iterdir())

    def join(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self.path.rstrip('/')}/{name}" if self._fs else str(Path(self.path) / name)

    def read(self, name: str) -> bytes:
        """The bytes of a JSON document in it, unpacked where its name ends in ``.zst``.

        Raises ``RunError``, also for what is no regular file.
        """
        label = f"{self.label.rstrip('/')}/{name}" if self._fs else self.join(name)
        with self.errors(label):
            content = self._read_remote(name) if self._fs else _read_local(self.join(name))
            if name.endswith(".zst"):
                content = _unpacked(content, label)
            if len(content) > LARGEST_DOCUMENT:
                raise RunError(f"{label}: more than {LARGEST_DOCUMENT >> 20} MiB, which no document of a run has")
            return content

    def _read_remote(self, name: str) -> bytes:
        path = f"{self._inner.rstrip('/')}/{name}"
        if self._fs.info(path).get("type", "file") != "file":
            raise OSError(_NOT_REGULAR)
        with self._fs.open(path, "rb") as file:
            return bytes(file.read(LARGEST_DOCUMENT + 1))

    def filesystem(self) -> tuple[Any, str]:
        """fsspec's filesystem of a remote path, and the path as that knows it."""
        assert self._fs is not None
        return self._fs, self._inner

    @contextmanager
    def errors(self, label: str = "") -> Iterator[None]:
        """Whatever a driver raises is told as ours, ``RunError``: any of them may raise anything."""
        label = label or self.label
        try:
            yield
        except (RunError, MemoryError):
            raise
        except OSError as error:
            raise RunError(f"{label}: {error.strerror or error}") from None
        except (ImportError, ValueError) as error:
            raise RunError(f"{label}: {error}") from None
        except Exception as error:
            raise RunError(f"{label}: {type(error).__name__}: {error}") from None


def _unpacked(content: bytes, label: str) -> bytes:
    """At most one byte more than a document may have, however far it would expand."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(content) as reader:
            return reader.read(LARGEST_DOCUMENT + 1)
    except zstandard.ZstdError as error:
        raise RunError(f"{label}: not zstandard, or damaged: {error}") from None


_WINDOW = 128 << 20
"""Bytes of window that a document may ask for: the format's own default."""

_NOT_REGULAR = "not a regular file"


def _read_local(path: str) -> bytes:
    # looked at before it is opened, since a pipe would block, and after, since a path can change
    if not modes.S_ISREG(Path(path).stat().st_mode):
        raise OSError(_NOT_REGULAR)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(_NOT_REGULAR)
        return file.read(LARGEST_DOCUMENT + 1)
