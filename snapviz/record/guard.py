"""What keeps a fault of the recorder from being the training's: it is warned of, and that is all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["guarded", "tell"]

T = TypeVar("T")


def tell(words: str) -> None:
    """Warns, and raises nothing: a warning of ours must not end the training, whatever a program makes of warnings."""
    with suppress(Exception):
        warnings.warn(f"snapviz: {words}", RuntimeWarning, stacklevel=3)


def guarded(what: str, work: Callable[[], T]) -> T | None:
    """What ``work`` gives; None, and a warning that names ``what``, where it fails."""
    try:
        return work()
    except Exception as error:
        tell(f"{what} could not be recorded ({type(error).__name__}: {error})")
        return None
