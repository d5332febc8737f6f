"""Progress on stderr, for whatever takes longer than a second: a spinner on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

__all__ = ["Progress"]

_PATIENCE_S = 1.0
"""Seconds before anything is said: most commands are done by then."""

_EVERY_S = 2.0
"""Seconds between two lines where there is no terminal: a CI log is read later."""


class Progress:
    """Called with words (``reading rank 3``), or with how much of how much is done.

    Use as a context manager, so that the terminal is left as it was.
    """

    def __init__(
        self, quiet: bool = False, stream: IO[str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._quiet, self._clock = quiet, clock
        self._stream = sys.stderr if stream is None else stream
        self._started, self._said = clock(), float("-inf")
        self._words = ""
        self._status: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, what: str | int, total: int = 0) -> None:
        """Words for what begins, or how far the last of them is."""
        if isinstance(what, str):
            self._words = "".join(c if c.isprintable() else "?" for c in what)
        now = self._clock()
        if self._quiet or now - self._started < _PATIENCE_S:
            return
        done = f" {100 * what // total}%" if isinstance(what, int) and total > 0 else ""
        self._show(f"{self._words}{done}", now)

    def _show(self, text: str, now: float) -> None:
        if self._stream.isatty():
            self._spin(text)
        elif now - self._said >= _EVERY_S:
            self._said = now
            self._stream.write(f"snapviz: {text}\n")
            self._stream.flush()

    def _spin(self, text: str) -> None:
        from rich.console import Console
        from rich.text import Text

        if self._status is None:
            self._status = Console(file=self._stream).status(Text(text))
            self._status.start()
        else:
            self._status.update(Text(text))
