"""Whatever a file holds, an export is written, and what it sums up to is what the replay says."""

from __future__ import annotations

import csv
import io
import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from snapviz.analyze.facts import Facts
from snapviz.analyze.run import Rank, load_run
from snapviz.errors import InputError
from snapviz.replay.snapshot import Snapshot
from snapviz.report.exports.csvfile import write_csv
from snapviz.report.exports.flames import write_collapsed, write_speedscope
from snapviz.report.exports.perfetto import COUNTERS, write_perfetto
from snapviz.report.exports.rows import rows_of
from snapviz.report.exports.viewer import write_viewer
from snapviz.snapshot.columns import HOST_DEVICE
from snapviz.snapshot.objects import columns_from_objects
from tests.report.exports.builders import binary, text
from tests.report.exports.test_flames import assert_speedscope, profile
from tests.report.exports.test_perfetto import assert_valid, counter
from tests.report.exports.test_viewer import assert_kept, seen_by_the_viewer
from tests.snapshot import builders as b
from tests.snapshot.oracle import unpickle


def assert_exported(facts: Facts) -> None:
    columns = facts.columns
    data = binary(partial(write_viewer, columns, [facts]))
    assert_kept(data, columns)
    seen = seen_by_the_viewer(unpickle(data))
    assert not seen or "unknown" in seen
    document = json.loads(text(partial(write_perfetto, [facts], "run", "snapviz", 20)))
    assert_valid(document)
    for measure in COUNTERS:
        assert max(counter(document, measure, facts.rank)) == facts.replay.peak(measure, 0, len(facts.replay))[0]
    for one in (profile(facts, at, "category") for at in ("peak", "end")):
        assert_speedscope(json.loads(text(partial(write_speedscope, [one], "run", "snapviz"))))
        lines = text(partial(write_collapsed, [one], False)).splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == one.live.total_bytes
        assert one.live.total_bytes == facts.replay.after(one.live.when.event).allocated_bytes
    written = text(partial(write_csv, rows_of(facts, None, 3)))
    rows = list(csv.DictReader(io.StringIO(written, newline=""), strict=True))
    assert len(rows) == len(facts.replay.allocations)
    assert sum(int(row["block_bytes"]) for row in rows) == int(facts.replay.allocations.block_bytes.sum())


@settings(max_examples=150)
@given(b.snapshots)
def test_any_snapshot_is_written(root: Any) -> None:
    columns = columns_from_objects(root)
    device = next((one for one in columns.devices if one != HOST_DEVICE), None)
    assume(device is not None)
    assert device is not None
    assert_exported(Rank(0, device, "file", Snapshot(columns)).facts())


def test_real_files_of_all_kinds_are_written(shared: Path) -> None:
    written = 0
    for path in sorted((shared / "corpus").glob("*.pickle.xz")):
        try:
            run = load_run(path, cache=False)
        except InputError:
            continue
        for rank in run.ranks:
            assert_exported(rank.facts())
            written += 1
    assert written > 30


@pytest.mark.parametrize("size", [(1 << 62), 0, 1])
def test_sizes_that_no_device_has(size: int) -> None:
    root = {
        "segments": [b.segment(b.block(size))],
        "device_traces": [[b.event(size=size), b.event("free_requested", size=size), b.event("oom", size=size)]],
    }
    columns = columns_from_objects(pickle.loads(pickle.dumps(root)))
    assert_exported(Rank(0, 0, "file", Snapshot(columns)).facts())
