"""What every document is: frozen, strict about types, easy about keys it does not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Bytes", "Micros", "Model"]

Bytes = Annotated[int, Field(ge=0)]
"""Bytes that cannot be negative; a difference is a plain int."""
Micros = Annotated[int, Field(ge=0)]
"""µs since the Unix epoch."""


class Model(BaseModel):
    """Base of every document. A string is never taken for a number; unknown keys are left alone, so
    that what a newer minor revision wrote still opens."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
