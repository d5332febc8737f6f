"""The recorder that is running in this process, if any. Imports nothing: ``snapviz.phase`` must be free."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapviz.record.recorder import Recorder

__all__ = ["active", "metric", "phase", "set_active"]


class _Here:
    """One process has one allocator, and one recorder of it. A forked one, such as a worker that loads data, none."""

    running: Recorder | None = None
    last: Recorder | None = None
    process = 0


_NOTHING: AbstractContextManager[None] = nullcontext()


def set_active(recorder: Recorder | None) -> None:
    """Names the recorder of this process."""
    _Here.running, _Here.process = recorder, os.getpid()
    _Here.last = recorder or _Here.last


def active() -> Recorder | None:
    """The recorder of this process; none in one that was forked from it."""
    return _Here.running if _Here.running is not None and _Here.process == os.getpid() else None


def phase(name: str) -> AbstractContextManager[None]:
    """A phase of the recording that is running; nothing at all where none is.

    Nested phases are joined by ``/``. Raises ``UsageError`` for what is no phase's name.
    """
    recorder = active()
    return _NOTHING if recorder is None else recorder.phase(name)


def metric(name: str, value: float) -> None:
    """A figure of the run, its unit in the name, such as ``tokens_per_s``; nothing at all where none is recorded.

    It may come after the recording has ended: what a script measures, it knows when it is done.
    """
    if _Here.last is not None and _Here.process == os.getpid():
        _Here.last.metric(name, value)
