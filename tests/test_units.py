"""Bytes and times, read and shown."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.errors import UsageError
from snapviz.units import format_bytes, format_exact, format_us, parse_bytes

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
counts = st.integers(0, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("0 B", 0),
        (0, 0),
        (4096, 4096),
        ("4096", 4096),
        ("4096 B", 4096),
        ("+1 KiB", 1024),
        ("1KiB", 1024),
        (" 1.5  MiB ", 3 << 19),
        ("12 GiB", 12 << 30),
        ("12 gib", 12 << 30),
        ("12 GIB", 12 << 30),
        ("0.5 TiB", 1 << 39),
        ("8191.9999999999999999999 GiB", (8192 << 30) - 1),
        ("13.2 GiB", 14173392076),  # 14,173,392,076.8: down
        ("9007199254740993", 9007199254740993),  # a float would make it …992
        ("1.000 B", 1),
        (str((1 << 63) - 1), (1 << 63) - 1),
    ],
)
def test_parse_bytes(text: str | int, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12 GB", "write '12 GiB', or '11.18 GiB' if powers of 1000 were meant"),
        ("12GB", "write '12 GiB', or '11.18 GiB'"),
        ("1.5 MB", "write '1.5 MiB', or '1.43 MiB'"),
        ("500 kB", "write '500 KiB', or '488.28 KiB'"),
        ("12 G", "write '12 GiB', or '11.18 GiB'"),
        ("12 gb", "write '12 GiB'"),
        ("3 t", "write '3 TiB', or '2.73 TiB'"),
        ("12 Gib", "bits"),
        ("12 Gb", "bits"),
        ("12 b", "bits"),
        ("12 PiB", "unknown unit 'PiB'"),
        ("12 GiBs", "unknown unit"),
        ("12 bytes", "unknown unit"),
        ("-1", "negative"),
        (-1, "negative"),
        ("-0.5 GiB", "negative"),
        ("1.5", "not a whole number of bytes"),
        ("0.1 B", "not a whole number of bytes"),
        ("9999999999 TiB", "more than"),
        (1 << 63, "more than"),
        ("", "not a number of bytes"),
        ("GiB", "not a number of bytes"),
        ("1e9", "not a number of bytes"),
        ("1,5 GiB", "not a number of bytes"),
        ("1 024", "not a number of bytes"),
        ("1. GiB", "not a number of bytes"),
        (".5 GiB", "not a number of bytes"),
        ("nan", "not a number of bytes"),
        ("0x10", "not a number of bytes"),
        ("١٢ GiB", "not a number of bytes"),
        ("9" * 5000, "not a number of bytes"),
        (True, "not a number of bytes"),
        (None, "not a number of bytes"),
    ],
)
def test_parse_bytes_refuses(text: str | int, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bytes(text)
    assert words in str(caught.value)


@given(counts, st.sampled_from(sorted(UNITS)))
def test_whole_units_are_exact(number: int, unit: str) -> None:
    number %= (1 << 63) // UNITS[unit]
    assert parse_bytes(f"{number} {unit}") == number * UNITS[unit]


@given(st.integers(0, 10**6), st.integers(0, 10**12 - 1), st.sampled_from(sorted(UNITS)[1:]))
def test_fractions_are_rounded_down_exactly(whole: int, part: int, unit: str) -> None:
    exact = Fraction(whole * 10**12 + part, 10**12) * UNITS[unit]
    assert parse_bytes(f"{whole}.{part:012} {unit}") == exact // 1


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        ((1 << 20) - 1, "1.00 MiB"),  # and not 1024.00 KiB
        ((1 << 20) - 6, "1023.99 KiB"),
        (4 << 20, "4.00 MiB"),
        ((1 << 30) - 1, "1.00 GiB"),
        ((1 << 40) - 1, "1.00 TiB"),
        (1500 << 40, "1500.00 TiB"),
        (-512, "-512 B"),
        (-(4 << 20), "-4.00 MiB"),
    ],
)
def test_format_bytes(count: int, shown: str) -> None:
    assert format_bytes(count) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0"), (4 << 20, "+4.00 MiB"), (-(4 << 20), "-4.00 MiB"), (1, "+1 B"), (-1, "-1 B")]
)
def test_format_bytes_signed(count: int, shown: str) -> None:
    assert format_bytes(count, signed=True) == shown


@given(counts)
def test_what_is_shown_is_within_its_rounding(count: int) -> None:
    shown = format_bytes(count)
    unit = UNITS[shown.split()[1]]
    try:
        back = parse_bytes(shown.replace(",", ""))
    except UsageError:
        assert count > (1 << 63) - (1 << 40)
        return
    assert abs(back - count) <= unit // 200 + 1
    assert unit == 1 or Fraction(shown.split()[0].replace(",", "")) >= 1
    assert unit == UNITS["TiB"] or Fraction(shown.split()[0].replace(",", "")) < 1024


@given(counts, counts)
def test_more_never_shows_as_less(one: int, other: int) -> None:
    def value(count: int) -> Fraction:
        number, unit = format_bytes(count).replace(",", "").split()
        return Fraction(number) * UNITS[unit]

    low, high = sorted((one, other))
    assert value(low) <= value(high)


@given(counts)
def test_a_difference_and_its_negative_show_alike(count: int) -> None:
    plus, minus = format_bytes(count, signed=True), format_bytes(-count, signed=True)
    assert (plus, minus) == ("0", "0") or (plus[0], minus[0], plus[1:]) == ("+", "-", minus[1:])


@pytest.mark.parametrize(
    ("count", "signed", "shown"),
    [
        (4194304, False, "4,194,304 bytes"),
        (4194304, True, "+4,194,304 bytes"),
        (-4194304, True, "-4,194,304 bytes"),
        (0, False, "0 bytes"),
        (0, True, "0 bytes"),
        (1, False, "1 byte"),
        (-1, True, "-1 byte"),
    ],
)
def test_format_exact(count: int, signed: bool, shown: str) -> None:
    assert format_exact(count, signed) == shown


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1000, "1.00 ms"),
        (1_250, "1.25 ms"),
        (999_994, "999.99 ms"),
        (999_995, "1.00 s"),
        (1_250_000, "1.25 s"),
        (59_994_999, "59.99 s"),
        (59_995_000, "1 min 0 s"),
        (125_000_000, "2 min 5 s"),
        (3_599_499_999, "59 min 59 s"),
        (3_599_500_000, "1 h 0 min"),
        (10_800_000_000, "3 h 0 min"),
        (-1_250_000, "-1.25 s"),
    ],
)
def test_format_us(us: int, shown: str) -> None:
    assert format_us(us) == shown
