"""Allocations as CSV (RFC 4180, UTF-8, lines ended by LF): a row each, for spreadsheets and pandas."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import IO

from snapviz.report.exports.rows import COLUMNS, Flags, Names, Numbers, Rows

__all__ = ["write_csv"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula (OWASP, CSV injection)."""


def write_csv(pieces: Iterable[Rows], stream: IO[str]) -> None:
    """Writes rows under a heading. What is not known is empty; yes and no are ``true`` and ``false``.

    Texts that a spreadsheet would take for a formula begin with an apostrophe; addresses are hexadecimal,
    as in torch's viewer.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for rows in pieces:
        writer.writerows(zip(*(_cells(name, column) for name, column in rows.items()), strict=True))


def _cells(name: str, column: Numbers | Flags | Names) -> Iterable[object]:
    if isinstance(column, Names):
        texts = [_safe(text) for text in column.names]
        return [texts[index] if index >= 0 else "" for index in column.index.tolist()]
    show: Callable[[int], object] = hex if name == "address" else int
    if isinstance(column, Flags):
        show = _yes_or_no
    if column.known.all():
        return map(show, column.value.tolist())
    return [show(one) if known else "" for one, known in zip(column.value.tolist(), column.known.tolist(), strict=True)]


def _yes_or_no(value: int) -> str:
    return "true" if value else "false"


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
