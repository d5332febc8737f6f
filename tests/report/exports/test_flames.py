"""Flame graphs: speedscope's own format held against its schema's rules, collapsed stacks against their pattern."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.facts import Facts
from snapviz.analyze.livestacks import live_stacks
from snapviz.analyze.moments import moment, parse_at
from snapviz.analyze.run import Run
from snapviz.analyze.stretches import Stretches
from snapviz.report.exports.flames import Profile, write_collapsed, write_speedscope
from tests.analyze.builders import MIB, Trace, frame, sample
from tests.report.exports.builders import HOSTILE, dangling_run, facts_of, named, plainly, small_run, text

NAMES = ["fsdp2_before_notfixed", "leak", "cuda_graph", "uneven_ranks", "thunder_478/pr"]


def profile(facts: Facts, at: str = "peak", by: str | None = None) -> Profile:
    when = moment(facts, Stretches(facts), parse_at(at))
    assert when is not None
    return Profile(facts, parse_at(at).title, live_stacks(facts, when, by))


def profiles(run: Run, *points: str, by: str | None = None) -> list[Profile]:
    return [profile(rank.facts(), at, by) for rank in run.ranks for at in points]


def speedscope(found: list[Profile]) -> dict[str, Any]:
    document = json.loads(text(partial(write_speedscope, found, "run", "snapviz")))
    assert_speedscope(document)
    return document


def assert_speedscope(document: dict[str, Any]) -> None:
    """The rules of speedscope's file-format-schema.json for a sampled profile, and of its importer."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) == {"$schema", "exporter", "name", "activeProfileIndex", "profiles", "shared"}
    frames = document["shared"]["frames"]
    for one in frames:
        assert isinstance(one["name"], str)
        assert one["name"]
        assert set(one) <= {"name", "file", "line", "col"}
        assert isinstance(one.get("line", 0), int)
    assert len({json.dumps(one) for one in frames}) == len(frames)
    assert 0 <= document["activeProfileIndex"] < max(1, len(document["profiles"]))
    for one in document["profiles"]:
        assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (one["type"], one["unit"], one["startValue"]) == ("sampled", "bytes", 0)
        assert len(one["samples"]) == len(one["weights"])
        assert sum(one["weights"]) == one["endValue"]
        assert all(0 <= index < len(frames) for sampled in one["samples"] for index in sampled)
        assert all(one["samples"])


def collapsed(found: list[Profile], several: bool = False) -> list[tuple[list[str], int]]:
    """As flamegraph.pl reads a line: everything up to the last blank, and a number."""
    lines = text(partial(write_collapsed, found, several)).splitlines()
    matches = [re.fullmatch(r"(.+) (\d+)", line) for line in lines]
    return [(match[1].split(";"), int(match[2])) for match in matches if match is not None or pytest.fail("no line")]


def test_small_as_speedscope(snapshot: SnapshotAssertion) -> None:
    ranks = [plainly(rank.facts()) for rank in small_run().ranks]
    found = [profile(facts, at, "category") for facts in ranks for at in ("peak", "end")]
    assert text(partial(write_speedscope, found, "small", "snapviz")) == snapshot


def test_small_as_collapsed(snapshot: SnapshotAssertion) -> None:
    assert text(partial(write_collapsed, profiles(small_run(), "peak"), True)) == snapshot


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_what_is_allocated(name: str) -> None:
    run = sample(name)
    found = profiles(run, "peak", "end", by="phase")
    document = speedscope(found)
    expected = [one.facts.replay.after(one.live.when.event).allocated_bytes for one in found]
    assert [one["endValue"] for one in document["profiles"]] == expected
    assert sum(size for _, size in collapsed(found, True)) == sum(expected)
    for one, allocated in zip(found, expected, strict=True):
        assert sum(size for _, size in collapsed([one])) == allocated


def test_stacks_run_from_the_root_to_the_innermost_frame() -> None:
    (one,) = profiles(dangling_run(), "end", by="owner")
    lines = {tuple(frames): size for frames, size in collapsed([one])}
    main = "<module> (/repo/train.py:9)"
    assert lines["w", main, "__init__ (/repo/model.py:1)"] == 40 * MIB
    assert lines["(no owner)", main, "forward (/repo/model.py:1)"] == 60 * MIB
    document = speedscope([one])
    frames = document["shared"]["frames"]
    told = [[frames[i]["name"] for i in stack] for stack in document["profiles"][0]["samples"]]
    assert ["w", "<module>", "__init__"] in told
    assert {"name": "__init__", "file": "/repo/model.py", "line": 1} in frames


def test_what_has_no_stack_is_there() -> None:
    trace = Trace()
    trace.alloc(20)
    assert collapsed([profile(facts_of(trace), "end")]) == [(["(no stack)"], 20 * MIB)]
    assert speedscope([profile(facts_of(trace), "end")])["shared"]["frames"] == [{"name": "(no stack)"}]


def test_a_deep_recursion_is_cut_in_its_middle_and_keeps_its_ends() -> None:
    trace = Trace()
    trace.alloc(20, frame("innermost"), *[frame("f", line=i) for i in range(1_000)], frame("outermost"))
    found = [profile(facts_of(trace), "end")]
    ((frames, size),) = collapsed(found)
    document = speedscope(found)
    names = [document["shared"]["frames"][i]["name"] for i in document["profiles"][0]["samples"][0]]
    assert size == 20 * MIB
    assert len(frames) == len(names) == 201
    assert (names[0], names[50], names[-1]) == ("outermost", "… 802 frames …", "innermost")
    assert [one.partition(" (")[0] for one in frames] == names


def test_names_cannot_end_a_frame_or_a_line() -> None:
    trace = Trace()
    trace.alloc(20, frame(HOSTILE, HOSTILE), frame("outer"))
    found = [profile(named(facts_of(trace), 0, "shard", HOSTILE), "end", "owner")]
    ((frames, _),) = collapsed(found)
    assert len(frames) == 3
    assert all(one.isprintable() for one in frames)
    assert text(partial(write_speedscope, found, HOSTILE, "snapviz")).isascii()


def test_what_is_not_sure_is_in_the_title() -> None:
    trace = Trace()
    trace.alloc(20, frame("f"))
    trace.free(trace.alloc(40, frame("f")))
    del trace.events[:3]
    titles = [one["name"] for one in speedscope([profile(facts_of(trace), at) for at in ("peak", "end")])["profiles"]]
    assert titles[0].startswith("rank 0 at the peak of the run (")
    assert "at least" in titles[0]
    assert "at least" not in titles[1]


def test_nothing_allocated() -> None:
    trace = Trace()
    trace.free(trace.alloc(20, frame("f")))
    found = [profile(facts_of(trace), "end")]
    assert collapsed(found) == []
    assert speedscope(found)["profiles"][0]["samples"] == []
