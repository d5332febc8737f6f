"""Reserved memory explained: against sums done one by one on an allocator that has the memory, and on real files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from snapviz import UsageError, load_run
from snapviz.analyze.facts import Facts
from snapviz.analyze.fragmentation import fragmentation, parse_wanted
from snapviz.analyze.fragmentationparts import CELLS, cells_of, pieces_of, pool_parts, reserved_parts
from snapviz.analyze.fragmentationphases import curves_of, held_free, phases_of, streams_of
from snapviz.analyze.fragmentationpins import pending_of, pins_of
from snapviz.analyze.passes import analyze
from snapviz.analyze.run import Rank, Run
from snapviz.replay.segments import SegmentHistory
from snapviz.replay.snapshot import Snapshot
from snapviz.report.fragmentationtext import fragmentation_lines
from snapviz.report.jsonout import to_json
from snapviz.schema import FragmentationPoint, OutOfMemory, RankRecord, ReservedParts, TorchCounters
from snapviz.snapshot.columns import ACTIONS
from snapviz.snapshot.objects import columns_from_objects
from tests.analyze.builders import load_for_tests, record, run_of, sample
from tests.replay.builders import BASE, MIB, alloc, block, event, frames, free, gap, segment, segment_alloc
from tests.replay.test_hostile import EVENTS, SEGMENTS, SETTINGS
from tests.replay.test_oracle import ALLOCATORS, STEPS, program
from tests.replay.test_segments import RECORDED, State, Watched

GIB = 1 << 30
FREE_FIELDS = ("whole_bytes", "private_bytes", "mostly_free_bytes", "busy_bytes")
SUMMED = ("requested_bytes", "rounding_bytes", "unsplit_bytes", "pending_bytes", *FREE_FIELDS, "unexplained_bytes")


def facts_of(objects: dict[str, Any], rank_record: Any = None) -> Facts:
    snap = Snapshot(columns_from_objects(objects))
    device = snap.devices[-1]
    return analyze(0, snap.columns, snap.replay(device), rank_record, None)


def objects(events: list[dict[str, Any]], segments: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    timed = [{"time_us": 1000 + i} | one for i, one in enumerate(events)]
    return {"segments": segments, "device_traces": [timed], "allocator_settings": settings}


def by_hand(state: State, expandable: bool, private: set[int]) -> Counter[str]:
    """Free bytes by kind, page by page."""
    found: Counter[str] = Counter()
    for address, size, _, small, blocks in state:
        page = (2 if small else 20) * MIB if expandable else size
        for start in range(address, address + size, page):
            stop = min(start + page, address + size)
            inside = [(max(a, start), min(a + n, stop), s) for a, n, s in blocks if a < stop and a + n > start]
            empty = sum(b - a for a, b, s in inside if s == "inactive")
            if empty == stop - start:
                found["private_bytes" if address in private else "whole_bytes"] += empty
            else:
                found["mostly_free_bytes" if 2 * empty > stop - start else "busy_bytes"] += empty
    return found


def check_sums(facts: Facts, history: SegmentHistory, at: int) -> ReservedParts:
    """All parts, pools and cells sum to what the replay says is reserved."""
    pieces = pieces_of(history.at(at), facts.columns)
    parts, pools, cells = reserved_parts(facts, pieces), pool_parts(pieces, facts.columns), cells_of(pieces)
    totals = facts.replay.after(at)
    assert parts.reserved_bytes == totals.reserved_bytes == sum(getattr(parts, field) for field in SUMMED)
    assert parts.allocated_bytes == parts.requested_bytes + parts.rounding_bytes + parts.unsplit_bytes
    assert min(getattr(parts, field) for field in SUMMED[:-1]) >= 0
    assert parts.unexplained_bytes == 0
    for field in ("reserved_bytes", "allocated_bytes", "pending_bytes", "mostly_free_bytes", "busy_bytes"):
        assert sum(getattr(one, field) for one in pools) == getattr(parts, field)
    assert sum(one.whole_bytes for one in pools) == parts.whole_bytes + parts.private_bytes
    drawn = [sum(one.model_dump().values()) for one in cells]
    assert sum(drawn) == parts.reserved_bytes
    assert len(cells) in (0, CELLS)
    assert not drawn or max(drawn) - min(drawn) <= 1
    for field in ("allocated_bytes", "pending_bytes", "mostly_free_bytes", "busy_bytes"):
        assert sum(getattr(one, field) for one in cells) == getattr(parts, field)
    pins = pins_of(facts, pieces)
    assert sum(one.freed_bytes for one in pins.rows) + pins.more_bytes == parts.mostly_free_bytes
    assert sum(one.pending_bytes for one in pending_of(facts, pieces)) == parts.pending_bytes
    assert all(one.pinned_blocks and one.pinners for one in pins.rows)
    return parts


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS, st.lists(st.floats(0, 1), min_size=3, max_size=8))
def test_every_part_is_what_it_is_by_hand(steps, options, shares):
    mini = program(steps, options, Watched)
    assume(mini.states)
    facts = facts_of(mini.snapshot())
    history = SegmentHistory(facts.replay, facts.columns)
    for share in shares:
        at = int(share * len(mini.states)) - 1
        parts = check_sums(facts, history, at)
        table = history.at(at)
        named = {
            int(a) for a, p in zip(table.address, table.pool, strict=True) if p >= 0 and facts.columns.pools[p].any()
        }
        expected = by_hand(mini.states[at], mini.expandable, named) if at >= 0 else Counter()
        assert {field: getattr(parts, field) for field in FREE_FIELDS} == {f: expected[f] for f in FREE_FIELDS}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, ALLOCATORS)
def test_a_phase_knows_its_lowest_and_its_most_free(steps, options):
    mini = program(steps, options, Watched)
    assume(mini.states)
    facts = facts_of(mini.snapshot())
    history = SegmentHistory(facts.replay, facts.columns)
    streams = streams_of(history)
    curves = curves_of(history, streams)
    (phase,) = phases_of(facts, curves)
    held = [0, *(check_sums(facts, history, at) for at in range(len(mini.states)))]
    most = [0, *(parts.mostly_free_bytes + parts.busy_bytes for parts in held[1:])]
    assert held_free(facts, curves).tolist() == most
    assert phase.held_free_bytes == max(most)
    assert phase.held_free_event == most.index(max(most)) - 1
    assert phase.lowest_largest_bytes == 0
    sizes = [one["size"] for one in mini.events if one["action"] in ("segment_alloc", "segment_map")]
    assert phase.grown_bytes <= sum(sizes)
    assert phase.grown_beside_free_bytes <= phase.grown_bytes


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_recorded_files_sum_at_many_events(path: Path) -> None:
    check_run(load_run(path, loader=load_for_tests))


def check_run(run) -> int:
    checked = 0
    for rank in run.ranks:
        facts = rank.facts()
        if not facts.replay.consistent:
            continue
        history = SegmentHistory(facts.replay, facts.columns)
        for at in np.unique(np.linspace(-1, len(facts.replay) - 1, 12).astype(int)).tolist():
            check_sums(facts, history, at)
        checked += 1
    return checked


def test_every_consistent_real_file_sums_at_many_events(shared: Path) -> None:
    paths = sorted((shared / "corpus").glob("*.xz")) + sorted((shared / "groundtruth").glob("*.pickle.xz"))
    assert sum(check_run(load_run(path, cache=False)) for path in paths) == 54


@pytest.mark.parametrize("name", ["single", "single_expandable", "leak", "cuda_graph", "uneven_ranks"])
def test_samples_sum(name: str) -> None:
    assert check_run(sample(name)) == len(sample(name).ranks)


def test_a_file_that_contradicts_itself_still_sums_and_says_what_is_unexplained() -> None:
    there = segment(BASE, block(512), gap(2 * MIB - 512))
    facts = facts_of(objects([segment_alloc(BASE, 2 * MIB), alloc(BASE, 512), alloc(BASE + 40 * MIB, 1024)], [there]))
    pieces = pieces_of(SegmentHistory(facts.replay, facts.columns).at(2), facts.columns)
    parts = reserved_parts(facts, pieces)
    assert not facts.replay.consistent
    assert parts.reserved_bytes == 2 * MIB == sum(getattr(parts, field) for field in SUMMED)
    assert parts.unexplained_bytes == -1024


# ------------------------------------------------------------------ what pins


def pinned(expandable: bool = False) -> dict[str, Any]:
    """2 MiB that hold a segment of 512 MiB, and 200 MiB that hold one of 256 MiB."""
    what = "segment_map" if expandable else "segment_alloc"
    events = [
        event(what, BASE, 520 * MIB),
        alloc(BASE, 4 * MIB, frames=frames("first")),
        alloc(BASE + 4 * MIB, 2 * MIB, frames=frames("activation")),
        *free(BASE, 4 * MIB),
        event(what, BASE + GIB, 260 * MIB),
        alloc(BASE + GIB, 120 * MIB, frames=frames("model")),
    ]
    segments = [
        segment(BASE, gap(4 * MIB), block(2 * MIB, frames=frames("activation")), gap(514 * MIB), expandable=expandable),
        segment(BASE + GIB, block(120 * MIB, frames=frames("model")), gap(140 * MIB), expandable=expandable),
    ]
    return objects(events, segments)


def point_of(made: dict[str, Any], at: str = "end", rank_record: Any = None) -> FragmentationPoint:
    (rank,) = fragmentation(run_of(made, records=[rank_record]), [at]).ranks
    return rank.points[0]


def test_little_that_pins_much_comes_first() -> None:
    point = point_of(pinned())
    first, second = point.pins
    assert (first.freed_bytes, first.pinned_bytes, first.pieces) == (518 * MIB, 2 * MIB, 1)
    assert first.pinners[0].stack == ("activation (train.py:1)",)
    assert (second.freed_bytes, second.pinned_bytes) == (140 * MIB, 120 * MIB)
    assert point.parts.mostly_free_bytes == 658 * MIB
    assert point.parts.whole_bytes == 0
    # had they expanded: all whole pages' worth of 514 and 140 MiB; the 4 MiB before the block are less than a page
    assert point.paged_bytes == (500 + 140) * MIB


def test_of_segments_that_expand_only_the_page_is_pinned() -> None:
    point = point_of(pinned(expandable=True))
    (pin,) = point.pins
    assert (pin.freed_bytes, pin.piece_bytes, pin.pieces, pin.expandable) == (18 * MIB, 20 * MIB, 1, True)
    assert point.parts.whole_bytes == 640 * MIB
    assert point.parts.busy_bytes == 0
    assert point.paged_bytes == 0


def test_segments_that_the_same_code_holds_are_one_row() -> None:
    events, segments = [], []
    for i in range(30):
        at = BASE + i * 64 * MIB
        events += [segment_alloc(at, 40 * MIB), alloc(at, 2 * MIB, frames=frames("layer"))]
        segments.append(segment(at, block(2 * MIB, frames=frames("layer")), gap(38 * MIB)))
    (pin,) = point_of(objects(events, segments)).pins
    assert (pin.pieces, pin.pinned_blocks, pin.freed_bytes) == (30, 30, 30 * 38 * MIB)


def test_a_block_of_the_segment_before_pins_nothing() -> None:
    events = [segment_alloc(BASE, 20 * MIB), segment_alloc(BASE + 20 * MIB, 40 * MIB)]
    events += [alloc(BASE, 20 * MIB, frames=frames("before")), alloc(BASE + 20 * MIB, 2 * MIB, frames=frames("holds"))]
    segments = [
        segment(BASE, block(20 * MIB, frames=frames("before"))),
        segment(BASE + 20 * MIB, block(2 * MIB, frames=frames("holds")), gap(38 * MIB)),
    ]
    (pin,) = point_of(objects(events, segments)).pins
    assert (pin.pinned_blocks, pin.pinned_bytes) == (1, 2 * MIB)
    assert [one.stack for one in pin.pinners] == [("holds (train.py:1)",)]


def test_what_is_held_back_is_told_by_stream() -> None:
    at = BASE + 64 * MIB
    events = [segment_alloc(BASE, 40 * MIB), segment_alloc(at, 40 * MIB, stream=7)]
    events += [alloc(BASE, 30 * MIB, frames=frames("all_gather")), alloc(at, 40 * MIB, stream=7)]
    events += [event("free_requested", BASE, 30 * MIB), event("free_requested", at, 40 * MIB, stream=7)]
    held = {"state": "active_pending_free"}
    segments = [
        segment(BASE, block(30 * MIB, frames=frames("all_gather"), **held), gap(10 * MIB)),
        segment(at, block(40 * MIB, **held), stream=7),
    ]
    point = point_of(objects(events, segments))
    assert [(one.stream, one.pending_bytes, one.blocks) for one in point.pending] == [
        (7, 40 * MIB, 1),
        (0, 30 * MIB, 1),
    ]
    assert point.pending[1].largest.stack == ("all_gather (train.py:1)",)
    assert point.pending[1].largest.pending
    assert point.parts.pending_bytes == 70 * MIB
    assert point.parts.busy_bytes == 10 * MIB


def test_rounding_and_remainders_are_told_apart() -> None:
    events = [segment_alloc(BASE, 20 * MIB), alloc(BASE, 19 * MIB - 100)]
    parts = point_of(objects(events, [segment(BASE, block(20 * MIB, 19 * MIB - 100))])).parts
    assert (parts.requested_bytes, parts.rounding_bytes, parts.unsplit_bytes) == (19 * MIB - 100, 100, MIB)


# ------------------------------------------------------------------ moments


def test_the_reserved_peak_is_told_once_its_request_is_served() -> None:
    point = point_of(pinned(), "peak")
    assert point.moment.event == 6
    assert point.parts.allocated_bytes == 122 * MIB
    assert point.title == "at the reserved peak of the run"


def test_moments_by_name() -> None:
    phases = record([("train/step0", 1000, 1002), ("train/step1", 1003, 1006)])
    run = run_of(pinned(), records=[phases])
    at = ["phase:train/step0", "phase:train/step0:end", "phase:train:peak", "event:2", "end"]
    (rank,) = fragmentation(run, at).ranks
    assert [point.moment.event for point in rank.points] == [1, 2, 6, 2, 6]
    assert [point.at for point in rank.points] == ["phase:train/step0:peak", *at[1:]]
    assert [one.phase for one in rank.phases] == ["train/step0", "train/step"]


def test_phases_tell_growth_that_came_beside_free_memory() -> None:
    phases = record([("train/step0", 1000, 1002), ("train/step1", 1003, 1006)])
    (rank,) = fragmentation(run_of(pinned(), records=[phases])).ranks
    first, second = rank.phases
    assert (first.grown_bytes, first.grown_beside_free_bytes) == (520 * MIB, 0)
    # 120 MiB are asked for and 518 MiB are free: a real allocator would have taken them from there
    assert (second.grown_bytes, second.grown_beside_free_bytes) == (260 * MIB, 260 * MIB)
    assert (first.lowest_largest_bytes, second.lowest_largest_bytes) == (0, 514 * MIB)
    # after event 4 the first segment is held by 2 MiB, and after event 6 the second by 120 MiB as well
    assert (second.held_free_bytes, second.held_free_event) == (658 * MIB, 6)
    assert second.reserved_peak_bytes == 780 * MIB


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("phase:nope", "no such phase"),
        ("event:7", "there are 7 events, numbered from 0"),
        ("oom", "it never ran out of memory"),
        ("oom:0", "use peak, end, phase:NAME"),
        ("event:x", "use peak, end, phase:NAME"),
        ("middle", "use peak, end, phase:NAME"),
        ("phase:", "use peak, end, phase:NAME"),
    ],
)
def test_moments_that_are_none(at: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fragmentation(run_of(pinned()), [at])


def counted(stop_us: int, reserved: int, device_free: int) -> RankRecord:
    """A record of one phase that torch counted on a device of 8 GiB."""
    counters = {
        "peak_allocated_bytes": 0,
        "end_allocated_bytes": 0,
        "peak_reserved_bytes": 0,
        "end_reserved_bytes": reserved,
        "device_free_bytes": device_free,
        "device_total_bytes": 8 * GIB,
    }
    phase = record([("train", 1000, stop_us)]).phases[0]
    phase = phase.model_copy(update={"counters": TorchCounters.model_validate(counters)})
    return record([]).model_copy(update={"phases": (phase,)})


def test_what_the_device_has_free_is_known_at_the_end_of_a_counted_phase() -> None:
    known = counted(1006, 780 * MIB, 3 * GIB)
    point = point_of(pinned(), "end", known)
    assert point.device_free_bytes == 3 * GIB
    (blocks,) = point.free_blocks
    assert (blocks.largest_free_bytes, blocks.largest_possible_bytes) == (514 * MIB, 3 * GIB)
    assert point_of(pinned(), "event:1", known).device_free_bytes is None
    # counted at another state than the replay's: the two do not belong together
    assert point_of(pinned(), "end", counted(1006, 5, 3 * GIB)).device_free_bytes is None


# ------------------------------------------------------------------ out of memory


def starved(size: int, device_free: int | None, **more: Any) -> dict[str, Any]:
    """``pinned`` and a request that is not served."""
    made = pinned(**more)
    oom = {"action": "oom", "size": size, "stream": 0, "time_us": 2000, "frames": frames("forward")}
    made["device_traces"][0].append(oom | ({} if device_free is None else {"device_free": device_free}))
    return made


def oom_of(made: dict[str, Any], rank_record: Any = None) -> OutOfMemory:
    (rank,) = fragmentation(run_of(made, records=[rank_record])).ranks
    assert rank.ooms == 1
    return rank.out_of_memory[0]


def test_memory_in_pieces_is_why() -> None:
    one = oom_of(starved(600 * MIB, 30 * MIB))
    assert (one.why, one.missing_bytes) == ("fragmented", 570 * MIB)
    assert (one.free_bytes, one.free_in_pool_bytes, one.largest_free_bytes) == (658 * MIB, 658 * MIB, 514 * MIB)
    assert [(advice.kind, advice.bytes) for advice in one.advice] == [
        ("unsplit_large", 658 * MIB),
        ("fewer_sizes", 658 * MIB),
        ("expandable_segments", 640 * MIB),
    ]
    assert one.stack == ("forward (train.py:1)",)
    assert one.pins[0].pinned_bytes == 2 * MIB
    assert one.outside_bytes is None


def test_what_expands_is_not_told_to_expand() -> None:
    # the pages in the middle are whole: a real allocator would have given them back before
    one = oom_of(starved(2 * GIB, 1536 * MIB, expandable=True))
    assert "expandable_segments" not in [advice.kind for advice in one.advice]


def test_not_enough_however_it_lies_is_why() -> None:
    one = oom_of(starved(4 * GIB, 30 * MIB))
    assert (one.why, one.missing_bytes) == ("full", 4 * GIB - 30 * MIB)
    assert [advice.kind for advice in one.advice] == ["less"]


def test_a_limit_on_the_process_is_why() -> None:
    one = oom_of(starved(4 * GIB, 5 * GIB))
    assert (one.why, one.missing_bytes) == ("limit", None)
    assert [advice.kind for advice in one.advice] == ["limit"]


def test_what_the_device_had_may_not_be_known() -> None:
    one = oom_of(starved(4 * GIB, None))
    assert (one.why, one.missing_bytes, one.device_free_bytes, one.advice) == ("unknown", None, None, ())


def test_memory_outside_the_allocator_is_told_where_the_devices_size_is_known() -> None:
    one = oom_of(starved(4 * GIB, 1 * GIB), counted(1000, 0, 7 * GIB))
    assert one.outside_bytes == 7 * GIB - 780 * MIB
    assert [(advice.kind, advice.bytes) for advice in one.advice] == [("outside", 7 * GIB - 780 * MIB)]


def test_only_the_last_times_are_told_and_all_are_counted() -> None:
    made = starved(4 * GIB, 5 * GIB)
    made["device_traces"][0] += [made["device_traces"][0][-1] | {"time_us": 2001 + i} for i in range(20)]
    (rank,) = fragmentation(run_of(made), ["oom", "oom:1"]).ranks
    assert rank.ooms == 21
    assert [one.number for one in rank.out_of_memory] == list(range(14, 22))
    assert [point.moment.event for point in rank.points] == [27, 7]


def test_a_recorded_program_that_ran_out_of_memory() -> None:
    """plain_oom was recorded with set_per_process_memory_fraction(0.02), and asks for 64 GiB."""
    path = next(one for one in RECORDED if one.name.startswith("plain_oom"))
    (rank,) = fragmentation(load_run(path, loader=load_for_tests)).ranks
    assert rank.ooms == 4
    for one in rank.out_of_memory:
        assert (one.asked_bytes, one.why) == (64 * GIB, "limit")
        assert one.device_free_bytes > 64 * GIB
        assert one.stack[0].startswith("starved (")
        assert one.largest_free_bytes < one.asked_bytes
        # all that can be given back was
        assert one.free_bytes - one.private_bytes < 200 * MIB
    trace = load_for_tests(str(path)).columns.trace(0)
    given = np.where(trace.action == ACTIONS.index("segment_free"), trace.size, 0)
    kept = np.flatnonzero(given == 0)
    for one in rank.out_of_memory:
        before = kept[kept < one.moment.event][-1]
        assert one.given_back_bytes == given[before : one.moment.event].sum() > 0


def test_a_real_job_that_ran_out_of_memory(shared: Path) -> None:
    report = fragmentation(load_run(shared / "corpus" / "multi-gpu-expandable-oom.pickle.xz", cache=False))
    worst = report.ranks[0]
    assert [rank.rank for rank in report.ranks] == [1, 2, 0]
    (one,) = worst.out_of_memory
    assert (one.asked_bytes, one.device_free_bytes, one.why) == (5_308_694_528, 95_682_560, "full")
    assert one.missing_bytes == -(-5_308_694_528 // (20 * MIB)) * 20 * MIB - 95_682_560
    assert [advice.kind for advice in one.advice] == ["less"]


# ------------------------------------------------------------------ odd input


def test_nothing_reserved_and_no_events() -> None:
    point = point_of(objects([], []) | {"device_traces": [[], []], "segments": [segment(BASE, gap(2 * MIB))]}, "peak")
    assert point.parts.whole_bytes == 2 * MIB
    assert point.moment.event == -1
    assert point.pins == ()


def test_no_times_and_no_pools() -> None:
    made = pinned()
    for one in made["device_traces"][0]:
        del one["time_us"]
    for one in made["segments"]:
        del one["segment_pool_id"], one["segment_type"]
    point = point_of(made)
    assert point.moment.time_us is None
    assert point.pool_assumed_bytes == 780 * MIB
    assert [one.pool for one in point.pools] == ["default"]


def test_a_private_pool_keeps_its_whole_segments() -> None:
    made = pinned()
    made["segments"].append(segment(BASE + 4 * GIB, gap(20 * MIB), segment_pool_id=(0, 5)))
    point = point_of(made)
    assert point.parts.private_bytes == 20 * MIB
    assert [(one.pool, one.private, one.whole_bytes) for one in point.pools] == [
        ("default", False, 0),
        ("memory pool (0, 5)", True, 20 * MIB),
    ]


def test_many_streams_are_not_many_times_the_work() -> None:
    segments = [
        segment(BASE + i * 4 * MIB, block(512, state="active_pending_free"), gap(2 * MIB - 512), stream=i)
        for i in range(3000)
    ]
    (rank,) = fragmentation(run_of(objects([], segments))).ranks
    assert len(rank.points[0].pools) == 3000
    assert len(rank.points[0].pending) == 100
    assert len(rank.streams) <= 3


def test_a_block_of_a_truncated_history_says_that_it_may_be_larger() -> None:
    run = run_of(objects([*free(BASE, 12 * MIB)], [segment(BASE, gap(20 * MIB))]))
    (rank,) = fragmentation(run, ["event:0", "end"]).ranks
    assert rank.truncated
    assert [point.estimated_blocks for point in rank.points] == [1, 0]
    assert [point.parts.pending_bytes for point in rank.points] == [12 * MIB, 0]


def test_what_at_takes_is_said_again() -> None:
    for text in ("peak", "end", "phase:a/b:peak", "phase:a:end", "event:12", "oom", "oom:3"):
        assert parse_wanted(text).text == text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, SEGMENTS, SETTINGS)
def test_garbage_gives_a_report_that_sums(events, segments, allocator) -> None:
    made = {"segments": segments, "device_traces": [events], "allocator_settings": allocator}
    report = fragmentation(run_of_any(made), ["peak", "end", *([f"event:{len(events) // 2}"] if events else [])])
    for point in report.ranks[0].points:
        parts = point.parts
        assert sum(getattr(parts, field) for field in SUMMED) == parts.reserved_bytes
        assert sum(one.reserved_bytes for one in point.pools) == sum(
            getattr(one, field)
            for one in point.pools
            for field in ("allocated_bytes", "pending_bytes", "whole_bytes", "mostly_free_bytes", "busy_bytes")
        )
    assert fragmentation_lines(report, 80)
    assert to_json(report)


def run_of_any(made: dict[str, Any]) -> Run:
    snap = Snapshot(columns_from_objects(made))
    return Run("odd", "odd", None, (Rank(0, snap.devices[0] if snap.devices else 0, "odd", snap),))
