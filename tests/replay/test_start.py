"""Recordings that begin in the middle: what was alive, what it weighed, and what is not known."""

from __future__ import annotations

import pytest

from tests.replay.builders import BASE, MIB, alloc, block, columns, event, frames, free, gap, kinds, replay, segment


def test_a_device_without_events_is_its_segments():
    final = segment(BASE, block(3 * MIB, 3 * MIB - 7), block(2 * MIB, state="active_awaiting_free"), gap(15 * MIB))
    found = replay([], [final])
    assert found.notes == ()
    assert found.start == found.end
    assert vars(found.start) == {
        "requested_bytes": 5 * MIB - 7,
        "allocated_bytes": 3 * MIB,
        "active_bytes": 5 * MIB,
        "reserved_bytes": 20 * MIB,
    }
    table = found.allocations
    assert table.alloc_event.tolist() == [-1, -1]
    assert table.free_requested_event.tolist() == [0, -1]
    assert table.allocated_after(-1).tolist() == [True, False]
    assert table.active_after(-1).tolist() == [True, True]


def test_segments_go_back_through_the_trace():
    events = [
        event("segment_free", BASE, 2 * MIB),
        event("segment_alloc", BASE + 4 * MIB, 20 * MIB),
        event("segment_unmap", BASE + 100 * MIB, 2 * MIB),
        event("segment_map", BASE + 200 * MIB, 4 * MIB),
        alloc(BASE + 200 * MIB, 3 * MIB),
    ]
    final = [
        segment(BASE + 4 * MIB, gap(20 * MIB)),
        segment(BASE + 200 * MIB, block(3 * MIB), gap(MIB), expandable=True),
    ]
    found = replay(events, final)
    assert found.notes == ()
    assert found.start.reserved_bytes == 4 * MIB
    assert found.reserved_bytes.tolist() == [n * MIB for n in (2, 22, 20, 24, 24)]


def test_memory_free_at_the_start_is_one_block_between_live_ones():
    final = segment(BASE, block(2 * MIB), block(15 * MIB, 15 * MIB), gap(MIB), block(2 * MIB))
    found = replay([alloc(BASE + 2 * MIB, 15 * MIB)], [final])
    assert not found.exact  # 16 MiB were free there: the rule leaves the last one with the block
    final = segment(BASE, block(2 * MIB), block(16 * MIB, 15 * MIB), block(2 * MIB))
    found = replay([alloc(BASE + 2 * MIB, 15 * MIB)], [final])
    assert found.notes == ()


def test_an_address_used_again_keeps_its_lives_apart():
    events = [*free(BASE, 512), alloc(BASE, 1024), *free(BASE, 1024), alloc(BASE, 100)]
    found = replay(events, [segment(BASE, block(512, 100), gap(2 * MIB - 512))])
    assert found.notes == ()
    table = found.allocations
    assert table.alloc_event.tolist() == [-1, 2, 5]
    assert table.free_completed_event.tolist() == [1, 4, 6]
    assert table.block_bytes.tolist() == [512, 1024, 512]


def test_sizes_the_rules_leave_no_doubt_about_are_not_estimates():
    """Small blocks and those of expandable segments never keep a remainder."""
    small = segment(BASE, gap(2 * MIB))
    grown = segment(BASE + 100 * MIB, gap(40 * MIB), expandable=True)
    found = replay([*free(BASE, MIB), *free(BASE + 100 * MIB, 5 * MIB)], [small, grown])
    assert found.notes == ()
    found = replay(free(BASE, 5 * MIB), [segment(BASE, gap(20 * MIB))])
    assert kinds(found) == {"estimated-blocks"}
    assert found.allocations.estimated.tolist() == [True]
    assert found.estimated_until == 1
    # a block that fills its segment has no room for a remainder
    assert replay(free(BASE, 20 * MIB), [segment(BASE, gap(20 * MIB))]).exact
    # nor has one that is never split: all of its segment is its own
    found = replay(free(BASE, 15 * MIB), [segment(BASE, gap(20 * MIB))], {"max_split_size": 8 * MIB})
    assert found.notes == ()
    assert found.start.allocated_bytes == 20 * MIB


def test_a_free_still_pending_at_the_end_has_its_size_from_the_segments():
    final = segment(BASE, block(6 * MIB, 5 * MIB + 3, "active_pending_free"), gap(14 * MIB))
    found = replay([event("free_requested", BASE, 5 * MIB + 3)], [final])
    assert found.notes == ()
    assert (found.start.allocated_bytes, found.end.allocated_bytes, found.end.active_bytes) == (6 * MIB, 0, 6 * MIB)


def test_stacks_streams_and_pools_of_what_is_older():
    events = [*free(BASE, 512, frames=frames("freed"), stream=3, pool_id=(0, 4))]
    events += [event("free_requested", BASE + 512, 512, frames=frames("asked"))]
    final = segment(
        BASE,
        gap(512),
        block(512, state="active_pending_free"),
        block(512, frames=frames("kept")),
        gap(2 * MIB - 1536),
        stream=9,
    )
    found = replay(events, [final])
    assert found.notes == ()
    table = found.allocations
    made = columns(events, [final])
    names = [made.frame_text(made.stacks.of(stack)[0]).split()[0] for stack in table.stack]
    assert names == ["freed", "asked", "kept"]
    assert table.stream.tolist() == [3, 9, 9]
    assert [made.pools[p].tolist() for p in table.pool] == [[0, 4], [0, 0], [0, 0]]


def test_blocks_that_do_not_say_what_was_requested():
    final = segment(BASE, block(1024), gap(2 * MIB - 1024))
    del final["blocks"][0]["requested_size"], final["requested_size"]
    found = replay([], [final])
    assert kinds(found) == {"unknown-requests"}
    assert found.consistent
    assert not found.exact
    assert found.start.requested_bytes == 1024


@pytest.mark.parametrize("known", [True, False])
def test_older_allocations_over_one_another(known):
    """What the file lists goes before what is worked out."""
    other = block(1024, 1000) if known else gap(1024)
    events = [*free(BASE + 512, 512), *([] if known else free(BASE, 1000))]
    found = replay(events, [segment(BASE, other, gap(2 * MIB - 1024))])
    assert {"overlapping-start", "not-live"} <= kinds(found)
    assert found.allocations.address.tolist() == [BASE]
    assert found.end.active_bytes == (1024 if known else 0)


def test_older_blocks_outside_every_segment_stand_alone():
    found = replay(free(BASE, 3 * MIB), [])
    assert kinds(found) == {"outside-segments", "estimated-blocks"}
    assert found.active_bytes.tolist() == [3 * MIB, 0]
