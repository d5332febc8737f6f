"""Writing a rank's files of the run directory: whole or not at all, and never over another run's."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from snapviz.errors import RecordError
from snapviz.schema import MANIFEST, RankRecord, RunManifest

__all__ = ["RunDirectory"]

_LEVEL = 3
"""zstandard's own default: a snapshot shrinks some 30-fold in about the time it takes to pickle it."""
_RANK_FILE = re.compile(r"rank(\d+)\.(?:json|pickle|pkl)(?:\.(?:gz|xz|zst))?")
_PLAIN_BYTES = 256 << 10
"""A larger record is compressed: the names of a large model at a dozen boundaries are some MB, and shrink 20-fold."""


class RunDirectory:
    """A run directory that is being written, on a disk or behind an fsspec URL such as ``s3://bucket/run``."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.label = os.fspath(directory)
        self._remote = "://" in self.label
        # a program may change its directory before all is written
        self._place = Path(self.label).absolute()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _local(self) -> Path:
        """What is remote is written here first: an upload then either happens or does not."""
        if not self._remote:
            return self._place
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="snapviz-")
        return Path(self._scratch.name)

    def claim(self, rank: int, world_size: int, first: bool, overwrite: bool) -> None:
        """Takes the place of a rank's files; ``first``: that of the manifest too.

        Raises ``RecordError`` where files of another run are there and may not be replaced, and ``OSError``.
        """
        if not self._remote:
            self._local.mkdir(parents=True, exist_ok=True)
        names = _remote_names(self.label) if self._remote else [path.name for path in self._local.iterdir()]
        old = [name for name in names if self._belongs(name, rank, world_size, first)]
        if old and not overwrite:
            raise RecordError(
                f"{self.label}: {sorted(old)[0]} of an earlier run is there; give another directory, or overwrite=True "
                "(-f on the command line) to replace that run"
            )
        for name in old:
            if self._remote:
                _remove(f"{self.label.rstrip('/')}/{name}")
            else:
                (self._local / name).unlink(missing_ok=True)

    def _belongs(self, name: str, rank: int, world_size: int, first: bool) -> bool:
        """Whether it is this rank's to replace. The first one sees to the ranks that a smaller job has no more."""
        if name == MANIFEST:
            return first
        number = _RANK_FILE.fullmatch(name)
        return number is not None and (int(number[1]) == rank or (first and int(number[1]) >= world_size))

    def write_manifest(self, manifest: RunManifest) -> None:
        """``run.json``. Raises ``OSError``."""
        self._write(MANIFEST, lambda file: _write_text(file, manifest.model_dump_json(indent=1, exclude_none=True)))

    def write_snapshot(self, rank: int, snapshot: dict[str, Any]) -> None:
        """A rank's snapshot. Raises ``OSError``."""
        self._write(f"rank{rank:05d}.pickle.zst", lambda file: _write_pickle(file, snapshot))

    def write_record(self, record: RankRecord) -> None:
        """A rank's record, which belongs beside its snapshot. Raises ``OSError``."""
        stem = f"rank{record.rank:05d}"
        text = record.model_dump_json(exclude_none=True)
        if len(text) <= _PLAIN_BYTES:
            self._write(f"{stem}.json", lambda file: _write_text(file, text))
        else:
            packed = zstandard.ZstdCompressor(level=_LEVEL).compress(text.encode())
            self._write(f"{stem}.json.zst", lambda file: file.write(packed))

    def close(self) -> None:
        """Removes what was only needed to write."""
        if self._scratch:
            self._scratch.cleanup()
            self._scratch = None

    def _write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        self._local.mkdir(parents=True, exist_ok=True)
        with _replacing(self._local / name) as file:
            write(file)
        if self._remote:
            _upload(self._local / name, f"{self.label.rstrip('/')}/{name}")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when all of it is written, and leaves nothing otherwise."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _write_text(file: IO[bytes], text: str) -> None:
    file.write(text.encode() + b"\n")


def _write_pickle(file: IO[bytes], snapshot: dict[str, Any]) -> None:
    """What ``torch.cuda.memory._dump_snapshot`` writes, compressed on the way."""
    collecting = gc.isenabled()
    gc.disable()  # it would go through millions of events again and again
    try:
        with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file, closefd=False) as stream:
            pickle.dump(snapshot, stream)
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _remote(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and the path in it. Raises ``OSError``, whatever the driver raised."""
    try:
        import fsspec.core

        yield fsspec.core.url_to_fs(url)
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{url}: {type(error).__name__}: {error}") from error


def _upload(path: Path, url: str) -> None:
    with _remote(url) as (system, place):
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), place)


def _remote_names(url: str) -> list[str]:
    with _remote(url) as (system, place):
        if not system.isdir(place):
            return []
        return [str(name).rstrip("/").rpartition("/")[2] for name in system.ls(place, detail=False)]


def _remove(url: str) -> None:
    with _remote(url) as (system, place):
        system.rm_file(place)
