"""Ticks of axes in units that people read: bytes in powers of two, times, and numbers of events."""

from __future__ import annotations

from typing import Any

__all__ = ["byte_ticks", "event_ticks", "time_ticks"]

_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIMES = ((1, "µs"), (1_000, "ms"), (1_000_000, "s"))

_BEYOND = 1
"""How many windows to each side have ticks: an axis can be moved before it is drawn anew."""

_DECIMALS = 4


def byte_ticks(low: float, high: float, about: int = 6) -> dict[str, Any]:
    """``tickvals`` and ``ticktext`` of an axis of bytes: steps of a power of two, all in one unit."""
    span = max(high - low, 1.0)
    step = 1
    while span / step > about:
        step *= 2
    # a unit in which neither the number nor its fraction is long
    fits = [k for k in range(len(_IEC)) if 1 << (10 * k) <= max(high, 1) and step * 16 >= 1 << (10 * k)]
    exponent = max(fits, default=0)
    values = _values(max(0, low - _BEYOND * span), high + _BEYOND * span, step)
    texts = [f"{_plain(value / (1 << (10 * exponent)))} {_IEC[exponent]}" if value else "0" for value in values]
    return {"tickmode": "array", "tickvals": values, "ticktext": texts}


def time_ticks(low: float, high: float, about: int = 9) -> dict[str, Any]:
    """The same of an axis of µs: steps of 1, 2 or 5."""
    span = max(high - low, 1.0)
    step = _decimal_step(span, about)
    unit, name = max((one for one in _TIMES if one[0] <= max(abs(high), abs(low), 1)), key=lambda one: one[0])
    values = _values(low - _BEYOND * span, high + _BEYOND * span, step)
    decimals = next((d for d in range(7) if step * 10**d % unit == 0), 6)
    return {
        "tickmode": "array",
        "tickvals": values,
        "ticktext": [f"{value / unit:,.{decimals}f} {name}" if value else "0" for value in values],
    }


def event_ticks(low: float, high: float, about: int = 9) -> dict[str, Any]:
    """The same of an axis of events."""
    span = max(high - low, 1.0)
    values = _values(low - _BEYOND * span, high + _BEYOND * span, _decimal_step(span, about))
    return {"tickmode": "array", "tickvals": values, "ticktext": [f"{value:,}" for value in values]}


def _decimal_step(span: float, about: int) -> int:
    step = 1
    while True:
        for factor in (1, 2, 5):
            if span / (step * factor) <= about:
                return step * factor
        step *= 10


def _values(low: float, high: float, step: int) -> list[int]:
    first, last = -(-int(low) // step), int(high) // step
    return [number * step for number in range(first, last + 1)]


def _plain(number: float) -> str:
    text = f"{number:,.{_DECIMALS}f}"
    return text.rstrip("0").rstrip(".")
