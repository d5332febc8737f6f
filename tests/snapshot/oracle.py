"""The decoder's oracle: a restricted ``pickle.Unpickler`` and a plain walk over its objects."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from snapviz.snapshot.columns import Columns
from snapviz.snapshot.objects import columns_from_objects


class _Restricted(pickle.Unpickler):
    """Loads plain data; every global and persistent id is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"refused: {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"refused: {pid!r}")


def unpickle(data: bytes) -> Any:
    return _Restricted(io.BytesIO(data)).load()


def oracle_columns(data: bytes) -> Columns:
    return columns_from_objects(unpickle(data))


def resolved(columns: Columns) -> dict[str, Any]:
    """A snapshot's columns with every id replaced by what it stands for, so that two can be compared."""
    strings = [columns.strings.raw(i) for i in range(len(columns.strings))]
    string = lambda i: strings[i] if i >= 0 else None  # noqa: E731
    frame = list(
        zip(
            [string(i) for i in columns.frames.name.tolist()],
            [string(i) for i in columns.frames.filename.tolist()],
            columns.frames.line.tolist(),
            strict=True,
        )
    )
    stacks = [tuple(frame[f] for f in columns.stacks.of(s).tolist()) for s in range(len(columns.stacks))]
    pools = [tuple(p) for p in columns.pools.tolist()]
    resolve = {
        "stack": lambda i: stacks[i] if i >= 0 else None,
        "forward_stack": lambda i: stacks[i],
        "pool": lambda i: pools[i] if i >= 0 else None,
        **dict.fromkeys(("name", "segment_type", "user_metadata", "compile_context"), string),
    }
    out: dict[str, Any] = {}
    for table in ("events", "segments", "blocks", "annotations", "sparse"):
        for name, array in getattr(columns, table).arrays():
            values = array.tolist()
            out[f"{table}.{name}"] = [resolve[name](v) for v in values] if name in resolve else values
    counts = np.diff(columns.trace_offsets).tolist()
    out["traces"] = sorted((d, n) for d, n in zip(columns.trace_device.tolist(), counts, strict=True) if n)
    out["settings"] = repr(columns.settings)
    out["ignored"] = columns.ignored
    out["devices"] = columns.devices
    return out


def assert_same(got: Columns, expected: Columns) -> None:
    a, b = resolved(got), resolved(expected)
    assert a.keys() == b.keys()
    for key in a:
        assert a[key] == b[key], key
