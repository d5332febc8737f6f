"""From a path to columns: every container gives the same, and the cache never gives another file's."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from snapviz import load_snapshot
from snapviz.errors import SnapshotError
from snapviz.snapshot import identity, load
from snapviz.snapshot.cache import Cache
from snapviz.snapshot.load import load_columns
from snapviz.snapshot.stamp import code_stamp
from tests.snapshot import builders as b
from tests.snapshot.oracle import assert_same, resolved

STACK = [b.frame("g", "model.py", 7), b.frame("main", "train.py", 3)]
VALUE = {
    "segments": [b.segment(b.block(frames=STACK), b.block(1024, "inactive", address=(1 << 20) + 512))],
    "device_traces": [
        [
            b.event("segment_alloc", 1 << 20, 2 << 20, frames=STACK),
            b.event("alloc", 1 << 20, 500, frames=STACK, user_metadata="é"),
        ]
    ],
    "external_annotations": [{"name": "step", "stage": "START", "device": 0, "time_us": 1}],
    "allocator_settings": {"max_split_size": -1, "roundup_power2_divisions": {"1": 0}, "garbage": 0.5},
}
PICKLE = pickle.dumps(VALUE)


def page(data: bytes) -> bytes:
    """As torch/cuda/_memory_viz.py writes it: the pickle, padded by 1 to 3 bytes, in base64."""
    data += b"\0" * (3 - len(data) % 3)
    inside = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(data).decode()}])
    return f"<!DOCTYPE html><html><script>add_local_files({inside}, 'Active Memory Timeline')</script></html>".encode()


CONTAINERS: dict[str, Callable[[], bytes]] = {
    "plain": lambda: PICKLE,
    "gz": lambda: gzip.compress(PICKLE),
    "xz": lambda: lzma.compress(PICKLE),
    "zst": lambda: zstandard.compress(PICKLE),
    "xz in gz": lambda: gzip.compress(lzma.compress(PICKLE)),
    "json": lambda: json.dumps(VALUE).encode(),
    "json with BOM in zst": lambda: zstandard.compress(b"\xef\xbb\xbf" + json.dumps(VALUE).encode()),
    "page": lambda: page(PICKLE),
}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been lying there for a while: a young one is not cached."""
    monkeypatch.setattr(identity, "now_ns", lambda: time.time_ns() + 10 * identity.SETTLED_NS)


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_columns(tmp_path: Path, container: str) -> None:
    file = tmp_path / "any.name"
    file.write_bytes(CONTAINERS[container]())
    plain = tmp_path / "plain"
    plain.write_bytes(PICKLE)
    got, expected = resolved(load_snapshot(file).columns), resolved(load_snapshot(plain).columns)
    for key in expected:
        assert got[key] == expected[key], key


def test_the_page_that_torch_writes(tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="needs torch, which writes the page")
    file = tmp_path / "trace_plot.html"
    file.write_text(viz.trace_plot(VALUE))
    columns = load_snapshot(file).columns
    assert columns.facts["container"] == "html"
    assert columns.facts["trailing_bytes"] in (1, 2, 3)
    plain = tmp_path / "plain"
    plain.write_bytes(PICKLE)
    assert_same(columns, load_snapshot(plain).columns)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"segments": [', "not JSON: Expecting value .at byte 14"),
        (b'{"segments": "\xff"}', "not JSON: a character that is not UTF-8 .at byte 14"),
        (b"[" * 200_000, "JSON that nests deeper"),
        (b'{"segments": [1' + b"1" * 5_000 + b"]}", "not a snapshot's JSON"),
        (b'{"segments": [{"blocks": 4}]}', r"segments\[0\]\.blocks: a int where a list was expected"),
        (lzma.compress(PICKLE[:100]), "cut short.*within the|cut short.*in the data that xz holds"),
    ],
)
def test_bad_content_names_file_and_place(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match=words) as caught:
        load_snapshot(file)
    assert str(caught.value).startswith(str(file))


def test_reopened_from_the_cache(tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    first = load_columns(file, Cache())
    replay = load_snapshot(file).replay()

    def decode_again(*_: Any) -> Any:
        raise AssertionError("decoded although it was in the cache")

    monkeypatch.setattr(load, "_decoded", decode_again)
    monkeypatch.setattr("snapviz.replay.snapshot.replay_device", decode_again)
    second = load_columns(file, Cache())
    assert (first.from_cache, second.from_cache) == (False, True)
    assert_same(second.columns, first.columns)
    assert second.columns.facts == first.columns.facts
    again = load_snapshot(file).replay()
    for name in ("time_us", "requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"):
        assert np.array_equal(getattr(again, name), getattr(replay, name)), name
    for name, array in vars(replay.allocations).items():
        assert np.array_equal(getattr(again.allocations, name), array), name
    assert (again.start, again.exact, again.notes, again.findings) == (
        replay.start,
        replay.exact,
        replay.notes,
        replay.findings,
    )


def test_a_changed_file_is_read_anew(tmp_path: Path, settled: None) -> None:
    """Of the same size, at the same place, with its old time of writing restored."""
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    before = file.stat()
    assert load_columns(file, Cache()).columns.events.size[1] == 500
    changed = pickle.dumps(VALUE | {"device_traces": [[VALUE["device_traces"][0][0], b.event(size=501)]]})  # type: ignore[index]
    file.write_bytes(changed + b"\0" * (len(PICKLE) - len(changed)))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    loaded = load_columns(file, Cache())
    assert not loaded.from_cache
    assert loaded.columns.events.size[1] == 501


def test_a_damaged_entry_is_made_again(tmp_path: Path, settled: None) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    load_columns(file, Cache())
    (entry,) = Path(os.environ["SNAPVIZ_CACHE_DIR"]).iterdir()
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)
    assert not load_columns(file, Cache()).from_cache
    assert load_columns(file, Cache()).from_cache


def test_an_entry_whose_ids_lead_nowhere_is_not_used(tmp_path: Path, settled: None) -> None:
    """Whole by its hashes, but not written by snapviz: compiled code would follow the ids."""
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    loaded = load_columns(file, Cache())
    header, arrays = load._packed(loaded.columns)
    for name in ("events.stack", "stacks.frames", "frames.name"):
        loaded.keep("columns", load._version(), header, arrays | {name: np.full_like(arrays[name], 1 << 20)})
        again = load_columns(file, Cache())
        assert not again.from_cache
        assert_same(again.columns, loaded.columns)


def test_without_cache_nothing_is_written(tmp_path: Path, settled: None) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    load_snapshot(file, cache=False).replay()
    assert list(Path(os.environ["SNAPVIZ_CACHE_DIR"]).iterdir()) == []


def test_progress_is_told_for_long_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_SLICE", "SAMPLE_BYTES"):
        monkeypatch.setattr(f"snapviz.snapshot.pickled.{pause}", 64)
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    seen: list[tuple[Any, ...]] = []
    load_snapshot(file, progress=lambda *how_far: seen.append(how_far))
    began = next(i for i, (what, *_) in enumerate(seen) if str(what).startswith("decoding "))
    numbers = [how_far for how_far in seen[began:] if isinstance(how_far[0], int)]
    assert len(numbers) > 5
    assert numbers == sorted(numbers)
    assert {total for _, total in numbers} == {len(PICKLE)}


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    decoded = load._decoded

    def slow(*arguments: Any) -> Any:
        columns = decoded(*arguments)
        with file.open("ab") as more:
            more.write(b"\0")
        return columns

    monkeypatch.setattr(load, "_decoded", slow)
    with pytest.raises(SnapshotError, match="changed while it was being read"):
        load_snapshot(file)


def test_what_other_code_kept_is_not_used(tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes(PICKLE)
    load_columns(file, Cache())
    assert load_columns(file, Cache()).from_cache
    monkeypatch.setattr(load, "code_stamp", lambda *_: "another decoder")
    assert not load_columns(file, Cache()).from_cache


def test_the_stamp_follows_every_source(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("y = 1\n")
    before = code_stamp.__wrapped__(tmp_path)
    stat = (tmp_path / "b.py").stat()
    (tmp_path / "b.py").write_text("y = 2\n")
    os.utime(tmp_path / "b.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert code_stamp.__wrapped__(tmp_path) != before
