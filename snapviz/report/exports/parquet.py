"""Allocations as Apache Parquet: a row each, texts as dictionaries, for pandas, DuckDB and polars.

The only importer of pyarrow, which is an extra: nothing here writes before ``check_pyarrow``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from snapviz.errors import UsageError
from snapviz.report.exports.rows import COLUMNS, Flags, Names, Numbers, Rows

__all__ = ["check_pyarrow", "write_parquet"]

_TEXTS = frozenset(("pool", "category", "evidence", "owner", "module", "birth_phase", "stack"))
_FLAGS = frozenset(("estimated", "recomputed", "dangling"))


def check_pyarrow() -> None:
    """Raises ``UsageError`` with what to install where there is no pyarrow."""
    try:
        import pyarrow.parquet as _  # noqa: F401
    except ImportError:
        raise UsageError("Parquet is written with pyarrow, which is not installed: pip install pyarrow") from None


def write_parquet(pieces: Iterable[Rows], about: Mapping[str, str], stream: IO[bytes]) -> None:
    """Writes a row group for each piece; ``about`` becomes the file's own metadata."""
    import pyarrow.parquet

    schema = _schema().with_metadata({key: value.encode() for key, value in about.items()})
    with pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for rows in pieces:
            arrays = [_array(column, schema.field(name).type) for name, column in rows.items()]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _schema() -> Any:
    import pyarrow

    def kind(name: str) -> Any:
        if name in _TEXTS:
            return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        return pyarrow.bool_() if name in _FLAGS else pyarrow.int64()

    return pyarrow.schema([(name, kind(name)) for name in COLUMNS])


def _array(column: Numbers | Flags | Names, kind: Any) -> Any:
    import pyarrow

    if isinstance(column, Names):
        index = pyarrow.array(column.index.astype(np.int32), mask=column.index < 0)
        return pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(list(column.names), pyarrow.string()))
    return pyarrow.array(column.value, kind, mask=~column.known)
