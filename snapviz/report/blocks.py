"""What a report on a page is made of: headings, paragraphs, tables, things to open. No syntax, no file.

``diffblocks`` makes them of a finished diff, ``markdown`` and ``html`` write them. Texts are spans as in
``layout``, in one of its styles or in ``code``: text that names something and comes from a file. ``prose``
finds it in sentences, where ours and a file's words stand in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from snapviz.report.layout import Column, Span, clean
from snapviz.units import format_bytes

__all__ = [
    "Amount",
    "Block",
    "Bullets",
    "Details",
    "Drawing",
    "Figure",
    "Folded",
    "Heading",
    "Inline",
    "Link",
    "Paragraph",
    "Table",
    "Warnings",
    "amount",
    "change_of",
    "code",
    "prose",
]

Inline = Sequence[Span]
"""Text of one line."""


@dataclass(frozen=True)
class Amount(Span):
    """A span that shows a number of bytes: ``count`` is exact where the text is rounded."""

    count: int = 0


@dataclass(frozen=True)
class Folded(Span):
    """A few words for lines that can be opened, where a page has room for them."""

    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link(Span):
    """A span that leads somewhere: ``url`` is ours, and never from a file."""

    url: str = ""
    count: int | None = None
    # exact bytes, where the text is a rounded number of them


@dataclass(frozen=True)
class Drawing(Span):
    """A small drawing (SVG) of what stands beside it; nothing on a page without drawings."""

    svg: str = ""


@dataclass(frozen=True)
class Heading:
    """The title of what follows, up to the next one."""

    text: Inline
    level: int = 3


@dataclass(frozen=True)
class Paragraph:
    """One line of text, whatever its length."""

    text: Inline
    style: str = ""
    # "", lead (the verdict) or faint


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[Inline, ...]


@dataclass(frozen=True)
class Warnings:
    """What has to be known before the numbers; ``grave`` where numbers are missing."""

    items: tuple[Inline, ...]
    grave: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells below headings. A first cell names its row."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Inline, ...], ...]
    note: Inline = ()
    # below it, where something is to be said of its marks


@dataclass(frozen=True)
class Details:
    """What is folded away below a line that says what it is."""

    summary: Inline
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """A drawing (SVG) with what it shows in words, and blocks that say the same; pages without drawings
    show only the blocks."""

    svg: str
    caption: Inline
    beside: tuple[Block, ...] = field(default=())


Block = Heading | Paragraph | Bullets | Warnings | Table | Details | Figure


def code(text: str) -> Span:
    """A name, a path, a value from a file."""
    return Span(clean(text), "code")


def amount(count: int, mark: str = "") -> Amount:
    """A number of bytes, with ``≥`` or ``~`` before it where it is not certain."""
    return Amount(f"{mark}{format_bytes(count)}", "", count)


def change_of(count: int, arrow: bool = False) -> Amount:
    """A difference: ``▲ +4.00 MiB``, ``-512 B``, ``0``."""
    sign = ("▲ " if count > 0 else "▼ ") if arrow and count else ""
    style = "more" if count > 0 else "less" if count < 0 else "faint"
    return Amount(f"{sign}{format_bytes(count, signed=True)}", style, count)


_WORD = re.compile(r"(?P<open>[(\"“]*)(?P<core>.*?)(?P<close>[)\"”.,;:!?…]*)")
_PLAIN = re.compile(
    r"(?:[^\W_]+|[+-]?[0-9][0-9.,]*)(?:[-–'’/×][^\W_]+)*%?|[→←≥≤Δ·–—…▲▼×%]|=",
)
_ISSUE = re.compile(r"gh-[0-9]+", re.IGNORECASE)
"""A word that GitHub makes a reference of."""
_LONGEST_PLAIN = 40
"""Characters of a word; a longer one is a name, a hash, or nothing that anyone would read."""


def prose(text: str) -> list[Span]:
    """A sentence as spans: its words, and in ``code`` those that are a name, a path or an expression.

    Every word that a page could take for more than text (markup, a link, ``@name``, ``#12``) is among the
    latter; what is left is letters, numbers and plain punctuation.
    """
    spans: list[Span] = []
    for place, word in enumerate(clean(text).split(" ")):
        if place:
            spans.append(Span(" "))
        spans += _word(word)
    return list(_joined(spans))


def _word(word: str) -> list[Span]:
    found = _WORD.fullmatch(word)
    if found is None or not found["core"]:
        # punctuation alone begins a list, a heading or a line in some syntax
        return [Span(word, "code")] if word else []
    if _is_plain(found["core"]):
        return [Span(word)]
    core, close = found["core"], found["close"]
    # a bracket that was opened in the name is closed in it
    while close.startswith(")") and core.count("(") > core.count(")"):
        core, close = core + ")", close[1:]
    return [Span(part, style) for part, style in ((found["open"], ""), (core, "code"), (close, "")) if part]


def _is_plain(core: str) -> bool:
    return len(core) <= _LONGEST_PLAIN and _PLAIN.fullmatch(core) is not None and not _ISSUE.fullmatch(core)


def _joined(spans: Iterable[Span]) -> Iterable[Span]:
    """Neighbours of one style as one span."""
    held = ""
    for span in spans:
        if span.style:
            if held:
                yield Span(held)
            held = ""
            yield span
        else:
            held += span.text
    if held:
        yield Span(held)
