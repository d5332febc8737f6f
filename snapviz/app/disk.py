"""Texts under keys on disk, shared by every worker: JSON that is parsed, and never a pickle."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import diskcache

__all__ = ["Disk"]

_LIMIT_BYTES = 1 << 30
"""Bytes of all texts; the least recently used go."""

_LARGEST = 64 << 20
"""Characters of one: a longer one is not kept."""

_ERRORS = (sqlite3.Error, diskcache.Timeout, OSError, ValueError, TypeError, zlib.error)
"""What diskcache raises where the disk is full, gone, locked or garbled."""

_PICKLE = diskcache.core.MODE_PICKLE


class _NoPickle(diskcache.JSONDisk):  # type: ignore[misc]
    """JSONDisk writes JSON, but reads a pickle where a row says that it is one: a file could run what it likes."""

    def fetch(self, mode: int, *rest: Any) -> Any:
        if mode == _PICKLE:
            raise ValueError("a pickle")
        return super().fetch(mode, *rest)


class Disk:
    """A folder of texts. A disk that is full or gone costs time and nothing else: what is not there is made again."""

    def __init__(self, folder: Path) -> None:
        self._cache = diskcache.Cache(str(folder), disk=_NoPickle, size_limit=_LIMIT_BYTES)

    def get(self, key: str) -> str | None:
        """The text under a key; none where there is none that can be read."""
        with suppress(*_ERRORS):
            text = self._cache.get(key)
            return text if isinstance(text, str) else None
        return None

    def put(self, key: str, text: str, for_s: float | None = None) -> None:
        """Keeps a text, where it can, for so many seconds (none: as long as there is room)."""
        if len(text) <= _LARGEST:
            with suppress(*_ERRORS):
                self._cache.set(key, text, expire=for_s)

    def close(self) -> None:
        """Lets go of the folder."""
        self._cache.close()
