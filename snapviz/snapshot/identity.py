"""What tells one file from a later one at the same place, without reading all of it.

A local file is what the system says of it (real path, device, inode, size, time of last write, time
of last change) and a hash of 18 samples of its bytes. The time of last change (``ctime``) is the one
that carries: it moves with every write and no user can set it back, so that a rewrite of the same
size with its old ``mtime`` restored is still seen. Its one gap is its grain: two writes within one
tick of a coarse clock leave one time. A file that changed less than ``SETTLED_NS`` before it was
opened is therefore given no key, as git takes an entry of its index that is as young as the index
itself for possibly changed.

A remote object is known by what its store vouches for the content with (an ETag, a hash, a
generation). Where the store gives none, it has no key either.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SETTLED_NS", "Identity", "local_identity", "remote_identity"]

SETTLED_NS = 2_000_000_000
"""ns: the coarsest tick among file systems in use (FAT's 2 s; NFS and HFS+ have 1 s)."""

_ENDS = 64 << 10
_BLOCK = 4 << 10
_BLOCKS = 16

_VALIDATORS = ("etag", "content-md5", "content_md5", "md5hash", "md5", "crc32c", "sha256", "generation", "versionid")
"""Keys of fsspec's ``info``, in lower case, that change whenever the content does. A date is not
among them: HTTP's has a grain of one second."""

now_ns: Callable[[], int] = time.time_ns


@dataclass(frozen=True)
class Identity:
    """``key`` stands for the content, as a hash; it is empty where nothing can, and ``reason`` says why."""

    key: str
    reason: str = ""


def local_identity(path: str, stat: os.stat_result, read_at: Callable[[int, int], bytes]) -> Identity:
    """Identity of an open regular file; ``read_at(offset, count)`` reads from it. Raises ``OSError``."""
    age_ns = now_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns)
    if age_ns < SETTLED_NS:
        reason = "it changed less than 2 s before it was opened, too recently to tell a further change by its time"
        return Identity("", reason)
    place = os.path.realpath(path)
    times = [stat.st_mtime_ns, stat.st_ctime_ns]
    return Identity(_digest("local", place, stat.st_dev, stat.st_ino, stat.st_size, *times, _sampled(stat, read_at)))


def remote_identity(url: str, info: Mapping[str, Any]) -> Identity:
    """Identity of a remote object by fsspec's ``info`` of it."""
    vouched = {key.lower(): str(value) for key, value in info.items() if key.lower() in _VALIDATORS and value}
    vouched = {key: value for key, value in vouched.items() if not value.startswith("W/")}  # weak ETags vouch for less
    if not vouched:
        return Identity("", "its store gives no ETag or hash that a change could be told by")
    return Identity(_digest("remote", url, info.get("size"), sorted(vouched.items())))


def _sampled(stat: os.stat_result, read_at: Callable[[int, int], bytes]) -> str:
    """Hash of both ends and of evenly spaced blocks between them."""
    import xxhash

    size = stat.st_size
    inner = [size * i // (_BLOCKS + 1) for i in range(1, _BLOCKS + 1)]
    sampled = xxhash.xxh3_128(read_at(0, _ENDS))
    for offset in inner:
        sampled.update(read_at(offset, _BLOCK))
    sampled.update(read_at(max(size - _ENDS, 0), _ENDS))
    return sampled.hexdigest()


def _digest(*parts: object) -> str:
    # A hash and not the parts: the cache's files then name neither folders nor signed URLs.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
