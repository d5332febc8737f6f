"""What every document is: frozen, strict about types, easy about keys it does not know."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

__all__ = [
    "MOST_RANKS",
    "Address",
    "Bytes",
    "Count",
    "Metrics",
    "Micros",
    "Model",
    "PhaseName",
    "RankNumber",
    "Settings",
    "Tally",
    "WorldSize",
    "comparable",
]

_LARGEST = 1 << 62
MOST_RANKS = 1 << 18
"""Ranks that a job can have."""
_PARTS = 32
_METRIC = 1e100

Bytes = Annotated[int, Field(ge=0, le=_LARGEST)]
"""Bytes that cannot be negative; a difference is a plain int. The sum of two fits int64."""
Micros = Annotated[int, Field(ge=0, le=_LARGEST)]
"""µs since the Unix epoch. A microsecond later fits int64."""
Address = Annotated[int, Field(ge=0, lt=1 << 63)]
"""An address on a device."""
Count = Annotated[int, Field(ge=1, lt=1 << 64)]
"""How many, at least one: what an unsigned word of 64 bits holds, as torch takes it."""
Tally = Annotated[int, Field(ge=0, le=_LARGEST)]
"""How often something happened; 0 is known to be none."""
RankNumber = Annotated[int, Field(ge=0, lt=MOST_RANKS)]
"""A rank's number."""
WorldSize = Annotated[int, Field(ge=1, le=MOST_RANKS)]
"""Ranks of a job. Bounded, since every one that has no file is a line of the report."""


def _few_parts(name: str) -> str:
    if name.count("/") >= _PARTS:
        raise ValueError(f"a phase lies at most {_PARTS} deep")
    return name


PhaseName = Annotated[str, Field(max_length=1000), AfterValidator(_few_parts)]
"""A phase's name, nested by ``/``: at most 1,000 characters and 32 parts, since reports repeat it."""


def _known(metrics: dict[str, float | int]) -> dict[str, float | int]:
    return {name: value for name, value in metrics.items() if abs(value) <= _METRIC}


def comparable(settings: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Settings that are equal to themselves."""
    return {key: _with_equals(value) for key, value in settings.items()}


def _with_equals(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return comparable(value)
    if isinstance(value, list):
        return [_with_equals(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Metrics = Annotated[dict[str, float | int], AfterValidator(_known)]
"""Name → value. One that is no number (NaN) or beyond ±1e100 (infinity) is not known: as if it were not there."""
Settings = Annotated[dict[str, JsonValue], AfterValidator(comparable)]
"""Name → value. What is no finite number is text (``nan``, ``inf``): NaN would differ from itself."""


class Model(BaseModel):
    """Base of every document. A string is never taken for a number; unknown keys are left alone, so
    that what a newer minor revision wrote still opens."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
