"""The trace that Perfetto and Chrome open, held against the Trace Event Format and against the replay."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.facts import Facts
from snapviz.report.exports.perfetto import COUNTERS, write_perfetto
from snapviz.report.exports.tracks import LANES
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record, sample
from tests.report.exports.builders import HOSTILE, dangling_run, facts_of, small_run, text
from tests.snapshot import builders as b


def trace_of(*found: Facts, most: int = 0, run: str = "run") -> dict[str, Any]:
    document = json.loads(text(partial(write_perfetto, found, run, "snapviz", most)))
    assert_valid(document)
    return document


def assert_valid(document: dict[str, Any]) -> None:
    """The rules of the Trace Event Format that its readers hold a file to."""
    assert list(document) == ["displayTimeUnit", "traceEvents", "otherData"]
    assert document["displayTimeUnit"] in ("ms", "ns")
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, int], int] = {}
    opened: dict[tuple[Any, ...], int] = {}
    for event in document["traceEvents"]:
        kind, thread = event["ph"], (event["pid"], event["tid"])
        assert isinstance(event["name"], str)
        assert all(isinstance(one, int) and one > 0 for one in thread)
        if kind == "M":
            assert event["name"] in (
                "process_name",
                "process_labels",
                "process_sort_index",
                "thread_name",
                "thread_sort_index",
            )
            assert len(event["args"]) == 1
            continue
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        if kind == "X":
            start, stop = event["ts"], event["ts"] + event["dur"]
            assert event["dur"] >= 0
            assert start >= last.get(thread, 0), "the outer has to come first"
            last[thread] = start
            while ends[thread] and ends[thread][-1] <= start:
                ends[thread].pop()
            assert not ends[thread] or stop <= ends[thread][-1], "slices of one thread cross"
            ends[thread].append(stop)
        elif kind in "be":
            key = (event["cat"], event["id"], event["name"])
            assert (key in opened) == (kind == "e")
            assert event["ts"] >= opened.setdefault(key, event["ts"])
        elif kind == "C":
            assert list(event["args"]) == ["bytes"]
            assert isinstance(event["args"]["bytes"], int)
        else:
            assert kind == "i"
            assert event["s"] in "tpg"


def of_kind(document: dict[str, Any], kind: str, rank: int = 0) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == kind and event["pid"] == rank + 1]


def counter(document: dict[str, Any], name: str, rank: int = 0) -> list[int]:
    return [e["args"]["bytes"] for e in of_kind(document, "C", rank) if e["name"] == name]


def test_small(snapshot: SnapshotAssertion) -> None:
    found = [rank.facts() for rank in small_run().ranks]
    assert text(partial(write_perfetto, found, "small", "snapviz", 0)) == snapshot


@pytest.mark.parametrize("most", [0, 40])
@pytest.mark.parametrize("name", ["single_expandable", "fsdp2_before_notfixed", "uneven_ranks", "main", "cuda_graph"])
def test_a_counters_highest_is_the_peak(name: str, most: int) -> None:
    found = [rank.facts() for rank in sample(name).ranks]
    document = trace_of(*found, most=most)
    for facts in found:
        for measure in COUNTERS:
            values = counter(document, measure, facts.rank)
            assert max(values) == facts.replay.peak(measure, 0, len(facts.replay))[0]
            assert values[-1] == getattr(facts.replay.end, f"{measure}_bytes")
            assert not most or len(values) <= most
        if not most:
            slices = [
                e["args"]["peak_allocated_bytes"] for e in of_kind(document, "X", facts.rank) if e["tid"] < 2 + LANES
            ]
            assert max(slices) == facts.phases.peak[:, 1].max()


def test_what_is_left_out_is_said() -> None:
    facts = sample("fsdp2_after").ranks[0].facts()
    notes = trace_of(facts, most=40)["otherData"]["notes"]
    changes = int((np.diff(facts.replay.allocated_bytes, prepend=0) != 0).sum()) + 1
    (told,) = [note for note in notes if "counter allocated" in note]
    assert told.endswith(f" of {changes:,} changes, its peak among them")
    assert any("the 40 largest of" in note and "segment events" in note for note in notes)
    assert not any("changes" in note for note in trace_of(facts)["otherData"]["notes"])


def test_every_change_is_at_its_time() -> None:
    rank = small_run().ranks[0]
    document = trace_of(rank.facts())
    replay, origin = rank.facts().replay, document["otherData"]["origin_us"]
    told = [(e["ts"] + origin, e["args"]["bytes"]) for e in of_kind(document, "C") if e["name"] == "allocated"]
    expected = [(int(replay.time_us[0]) - 1, 0)]
    for time_us, value in zip(replay.time_us.tolist(), replay.allocated_bytes.tolist(), strict=True):
        if value != expected[-1][1]:
            expected.append((time_us, value))
    assert told == expected


def test_phases_and_annotations_are_slices_on_tracks_of_their_own() -> None:
    document = trace_of(*(rank.facts() for rank in small_run().ranks))
    names = {e["tid"]: e["args"]["name"] for e in of_kind(document, "M", 1) if e["name"] == "thread_name"}
    slices = {e["name"]: (names[e["tid"]], e["dur"]) for e in of_kind(document, "X", 1)}
    assert slices["train/step0"][0] == slices["materialize"][0] == "phases"
    assert slices["Optimizer.step#AdamW.step"] == ("annotations", 30)
    assert [
        e["args"]["name"] for rank in (0, 1) for e in of_kind(document, "M", rank) if e["name"] == "process_name"
    ] == [
        "rank 0",
        "rank 1",
    ]


def test_dangling_bytes_are_a_counter_where_it_is_known_what_dangles() -> None:
    facts = dangling_run().ranks[0].facts()
    assert [one.name for one in facts.dangling] == ["w"]
    values = counter(trace_of(facts), "dangling")
    assert values == [0, 40 * MIB]
    bare = facts_of(_one())
    assert not bare.dangling_known
    assert counter(trace_of(bare), "dangling") == []


def _one() -> Trace:
    trace = Trace()
    trace.alloc(20, frame("f"))
    return trace


def test_phases_that_cross_go_to_further_tracks() -> None:
    trace = Trace()
    for _ in range(30):
        trace.alloc(20, frame("f"))
    crossing: RankRecord = record([(f"p{i}", 1_000 + i, 1_300 + i) for i in range(LANES + 5)])
    document = trace_of(facts_of(trace, crossing))
    assert len({e["tid"] for e in of_kind(document, "X")}) == LANES
    assert [e["name"] for e in of_kind(document, "b")] == [f"p{i}" for i in range(LANES, LANES + 5)]
    assert len(of_kind(document, "e")) == 5


def test_out_of_memory_and_segments_are_instants() -> None:
    trace = _one()
    oom = {"action": "oom", "size": 3 * MIB, "stream": 0, "device_free": 17, "frames": [frame("ask")]}
    trace.events.append(oom | {"time_us": trace.tick()})
    document = trace_of(facts_of(trace))
    (mapped, out) = of_kind(document, "i")
    assert (mapped["name"], mapped["args"]["bytes"], mapped["args"]["event"]) == ("segment_alloc", 20 * MIB, 0)
    assert out["args"] == {
        "requested_bytes": 3 * MIB,
        "event": 2,
        "device_free_bytes": 17,
        "stack": ["ask (/repo/model.py:1)"],
    }
    assert out["s"] == "p"


def test_without_times_each_event_takes_a_microsecond() -> None:
    trace = _one()
    trace.mark("START", "scope")
    for event in trace.events:
        del event["time_us"]
    document = trace_of(facts_of(trace))
    assert document["otherData"]["origin_us"] == 0
    assert [e["ts"] for e in of_kind(document, "C") if e["name"] == "allocated"] == [0, 2]
    labels = [e["args"]["labels"] for e in of_kind(document, "M") if e["name"] == "process_labels"]
    assert labels == ["no times: 1 µs for each event"]
    assert [e["name"] for e in of_kind(document, "X")] == ["run"]


def test_a_truncated_recording_says_so() -> None:
    trace = _one()
    trace.free(trace.alloc(40, frame("f")))
    del trace.events[:3]
    document = trace_of(facts_of(trace))
    (labels,) = [e["args"]["labels"] for e in of_kind(document, "M") if e["name"] == "process_labels"]
    assert "begins in the middle" in labels
    # what was there before the first event counts: the peak is not in any event
    assert max(counter(document, "allocated")) == 60 * MIB


def test_nothing_at_all_is_a_trace_too() -> None:
    root = {"segments": [b.segment(b.block())], "device_traces": [[]]}
    document = trace_of(facts_of(root))
    assert counter(document, "allocated") == [512]


def test_names_cannot_do_anything() -> None:
    trace = _one()
    facts = facts_of(trace, record([(HOSTILE, 1_000, 2_000)]))
    written = text(partial(write_perfetto, [facts], HOSTILE, "snapviz", 0))
    assert written.isascii()
    document = json.loads(written)
    (phase,) = of_kind(document, "X")
    # escapes are written out: what is shown is what they are called
    assert phase["name"].isprintable()
    assert document["otherData"]["run"].isprintable()


def test_times_that_no_clock_has() -> None:
    trace = _one()
    trace.events[-1]["time_us"] = (1 << 63) - 1
    facts = facts_of(trace, record([("p", 0, (1 << 62))]))
    document = trace_of(facts)
    assert max(counter(document, "allocated")) == 20 * MIB
