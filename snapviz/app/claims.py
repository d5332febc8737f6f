"""Folders for uploads: private, shared by the workers of one server, and never left behind for long.

Every process that uses a folder holds a shared lock on a file in it for as long as it lives, however it ends. Whoever
can lock it alone is the only one: a server that starts so clears what a killed one left, and the last to end
clears what it has itself. A lock is of the open file, which a process that was forked shares: only the one that opened
it lets go.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat as modes
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from snapviz.errors import OutputError

__all__ = ["UPLOAD", "Claim"]

UPLOAD = re.compile(r"(?:receiving-)?[0-9a-f]{64}")
"""Names of what is kept in such a folder: nothing else in it is ever touched."""

_ALIVE = ".snapviz-uploads"
_SERVER = "server-"


class Claim:
    """A folder that this process keeps uploads in. Raises ``OutputError`` where there can be none."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """``directory`` is shared by all that are given it; without one, it is a new one in the temporary folder."""
        self._pid = os.getpid()
        self._new = directory is None
        try:
            self.path, self._descriptor = _private() if directory is None else _shared(Path(directory))
        except OSError as error:
            place = f"{directory}: " if directory is not None else ""
            raise OutputError(f"{place}there is no folder for uploads: {error.strerror or error}") from None

    def release(self) -> None:
        """Lets go of the folder; the last to do so clears it. Does nothing in a forked process, or twice."""
        if self._descriptor < 0 or self._pid != os.getpid():
            return
        if _locked(self._descriptor, fcntl.LOCK_EX):
            _clear(self.path)
            if self._new:
                shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)
        self._descriptor = -1


def _shared(path: Path) -> tuple[Path, int]:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path.resolve()
    descriptor = _opened(path / _ALIVE)
    if _locked(descriptor, fcntl.LOCK_EX):
        _clear(path)
    _share(descriptor)
    return path, descriptor


def _private() -> tuple[Path, int]:
    base = _base()
    with _one_at_a_time(base):
        for other in base.glob(f"{_SERVER}*"):
            if _abandoned(other):
                shutil.rmtree(other, ignore_errors=True)
        path = Path(tempfile.mkdtemp(prefix=_SERVER, dir=base))
        descriptor = _opened(path / _ALIVE)
        _share(descriptor)
    return path, descriptor


def _base() -> Path:
    """One folder a user, which nobody else can have made; another where somebody has."""
    base = Path(tempfile.gettempdir()).resolve() / f"snapviz-{os.getuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    stat = base.lstat()
    mine = modes.S_ISDIR(stat.st_mode) and stat.st_uid == os.getuid() and not stat.st_mode & 0o077
    return base if mine else Path(tempfile.mkdtemp(prefix="snapviz-"))


@contextmanager
def _one_at_a_time(base: Path) -> Iterator[None]:
    """Between a folder's making and its lock nobody may take it for one that was left."""
    descriptor = _opened(base / _ALIVE)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _abandoned(path: Path) -> bool:
    try:
        descriptor = _opened(path / _ALIVE)
    except OSError:
        return False
    try:
        return _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _share(descriptor: int) -> None:
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _clear(path: Path) -> None:
    for each in path.iterdir():
        if UPLOAD.fullmatch(each.name):
            shutil.rmtree(each, ignore_errors=True)
