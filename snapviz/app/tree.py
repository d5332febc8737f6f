"""A directory or an fsspec URL as folders of files: what the registry of runs looks through."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from snapviz.analyze.place import Place, label_of
from snapviz.errors import RunError

__all__ = ["Entry", "Folder", "Tree", "tree_at"]

_DEEP = 6
"""Folders that a run may lie below the root."""

_MOST = 100_000
"""Files and folders that are looked at: a whole disk served by mistake must not be walked."""


@dataclass(frozen=True)
class Entry:
    """One file."""

    name: str
    size_bytes: int
    changed_s: float | None
    # last write, seconds since the epoch; none where its store does not say
    vouched: str = ""
    # what else tells it from a later one: an inode, an ETag


@dataclass(frozen=True)
class Folder:
    """One folder; its id is its path within the root, ``""`` for the root itself."""

    id: str
    files: list[Entry]
    outside: tuple[str, ...] = ()
    # names of links that lead out of the root, which are not followed


class Tree(ABC):
    """What lies below a root, by ids."""

    label: str
    name: str
    truncated: bool

    @abstractmethod
    def folders(self) -> Iterator[Folder]:
        """Every folder, the root first. Raises ``RunError`` where the root cannot be listed."""

    @abstractmethod
    def path(self, run_id: str) -> str:
        """Where the thing of an id that ``folders`` gave lies."""

    @abstractmethod
    def places(self) -> list[str]:
        """The root as it can stand in a message, the longest first."""

    def read(self, folder_id: str, name: str) -> bytes:
        """A small document of a folder. Raises ``RunError``."""
        return Place(self.path(folder_id)).read(name)

    def stamp(self, files: Iterable[Entry], outside: Iterable[str] = ()) -> str:
        """A short text that differs when a file of these was written, came or went."""
        told = repr(([(f.name, f.size_bytes, f.changed_s, f.vouched) for f in files], sorted(outside)))
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def tree_at(root: str) -> Tree:
    """The tree of a directory or URL. Raises ``RunError`` where it is none."""
    return _Remote(root) if "://" in root else _Local(root)


class _Local(Tree):
    def __init__(self, root: str) -> None:
        self._root = Path(root).expanduser()
        self.label = str(root)
        self.name = self._root.absolute().name or "runs"
        self.truncated = False
        if not self._root.is_dir():
            what = "is a file: serve the folder it lies in" if self._root.exists() else "there is no such directory"
            raise RunError(f"{root}: {what}")
        self._real = self._root.resolve()

    def folders(self) -> Iterator[Folder]:
        self.truncated = False
        left = _MOST
        waiting = [("", self._real, 0)]
        seen: set[tuple[int, int]] = set()
        while waiting:
            folder_id, path, depth = waiting.pop()
            try:
                found = sorted(os.scandir(path), key=lambda entry: entry.name)
            except OSError as error:
                if depth == 0:
                    raise RunError(f"{self.label}: {error.strerror or error}") from None
                continue
            left -= len(found)
            if left < 0:
                self.truncated = True
                return
            inside = [entry for entry in found if self._inside(entry)]
            outside = tuple(entry.name for entry in found if entry not in inside)
            files, inner = _sorted_out(inside, seen)
            yield Folder(folder_id, files, outside)
            if depth < _DEEP:
                waiting += [(f"{folder_id}/{name}".lstrip("/"), place, depth + 1) for name, place in reversed(inner)]

    def _inside(self, entry: os.DirEntry[str]) -> bool:
        """Whether it is what it seems, or a link that stays below the root."""
        try:
            return not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(self._real)
        except (OSError, RuntimeError):
            return False  # links in a circle

    def path(self, run_id: str) -> str:
        return str(self._root / run_id) if run_id else str(self._root)

    def places(self) -> list[str]:
        found = {str(self._root), str(self._root.absolute()), str(self._real)} - {"/", "."}
        return sorted(found, key=len, reverse=True)


def _sorted_out(
    found: Iterable[os.DirEntry[str]], seen: set[tuple[int, int]]
) -> tuple[list[Entry], list[tuple[str, Path]]]:
    files: list[Entry] = []
    inner: list[tuple[str, Path]] = []
    for entry in found:
        try:
            if entry.name.startswith(".") or not _printable(entry.name):
                continue
            stat = entry.stat()
            if entry.is_dir():
                # a link to a folder above would go round for ever
                if (stat.st_dev, stat.st_ino) not in seen:
                    seen.add((stat.st_dev, stat.st_ino))
                    inner.append((entry.name, Path(entry.path)))
            elif entry.is_file():
                files.append(Entry(entry.name, stat.st_size, stat.st_mtime, f"{stat.st_ino}:{stat.st_ctime_ns}"))
        except OSError:
            continue
    return files, inner


def _printable(name: str) -> bool:
    """A name that a URL can hold: one that is not UTF-8 is opened by the command line alone."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


class _Remote(Tree):
    def __init__(self, root: str) -> None:
        self._place = Place(root)
        self.label = label_of(root)
        self.name = self._place.name
        self.truncated = False
        if not self._place.is_folder():
            raise RunError(f"{self.label}: there is no such folder")

    def folders(self) -> Iterator[Folder]:
        self.truncated = False
        left = _MOST
        fs, inner = self._place.filesystem()
        with self._place.errors():
            for path, _, files in fs.walk(inner, maxdepth=_DEEP, detail=True):
                left -= len(files) + 1
                if left < 0:
                    self.truncated = True
                    return
                folder_id = str(path).rstrip("/").removeprefix(inner.rstrip("/")).strip("/")
                yield Folder(folder_id, sorted((_remote_entry(*item) for item in files.items()), key=lambda f: f.name))

    def path(self, run_id: str) -> str:
        return self._place.join(run_id) if run_id else self._place.path

    def places(self) -> list[str]:
        return sorted({self._place.path, self.label}, key=len, reverse=True)


def _remote_entry(name: str, info: dict[str, Any]) -> Entry:
    changed = next((info[key] for key in ("mtime", "LastModified", "last_modified", "updated") if info.get(key)), None)
    vouched = next((str(info[key]) for key in ("ETag", "etag", "md5Hash", "generation") if info.get(key)), "")
    seconds = changed.timestamp() if isinstance(changed, datetime) else changed
    return Entry(
        name, int(info.get("size") or 0), float(seconds) if isinstance(seconds, (int, float)) else None, vouched
    )
