"""Runs that somebody has dropped on the page: kept for a while, seen by whoever has their id, and removed.

Several people use one server: an upload's id cannot be guessed, is in no list, and is kept by the browser that sent it.
On disk an upload has the hash of its id for a name. Workers that share a folder (``directory``, or SNAPVIZ_UPLOADS)
share uploads as well; what is counted against the quota is what lies on disk, whoever put it there.

Refusals are errors for people: ``UsageError`` for what is too large, ``InputError`` for what is no run, ``OutputError``
where there is no room.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from snapviz.analyze.run import load_run
from snapviz.analyze.runfiles import is_snapshot_name
from snapviz.app.archives import Allowance, kind_of, safe_name, unpack, written
from snapviz.app.claims import UPLOAD, Claim
from snapviz.app.runs import Registry, RunEntry
from snapviz.errors import OutputError, RunError, SnapvizError, UsageError
from snapviz.units import format_bytes

__all__ = ["PREFIX", "UploadLimits", "Uploads"]

PREFIX = "upload:"
"""What the id of an upload begins with."""

_ID = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
_RECEIVING = "receiving-"
_LOOK_AGAIN_BYTES = 32 << 20
"""Bytes after which an upload that is being written is held against the quota again."""

_SWEEP_S = 60.0
_ARCHIVE_END = re.compile(r"(?:\.tar)?(?:\.(?:gz|xz|zst))?\Z|\.(?:tgz|txz|tzst|zip)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class UploadLimits:
    """What may be dropped on the page."""

    file_bytes: int = 2 << 30
    # of one file as it is sent: the largest snapshots people have are some hundred MiB, and a tenth once compressed
    run_bytes: int = 8 << 30
    # of one run once unpacked
    quota_bytes: int = 16 << 30
    # of all uploads on the server together
    files: int = 20_000
    # entries of one archive: two a rank, for ten thousand ranks
    keep_s: float = 24 * 3600
    # s after its last use for which an upload is kept: a working day, and the night after it


class Uploads:
    """The uploads of one server. Safe to share between threads, and its folder between workers."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        limits: UploadLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``directory``: else SNAPVIZ_UPLOADS, else a new one. Raises ``OutputError`` where there can be none."""
        self.limits = limits or UploadLimits()
        claim = Claim(directory or os.environ.get("SNAPVIZ_UPLOADS") or None)
        self.path = claim.path
        self._clock = clock
        self._known: dict[str, RunEntry] = {}
        self._lock = threading.Lock()
        self._swept = clock()
        # at the end of the process, or of the app where that comes first
        self.close = weakref.finalize(self, claim.release)

    def receive(self, name: str, pieces: Iterable[bytes], announced_bytes: int | None = None) -> RunEntry:
        """Keeps what ``pieces`` give: a snapshot in any form, or an archive of a run. ``name`` is for people.

        Raises ``SnapvizError``, after which nothing of it is left.
        """
        self.sweep(now=True)
        self._refuse_large(announced_bytes or 0)
        self._refuse_full(announced_bytes or 0)
        place = self.path / f"{_RECEIVING}{secrets.token_hex(32)}"
        try:
            place.mkdir(mode=0o700)
            return self._received(place, name, pieces)
        except OSError as error:
            raise OutputError(f"the server could not keep the file: {error.strerror or error}") from None
        except SnapvizError as error:
            raise type(error)(self.public(str(error))) from None
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def entry(self, run_id: str) -> RunEntry | None:
        """The run of an upload's id; ``None`` where there is none, or none any more. Using it keeps it."""
        if not _ID.fullmatch(run_id):
            return None
        place = self._place(run_id)
        try:
            if self._clock() - place.stat().st_mtime > self.limits.keep_s:
                return None
            os.utime(place, (self._clock(), self._clock()))
        except OSError:
            self._known.pop(run_id, None)
            return None
        found = self._known.get(run_id)
        if found is None:
            with suppress(SnapvizError):  # removed just now
                found = self._known[run_id] = replace(_entry_in(place), id=run_id)
        return found

    def remove(self, run_id: str) -> bool:
        """Removes an upload; whether there was one."""
        there = self.entry(run_id) is not None
        if there:
            self._known.pop(run_id, None)
            shutil.rmtree(self._place(run_id), ignore_errors=True)
        return there

    def sweep(self, now: bool = False) -> None:
        """Removes what nobody has used for long; at most once a minute, unless it is to be ``now``."""
        with self._lock:
            if not now and self._clock() - self._swept < _SWEEP_S:
                return
            self._swept = self._clock()
        for place in self._places():
            with suppress(OSError):
                if self._clock() - _last_write(place) > self.limits.keep_s:
                    shutil.rmtree(place, ignore_errors=True)

    def used_bytes(self) -> int:
        """Bytes of all uploads on disk, of every worker, those that are being received too."""
        return sum(_bytes_in(place) for place in self._places())

    def public(self, text: str) -> str:
        """A message without where on the server uploads lie: what remains is the run's own name."""
        inside = re.compile(re.escape(f"{self.path}{os.sep}") + rf"{UPLOAD.pattern}(?:/body|/content(?:/[^/]+)?)?/?")
        return inside.sub("", text).replace(str(self.path), "uploads")

    def _received(self, place: Path, name: str, pieces: Iterable[bytes]) -> RunEntry:
        body = place / "body"
        if not written(body, self._counted(pieces)):
            raise RunError("the file is empty")
        kind = kind_of(body)
        shown = safe_name(name)
        folder = place / "content" / (_ARCHIVE_END.sub("", shown) or "run")
        folder.mkdir(mode=0o700, parents=True)
        if kind == "snapshot":
            body.rename(folder / (shown if is_snapshot_name(shown) else f"{shown}.pickle"))
        else:
            unpacked = unpack(body, kind, folder, Allowance(self.limits.files, self.limits.run_bytes, self._watch()))
            body.unlink()
            if unpacked.folder:
                folder.rename(folder.with_name(safe_name(unpacked.folder)))
        _refuse_unreadable(_entry_in(place))
        run_id = f"{PREFIX}{secrets.token_hex(16)}"
        os.utime(place, (self._clock(), self._clock()))
        place.rename(self._place(run_id))
        return replace(_entry_in(self._place(run_id)), id=run_id)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        total, watch = 0, self._watch()
        for piece in pieces:
            total += len(piece)
            self._refuse_large(total)
            watch(len(piece))
            yield piece

    def _watch(self) -> Callable[[int], None]:
        """Called with bytes that are about to be written: looks at the disk once in a while."""
        since = 0

        def watch(more: int) -> None:
            nonlocal since
            since += more
            if since >= _LOOK_AGAIN_BYTES:
                since = 0
                self._refuse_full(more)

        return watch

    def _refuse_large(self, count: int) -> None:
        if not self.limits.file_bytes:
            raise UsageError("nothing can be dropped here: this server was started with --upload-limit 0")
        if count > (most := self.limits.file_bytes):
            raise UsageError(
                f"the file is larger than {format_bytes(most)}, which is the limit here: compress it with zstd, or "
                "have the server read it from its own directory"
            )

    def _refuse_full(self, more: int) -> None:
        used, free = self.used_bytes(), shutil.disk_usage(self.path).free
        most = min(self.limits.quota_bytes, used + free)
        if used + more > most:
            raise OutputError(
                f"there is no room for it: uploads take up {format_bytes(used)} of the {format_bytes(most)} they may. "
                f"Those that nobody used for {self.limits.keep_s / 3600:g} h are removed"
            )

    def _places(self) -> list[Path]:
        with suppress(OSError):
            return [place for place in self.path.iterdir() if UPLOAD.fullmatch(place.name)]
        return []

    def _place(self, run_id: str) -> Path:
        # a hash, so that neither a message nor a list of the folder gives an id away
        return self.path / hashlib.sha256(run_id.encode()).hexdigest()


def _entry_in(place: Path) -> RunEntry:
    """The one run in an upload's folder, as the registry describes runs."""
    found = Registry(str(place / "content")).all()
    if not found:
        raise RunError("it holds no run")
    # a folder of snapshots comes before each of them
    return replace(found[0], uploaded=True, kept_in=str(place / "cache"))


def _refuse_unreadable(entry: RunEntry) -> None:
    """Refuses what cannot be opened at all, while whoever dropped it is looking."""
    if entry.problem:
        raise RunError(entry.problem)
    if entry.kind == "snapshot":
        load_run(entry.path, cache=False)


def _last_write(place: Path) -> float:
    """Of a folder's own time, or of what is still being written in it."""
    times = [place.stat().st_mtime]
    if place.name.startswith(_RECEIVING):
        times += [path.stat().st_mtime for path in place.rglob("*")]
    return max(times)


def _bytes_in(place: Path) -> int:
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):
                total += (Path(folder) / name).lstat().st_size
    return total
