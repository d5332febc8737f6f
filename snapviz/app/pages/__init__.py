"""One module a page: ``PATH``, ``NAME``, ``TITLE``, ``layout(state, results)``, ``register(app, results)``.

``NEEDS_RUNS = False`` is of a page that is there before any run is chosen.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

__all__ = ["every"]

_NAMES = ("compare", "timeline", "live", "ranks", "dangling", "segments", "runs")


def every() -> list[ModuleType]:
    """The pages, in the order of their links."""
    return [import_module(f"{__name__}.{name}") for name in _NAMES if find_spec(f"{__name__}.{name}")]
