"""How a diff is looked at: what was asked of its rows, checked once for the library and the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, get_args

from snapviz.compare.masks import Masks
from snapviz.errors import UsageError
from snapviz.schema import By, DiffOptions, MeasureName, Mode
from snapviz.units import parse_bytes

__all__ = ["Threshold", "View", "view_of"]

_PERCENT = re.compile(r"(?P<number>[0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%")

T = TypeVar("T")


@dataclass(frozen=True)
class Threshold:
    """What a row has to reach to be listed: so many bytes, or a share of what there is."""

    size_bytes: int
    # 0 where it is a share
    share: Fraction | None

    def of(self, whole_bytes: int) -> int:
        """The least whole number of bytes that is not below it; ``whole_bytes`` is what a share is of."""
        return self.size_bytes if self.share is None else -(-whole_bytes * self.share // 1)


@dataclass(frozen=True)
class View:
    """What was asked, with its texts understood."""

    options: DiffOptions
    threshold: Threshold | None
    masks: Masks

    @property
    def plain(self) -> View:
        """The rows that a verdict is made of: the same bytes and masks, what changed, by all that tells rows apart."""
        options = self.options.model_copy(update={"by": None, "mode": "delta", "threshold": None})
        return View(options, None, self.masks)


def view_of(
    by: str | None = None,
    mode: str = "delta",
    measure: str = "allocated",
    threshold: str | int | None = None,
    mask: str | Sequence[str] = (),
) -> View:
    """The view that these ask for. Raises ``UsageError`` for a value that is none, and says what is allowed."""
    masks = Masks.of((mask,) if isinstance(mask, str) else tuple(mask or ()))
    options = DiffOptions(
        by=None if by is None else _one_of("--by", by, get_args(By)),
        mode=_one_of("--mode", mode, get_args(Mode)),
        measure=_one_of("--measure", measure, get_args(MeasureName)),
        threshold=None if threshold is None else str(threshold),
        masks=masks.patterns,
    )
    return View(options, None if threshold is None else _threshold(str(threshold)), masks)


def _one_of(option: str, value: object, allowed: tuple[T, ...]) -> T:
    for one in allowed:
        if one == value:
            return one
    told = f"{', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
    raise UsageError(f"{option} {value}: use {told}")


def _threshold(text: str) -> Threshold:
    """``1%``, ``0.5 %``, ``10MiB``, ``4096``."""
    text = text.strip()
    if not text.endswith("%"):
        try:
            return Threshold(parse_bytes(text), None)
        except UsageError as error:
            raise UsageError(f"--threshold {error}; a share is written like 1%") from None
    found = _PERCENT.fullmatch(text)
    share = Fraction(found["number"]) / 100 if found else None
    if share is None or share > 1:
        raise UsageError(f"--threshold {text}: a share is a number from 0% to 100%, such as 1% or 0.5%")
    return Threshold(0, share)
