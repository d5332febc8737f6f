"""Arrays kept on disk between runs, so that a snapshot is decoded once.

One file an entry, in one folder::

    magic 8 · header length 8 · xxh3_64 of the header 8 · header (JSON, blanks up to a multiple of 64)
    data: every array, C order, little-endian, each at a multiple of 64

The header names the key, kind and version it was written for, what the caller put beside the
arrays, each array's name, dtype, shape and offset, and the length and xxh3_64 of the data. Every
byte of a file is covered by one of the two hashes, and both are checked when it is opened, so that
an entry is either what was written or not there. What is not right is removed and made again.

The key is made by ``snapviz.snapshot.identity``: it says when two files are the same, and when
that cannot be known, in which case nothing is kept. The version is the decoder's: a new decoder
never reads what an old one wrote.

The cache is a help and never a condition. A folder that is missing, full, read-only or full of
rubbish costs the time it would have saved, and ``Cache.note`` says so. It is not a defence against
someone who may write into it: entries of other users are not used for that reason.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import re
import stat as modes
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.snapshot.identity import Identity

__all__ = ["CACHE_LIMIT_BYTES", "Arrays", "Cache", "cache_root"]

Arrays = dict[str, npt.NDArray[Any]]

CACHE_LIMIT_BYTES = 4 << 30
"""Bytes of all entries together: some thirty of the largest snapshots people have, as columns."""

_MAGIC = b"snapviz\x01"  # the last byte is the version of this layout
_PREAMBLE = 24
_ALIGN = 64
_HEADER_LIMIT = 4 << 20
"""Bytes of a header: read into memory before anything is known of the file, so it has to be small."""
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})
_MAX_DIMENSIONS = 8

_ENTRY = re.compile(r"[0-9a-f]{32}\.snapviz")
_TEMPORARY = re.compile(r"writing-.*\.snapviz-part")
_STALE_S = 86_400
"""s after which a file that was being written belongs to a process that died."""


class Cache:
    """A bounded folder of entries. ``note`` says why the last thing that was not done was not done."""

    def __init__(
        self, root: str | os.PathLike[str] | None = None, limit_bytes: int = CACHE_LIMIT_BYTES, enabled: bool = True
    ) -> None:
        """``root``: else SNAPVIZ_CACHE_DIR, else the user's cache folder. Least recently used entries go first."""
        self.note = ""
        self.limit_bytes = limit_bytes
        self.root = cache_root(root) if enabled else None
        if self.root is None:
            self.note = "no folder for a cache is known (SNAPVIZ_CACHE_DIR names one)" if enabled else "it is off"

    def get(self, identity: Identity, kind: str, version: str) -> tuple[dict[str, Any], Arrays] | None:
        """The header and arrays put for the same file, kind and version, mapped and read-only; or ``None``.

        Raises nothing: an entry that is not whole is removed, and is not there.
        """
        path = self._place(identity, kind, version)
        if path is None:
            return None
        try:
            header, arrays = _read_entry(path, _wanted(identity, kind, version), self.limit_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.note = f"{path} cannot be read: {error.strerror or error}"
            return None
        except _UnusableError as error:
            self.note = f"{path} was not used: {error}"
            with suppress(OSError):
                path.unlink()
            return None
        return header, arrays

    def put(
        self,
        identity: Identity,
        kind: str,
        version: str,
        header: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> bool:
        """Keeps ``arrays`` and a JSON-able ``header``; whether it did. ``note`` says why not.

        Raises ``TypeError`` for an array of another dtype than plain numbers, and for a header
        that is not JSON: these are the caller's mistakes and not the disk's.
        """
        path = self._place(identity, kind, version)
        if path is None:
            return False
        head, parts, total = _laid_out(_wanted(identity, kind, version), header, arrays)
        if total > self.limit_bytes or len(head) > _HEADER_LIMIT:
            self.note = f"an entry of {total:,} bytes is larger than the cache may be ({self.limit_bytes:,})"
            return False
        try:
            _write_entry(path, head, parts)
        except OSError as error:
            self.note = f"nothing was kept in {path.parent}: {error.strerror or error}"
            return False
        if _due(self.root, total, self.limit_bytes):
            self._evict(path)
        return True

    def _place(self, identity: Identity, kind: str, version: str) -> Path | None:
        if self.root is None:
            return None
        if not identity.key:
            self.note = identity.reason
            return None
        import xxhash

        return self.root / f"{xxhash.xxh3_128_hexdigest(json.dumps([identity.key, kind, version]).encode())}.snapviz"

    def _evict(self, newest: Path) -> None:
        """Removes what is over the limit, least recently used first, and what died while it was written."""
        assert self.root is not None
        entries = sorted(_files(self.root, _ENTRY), key=lambda found: (found[1].st_mtime_ns, found[0].name))
        total = sum(stat.st_size for _, stat in entries)
        for path, stat in entries:
            if total <= self.limit_bytes:
                break
            if path != newest:
                _remove(path)
                total -= stat.st_size
        for path, stat in _files(self.root, _TEMPORARY):
            if time.time() - stat.st_mtime > _STALE_S:
                _remove(path)


_written: dict[Path | None, int] = {}
_SLACK = 64
"""The share of the limit that may be written before the folder is looked through again."""


def _due(root: Path | None, added: int, limit_bytes: int) -> bool:
    """Whether to look through the folder: at the first entry of a process, and then now and then.

    A snapshot of many devices keeps as many entries, and each look goes through all of them. The
    cache may be over its limit by that share for a while.
    """
    total = _written.get(root, limit_bytes) + added
    due = total > limit_bytes // _SLACK
    _written[root] = 0 if due else total
    return due


class _UnusableError(Exception):
    """Why a file is not the entry it should be."""


def cache_root(root: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder of the cache: ``root``, else SNAPVIZ_CACHE_DIR, else the user's; none where no place is known."""
    named = root if root is not None else os.environ.get("SNAPVIZ_CACHE_DIR")
    import platformdirs

    try:
        if named:
            return Path(named).absolute()
        place = Path(platformdirs.user_cache_dir("snapviz", appauthor=False))
    except (OSError, RuntimeError):  # a working directory that is gone, a user without an entry
        return None
    # Where there is no home, `~` stays as it is, and would become a folder of that name right here.
    return place if place.is_absolute() else None


def _wanted(identity: Identity, kind: str, version: str) -> dict[str, str]:
    return {"key": identity.key, "kind": kind, "version": version}


def _padded(count: int) -> int:
    return -(-count // _ALIGN) * _ALIGN


def _laid_out(
    wanted: dict[str, str], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[bytes, list[npt.NDArray[np.uint8]], int]:
    """The bytes up to the data, the data in pieces, and the length of both together."""
    import xxhash

    table, parts, offset = [], [], 0
    hashed = xxhash.xxh3_64()
    for name, given in arrays.items():
        array = np.ascontiguousarray(given).reshape(given.shape)
        if array.dtype.str not in _DTYPES:
            raise TypeError(f"{name}: {array.dtype} cannot be cached, only plain little-endian numbers")
        table.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": offset})
        for part in (array.reshape(-1).view(np.uint8), np.zeros(_padded(array.nbytes) - array.nbytes, np.uint8)):
            parts.append(part)
            hashed.update(part.data)
        offset += _padded(array.nbytes)
    data = {"arrays": table, "data_bytes": offset, "data_xxh3": hashed.hexdigest()}
    head = _sealed(json.dumps(wanted | {"header": dict(header)} | data).encode())
    return head, parts, len(head) + offset


def _sealed(header: bytes) -> bytes:
    """Preamble and header, blanks added so that the data behind them is aligned."""
    import xxhash

    header = header.ljust(_padded(_PREAMBLE + len(header)) - _PREAMBLE)
    return _MAGIC + len(header).to_bytes(8, "little") + xxhash.xxh3_64(header).digest() + header


def _write_entry(path: Path, head: bytes, parts: list[npt.NDArray[np.uint8]]) -> None:
    """Writes aside and renames, so that no reader and no second writer ever sees half an entry."""
    import tempfile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix="writing-", suffix=".snapviz-part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(head)
            for part in parts:
                file.write(part.data)
        # Not synced to the disk: what a power cut leaves half written, the hashes find.
        Path(aside).replace(path)
    except BaseException:
        _remove(Path(aside))
        raise


def _read_entry(path: Path, wanted: dict[str, str], limit_bytes: int) -> tuple[dict[str, Any], Arrays]:
    """Raises ``OSError`` where the file cannot be read, ``_UnusableError`` where it is not what was written."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
        stat = os.fstat(file.fileno())
        _require(modes.S_ISREG(stat.st_mode), "not a regular file")
        if hasattr(os, "geteuid") and stat.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "it belongs to another user")
        _require(_PREAMBLE <= stat.st_size <= limit_bytes, "cut short, or larger than the cache may be")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header, start = _header(mapped)
        _require(all(header.get(name) == value for name, value in wanted.items()), "it is of another file")
        arrays = _arrays(mapped, header, start)
    _touch(path)
    return header["header"], arrays


def _touch(path: Path) -> None:
    """Marks an entry as used now, which is what the order of eviction goes by."""
    with suppress(OSError):  # a cache that was filled by someone else and is only read
        os.utime(path)


def _header(mapped: mmap.mmap) -> tuple[dict[str, Any], int]:
    """The header, checked against its hash, and where the data begins."""
    import xxhash

    _require(mapped[:8] == _MAGIC, "of another layout")
    length = int.from_bytes(mapped[8:16], "little")
    _require(length <= min(_HEADER_LIMIT, len(mapped) - _PREAMBLE), "cut short")
    raw = mapped[_PREAMBLE : _PREAMBLE + length]
    _require(xxhash.xxh3_64_digest(raw) == mapped[16:24], "garbled")
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _UnusableError("garbled") from error
    _require(isinstance(header, dict) and isinstance(header.get("header"), dict), "garbled")
    return header, _PREAMBLE + length


def _arrays(mapped: mmap.mmap, header: dict[str, Any], start: int) -> Arrays:
    """The arrays, as views of the map, after one pass over all data for its hash."""
    import xxhash

    _require(header.get("data_bytes") == len(mapped) - start, "cut short")
    data = np.frombuffer(mapped, np.uint8, offset=start) if len(mapped) > start else np.empty(0, np.uint8)
    _require(xxhash.xxh3_64_hexdigest(data.data) == header.get("data_xxh3"), "garbled")
    table = header.get("arrays")
    if not isinstance(table, list):
        raise _UnusableError("garbled")
    return dict(_array(data, item) for item in table)


def _array(data: npt.NDArray[np.uint8], item: Any) -> tuple[str, npt.NDArray[Any]]:
    """One array; every number is checked before it is used, for the hash does not say who wrote it."""
    _require(isinstance(item, dict), "garbled")
    name, dtype, shape, offset = (item.get(key) for key in ("name", "dtype", "shape", "offset"))
    _require(isinstance(name, str) and isinstance(dtype, str) and dtype in _DTYPES, "garbled")
    _require(isinstance(shape, list) and len(shape) <= _MAX_DIMENSIONS and all(map(_is_size, shape)), "garbled")
    _require(_is_size(offset) and offset % _ALIGN == 0, "garbled")
    count = math.prod(shape) * np.dtype(dtype).itemsize
    _require(offset + count <= len(data), "garbled")
    return name, data[offset : offset + count].view(dtype).reshape(shape)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise _UnusableError(why)


def _files(root: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Our own files of one kind. Whatever else lies in the folder is not ours to touch."""
    with suppress(OSError), os.scandir(root) as found:
        for item in found:
            if pattern.fullmatch(item.name):
                with suppress(OSError):  # another process was faster
                    yield Path(item.path), item.stat(follow_symlinks=False)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
