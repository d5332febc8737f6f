"""From what somebody dropped on the page to the files of a run in a folder of ours.

A snapshot stays as it is. A zip or tar archive (plain, gzip, xz or zstd) is unpacked, and only what a run
consists of: regular files with a run's names, all of one folder, each once. A link, a device, a path that
leads out or a second file of a name refuses the whole archive: what is half unpacked would be shown as a run.
Bytes are counted while they are written, whatever the archive says of itself.

Raises ``RunError`` for what the archive is, ``OutputError`` where the disk has no room.
"""

from __future__ import annotations

import os
import re
import stat as modes
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from snapviz.analyze.runfiles import is_record_name, is_snapshot_name
from snapviz.app.tars import Entry, TarStream, is_tar
from snapviz.errors import OutputError, RunError, SnapshotError
from snapviz.report.layout import clean
from snapviz.schema import MANIFEST
from snapviz.snapshot.compression import HEAD_BYTES, Layer, layer_name, refuse_unreadable
from snapviz.units import format_bytes

__all__ = ["Allowance", "Unpacked", "kind_of", "safe_name", "unpack", "written"]

Kind = Literal["zip", "tar", "snapshot"]

_CHUNK_BYTES = 1 << 20
_LAYERS = 3
_EXPANSION = 1000
_EXPANSION_FREE_BYTES = 64 << 20
_CONTENTS_BYTES = 8 << 20
"""Bytes of a zip's table of contents, all of which is read into memory: 80,000 files have less."""

_LONGEST_NAME = 200
"""Bytes of a file's name. Most file systems allow 255."""

_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
    struct.error,
)
_PLAIN_ZIP = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass
class Allowance:
    """What an archive may become; ``check`` gets the bytes of each piece before it is written, and may raise."""

    files: int
    most_bytes: int
    check: Callable[[int], None] = lambda _: None


@dataclass
class Unpacked:
    """What was unpacked: names in the folder, and how many other files were left out."""

    folder: str | None = None
    # the archive's own folder that the files were in
    names: list[str] = field(default_factory=list)
    left_out: int = 0
    size_bytes: int = 0


def kind_of(path: Path) -> Kind:
    """What a file is, by its bytes. Raises ``SnapshotError`` for what can be neither."""
    with path.open("rb") as file:
        head, _ = _decompressed(file)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                return "zip"
    if not head:
        raise SnapshotError("an empty file")
    if is_tar(head):
        return "tar"
    refuse_unreadable(head)
    return "snapshot"


def unpack(path: Path, kind: Kind, folder: Path, allowance: Allowance) -> Unpacked:
    """Unpacks an archive into an empty ``folder``."""
    with path.open("rb") as file:
        unpacking = _Unpacking(folder, allowance)
        if kind == "zip":
            _unzip(file, unpacking)
        else:
            _untar(file, unpacking)
    return unpacking.finished()


def safe_name(name: str) -> str:
    """A file's name that is harmless anywhere, as near to the given one as that goes."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    plain = re.sub(r"[^\w.+-]+", "_", last, flags=re.ASCII).lstrip(".-")
    return plain[-100:].lstrip(".-") or "snapshot"


def written(path: Path, pieces: Iterable[bytes]) -> int:
    """Writes a new file that nobody else can read; returns its bytes."""
    total = 0
    with _disk():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for piece in pieces:
            total += len(piece)
            left = memoryview(piece)
            while left:
                with _disk():
                    left = left[file.write(left) :]
    return total


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"the server could not keep the file: {error.strerror or error}") from None


class _Unpacking:
    """Writes the files of one run, and holds an archive to what one may be."""

    def __init__(self, folder: Path, allowance: Allowance) -> None:
        self._folder = folder
        self._allowance = allowance
        self._seen: set[str] = set()
        self._passed = 0
        self._entries = 0
        self._done = Unpacked()

    def add(self, name: str, kind: str, pieces: Iterable[bytes]) -> None:
        """One entry; nothing is read of one that is left out."""
        self._entries += 1
        if self._entries > self._allowance.files:
            raise RunError(f"the archive has more than {self._allowance.files:,} entries, which no run has")
        parts = _parts(name)
        if kind == "other":
            raise RunError(f"{clean(name)!r} is a link or a device: pack the files themselves (tar has -h for it)")
        if kind == "folder" or not parts:
            return
        *folder, last = parts
        if last.startswith(".") or "__MACOSX" in folder or not _is_part(last):
            self._done.left_out += 1
            return
        self._same_folder("/".join(folder))
        self._once(last)
        self._done.size_bytes += written(self._folder / last, pieces)
        self._done.names.append(last)

    def counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces, counted before they go anywhere: also what is then left out takes time."""
        for piece in pieces:
            self._passed += len(piece)
            if self._passed > (most := self._allowance.most_bytes):
                raise RunError(f"the archive unpacks to more than {format_bytes(most)}, which is the limit")
            self._allowance.check(len(piece))
            yield piece

    def finished(self) -> Unpacked:
        """What was unpacked. Raises ``RunError`` where that was nothing."""
        if not any(map(is_snapshot_name, self._done.names)):
            raise RunError("the archive holds no snapshot (rank00000.pickle and so on; .pickle, .pkl; .gz, .xz, .zst)")
        return self._done

    def _same_folder(self, folder: str) -> None:
        if self._done.folder is None:
            self._done.folder = folder
        elif self._done.folder != folder:
            both = " and ".join(repr(clean(each)) if each else "its root" for each in (self._done.folder, folder))
            raise RunError(f"the archive holds several folders with snapshots ({both}): pack each run by itself")

    def _once(self, name: str) -> None:
        # as file systems that know no case compare them
        key = unicodedata.normalize("NFC", name).casefold()
        if key in self._seen:
            raise RunError(f"the archive holds {clean(name)!r} twice")
        self._seen.add(key)


def _is_part(name: str) -> bool:
    return name == MANIFEST or is_record_name(name) or is_snapshot_name(name)


def _parts(name: str) -> list[str]:
    """Folders and file of an entry. Raises ``RunError`` for a name that could lead anywhere else."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    outside = name.startswith("/") or ".." in parts or "\\" in name or re.match(r"[A-Za-z]:", name)
    strange = any(unicodedata.category(c) in ("Cc", "Cs") for c in name)
    if outside or strange:
        why = "leads out of the archive" if outside else "has characters that no name has"
        raise RunError(f"the name {clean(name)!r} {why}: nothing was unpacked")
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise RunError(f"the name {clean(name)!r} is longer than {_LONGEST_NAME} bytes")
    return parts


# ------------------------------------------------------------------ tar


def _untar(file: IO[bytes], unpacking: _Unpacking) -> None:
    _, chunks = _decompressed(file)
    stream = TarStream(unpacking.counted(chunks))
    for entry in stream.entries():
        unpacking.add(_text(entry), entry.kind, stream.content())


def _text(entry: Entry) -> str:
    return entry.name.decode("utf-8", "surrogateescape")


def _decompressed(file: IO[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a file inside all of its compression, and all of them."""
    size = os.fstat(file.fileno()).st_size
    head, chunks = _peeked(iter(lambda: file.read(_CHUNK_BYTES), b""))
    for _ in range(_LAYERS):
        name = layer_name(head)
        if name is None:
            break
        layer = Layer(name, chunks, lambda: _EXPANSION * size + _EXPANSION_FREE_BYTES)
        head, chunks = _peeked(iter(layer))
    return head, chunks


def _peeked(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    head = b""
    while len(head) < HEAD_BYTES and (more := next(chunks, b"")):
        head += more
    return head[:HEAD_BYTES], chain([head] if head else [], chunks)


# ------------------------------------------------------------------ zip


def _unzip(file: IO[bytes], unpacking: _Unpacking) -> None:
    with _zip_errors(), zipfile.ZipFile(_Bounded(file)) as archive:
        infos = archive.infolist()
        _refuse_checkpoint(infos)
        for info in infos:
            unpacking.add(info.filename, _zip_kind(info), unpacking.counted(_zip_content(archive, info)))


def _zip_kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if modes.S_IFMT(mode) not in (0, modes.S_IFREG, modes.S_IFDIR):
        return "other"
    return "folder" if info.is_dir() else "file"


def _zip_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    if info.flag_bits & 1:
        raise RunError("the zip archive asks for a password: pack it without one")
    if info.compress_type not in _PLAIN_ZIP:
        raise RunError(f"{clean(info.filename)!r} is packed in a way that is not read here: use deflate, or tar")
    with archive.open(info) as member:
        yield from iter(lambda: member.read(_CHUNK_BYTES), b"")


def _refuse_checkpoint(infos: list[zipfile.ZipInfo]) -> None:
    last = {PurePosixPath(info.filename).name for info in infos[:1000]}
    if {"data.pkl", "version"} <= last:
        raise RunError("a zip archive as torch.save writes it: a checkpoint is not a memory snapshot")


@contextmanager
def _zip_errors() -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        raise RunError(f"the zip archive is damaged: {clean(str(error)) or 'it is cut short'}") from None


class _Bounded:
    """A file that refuses to be read at once: ``zipfile`` reads a table of contents as long as the file says."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable

    def read(self, count: int = -1) -> bytes:
        """As the file's own. Raises ``RunError`` for more than a table of contents has."""
        most = _CONTENTS_BYTES + 1
        found = self._file.read(most if count < 0 else min(count, most))
        if len(found) == most:
            raise RunError("the zip archive has a longer table of contents than any run: pack one run by itself")
        return found
