"""Each rule of the allocator on a trace made for it. Source: CUDACachingAllocator.cpp, torch 2.11."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.replay import Replay
from snapviz.replay.coordinates import round_size
from snapviz.replay.rules import rules_from_settings
from tests.replay.builders import (
    BASE,
    KIB,
    MIB,
    alloc,
    block,
    event,
    free,
    gap,
    kinds,
    replay,
    segment,
    segment_alloc,
)


def sizes(found: Replay) -> list[int]:
    return found.allocations.block_bytes.tolist()


# rounding


@pytest.mark.parametrize(
    ("settings", "size", "rounded"),
    [
        ({}, 0, 512),
        ({}, 1, 512),
        ({}, 512, 512),
        ({}, 513, 1024),
        ({}, MIB, MIB),
        ({}, MIB + 1, MIB + 512),
        ({"roundup_power2_divisions": {"1": 4}}, 512 * 4, 2048),  # not above 512 per division
        ({"roundup_power2_divisions": {"1": 4}}, 512 * 4 + 1, 2560),
        ({"roundup_power2_divisions": {"1": 4}}, 1200 * KIB, 1280 * KIB),  # 1 MiB to 2 MiB is the first bucket
        ({"roundup_power2_divisions": {"1": 4}}, 2 * MIB + 1, 2 * MIB + 512),  # the next one rounds to 512
        ({"roundup_power2_divisions": {"2": 8}}, 2 * MIB + 1, 2 * MIB + 256 * KIB),
        ({"roundup_power2_divisions": {"2": 8}}, 4 * MIB - 1, 4 * MIB),
        ({"roundup_power2_divisions": {"2": 8}}, 2 * MIB, 2 * MIB),
        ({"roundup_power2_divisions": {"32768": 2}}, (64 << 30) + 1, (96 << 30)),  # the last one has no end
        ({"roundup_power2_divisions": {"1": 1}}, 1500, 1536),
        ({"roundup_power2_divisions": {"1": "many", "x": 4, "3": 4, "4": -2}}, 5 * MIB + 1, 5 * MIB + 512),
    ],
)
def test_rounding(settings, size, rounded):
    rules = rules_from_settings(settings)
    assert round_size(size, rules.pad, rules.shifts) == rounded
    assert rules.rounded(np.array([size])).tolist() == [rounded]


def test_rounding_of_arrays_is_the_kernels():
    seeded = np.random.default_rng(0)
    edges = np.array([(1 << p) + d for p in range(9, 61) for d in (-513, -512, -1, 0, 1, 511, 512, 513)])
    every = np.concatenate([np.arange(0, 5000), edges, seeded.integers(0, 1 << 61, 2000)])
    for divisions in (0, 2, 4, 16):
        rules = rules_from_settings({"roundup_power2_divisions": divisions})
        for one in (rules, rules.as_npu()):
            kernel = np.array([round_size(n, one.pad, one.shifts) for n in every.tolist()])
            wrong = np.flatnonzero(one.rounded(every) != kernel)
            assert every[wrong[:5]].tolist() == []


# splitting


def test_small_pool_splits_at_512():
    events = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 2 * MIB - MIB - 512), alloc(BASE + MIB - 512, 1)]
    found = replay(events, [segment(BASE, block(MIB - 512), block(512, 1), gap(MIB))])
    assert found.notes == ()
    assert sizes(found) == [MIB - 512, 512]
    assert found.allocated_bytes.tolist() == [0, MIB - 512, MIB]


@pytest.mark.parametrize(("left", "absorbed"), [(MIB, MIB), (MIB + 512, 0), (512, 512)])
def test_large_pool_leaves_up_to_1_mib_with_the_block(left, absorbed):
    size = 20 * MIB - left
    events = [segment_alloc(BASE, 20 * MIB), alloc(BASE, size)]
    blocks = [block(size + absorbed, size)] + ([gap(left)] if not absorbed else [])
    found = replay(events, [segment(BASE, *blocks)])
    assert found.notes == ()
    assert sizes(found) == [size + absorbed]
    assert found.end.requested_bytes == size


@pytest.mark.parametrize("size", [8 * MIB, 8 * MIB - 512])
def test_max_split_size_keeps_larger_blocks_whole(size):
    whole = size >= 8 * MIB
    events = [segment_alloc(BASE, 20 * MIB), alloc(BASE, size)]
    blocks = [block(20 * MIB, size)] if whole else [block(size), gap(20 * MIB - size)]
    found = replay(events, [segment(BASE, *blocks)], {"max_split_size": 8 * MIB})
    assert found.notes == ()
    assert sizes(found) == [20 * MIB if whole else size]


@pytest.mark.parametrize("by", ["segment", "setting"])
def test_expandable_segments_split_at_512(by):
    kind = "segment_map" if by == "segment" else "segment_alloc"
    settings = {"expandable_segments": by == "setting"}
    events = [event(kind, BASE, 20 * MIB), alloc(BASE, 20 * MIB - 512)]
    final = segment(BASE, block(20 * MIB - 512), gap(512), expandable=by == "segment")
    found = replay(events, [final], settings)
    assert found.notes == ()
    assert sizes(found) == [20 * MIB - 512]


# merging


def test_a_free_block_merges_with_both_neighbours():
    at = [BASE, BASE + 2 * MIB, BASE + 4 * MIB]
    events = [segment_alloc(BASE, 20 * MIB), *(alloc(a, 2 * MIB) for a in at)]
    for a in (at[0], at[2], at[1]):
        events += free(a, 2 * MIB)
    events.append(alloc(BASE, 19 * MIB))
    found = replay(events, [segment(BASE, block(20 * MIB, 19 * MIB))])
    assert found.notes == ()
    assert sizes(found)[-1] == 20 * MIB


def test_neighbouring_segments_never_merge():
    """The second segment begins where the first ends; what fits only into both is no block of theirs."""
    events = [segment_alloc(BASE, 2 * MIB), segment_alloc(BASE + 2 * MIB, 2 * MIB)]
    events += [alloc(BASE, 3 * MIB)]
    found = replay(events, [segment(BASE, gap(2 * MIB)), segment(BASE + 2 * MIB, gap(2 * MIB))])
    assert "too-small" in kinds(found)
    events[2:] = [alloc(BASE, 2 * MIB - 1000)]
    found = replay(events, [segment(BASE, block(2 * MIB, 2 * MIB - 1000)), segment(BASE + 2 * MIB, gap(2 * MIB))])
    assert found.notes == ()


def test_a_pending_free_does_not_merge_and_is_active():
    events = [
        segment_alloc(BASE, 20 * MIB),
        alloc(BASE, 2 * MIB),
        alloc(BASE + 2 * MIB, 2 * MIB),
        event("free_requested", BASE, 2 * MIB),
        *free(BASE + 2 * MIB, 2 * MIB),
        alloc(BASE + 2 * MIB, 10 * MIB),
    ]
    final = segment(BASE, block(2 * MIB, state="active_pending_free"), block(10 * MIB), gap(8 * MIB))
    found = replay(events, [final])
    assert found.notes == ()
    assert found.allocated_bytes.tolist() == [n * MIB for n in (0, 2, 4, 2, 0, 0, 10)]
    assert found.active_bytes.tolist() == [n * MIB for n in (0, 2, 4, 4, 4, 2, 12)]
    assert found.requested_bytes.tolist() == found.active_bytes.tolist()
    table = found.allocations
    assert table.free_requested_event.tolist() == [3, 4, 7]
    assert table.free_completed_event.tolist() == [7, 5, 7]


def test_free_is_both_halves_at_once():
    events = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 512), event("free", BASE, 512)]
    found = replay(events, [segment(BASE, gap(2 * MIB))])
    assert found.notes == ()
    assert found.allocated_bytes.tolist() == found.active_bytes.tolist() == [0, 512, 0]


# expandable segments


def test_mapped_ranges_merge_and_unmapping_cuts_a_hole():
    step = 2 * MIB
    events = [event("segment_map", BASE + i * step, step) for i in (0, 1, 2)]
    events += [
        alloc(BASE, 100),
        alloc(BASE + 512, 3 * MIB),  # over the edge of two mapped ranges
        *free(BASE + 512, 3 * MIB),
        event("segment_unmap", BASE + step, step),
        alloc(BASE + 512, step - 512),  # up to the hole
    ]
    final = [
        segment(BASE, block(512, 100), block(step - 512), expandable=True),
        segment(BASE + 2 * step, gap(step), expandable=True),
    ]
    found = replay(events, final)
    assert found.notes == ()
    assert found.reserved_bytes.tolist() == [2 * MIB, 4 * MIB, *[6 * MIB] * 5, 4 * MIB, 4 * MIB]
    events[-1] = alloc(BASE + 512, step)  # over the hole
    assert "too-small" in kinds(replay(events, final))


def test_unmapping_live_memory_is_noticed():
    events = [event("segment_map", BASE, 2 * MIB), alloc(BASE, 512), event("segment_unmap", BASE, 2 * MIB)]
    found = replay(events, [])
    assert {"over-live", "segment-differs"} <= kinds(found)
    assert found.end.allocated_bytes == found.end.active_bytes == found.end.reserved_bytes == 0


# pools


def test_pools_of_the_events_go_before_those_of_the_segments():
    events = [
        segment_alloc(BASE, 2 * MIB),
        alloc(BASE, 512, pool_id=(0, 0)),
        alloc(BASE + 512, 512),
        segment_alloc(BASE + 4 * MIB, 2 * MIB),
        *[alloc(BASE + 4 * MIB, 512), *free(BASE + 4 * MIB, 512)],
        event("segment_free", BASE + 4 * MIB, 2 * MIB),
    ]
    found = replay(events, [segment(BASE, block(512), block(512), gap(2 * MIB - 1024), segment_pool_id=(1, 0))])
    assert found.notes == ()
    # pools are numbered as they are met: segments first
    assert found.allocations.pool.tolist() == [1, 0, -1]


def test_a_graphs_pool_gives_no_memory_to_others():
    """Segments of two pools side by side: their free blocks stay apart."""
    events = [segment_alloc(BASE, 2 * MIB), segment_alloc(BASE + 2 * MIB, 20 * MIB)]
    events += [alloc(BASE, 512), *free(BASE, 512), alloc(BASE + 2 * MIB, 5 * MIB)]
    final = [
        segment(BASE, gap(2 * MIB), segment_pool_id=(1, 0)),
        segment(BASE + 2 * MIB, block(5 * MIB), gap(15 * MIB)),
    ]
    found = replay(events, final)
    assert found.notes == ()


# torch_npu


def test_npu_rounding_and_alignment_are_detected_and_named():
    events = [
        event("segment_map", BASE, 40 * MIB),
        alloc(BASE, 3 * MIB),
        alloc(BASE + 3 * MIB + 16 * KIB, 3 * MIB),  # 512 bytes behind the block before, the next 16 KiB
    ]
    blocks = [block(3 * MIB + 512, 3 * MIB), gap(16 * KIB - 512), block(3 * MIB + 512, 3 * MIB)]
    found = replay(events, [segment(BASE, *blocks, gap(34 * MIB - 16 * KIB - 512), expandable=True)])
    assert found.exact
    assert found.consistent
    assert kinds(found) == {"npu-rules"}
    assert sizes(found) == [3 * MIB + 512] * 2


def test_npu_alignment_does_not_excuse_other_places():
    """Inside free memory, near its start, and not at a multiple of 16 KiB."""
    events = [event("segment_map", BASE, 40 * MIB), alloc(BASE, 3 * MIB), alloc(BASE + 3 * MIB + KIB, 3 * MIB)]
    blocks = [block(3 * MIB + 512, 3 * MIB), gap(512), block(3 * MIB + 512, 3 * MIB)]
    found = replay(events, [segment(BASE, *blocks, gap(34 * MIB - 1536), expandable=True)])
    assert not found.exact


def test_torch_allocs_inside_free_memory_are_not_taken_for_alignment():
    events = [segment_alloc(BASE, 20 * MIB), alloc(BASE + 16 * KIB, 3 * MIB)]
    blocks = [gap(16 * KIB), block(3 * MIB), gap(17 * MIB - 16 * KIB)]
    found = replay(events, [segment(BASE, *blocks)])
    assert not found.exact


# what contradicts the rules


def test_without_a_split_rule_blocks_are_the_rounded_request():
    """An allocator that keeps its blocks apart: equal requests come out equal, wherever they lie."""
    events = [segment_alloc(BASE, 20 * MIB)]
    starts = [BASE + i * 3 * MIB for i in range(6)]
    events += [alloc(a, 3 * MIB) for a in starts]
    for i in (0, 2, 3):
        events += free(starts[i], 3 * MIB)
    less = 2 * MIB + 512 * KIB
    events += [alloc(starts[3], 3 * MIB), alloc(starts[0], less)]  # torch would keep its remainder with it
    blocks = [block(less), gap(3 * MIB - less), block(3 * MIB), gap(3 * MIB), *[block(3 * MIB)] * 3, gap(2 * MIB)]
    found = replay(events, [segment(BASE, *blocks)])
    assert kinds(found) == {"no-split-rule"}
    assert found.consistent
    assert not found.exact
    assert sizes(found) == [3 * MIB] * 7 + [less]


def test_an_alloc_over_a_live_one_ends_it():
    events = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 1024), alloc(BASE, 512)]
    found = replay(events, [segment(BASE, block(512), gap(2 * MIB - 512))])
    assert kinds(found) == {"over-live"}
    assert found.allocations.free_completed_event.tolist() == [2, 3]
    assert found.end.allocated_bytes == found.end.active_bytes == found.end.requested_bytes == 512
    (finding,) = [f for f in found.findings if f.kind == "over-live"]
    assert (finding.count, finding.bytes, finding.event) == (1, 1024, 2)


def test_an_alloc_outside_every_segment_stands_alone():
    events = [alloc(BASE, 3 * MIB), *free(BASE, 3 * MIB), alloc(BASE + MIB, MIB)]
    found = replay(events, [])
    assert {"outside-segments", "end-allocated", "end-blocks"} <= kinds(found)
    assert found.allocated_bytes.tolist() == [3 * MIB, 0, 0, MIB]
    assert not found.consistent


def test_frees_of_nothing_and_of_another_size_are_counted():
    events = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 512), *free(BASE, 500), *free(BASE, 512)]
    found = replay(events, [segment(BASE, gap(2 * MIB))])
    by_kind = {f.kind: f for f in found.findings}
    assert by_kind["not-live"].count == 2
    assert by_kind["not-live"].event == 4
    assert by_kind["other-size"].count == 2
    assert by_kind["other-size"].event == 2
    assert found.end.active_bytes == 0


def test_traces_without_free_requested_count_until_completion():
    done = [free(BASE, 512)[1], alloc(BASE, 512), free(BASE, 512)[1]]
    found = replay(done, [segment(BASE, gap(2 * MIB))])
    assert kinds(found) == {"no-free-requested"}
    assert found.start.allocated_bytes == 512
    assert found.allocated_bytes.tolist() == found.active_bytes.tolist() == [0, 512, 0]
    # a ring that is cut between the halves of a free looks alike, but allocates nothing on the way
    found = replay([free(BASE, 512)[1]], [segment(BASE, gap(2 * MIB))])
    assert found.notes == ()
    assert (found.start.allocated_bytes, found.start.active_bytes) == (0, 512)


@pytest.mark.parametrize(
    ("addr", "size"),
    [(-5, 512), (BASE, -512), (1 << 62, 512), (BASE, 1 << 62), ((1 << 63) - 1, (1 << 63) - 1), (BASE, -(1 << 63))],
)
@pytest.mark.parametrize("action", ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_unmap"])
def test_what_cannot_be_is_passed_over(action, addr, size):
    good = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 512)]
    found = replay([*good, event(action, addr, size)], [segment(BASE, block(512), gap(2 * MIB - 512))])
    assert kinds(found) == {"out-of-range"}
    assert found.allocated_bytes.tolist() == [0, 512, 512]


def test_actions_without_effect():
    events = [
        segment_alloc(BASE, 2 * MIB),
        {"action": "oom", "size": 1 << 40, "stream": 0, "device_free": 5},
        event("annotate", BASE, 512),
        event("snapshot", 0, 0),
        event("dance", BASE, 512),
    ]
    found = replay(events, [segment(BASE, gap(2 * MIB))])
    assert found.notes == ()
    assert found.active_bytes.tolist() == [0] * 5
    assert [(f.kind, f.event) for f in found.findings] == [("unknown-action", 4)]


# checks of the file itself


def test_time_that_runs_backwards():
    events = [segment_alloc(BASE, 2 * MIB, time_us=5), alloc(BASE, 512, time_us=7), *free(BASE, 512, time_us=6)]
    found = replay(events, [segment(BASE, gap(2 * MIB))])
    (finding,) = [f for f in found.findings if f.kind == "time-backwards"]
    assert (finding.count, finding.event) == (1, 2)
    assert not found.consistent


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"total_size": 4 * MIB}, "block-sums"),
        ({"allocated_size": 0}, "segment-allocated"),
        ({"active_size": 0}, "segment-active"),
        ({"requested_size": 3}, "segment-requested"),
    ],
)
def test_segments_that_contradict_their_blocks(changed, kind):
    found = replay([], [segment(BASE, block(512), gap(2 * MIB - 512)) | changed])
    assert kind in kinds(found)
    assert not found.consistent


def test_blocks_that_do_not_join():
    final = segment(BASE, block(512), gap(2 * MIB - 512))
    final["blocks"][1]["address"] += 512
    assert kinds(replay([], [final])) == {"block-gaps"}


def test_an_end_that_differs_from_the_segments():
    events = [segment_alloc(BASE, 2 * MIB), alloc(BASE, 512), alloc(BASE + 512, 512)]
    found = replay(events, [segment(BASE, block(1536, 512), gap(2 * MIB - 1536))])
    by_kind = {f.kind: f for f in found.findings}
    assert by_kind["end-blocks"].count == 2  # one has another size, one is only in the replay
    assert by_kind["end-requested"].bytes == 512
    assert not found.consistent


def test_reserved_below_zero():
    found = replay([segment_alloc(BASE, 2 * MIB)], [])
    assert "negative-reserved" in kinds(found)
    assert found.start.reserved_bytes == -2 * MIB
    assert found.end.reserved_bytes == 0
