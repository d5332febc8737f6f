"""Allocations as CSV and Parquet: every row against the table it came from."""

from __future__ import annotations

import csv
import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.errors import UsageError
from snapviz.report.exports.csvfile import write_csv
from snapviz.report.exports.parquet import check_pyarrow, write_parquet
from snapviz.report.exports.rows import COLUMNS, rows_of
from tests.analyze.builders import Trace, frame, sample
from tests.report.exports.builders import HOSTILE, binary, dangling_run, facts_of, named, plainly, small_run, text

Row = dict[str, Any]
FLAGS = {"true": True, "false": False, "": None}
TEXTS = ("pool", "category", "evidence", "owner", "module", "birth_phase", "stack")


def csv_rows(*found: Facts, frames: int = 20) -> list[Row]:
    """As a program reads them, in Python's types."""
    written = text(partial(write_csv, (piece for facts in found for piece in rows_of(facts, None, frames))))
    return [
        {key: _value(key, cell) for key, cell in row.items()}
        for row in csv.DictReader(io.StringIO(written, newline=""), strict=True)
    ]


def _value(key: str, cell: str) -> object:
    if key in TEXTS:
        return cell or None
    if cell in FLAGS:
        return FLAGS[cell]
    return int(cell, 16 if key == "address" else 10)


def parquet_rows(*found: Facts, frames: int = 20) -> list[Row]:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    pieces = (piece for facts in found for piece in rows_of(facts, None, frames))
    data = binary(partial(write_parquet, pieces, {"exporter": "snapviz"}))
    table = parquet.read_table(io.BytesIO(data))
    assert tuple(table.column_names) == COLUMNS
    rows: list[Row] = table.to_pylist()
    return rows


def expected(facts: Facts) -> list[Row]:
    """One by one, from the allocation table."""
    table, count = facts.replay.allocations, len(facts.replay)

    def moment(name: str, i: int) -> Row:
        event = int(getattr(table, f"{name}_event")[i])
        timed = 0 <= event < count and facts.replay.has_times
        return {
            f"{name}_event": event if event < count else None,
            f"{name}_us": int(facts.replay.time_us[event]) if timed else None,
        }

    def row(i: int) -> Row:
        stack, pool = int(table.stack[i]), int(table.pool[i])
        lines = [facts.frames.text(one) for one in facts.frames.of(stack).tolist()]
        more = [f"… {len(lines) - 20:,} frame{'s' * (len(lines) > 21)}"] * (len(lines) > 20)
        return {
            "rank": facts.rank,
            "index": i,
            "address": int(table.address[i]),
            "requested_bytes": int(table.requested_bytes[i]),
            "block_bytes": int(table.block_bytes[i]),
            "estimated": bool(table.estimated[i]),
            **moment("alloc", i),
            **moment("free_requested", i),
            **moment("free_completed", i),
            "stream": int(table.stream[i]) if table.stream[i] >= 0 else None,
            "pool": str(tuple(facts.columns.pools[pool].tolist())) if pool >= 0 else None,
            "category": CATEGORIES[facts.category[i]],
            "evidence": EVIDENCE[facts.evidence[i]],
            "owner": facts.owners[facts.owner[i]] or None,
            "module": facts.modules[facts.module[i]] or None,
            "birth_phase": facts.births[facts.birth[i]],
            "recomputed": bool(facts.recomputed[i]),
            "dangling": bool(facts.dangling_since[i] < count) if facts.dangling_known else None,
            "stack_id": stack if stack >= 0 else None,
            "stack": " | ".join([*lines[:20], *more]) or None,
        }

    return [row(i) for i in range(len(table))]


@pytest.mark.parametrize("read", [csv_rows, parquet_rows])
@pytest.mark.parametrize("name", ["single_expandable", "fsdp2_before_notfixed", "uneven_ranks", "cuda_graph", "main"])
def test_every_allocation_is_a_row(name: str, read: Any) -> None:
    found = [rank.facts() for rank in sample(name).ranks]
    rows = read(*found)
    assert rows == [row for facts in found for row in expected(facts)]
    # what is allocated at the end can be summed up from the rows alone
    for facts in found:
        left = [r["block_bytes"] for r in rows if r["rank"] == facts.rank and r["free_requested_event"] is None]
        assert sum(left) == facts.replay.end.allocated_bytes


def test_small(snapshot: SnapshotAssertion) -> None:
    pieces = (piece for rank in small_run().ranks for piece in rows_of(plainly(rank.facts()), None, 2))
    assert text(partial(write_csv, pieces)) == snapshot


@pytest.mark.parametrize("read", [csv_rows, parquet_rows])
def test_what_lies_outside_of_the_recording(read: Any) -> None:
    trace = Trace()
    old = trace.alloc(20, frame("f"))
    trace.events.clear()
    trace.free(old)
    trace.alloc(40, frame("g"))
    first, second = read(facts_of(trace))
    assert (first["alloc_event"], first["alloc_us"], first["free_completed_event"]) == (-1, None, 1)
    assert (second["alloc_event"], second["free_requested_event"], second["free_completed_us"]) == (3, None, None)
    # nobody knows what dangles in a file without a record: neither yes nor no
    assert first["dangling"] is None


@pytest.mark.parametrize("read", [csv_rows, parquet_rows])
def test_what_dangles(read: Any) -> None:
    rows = read(dangling_run().ranks[0].facts())
    assert [(row["owner"], row["category"], row["dangling"]) for row in rows[:2]] == [
        ("w", "parameter", True),
        ("w", "shard", False),
    ]
    assert rows[2]["dangling"] is False


@pytest.mark.parametrize("read", [csv_rows, parquet_rows])
def test_frames(read: Any) -> None:
    trace = Trace()
    trace.alloc(20, frame("a", line=1), frame("b", line=2), frame("c", line=3))
    facts = facts_of(trace)
    assert read(facts, frames=2)[0]["stack"] == "a (/repo/model.py:1) | b (/repo/model.py:2) | … 1 frame"
    (row,) = read(facts, frames=0)
    assert (row["stack"], row["stack_id"]) == (None, 0)


def test_only_some_rows() -> None:
    facts = sample("leak").ranks[0].facts()
    keep = facts.replay.allocations.allocated_after(100)
    (piece,) = rows_of(facts, keep)
    assert piece["block_bytes"].value.sum() == facts.replay.after(100).allocated_bytes  # type: ignore[union-attr]
    assert list(rows_of(facts, np.zeros(len(keep), bool))) == []


@pytest.mark.parametrize("begin", ["=1+1", "+1", "-1", "@SUM(A1)", HOSTILE])
def test_a_spreadsheet_takes_nothing_for_a_formula(begin: str) -> None:
    trace = Trace()
    trace.alloc(20, frame(begin, begin))
    facts = named(facts_of(trace), 0, "shard", begin)
    (row,) = csv_rows(facts)
    assert row["owner"].startswith(f"'{begin[0]}")
    assert row["stack"].startswith(f"'{begin[0]}")
    assert row["owner"].isprintable()
    assert "'" not in (row["pool"], row["category"])


def test_parquet_keeps_texts_as_they_are() -> None:
    trace = Trace()
    trace.alloc(20, frame("-f"))
    (row,) = parquet_rows(named(facts_of(trace), 0, "shard", "=owner"))
    assert (row["owner"], row["stack"]) == ("=owner", "-f (/repo/model.py:1)")


def test_parquet_has_types_row_groups_and_says_who_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    monkeypatch.setattr("snapviz.report.exports.rows._ROWS", 1_000)
    facts = sample("fsdp2_after").ranks[0].facts()
    with (tmp_path / "a.parquet").open("wb") as stream:
        write_parquet(rows_of(facts, None, 20), {"exporter": "snapviz 1", "run": "é"}, stream)
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert file.num_row_groups == -(-len(facts.replay.allocations) // 1_000)
    schema = file.schema_arrow
    assert schema.metadata[b"exporter"] == b"snapviz 1"
    assert schema.metadata[b"run"] == "é".encode()
    assert schema.field("owner").type == pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    assert schema.field("address").type == pyarrow.int64()
    assert schema.field("dangling").type == pyarrow.bool_()
    assert file.read().to_pylist() == expected(facts)


def test_no_allocations_is_a_table_without_rows() -> None:
    trace = Trace()
    trace.alloc(20)
    trace.events.clear()
    trace.segments.clear()
    assert csv_rows(facts_of(trace)) == []
    assert text(partial(write_csv, [])) == ",".join(COLUMNS) + "\n"
    assert parquet_rows() == []


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        check_pyarrow()
