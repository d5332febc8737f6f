"""A snapshot and its replays, as one object.

Legend of the arrays it leads to: E events of a device, A allocations, S stacks, F frames, G
segments, B blocks, P pools. Tables of the file (``columns``) are documented in
``snapviz.snapshot.columns``; curves and allocations in ``snapviz.replay.model``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from snapviz.errors import UsageError
from snapviz.replay.device import replay_device
from snapviz.replay.keep import packed, replay_version, unpacked
from snapviz.replay.model import Replay
from snapviz.snapshot.cache import Cache
from snapviz.snapshot.columns import HOST_DEVICE, Columns
from snapviz.snapshot.load import Loaded, load_columns

__all__ = ["Progress", "Snapshot", "load_snapshot"]

Progress = Callable[..., None]
"""Called with words for what begins, or with how much of how much is done."""


def load_snapshot(path: str | os.PathLike[str], *, cache: bool = True, progress: Progress | None = None) -> Snapshot:
    """The snapshot at a local path, or at a URL that fsspec has a driver for.

    Reads every form torch writes (pickle protocols 2 to 5, a bare list of segments, JSON, a
    memory_viz page), plain or in gzip, xz or zstd. ``cache=False`` neither reads nor fills the
    cache. Raises ``SnapshotError``, which says what was wrong and at which byte; nothing in the file
    is ever run.
    """
    loaded = load_columns(path, Cache(enabled=cache), progress)
    return Snapshot(loaded.columns, loaded.path, loaded)


@dataclass(frozen=True)
class Snapshot:
    """One snapshot file: what it holds, and what its devices did.

    - ``columns``: every table of the file, as numpy arrays that may be memory-mapped and read-only.
    - ``path``: where it came from, ``None`` for columns made in memory.
    - ``replay(device)``: four curves int64[E] and the allocation table [A] of one device.
    """

    columns: Columns
    path: str | os.PathLike[str] | None = None
    _loaded: Loaded | None = field(default=None, repr=False, compare=False)
    _replays: dict[int, Replay] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices that have events or segments, ascending."""
        return self.columns.devices

    def replay(self, device: int | None = None, progress: Progress | None = None) -> Replay:
        """The replay of a device, made once. ``None``: the only one that has events, or, where none
        has, the only one that has segments.

        Raises ``UsageError`` where there are several or none, or where the device is not there.
        """
        chosen = self._only() if device is None else device
        if chosen not in self._replays:
            self._replays[chosen] = self._kept(chosen) or self._made(chosen, progress)
        return self._replays[chosen]

    def forget(self, device: int) -> None:
        """Lets go of the replay of a device."""
        self._replays.pop(device, None)

    def _kept(self, device: int) -> Replay | None:
        found = self._loaded.kept(f"replay {device}", replay_version()) if self._loaded else None
        return unpacked(*found, self.columns, device) if found else None

    def _made(self, device: int, progress: Progress | None) -> Replay:
        replay = replay_device(self.columns, device, progress)
        if self._loaded:
            self._loaded.keep(f"replay {device}", replay_version(), *packed(replay))
        return replay

    def _only(self) -> int:
        counts = np.diff(self.columns.trace_offsets)
        traced = [int(device) for device, count in zip(self.columns.trace_device, counts, strict=True) if count]
        # pinned host memory is asked for by number: it is never what "the device" means
        found = [d for d in traced or self.devices if d != HOST_DEVICE] or traced
        if len(found) == 1:
            return found[0]
        name = f"{os.fspath(self.path)}: " if self.path is not None else ""
        if not found:
            raise UsageError(f"{name}no device has events or segments")
        raise UsageError(f"{name}several devices have events ({', '.join(map(str, found))}): name one")
