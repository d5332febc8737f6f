"""torch's own backend where there is no device: what it asks of torch is there, and nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapviz
from snapviz.record.backend import CudaBackend, HistorySettings

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("there is a device: tests/gpu has the truth", allow_module_level=True)


class Unused(CudaBackend):
    """As on a machine with a device, which the program has not used yet."""

    def missing(self) -> str | None:
        return None


def shared() -> dict[str, object]:
    memory = torch.cuda.memory
    names = ("memory_stats_as_nested_dict", "reset_peak_memory_stats", "_record_memory_history", "memory_stats")
    return {name: getattr(memory, name) for name in names} | {
        f"cuda.{name}": getattr(torch.cuda, name, None) for name in names
    }


def test_no_device_is_said_so() -> None:
    assert CudaBackend().missing() == f"torch {torch.__version__} sees no CUDA device"


def test_a_device_that_is_not_used_is_asked_nothing(tmp_path: Path) -> None:
    before = shared()
    with (
        pytest.warns(RuntimeWarning, match="never used its device"),
        snapviz.record(tmp_path / "run", backend=Unused()) as rec,
        rec.phase("materialize"),
    ):
        rec.watch(torch.nn.Linear(2, 2))
    assert not torch.cuda.is_initialized()
    assert shared() == before


def test_what_is_put_between_the_program_and_torch_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **options: options)
    before = shared()
    backend = CudaBackend()
    backend.start(HistorySettings())
    assert shared() != before
    # the program may go on asking: there is nothing to be had yet
    assert torch.cuda.memory.memory_stats_as_nested_dict() == {}
    assert torch.cuda.memory_stats() == {}
    backend.stop()
    assert shared() == before
