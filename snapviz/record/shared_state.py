"""What the recorder and the program both use of torch's allocator: one set of peaks, and one history.

The recorder resets the peaks at every boundary, and a program may read and reset them too: each is to find what
it would have found alone. A program that records history itself would clear the recorder's.
Sources: torch/cuda/memory.py (2.4 to 2.14): ``memory_stats``, and with it ``max_memory_allocated`` and the like,
asks ``memory_stats_as_nested_dict`` of its own module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapviz.record.guard import guarded, tell

__all__ = ["SharedState"]

_NAMES = ("memory_stats_as_nested_dict", "reset_peak_memory_stats", "_record_memory_history")


class SharedState:
    """Puts itself between the program and torch.cuda.memory, from ``install`` to ``remove``."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self.before_reset: Callable[[], None] | None = None
        """Called before the program resets the peaks."""
        self._own: dict[str, Any] = {name: getattr(cuda.memory, name) for name in _NAMES}
        self._carried: dict[int, dict[str, Any]] = {}
        """Device → the counters of the recorder's own resets since the program's last, nested as torch has them."""
        self._put: list[tuple[Any, str, Any, Any]] = []

    def install(self) -> None:
        """From now on the program sees its own peaks."""
        wrappers = {
            "memory_stats_as_nested_dict": self._stats,
            "reset_peak_memory_stats": self._reset,
            "_record_memory_history": self._history,
        }
        for module in (self._cuda.memory, self._cuda):
            for name, wrapper in wrappers.items():
                if getattr(module, name, None) is self._own[name]:
                    self._put.append((module, name, self._own[name], wrapper))
                    setattr(module, name, wrapper)

    def remove(self) -> None:
        """Takes away what is still there."""
        while self._put:
            module, name, original, wrapper = self._put.pop()
            if getattr(module, name) == wrapper:
                setattr(module, name, original)

    # what the recorder calls

    def stats(self, device: int) -> Any:
        """The counters since the recorder's own last reset."""
        return self._own["memory_stats_as_nested_dict"](device)

    def reset(self, device: int) -> None:
        """Lets the peaks begin anew for the recorder, and carries them on for the program."""
        carried = self._carried.get(device)
        stats = self.stats(device)
        self._carried[device] = _highest(stats, carried) if carried else stats
        self._own["reset_peak_memory_stats"](device)

    def record(self, *args: Any, **kwargs: Any) -> None:
        """``_record_memory_history`` itself."""
        self._own["_record_memory_history"](*args, **kwargs)

    # what the program calls

    def _stats(self, device: Any = None) -> Any:
        stats = self._own["memory_stats_as_nested_dict"](device)
        # asked for a device's index, torch begins to use CUDA, which the program may not have done yet
        carried = self._carried.get(self._index(device)) if self._carried and stats else None
        return _highest(stats, carried) if carried else stats

    def _reset(self, device: Any = None) -> None:
        if self.before_reset is not None:
            guarded("peaks that the program resets", self.before_reset)
        if self._carried:
            self._carried.pop(self._index(device), None)
        self._own["reset_peak_memory_stats"](device)

    def _history(self, *_: Any, **__: Any) -> None:
        tell("the program's own _record_memory_history is left out: it would clear what is being recorded")

    def _index(self, device: Any) -> int:
        from torch.cuda._utils import _get_device_index

        return int(_get_device_index(device, optional=True))


def _highest(stats: Any, carried: Any) -> Any:
    """The same counters with the higher of both peaks, wherever a ``peak`` stands."""
    return {
        key: max(value, carried.get(key, value))
        if key == "peak"
        else _highest(value, carried.get(key, {}))
        if isinstance(value, dict)
        else value
        for key, value in stats.items()
    }
