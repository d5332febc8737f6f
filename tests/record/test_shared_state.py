"""What the recorder does to torch's peaks and history is nothing that the program sees."""

from __future__ import annotations

import types
from typing import Any

import pytest

from snapviz.record.shared_state import SharedState

torch = pytest.importorskip("torch")


class Counters:
    """The part of torch.cuda.memory that counts, for one device."""

    def __init__(self) -> None:
        self.current = self.peak = 0
        self.history: list[Any] = []

    def alloc(self, size: int) -> None:
        self.current += size
        self.peak = max(self.peak, self.current)

    def module(self) -> Any:
        memory = types.ModuleType("memory")
        memory.memory_stats_as_nested_dict = lambda device=None: {  # type: ignore[attr-defined]
            "allocated_bytes": {"all": {"current": self.current, "peak": self.peak}},
            "num_ooms": 0,
        }
        memory.reset_peak_memory_stats = lambda device=None: setattr(self, "peak", self.current)  # type: ignore[attr-defined]
        memory._record_memory_history = lambda *a, **k: self.history.append(a)  # type: ignore[attr-defined]
        cuda = types.ModuleType("cuda")
        cuda.memory = memory  # type: ignore[attr-defined]
        cuda.reset_peak_memory_stats = memory.reset_peak_memory_stats  # type: ignore[attr-defined]
        return cuda


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    monkeypatch.setattr("torch.cuda._utils._get_device_index", lambda device, optional: device or 0)
    return Counters()


def peak(cuda: Any) -> int:
    return int(cuda.memory.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"])


def own_peak(shared: SharedState) -> int:
    return int(shared.stats(0)["allocated_bytes"]["all"]["peak"])


def test_the_program_sees_the_peaks_it_would_have_seen_alone(counters: Counters) -> None:
    cuda = counters.module()
    before = dict(vars(cuda.memory)), dict(vars(cuda))
    shared = SharedState(cuda)
    told: list[int] = []
    shared.before_reset = lambda: told.append(own_peak(shared))
    shared.install()
    counters.alloc(9)
    counters.alloc(-9)
    shared.reset(0)  # a boundary
    counters.alloc(4)
    assert (peak(cuda), own_peak(shared)) == (9, 4)
    shared.reset(0)
    counters.alloc(-4)
    assert (peak(cuda), own_peak(shared)) == (9, 4)
    cuda.reset_peak_memory_stats()  # the program's own: a new count begins for it
    assert told == [4]
    assert (peak(cuda), own_peak(shared)) == (0, 0)
    counters.alloc(2)
    shared.reset(0)
    assert peak(cuda) == 2
    shared.remove()
    assert (dict(vars(cuda.memory)), dict(vars(cuda))) == before


def test_the_programs_own_history_does_not_clear_the_recorders(counters: Counters) -> None:
    cuda = counters.module()
    shared = SharedState(cuda)
    shared.record("all")
    shared.install()
    with pytest.warns(RuntimeWarning, match="own _record_memory_history is left out"):
        cuda.memory._record_memory_history(None)
    assert counters.history == [("all",)]
    shared.remove()
    cuda.memory._record_memory_history(None)
    assert counters.history == [("all",), (None,)]


def test_what_was_replaced_meanwhile_is_left_alone(counters: Counters) -> None:
    cuda = counters.module()
    shared = SharedState(cuda)
    shared.install()
    cuda.memory.reset_peak_memory_stats = mine = lambda device=None: None
    shared.remove()
    assert cuda.memory.reset_peak_memory_stats is mine
