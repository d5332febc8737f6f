"""Progress on stderr, for whatever takes longer than a second: a spinner on a terminal, else lines."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

__all__ = ["Progress"]

_PATIENCE_S = 1.0
"""Seconds before anything is said: most commands are done by then."""

_EVERY_S = 2.0
"""Seconds between two lines where there is no terminal: a CI log is read later."""

_TICK_S = 0.25
"""Seconds between two looks at the clock, for work that reports nothing while it goes on."""


_ONCE = "compiling"
"""How words begin that are said once where there is no terminal: each function that is compiled tells of itself."""


class Progress:
    """Called with words (``reading rank 3``), or with how much of how much is done.

    Use as a context manager: a thread then speaks up for work that makes no calls, such as
    compiling, and the terminal is left as it was.
    """

    def __init__(
        self, quiet: bool = False, stream: IO[str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._quiet, self._clock = quiet, clock
        # none where standard error is closed
        self._stream: IO[str] | None = sys.stderr if stream is None else stream
        self._started, self._said = clock(), float("-inf")
        self._since = self._started
        self._told: set[str] = set()
        self._words, self._done, self._shown = "", "", ""
        self._before = ""
        self._status: Any = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if not self._quiet:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._status is not None:
            with contextlib.suppress(OSError, ValueError):
                self._status.stop()

    def __call__(self, what: str | int, total: int = 0) -> None:
        """Words for what begins, or how far the last of them is."""
        if isinstance(what, str):
            words = "".join(c if c.isprintable() else "?" for c in what)
            if self._words.startswith(_ONCE) and self._before.startswith(f"{words} "):
                # what goes on after compiling is what did before, of the same file
                words = self._before
            if words != self._words:
                self._since = self._clock()
                self._before = self._words
            self._words, self._done = words, ""
        elif total > 0:
            self._done = f" {100 * what // total}%"
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(_TICK_S):
            self._look()

    def _look(self) -> None:
        """Says what is going on, if it has taken long enough and was not said just now."""
        with self._lock:
            now, text = self._clock(), f"{self._words}{self._done}"
            if self._quiet or self._over.is_set() or not text or now - self._started < _PATIENCE_S:
                return
            if self._stream is not None:
                # who cannot be told of progress gets the report all the same
                with contextlib.suppress(OSError, ValueError):
                    self._say(self._stream, text, now)

    def _say(self, stream: IO[str], text: str, now: float) -> None:
        if stream.isatty():
            self._spin(stream, text)
        elif text != self._shown and self._is_due(now):
            self._said, self._shown = now, text
            self._told.add(self._words)
            stream.write(f"snapviz: {text}\n")
            stream.flush()

    def _is_due(self, now: float) -> bool:
        """Whether a line may be written: now and then, and for whatever is new and takes its time."""
        new = self._words not in self._told
        if self._words.startswith(_ONCE) and not new:
            return False
        return now - self._said >= _EVERY_S or (new and now - self._since >= _PATIENCE_S)

    def _spin(self, stream: IO[str], text: str) -> None:
        from rich.console import Console
        from rich.text import Text

        if self._status is None:
            self._status = Console(file=stream).status(Text(text))
            self._status.start()
        elif text != self._shown:
            self._status.update(Text(text))
        self._shown = text
