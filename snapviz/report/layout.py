"""Text with styles, cut and padded to a width: what the text reports are built from.

A line is a list of spans. Spans hold text that is safe to print: everything that comes from a file goes
through ``clean`` first, so that neither an escape code nor rich's markup in a name does anything.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO

__all__ = [
    "Column",
    "Line",
    "Span",
    "clean",
    "cut",
    "cut_left",
    "line",
    "pad",
    "render_table",
    "width_of",
    "wrapped",
    "write_lines",
]

STYLES = {
    "": "",
    "strong": "bold",
    "faint": "dim",
    "more": "bold dark_orange",
    "less": "bold dodger_blue1",
    "warning": "bold yellow",
}
"""Ours → rich's. Growth and saving are orange and blue, which every kind of eye tells apart, and
carry a sign as well."""

_LONGEST = 500
"""Characters of one text from a file; a name longer than this is an accident or an attack."""


@dataclass(frozen=True)
class Span:
    """A stretch of text in one style (a key of ``STYLES``)."""

    text: str
    style: str = ""


Line = list[Span]


def line(*parts: str | Span) -> Line:
    """A line of plain texts and spans."""
    return [Span(part) if isinstance(part, str) else part for part in parts]


def clean(text: str) -> str:
    """Text from a file as it can be shown: what would move the cursor, colour, reorder or hide is
    written out as an escape, and what is too long is cut."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 1]}…"
    return "".join(c if _harmless(c) else _escaped(c) for c in text)


def _harmless(character: str) -> bool:
    # Cc control, Cf format (bidi overrides, zero width), Cs surrogates, Co private, Cn unassigned,
    # Zl and Zp line ends that some terminals obey
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width_of(text: str) -> int:
    """Columns a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """A text cut at its end to a width, with an ellipsis where something went."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept) + width_of(character) > width - 1:
            break
        kept += character
    return f"{kept}…" if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """The same from the left: of a path the end says most."""
    return cut(text[::-1], width)[::-1]


def pad(text: str, width: int, right: bool = False) -> str:
    """A text filled with blanks to a width, on the left where ``right`` aligns it."""
    blanks = " " * max(0, width - width_of(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, width: int, indent: str = "", hang: str | None = None, style: str = "") -> list[Line]:
    """A paragraph in lines of at most ``width`` columns."""
    parts = textwrap.wrap(
        text,
        max(20, width),
        initial_indent=indent,
        subsequent_indent=indent if hang is None else hang,
        break_on_hyphens=False,
    )
    return [[Span(part, style)] for part in parts]


@dataclass(frozen=True)
class Column:
    """One column of a table: its heading, and whether it is numbers (aligned right)."""

    heading: str
    number: bool = True


_NARROWEST = 20
"""Columns a row's name keeps: ``train/step/backward``."""


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[Span]], width: int) -> list[Line]:
    """A table with a faint heading. The first column gives way where ``width`` is not enough, from its
    left, down to ``_NARROWEST``; numbers are never cut, so that a line can be wider than asked for."""
    widths = [
        max(width_of(column.heading), *(width_of(row[i].text) for row in rows), 0) for i, column in enumerate(columns)
    ]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
    room = width - sum(widths[1:]) - gap * (len(widths) - 1)
    widths[0] = max(min(widths[0], room), min(widths[0], _NARROWEST))
    lines = [_table_line([Span(column.heading, "faint") for column in columns], columns, widths, gap)]
    return lines + [_table_line(row, columns, widths, gap) for row in rows]


def _table_line(cells: Sequence[Span], columns: Sequence[Column], widths: Sequence[int], gap: int) -> Line:
    out: Line = []
    for index, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        if index:
            out.append(Span(" " * gap))
        text = cut_left(cell.text, width) if not column.number else cell.text
        out.append(Span(pad(text, width, column.number), cell.style))
    return out


def write_lines(lines: Iterable[Line], stream: IO[str], colour: bool = False) -> None:
    """Writes lines: plain, or with rich's colours for a terminal."""
    if not colour:
        for spans in lines:
            stream.write("".join(span.text for span in spans).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    # the lines are laid out already: rich only colours them
    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for spans in lines:
        console.print(Text.assemble(*((span.text, STYLES[span.style]) for span in spans)), soft_wrap=True)
