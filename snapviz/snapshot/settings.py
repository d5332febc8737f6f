"""``allocator_settings`` as plain JSON values, whichever decoder read them.

Bounded: containers in a pickle can share and nest, and a few hundred bytes can unfold into more
than any memory holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapviz.errors import SnapshotError

__all__ = ["UNREADABLE", "Plain", "object_children"]

UNREADABLE = "(unreadable)"
_DEPTH = 20
_NODES = 10_000


class Plain:
    """Unfolds a value step by step: ``children`` gives a scalar, a dict or a list of values."""

    def __init__(self, children: Callable[[Any], Any]) -> None:
        self.children = children
        self.nodes = 0

    def dict(self, value: Any) -> dict[str, Any]:
        """The dict that ``value`` stands for. Raises ``SnapshotError`` beyond 10,000 values."""
        unfolded = self._value(value, 0)
        return unfolded if isinstance(unfolded, dict) else {}

    def _value(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > _NODES or depth > _DEPTH:
            raise SnapshotError(f"allocator_settings: more than {_NODES:,} values, or deeper than {_DEPTH}")
        found = self.children(value)
        if isinstance(found, dict):
            return {key: self._value(item, depth + 1) for key, item in found.items()}
        if isinstance(found, list):
            return [self._value(item, depth + 1) for item in found]
        return found


def object_children(value: Any) -> Any:
    """One step into a plain Python object, for ``Plain``."""
    if isinstance(value, dict):
        return {_text(key): item for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, (bool, float)):
        return value
    return value if isinstance(value, int) and -(1 << 63) <= value < (1 << 63) else UNREADABLE


def _text(value: str) -> str:
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
