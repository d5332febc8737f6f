"""A context that may be entered again, as ``contextlib.nullcontext`` may: what stands in for it must be no worse."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

__all__ = ["Again"]


class Again(AbstractContextManager[None]):
    """Enters a new context each time it is entered."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        context = self._make()
        context.__enter__()
        self._entered.append(context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace)
