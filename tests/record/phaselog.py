"""A stand-in for a recorder that only notes which phases begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from snapviz.record.windows import WindowLog

__all__ = ["PhaseStub"]


class PhaseStub:
    """``names`` of phases in the order in which they began, and those that are ``opened``."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.opened: list[str] = []
        self.watched: list[Any] = []
        self.marked: list[str] = []
        self.broken = False
        self.windows = WindowLog(self.paths)

    def open(self, name: str) -> None:
        if self.broken:
            raise ValueError("broken")
        full = f"{self.opened[-1]}/{name}" if self.opened else name
        self.opened.append(full)
        self.names.append(full)

    def close(self) -> None:
        self.opened.pop()

    def switch(self, name: str) -> None:
        self.close()
        self.open(name)

    def mark(self) -> None:
        self.marked.append(self.opened[-1])

    def paths(self) -> Iterator[tuple[str, Any]]:
        for model in self.watched:
            yield from model.named_modules()

    def watch(self, *things: Any) -> None:
        self.watched += things
