"""The allocator's constants and settings, as numbers the kernels can use.

Source: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.cpp of torch 2.11
(``round_size``, ``should_split``, ``roundup_power2_divisions``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "ABSORB",
    "ALIGN",
    "EXPANDABLE_SETTING",
    "LIMIT",
    "MAX_SPLIT",
    "MIN_BLOCK",
    "NPU_ALIGN",
    "NPU_PAD",
    "ROUNDUP_BUCKETS",
    "SMALL_SIZE",
    "Rules",
    "rules_from_settings",
]

MIN_BLOCK: Final = 512
"""kMinBlockSize: every block is a multiple of this."""

SMALL_SIZE: Final = 1 << 20
"""kSmallSize: the largest rounded size of the small pool, and the largest remainder that the large
pool leaves on a block."""

ROUNDUP_BUCKETS: Final = 16
"""kRoundUpPowerOfTwoIntervals: 1 MiB and below, then one per power of two up to 64 GiB."""

NPU_PAD: Final = 32
"""torch_npu's allocator adds 32 bytes to a request before it rounds to 512."""

NPU_ALIGN: Final = 1 << 14
"""torch_npu starts larger requests at multiples of 16 KiB and leaves what lies before free."""

LIMIT: Final = 1 << 61
"""Addresses and sizes beyond this cannot be real; below it no sum the kernels form overflows."""

EXPANDABLE_SETTING, MAX_SPLIT, ALIGN, ABSORB = range(4)
"""Places in ``Rules.options``."""

_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True)
class Rules:
    """How a request becomes a block.

    ``shifts[b]``: log2 of the divisions of roundup bucket b, or -1 where it rounds to 512 bytes.
    ``absorb``: whether a remainder too small to split stays with the block (torch) or never does.
    ``pad``: bytes added to a request before rounding. ``align``: a request may start at the next
    multiple of this in a free block, and not at its start; 0: never.
    """

    pad: int
    align: int
    shifts: npt.NDArray[np.int64]  # [ROUNDUP_BUCKETS]
    max_split_size: int
    expandable: bool
    absorb: bool = True

    def options(self) -> npt.NDArray[np.int64]:
        """What the kernels need beside ``pad`` and ``shifts``, int64[4]."""
        return np.array([self.expandable, self.max_split_size, self.align, self.absorb], np.int64)

    def without_remainders(self) -> Rules:
        """The rules of an allocator whose blocks are exactly the rounded request."""
        return replace(self, absorb=False)

    def as_npu(self) -> Rules:
        """The rules as torch_npu's allocator for Ascend has them."""
        return replace(self, pad=NPU_PAD, align=NPU_ALIGN)

    def rounded(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Rounded bytes of requests within ``LIMIT``; the kernels' ``round_size`` for whole arrays."""
        size = np.maximum(sizes, 0) + self.pad
        plain: npt.NDArray[np.int64] = np.maximum((size + MIN_BLOCK - 1) // MIN_BLOCK * MIN_BLOCK, MIN_BLOCK)
        if not (self.shifts > 0).any():
            return plain
        power = np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1
        # float64 rounds sizes just below a power of two up to it
        power -= (np.int64(1) << np.clip(power, 0, 62)) > size
        shift = self.shifts[np.clip(power - 20, 0, ROUNDUP_BUCKETS - 1)]
        step = np.int64(1) << np.clip(power - shift, 0, 62)
        divided = (size + step - 1) // step * step
        divides = (shift > 0) & (size > (np.int64(MIN_BLOCK) << np.clip(shift, 0, 40)))
        rounded: npt.NDArray[np.int64] = np.where(divides, divided, plain)
        return rounded


def rules_from_settings(settings: dict[str, Any]) -> Rules:
    """Rules from a snapshot's ``allocator_settings``; what is missing or makes no sense is a default."""
    limit = settings.get("max_split_size")
    return Rules(
        pad=0,
        align=0,
        shifts=_shifts(settings.get("roundup_power2_divisions")),
        max_split_size=limit if isinstance(limit, int) and 0 < limit < _NO_LIMIT else _NO_LIMIT,
        expandable=settings.get("expandable_segments") in (True, 1),
    )


def _shifts(divisions: object) -> npt.NDArray[np.int64]:
    """One shift per bucket from ``{"1": 0, "2": 4, ...}`` (keys in MiB) or from one number for all."""
    shifts = np.full(ROUNDUP_BUCKETS, -1, np.int64)
    if isinstance(divisions, int):
        shifts[:] = _shift(divisions)
    elif isinstance(divisions, dict):
        for key, value in divisions.items():
            mib = int(key) if str(key).isascii() and str(key).isdigit() and len(str(key)) < 9 else 0
            if mib and mib & (mib - 1) == 0 and mib.bit_length() <= ROUNDUP_BUCKETS:
                shifts[mib.bit_length() - 1] = _shift(value)
    return shifts


def _shift(divisions: object) -> int:
    if not isinstance(divisions, int) or not 1 < divisions < 1 << 30:
        return -1
    return divisions.bit_length() - 1
