"""The snapshot that torch's viewer opens: what comes back of it, and where the viewer looks for colours."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import pickletools
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.run import load_run
from snapviz.report.exports.viewer import VIEWER_NAMES, event_categories, write_viewer
from snapviz.snapshot.columns import ACTIONS, HOST_DEVICE, STAGES, Columns
from snapviz.snapshot.objects import columns_from_objects
from tests.analyze.builders import SAMPLES, Trace, frame, sample
from tests.report.exports.builders import binary, facts_of, named, small_run
from tests.snapshot import builders as b
from tests.snapshot.oracle import resolved, unpickle

SAMPLE_RUNS = [
    *("single", "single_expandable", "cuda_graph", "leak", "ddp", "fsdp1", "uneven_ranks", "main"),
    *("thunder_478/pr", "fsdp2_before_notfixed", "litgpt_thunder_8/pr"),
]
ALLOCATOR = sorted((Path(__file__).parents[2] / "data" / "allocator").glob("*.pickle.xz"))

# What `switch (opcode)` in `unpickleData` of torch/utils/viz/MemoryViz.js has a case for.
_KNOWN = """
APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPUT BINUNICODE DICT EMPTY_DICT EMPTY_LIST EMPTY_TUPLE FRAME
LIST LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE NEWTRUE NONE PROTO SETITEM SETITEMS SHORT_BINUNICODE STOP
TUPLE TUPLE1 TUPLE2 TUPLE3
"""
VIEWER_OPCODES = frozenset(_KNOWN.split())


def written(columns: Columns, *found: Facts) -> bytes:
    return binary(partial(write_viewer, columns, found))


def assert_kept(data: bytes, columns: Columns) -> None:
    """Everything that the columns hold is in a file, and nothing else but categories."""
    got, expected = resolved(columns_from_objects(unpickle(data))), resolved(columns)
    ignored = got.pop("ignored")
    expected.pop("ignored")
    assert set(ignored) <= {"event key 'category'", f"action {ACTIONS[0]!r}", f"annotation stage {STAGES[2]!r}"}
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        assert got[key] == value, key


def seen_by_the_viewer(root: dict[str, Any]) -> list[str]:
    """The names that ``annotate_snapshot`` of the web viewer collects, in its order."""
    names: list[str] = []
    for trace in root["device_traces"]:
        kept: list[dict[str, Any]] = []
        for event in trace:
            if event["action"] == "free_completed" and kept:
                last = kept[-1]
                if last["action"] == "free_requested" and last.get("addr") == event.get("addr"):
                    continue
            if "category" in event and event["category"] not in names:
                names.append(event["category"])
            kept.append(event)
    return names


# ------------------------------------------------------------------ what is kept


@given(b.snapshots)
def test_any_snapshot_comes_back(root: Any) -> None:
    columns = columns_from_objects(root)
    assert_kept(written(columns), columns)


@pytest.mark.parametrize("name", SAMPLE_RUNS)
def test_sample_runs_come_back(name: str) -> None:
    for rank in sample(name).ranks:
        data = written(rank.columns, rank.facts())
        assert_kept(data, rank.columns)
        root = unpickle(data)
        assert seen_by_the_viewer(root).count("unknown") == 1
        drawn = Counter(e["category"] for t in root["device_traces"] for e in t if e["action"] == "alloc")
        expected = Counter(VIEWER_NAMES.get(c, c) for c in (CATEGORIES[i] for i in rank.facts().category.tolist()))
        # every one of these runs was recorded from the first allocation on
        assert drawn == expected


@pytest.mark.parametrize("path", ALLOCATOR, ids=lambda path: path.name.partition(".")[0])
def test_recorded_allocators_come_back(path: Path) -> None:
    for rank in load_run(path, cache=False).ranks:
        assert_kept(written(rank.columns, rank.facts()), rank.columns)


def test_several_devices_and_the_host_in_one_file(tmp_path: Path) -> None:
    root = Trace(device=2)
    root.alloc(20, frame("a"))
    objects = root.objects() | {
        "host_segments": [b.segment(b.block(), device=0)],
        "host_traces": [b.event(addr=7)],
    }
    objects["device_traces"][0] = [b.event(addr=1 << 40)]
    (tmp_path / "one.pickle").write_bytes(pickle.dumps(objects))
    ranks = load_run(tmp_path / "one.pickle", cache=False).ranks
    assert [rank.device for rank in ranks] == [0, 2]
    data = written(ranks[0].columns, *(rank.facts() for rank in ranks))
    assert_kept(data, ranks[0].columns)
    found = unpickle(data)
    assert [len(trace) for trace in found["device_traces"]] == [1, 0, 2]
    assert [event["addr"] for event in found["host_traces"]] == [7]
    assert found["host_segments"][0]["device"] == HOST_DEVICE
    # the viewer does not open the host's trace
    assert "category" not in found["host_traces"][0]


def test_stacks_and_frames_are_shared() -> None:
    trace = Trace()
    for _ in range(3):
        trace.alloc(20, frame("inner"), frame("outer"))
    root = unpickle(written(trace.snap().columns))
    allocs = [event for event in root["device_traces"][0] if event["action"] == "alloc"]
    assert allocs[0]["frames"] is allocs[1]["frames"] is allocs[2]["frames"]
    assert isinstance(root["segments"][0]["segment_pool_id"], tuple)


def test_only_opcodes_that_the_web_viewer_knows() -> None:
    rank = sample("fsdp2_after").ranks[0]
    data = written(rank.columns, rank.facts())
    depths, batch = set(), 0
    for opcode, argument, _ in pickletools.genops(data):
        depths.add(opcode.name)
        if opcode.name == "LONG1":
            assert isinstance(argument, int)
            # what a double holds: the viewer reads every integer into one
            assert abs(argument) < 1 << 53
        batch += opcode.name == "APPENDS"
    assert depths <= VIEWER_OPCODES
    assert batch > len(rank.columns.events) // 1_000
    assert data[:2] == b"\x80\x04"


# ------------------------------------------------------------------ where the viewer looks for colours


def test_the_category_is_at_the_alloc_and_ours_are_in_torchs_words() -> None:
    trace = Trace()
    first, second = trace.alloc(20, frame("a")), trace.alloc(40, frame("b"))
    trace.free(first)
    facts = named(named(facts_of(trace), 0, "optimizer state"), 1, "shard")
    root = unpickle(written(facts.columns, facts))
    by_address = {e["addr"]: e.get("category") for e in root["device_traces"][0] if e["action"] == "alloc"}
    assert by_address == {first: "optimizer_state", second: "shard"}
    assert event_categories(facts).tolist().count(-1) == len(facts.replay) - 2


def test_what_is_older_than_the_recording_has_it_at_its_free() -> None:
    trace = Trace()
    old = trace.alloc(20, frame("a"))
    trace.events.clear()
    trace.free(old)
    facts = named(facts_of(trace), 0, "gradient")
    assert facts.replay.allocations.alloc_event.tolist() == [-1]
    found = [CATEGORIES[code] for code in event_categories(facts).tolist()]
    assert found == ["gradient", "gradient"]
    # nothing else is there that could be called unknown, and without it the viewer opens nothing
    assert seen_by_the_viewer(unpickle(written(facts.columns, facts))) == ["unknown"]


def test_no_known_category_is_given_up_where_another_event_can_be_called_unknown() -> None:
    trace = Trace()
    trace.free(trace.alloc(20, frame("a")))
    facts = named(facts_of(trace), 0, "activation")
    events = unpickle(written(facts.columns, facts))["device_traces"][0]
    assert {e["action"]: e.get("category") for e in events} == {
        "segment_alloc": "unknown",
        "alloc": "activation",
        "free_requested": None,
        "free_completed": None,
    }


def test_the_unknown_one_is_not_where_the_viewer_does_not_look(tmp_path: Path) -> None:
    trace = Trace()
    trace.alloc(20, frame("a"))
    objects = trace.objects() | {"host_traces": [b.event("segment_alloc", addr=7, size=1)]}
    (tmp_path / "one.pickle").write_bytes(pickle.dumps(objects))
    (rank,) = load_run(tmp_path / "one.pickle", cache=False).ranks
    found = unpickle(written(rank.columns, named(rank.facts(), 0, "shard")))
    assert sorted(seen_by_the_viewer(found)) == ["shard", "unknown"]
    assert "category" not in found["host_traces"][0]


def test_without_facts_there_are_no_categories() -> None:
    rank = small_run().ranks[0]
    assert seen_by_the_viewer(unpickle(written(rank.columns))) == []


# ------------------------------------------------------------------ torch's own tools


@pytest.mark.parametrize("name", ["single", "single_expandable", "cuda_graph", "leak", "thunder_478/pr", "fsdp2_after"])
def test_torch_finds_the_same_totals(name: str) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="needs torch, whose viewer it is")
    for rank in sample(name).ranks:
        facts, data = rank.facts(), unpickle(written(rank.columns, rank.facts()))
        end = facts.replay.end
        summary = viz.segsum(data)
        assert f"total_reserved: {viz.Bytes(end.reserved_bytes)}\n" in summary
        assert f"segments: {len(data['segments'])}\n" in summary
        assert sum(map(viz.calc_active, data["segments"])) == end.allocated_bytes
        lines = viz.memory(data, format_flamegraph=str).splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == end.reserved_bytes
        assert viz.compare(data["segments"], data["segments"], format_flamegraph=str) == ""
        told = viz.trace(data)
        assert told.startswith(f"Device {rank.device} ----------------\n{len(facts.replay)} entries\n")
        page = viz.trace_plot(data)
        embedded = json.loads(page.partition("local_files = ")[2].partition("\n")[0])
        assert embedded[0]["name"] == "snapshot.pickle"


def test_it_is_smaller_than_what_torch_wrote() -> None:
    rank = sample("fsdp2_after").ranks[0]
    source = (SAMPLES / "fsdp2_after" / "rank00000.pickle.zst").read_bytes()
    import zstandard

    original = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(source)).read()
    assert len(written(rank.columns, rank.facts())) < len(original)


def test_an_old_format_comes_back_in_the_new(shared: Path) -> None:
    data = lzma.decompress((shared / "corpus" / "old-2023-block-history.pickle.xz").read_bytes())
    columns = columns_from_objects(unpickle(data))
    again = unpickle(written(columns))
    assert_kept(written(columns), columns)
    blocks = [block for segment in again["segments"] for block in segment["blocks"]]
    assert any("frames" in block for block in blocks)
    assert not any("history" in block for block in blocks)
    assert np.array_equal(columns.blocks.size, [block["size"] for block in blocks])
