"""The recorder that is running in this process, if any. Imports nothing: ``snapviz.phase`` must be free."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapviz.record.recorder import Recorder

__all__ = ["active", "phase", "set_active"]

_running: Recorder | None = None
_process = 0
_NOTHING: AbstractContextManager[None] = nullcontext()


def set_active(recorder: Recorder | None) -> None:
    """Names the recorder of this process."""
    global _running, _process
    _running, _process = recorder, os.getpid()


def active() -> Recorder | None:
    """The recorder of this process. A forked one, such as a worker that loads data, has none."""
    return _running if _running is not None and _process == os.getpid() else None


def phase(name: str) -> AbstractContextManager[None]:
    """A phase of the recording that is running; nothing at all where none is.

    Nested phases are joined by ``/``. Raises ``UsageError`` for what is no phase's name.
    """
    recorder = active()
    return _NOTHING if recorder is None else recorder.phase(name)
