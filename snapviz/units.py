"""The one parser and formatter of bytes and times.

Inside, bytes and µs are integers. On screen, bytes are IEC (``MiB``) with two decimals. What is read
has to be IEC too: ``12 GB`` is refused, with what was likely meant, because half of the tools people
copy numbers from write it for 12 × 10⁹ and the other half for 12 × 2³⁰.
"""

from __future__ import annotations

import re

from snapviz.errors import UsageError

__all__ = ["format_bytes", "format_exact", "format_us", "parse_bytes"]

_IEC = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL = "KMGT"
_LARGEST = (1 << 63) - 1
"""Bytes: what a column holds, and more than any machine has."""

_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]{1,30})(?:\.(?P<part>[0-9]{1,30}))?\s*(?P<unit>[A-Za-z]*)")


def parse_bytes(text: str | int) -> int:
    """Bytes of ``"12 GiB"``, ``"1.5MiB"``, ``"0 B"``, ``"4096"`` or ``4096``.

    Exact, in integers. Where the number of bytes is not whole (``"13.2 GiB"``) it is rounded down,
    so that a limit is never looser than it was written. Units are B, KiB, MiB, GiB and TiB, also
    all in small or all in capital letters; a number without a unit is bytes.

    Raises ``UsageError`` for a decimal or unknown unit, a negative number, a fraction of a byte,
    more than an int64 holds, and what is no number.
    """
    text = str(text)
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a number of bytes: write it like '12 GiB' or '4096'")
    if found["sign"] == "-":
        raise UsageError(f"{text!r} is negative: a number of bytes is 0 or more")
    part = found["part"] or ""
    scaled = int(found["whole"] + part) << (10 * _exponent(text, found))
    unit: int = 10 ** len(part)
    count, rest = divmod(scaled, unit)
    if rest and _exponent(text, found) == 0:
        raise UsageError(f"{text!r} is not a whole number of bytes")
    if count > _LARGEST:
        raise UsageError(f"{text!r} is more than {_LARGEST} bytes")
    return count


def format_bytes(count: int, signed: bool = False, decimals: int = 2) -> str:
    """``4.00 MiB``, ``512 B``; with ``signed`` a difference: ``+4.00 MiB``, ``-512 B``, ``0``.

    ``decimals`` is 1 in sentences, where the exact number stands beside it, and at least 1.
    """
    if signed:
        return ("+" if count > 0 else "") + format_bytes(count, decimals=decimals) if count else "0"
    sign, size = ("-" if count < 0 else ""), abs(count)
    if size < 1024:
        return f"{sign}{size} B"
    one = 10**decimals
    for exponent in range(1, len(_IEC)):
        parts = _rounded(size * one, 1 << (10 * exponent))
        if parts < 1024 * one:
            break
    return f"{sign}{parts // one}.{parts % one:0{decimals}} {_IEC[exponent]}"


def format_exact(count: int, signed: bool = False) -> str:
    """``4,194,304 bytes``; with ``signed`` ``+4,194,304 bytes``, and ``0 bytes``."""
    number = f"{count:+,}" if signed and count else f"{count:,}"
    return f"{number} byte" if abs(count) == 1 else f"{number} bytes"


def format_us(us: int) -> str:
    """A time span of so many µs: ``750 µs``, ``1.25 ms``, ``59.99 s``, ``2 min 5 s``, ``3 h 0 min``."""
    if us < 0:
        return f"-{format_us(-us)}"
    if us < 1000:
        return f"{us} µs"
    for unit, per_hundredth, end in (("ms", 10, 1000_00), ("s", 10_000, 60_00)):
        hundredths = _rounded(us, per_hundredth)
        if hundredths < end:
            return f"{hundredths // 100}.{hundredths % 100:02} {unit}"
    seconds = _rounded(us, 1_000_000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = _rounded(us, 60_000_000)
    return f"{minutes // 60:,} h {minutes % 60} min"


def _rounded(value: int, divisor: int) -> int:
    """To the nearest, halves up, in integers: a float has lost bytes from 2^53 on."""
    return (2 * value + divisor) // (2 * divisor)


def _exponent(text: str, found: re.Match[str]) -> int:
    """Which power of 1024 the unit stands for."""
    unit = found["unit"]
    for exponent, name in enumerate(_IEC):
        if unit == name or (exponent and unit in (name.lower(), name.upper())):
            return exponent
    if unit == "":
        return 0
    if re.fullmatch("b|[KMGT]i?b", unit):
        raise UsageError(f"{text!r} is in bits: write bytes, with a capital B")
    prefix = unit[0].upper()
    if prefix in _DECIMAL and unit[1:].upper() in ("", "B"):
        raise UsageError(_ambiguous(text, found, _DECIMAL.index(prefix) + 1))
    raise UsageError(f"{text!r} has an unknown unit {unit!r}: use B, KiB, MiB, GiB or TiB")


def _ambiguous(text: str, found: re.Match[str], exponent: int) -> str:
    number = found["whole"] + (f".{found['part']}" if found["part"] else "")
    part = found["part"] or ""
    decimal = format_bytes(int(found["whole"] + part) * 1000**exponent // 10 ** len(part))
    unit = _IEC[exponent]
    return f"{text!r} can be read in two ways: write '{number} {unit}', or '{decimal}' if powers of 1000 were meant"
