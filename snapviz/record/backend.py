"""The one boundary to torch's recording calls: what the recorder asks of a device's allocator.

``CudaBackend`` is torch.cuda, ROCm included. Tests put a stand-in in its place; everything above it runs
without a device. Facts: torch/cuda/memory.py (2.4 to 2.14).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from snapviz.errors import RecordError
from snapviz.record.shared_state import SharedState

__all__ = ["MEASURES", "Backend", "CudaBackend", "HistorySettings", "Reading", "cuda_backend"]

MEASURES = ("allocated", "active", "reserved", "requested")


@dataclass(frozen=True)
class HistorySettings:
    """How the allocator's history is recorded."""

    max_entries: int = 1_000_000
    # events kept per device. A training step of a 7B model makes some 10,000; at the end each costs the
    # snapshot about 0.3 kB in Python for the time it is written
    context: str = "alloc"
    # "alloc": stacks at allocations; a free carries its allocation's. "all" records one at each free too,
    # for another microsecond each; "state" only for what is live
    stacks: str = "python"
    # "all" adds C++ frames, whose names can take minutes to look up
    annotations: bool = True
    # record_function scopes of all threads, from torch 2.8: FSDP2's have the names of modules


@dataclass(frozen=True)
class Reading:
    """The allocator's counters at one moment; peaks since they were last reset."""

    current: dict[str, int]  # measure → bytes
    peak: dict[str, int]  # measure → bytes
    alloc_retries: int = 0
    ooms: int = 0
    free_bytes: int | None = None  # of the whole device
    total_bytes: int | None = None


class Backend(Protocol):
    """What is asked of a device and its allocator. ``device`` is an ordinal."""

    device_type: str

    def missing(self) -> str | None:
        """Why nothing can be recorded here, in words; None where it can."""

    def is_ready(self) -> bool:
        """Whether the allocator is there: a program may still choose its devices and settings until then."""

    def when_ready(self, then: Callable[[], None]) -> None:
        """Calls ``then``, which must not raise, once the allocator is there and before it is used."""

    def current_device(self) -> int:
        """The device that this process uses."""

    def device_count(self) -> int:
        """Devices this process can see."""

    def is_recording(self) -> bool:
        """Whether history is being recorded already."""

    def is_fresh(self, device: int) -> bool:
        """Whether nothing was ever allocated there."""

    def start(self, settings: HistorySettings) -> None:
        """Begins to record, on every device."""

    def stop(self) -> None:
        """Ends recording; what was recorded is gone afterwards."""

    def snapshot(self) -> dict[str, Any] | None:
        """What torch dumps: plain containers; None where the allocator was never used."""

    def synchronize(self, device: int) -> None:
        """Waits for the device."""

    def read(self, device: int, whole_device: bool = True) -> Reading:
        """The counters now; ``whole_device``: with its free and total bytes, which take a driver call."""

    def reset_peaks(self, device: int) -> None:
        """Lets every peak begin at what is current."""

    def before_program_resets(self, then: Callable[[], None]) -> None:
        """Has ``then`` called before the program itself resets the peaks, while history is recorded."""

    def describe(self, device: int) -> dict[str, str]:
        """``torch`` and ``device``: the version, and the device's name."""


class CudaBackend:
    """torch.cuda's allocator."""

    device_type = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._cuda = torch.cuda
        self._shared = SharedState(torch.cuda)

    def missing(self) -> str | None:
        """See ``Backend``. ``device_count`` asks NVML: ``is_available`` would fix what devices there are."""
        if not self._cuda.device_count():
            return f"torch {self._torch.__version__} sees no CUDA device"
        backend = self._cuda.get_allocator_backend()
        if backend != "native":
            return f"the allocator is {backend}; only torch's own (native) can be recorded"
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            return "PYTORCH_NO_CUDA_MEMORY_CACHING is set: the allocator that is recorded is not used"
        return None

    def is_ready(self) -> bool:
        """See ``Backend``."""
        return bool(self._cuda.is_initialized())

    def when_ready(self, then: Callable[[], None]) -> None:
        """See ``Backend``. What torch itself defers until CUDA is used (torch/cuda/__init__.py)."""
        self._cuda._lazy_call(then)

    def current_device(self) -> int:
        """See ``Backend``. The first, while none is in use."""
        return int(self._cuda.current_device()) if self.is_ready() else 0

    def device_count(self) -> int:
        """See ``Backend``."""
        return int(self._cuda.device_count())

    def is_recording(self) -> bool:
        """See ``Backend``. torch does not tell in every version, but a snapshot leaves an event in the next."""
        told = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
        if told is not None:
            return bool(told())
        self._cuda.memory._snapshot()
        return any(self._cuda.memory._snapshot()["device_traces"])

    def is_fresh(self, device: int) -> bool:
        """See ``Backend``."""
        stats = self._shared.stats(device)
        return not _deep(stats, "segment", "all", "allocated") and not _deep(stats, "allocation", "all", "allocated")

    def start(self, settings: HistorySettings) -> None:
        """See ``Backend``."""
        known = inspect.signature(self._cuda.memory._record_memory_history).parameters
        wanted = {"clear_history": True, "global_record_annotations": settings.annotations}
        self._shared.record(
            context=settings.context,
            stacks=settings.stacks,
            max_entries=settings.max_entries,
            **{name: value for name, value in wanted.items() if name in known},
        )
        self._shared.install()

    def before_program_resets(self, then: Callable[[], None]) -> None:
        """See ``Backend``."""
        self._shared.before_reset = then

    def stop(self) -> None:
        """See ``Backend``."""
        self._shared.remove()
        if self.is_ready():
            self._shared.record(enabled=None)

    def snapshot(self) -> dict[str, Any] | None:
        """See ``Backend``."""
        if not self.is_ready():
            return None
        return dict(self._cuda.memory._snapshot())

    def synchronize(self, device: int) -> None:
        """See ``Backend``. Not while a graph is captured, which it would break, and not an unused device."""
        if not self.is_fresh(device) and not self._cuda.is_current_stream_capturing():
            self._cuda.synchronize(device)

    def read(self, device: int, whole_device: bool = True) -> Reading:
        """See ``Backend``. A device that nothing was allocated on is not asked: that would make a context there."""
        stats = self._shared.stats(device)
        free = total = None
        used = _deep(stats, "segment", "all", "allocated")
        if whole_device and used and not self._cuda.is_current_stream_capturing():
            free, total = (int(value) for value in self._cuda.mem_get_info(device))
        return Reading(
            current={measure: _deep(stats, f"{measure}_bytes", "all", "current") for measure in MEASURES},
            peak={measure: _deep(stats, f"{measure}_bytes", "all", "peak") for measure in MEASURES},
            alloc_retries=_deep(stats, "num_alloc_retries"),
            ooms=_deep(stats, "num_ooms"),
            free_bytes=free,
            total_bytes=total,
        )

    def reset_peaks(self, device: int) -> None:
        """See ``Backend``."""
        if self.is_ready():
            self._shared.reset(device)

    def describe(self, device: int) -> dict[str, str]:
        """See ``Backend``. The device has no name before it is in use."""
        name = {"device": str(self._cuda.get_device_name(device))} if self.is_ready() else {}
        return {"torch": str(self._torch.__version__)} | name


def cuda_backend() -> Backend:
    """torch's. Raises ``RecordError`` where there is no torch."""
    try:
        return CudaBackend()
    except ImportError:
        raise RecordError("recording needs torch: pip install torch") from None


def _deep(stats: Any, *keys: str) -> int:
    """A counter of ``memory_stats_as_nested_dict``; 0 where it is not there, as before the first allocation."""
    for key in keys:
        stats = stats.get(key, {}) if isinstance(stats, dict) else {}
    return int(stats) if isinstance(stats, int) else 0
