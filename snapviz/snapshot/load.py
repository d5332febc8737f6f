"""From a path to columns: open, look into the cache, decode, keep.

The cache entry of a file holds its columns as they are; replays of the same file are kept beside
them under the same identity (``Loaded.keep`` and ``Loaded.kept``, used by the replay floor).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from snapviz.errors import SnapshotError
from snapviz.snapshot import columns as model
from snapviz.snapshot.cache import Arrays, Cache
from snapviz.snapshot.columns import Columns
from snapviz.snapshot.identity import Identity
from snapviz.snapshot.source import Source, open_source
from snapviz.snapshot.stamp import code_stamp

__all__ = ["Loaded", "load_columns"]

Progress = Callable[..., None]
"""Called with words for what begins, or with bytes done and bytes in all."""

_TABLES: dict[str, Any] = {
    "strings": model.Strings,
    "frames": model.Frames,
    "stacks": model.Stacks,
    "events": model.Events,
    "segments": model.Segments,
    "blocks": model.Blocks,
    "annotations": model.Annotations,
    "sparse": model.Sparse,
}
_LOOSE = ("pools", "trace_device", "trace_offsets")
_HEADER = ("settings", "ignored", "facts")


@dataclass(frozen=True)
class Loaded:
    """Columns, and what is needed to keep results made from them."""

    path: str
    columns: Columns
    identity: Identity
    cache: Cache
    from_cache: bool

    def kept(self, kind: str, version: str) -> tuple[dict[str, Any], Arrays] | None:
        """What ``keep`` kept for the same file, or ``None``."""
        return self.cache.get(self.identity, kind, version)

    def keep(self, kind: str, version: str, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Keeps a result made from these columns; does nothing where the cache is off or cannot."""
        self.cache.put(self.identity, kind, version, header, arrays)


def load_columns(path: str | os.PathLike[str], cache: Cache, progress: Progress | None = None) -> Loaded:
    """Columns of the snapshot at a local path or URL, from the cache where the file is unchanged.

    Raises ``SnapshotError``.
    """
    with open_source(path, progress) as source:
        kept = cache.get(source.identity, "columns", _version())
        if kept:
            columns = _unpacked(*kept)
            if _plausible(columns):
                return Loaded(source.path, columns, source.identity, cache, True)
        columns = _decoded(source, progress)
        source.verify_unchanged()
        cache.put(source.identity, "columns", _version(), *_packed(columns))
        return Loaded(source.path, columns, source.identity, cache, False)


def _version() -> str:
    """What kept columns are valid for: the decoder and column model as they are now."""
    return code_stamp(Path(__file__).parent)


def _decoded(source: Source, progress: Progress | None) -> Columns:
    try:
        data, facts = source.data, {"container": source.container, "compression": list(source.compression)}
        facts["notes"] = list(source.notes)
        if progress:
            progress(f"decoding {source.path}")
        if source.container == "json":
            from snapviz.snapshot.objects import columns_from_objects

            return columns_from_objects(_json(data.tobytes()), facts)
        from snapviz.snapshot.pickled import decode_pickle

        return decode_pickle(data, progress, facts)
    except SnapshotError as error:
        raise error.at(source.path, source.offset_note) from error.__cause__
    except MemoryError as error:
        raise SnapshotError("more memory is needed to decode it than there is", path=source.path) from error


def _json(data: bytes) -> object:
    try:
        return json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        raise SnapshotError(f"not JSON: {error.msg}", offset=offset) from error
    except UnicodeDecodeError as error:
        raise SnapshotError("not JSON: a character that is not UTF-8", offset=error.start) from error
    except RecursionError as error:
        raise SnapshotError("JSON that nests deeper than any snapshot does") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise SnapshotError(f"not a snapshot's JSON: {error}") from error


def _packed(columns: Columns) -> tuple[dict[str, Any], Arrays]:
    arrays = {f"{t}.{name}": array for t in _TABLES for name, array in getattr(columns, t).arrays()}
    arrays |= {name: getattr(columns, name) for name in _LOOSE}
    return {name: getattr(columns, name) for name in _HEADER}, arrays


def _unpacked(header: Mapping[str, Any], arrays: Arrays) -> Columns:
    tables = {t: kind(**{f.name: arrays[f"{t}.{f.name}"] for f in fields(kind)}) for t, kind in _TABLES.items()}
    loose: dict[str, np.ndarray[Any, Any]] = {name: arrays[name] for name in _LOOSE}
    return Columns(**tables, **loose, **{name: header[name] for name in _HEADER})  # type: ignore[arg-type]


def _plausible(columns: Columns) -> bool:
    """Whether every id that leads somewhere leads into its table.

    The cache's hashes say that an entry is what was written, not that it was snapviz who wrote it;
    compiled code follows these ids without looking.
    """
    ids = (
        (columns.stacks.frames, len(columns.frames.line)),
        (columns.events.stack, len(columns.stacks)),
        (columns.blocks.stack, len(columns.stacks)),
        (columns.events.pool, len(columns.pools)),
        (columns.frames.name, len(columns.strings)),
        (columns.frames.filename, len(columns.strings)),
    )
    offsets = (
        (columns.strings.offsets, len(columns.strings.blob)),
        (columns.stacks.offsets, len(columns.stacks.frames)),
        (columns.trace_offsets, len(columns.events)),
        (columns.segments.block_offsets, len(columns.blocks)),
    )
    same_length = all(
        len({len(array) for name, array in table.arrays() if name != "block_offsets"}) == 1
        for table in (columns.events, columns.segments, columns.blocks, columns.frames)
    )
    return (
        same_length
        and all(int(values.max(initial=-1)) < count and int(values.min(initial=0)) >= -1 for values, count in ids)
        and all(len(o) and o[0] == 0 and o[-1] == end and bool((np.diff(o) >= 0).all()) for o, end in offsets)
    )
