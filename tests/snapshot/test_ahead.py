"""Touching buffers ahead of the decoder: what is written stays, what is expected is there, and it ends."""

import ctypes
import mmap
import sys
import threading

import numpy as np
import pytest

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.ahead import Ahead
from snapviz.snapshot.buffers import allocate

SIZE = 96 << 20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="touching ahead is for Linux")


def resident(part: np.ndarray) -> float:
    """Share of the whole pages of an array that are in memory (mincore(2))."""
    begin = -(-part.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = (part.ctypes.data + part.nbytes - begin) // mmap.PAGESIZE
    seen = (ctypes.c_ubyte * pages)()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(begin), ctypes.c_size_t(pages * mmap.PAGESIZE), seen) == 0
    return sum(byte & 1 for byte in seen) / pages


def in_use(**groups: int) -> np.ndarray:
    counts = np.zeros(v.N_GROUPS, np.int64)
    for group, count in groups.items():
        counts[getattr(v, group)] = count
    return counts


def touched(ahead: Ahead) -> None:
    """Waits for the thread to come to its end by itself."""
    assert ahead._thread is not None
    ahead._thread.join(60)
    assert not ahead._thread.is_alive()


@linux
def test_what_the_rest_will_take_is_resident_and_what_was_written_is_kept() -> None:
    buffers = allocate(SIZE)
    buffers.events_wide[:, :50_000] = 7
    with Ahead() as ahead:
        ahead.start(buffers, in_use(G_EVENTS=50_000), 0.1)
        touched(ahead)
    for column in (*buffers.events_wide, *buffers.events_narrow):
        assert resident(column[50_000:490_000]) == 1
    for column in buffers.events_wide:  # a huge page, 2 MiB, from what is expected and from the next column
        assert resident(column[800_000:1_100_000]) == 0
    assert (buffers.events_wide[:, :50_000] == 7).all()


@linux
def test_no_more_than_there_is_room_for() -> None:
    buffers = allocate(SIZE)
    with Ahead() as ahead:
        ahead.start(buffers, in_use(G_EVENTS=buffers.events_wide.shape[1]), 0.01)
        touched(ahead)  # a hundred times the buffer: the system would refuse what lies beyond


def test_replacing_a_touched_group_ends_it_and_it_begins_anew() -> None:
    buffers = allocate(SIZE)
    with Ahead() as ahead:
        for _ in range(2):
            ahead.start(buffers, in_use(G_EVENTS=50_000), 0.1)
            ahead.replaced(v.G_STRINGS)
            assert (ahead._thread is not None) == sys.platform.startswith("linux")
            ahead.replaced(v.G_EVENTS)
            assert ahead._thread is None


def test_nothing_runs_after_the_block() -> None:
    before = threading.active_count()
    with Ahead() as ahead:
        ahead.start(allocate(SIZE), in_use(G_EVENTS=50_000, G_MEMO=200_000), 0.1)
    assert threading.active_count() == before


def test_a_system_that_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.snapshot.ahead._POPULATE_WRITE", 9999)
    with Ahead() as ahead:
        ahead.start(allocate(SIZE), in_use(G_EVENTS=50_000), 0.1)
