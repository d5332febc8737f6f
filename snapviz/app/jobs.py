"""The background jobs of one dashboard, apart from those of others in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dash import DiskcacheManager

__all__ = ["Jobs"]


class Jobs(DiskcacheManager):  # type: ignore[misc]  # dash has no types here
    """Runs what an app registers while it is ``open``, and nothing of another's.

    Dash gives every manager of a process the functions of every app, under keys that come from their source: of two
    dashboards, the older would run the jobs of the newer, over the newer's runs.
    """

    def __init__(self, directory: Path) -> None:
        import diskcache

        self._open = False
        super().__init__(diskcache.Cache(str(directory)))

    @contextmanager
    def open(self) -> Iterator[None]:
        """While an app registers its callbacks."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def register(self, key: str, fn: Callable[..., Any], progress: Any) -> None:
        """What Dash calls with the background callbacks of any app."""
        if self._open:
            super().register(key, fn, progress)
