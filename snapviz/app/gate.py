"""Requests pass together, and whoever forks the process does so while there is none.

A process that is forked has every lock as it was and no thread but one: where another thread was just importing a
module, or working out a ``cached_property`` (which has a lock below Python 3.12), whoever wants that later waits for
ever. So a job begins while no request is at work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["GATE", "Gate"]

_PATIENCE_S = 20.0
"""Seconds after which nobody waits any longer: an upload may arrive slowly."""


class Gate:
    """Who is inside, by thread."""

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._turn = threading.Condition()
        self._inside: set[int] = set()
        self._waiting: set[int] = set()
        self._patience_s = patience_s

    def enter(self) -> None:
        """Before a request; waits for those that want to be alone."""
        with self._turn:
            self._turn.wait_for(lambda: not self._waiting, self._patience_s)
            self._inside.add(threading.get_ident())

    def leave(self) -> None:
        """After it."""
        with self._turn:
            self._inside.discard(threading.get_ident())
            self._turn.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until everybody else has left, and lets nobody in meanwhile."""
        me = threading.get_ident()
        with self._turn:
            self._waiting.add(me)
            try:
                # others that want the same do nothing but wait
                self._turn.wait_for(lambda: not self._inside - self._waiting, self._patience_s)
                yield
            finally:
                self._waiting.discard(me)
                self._turn.notify_all()


GATE = Gate()
"""Of this process: a fork copies the threads of every dashboard in it."""
