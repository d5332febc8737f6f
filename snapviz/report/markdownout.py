"""Blocks as GitHub's Markdown, up to a number of characters.

Nothing that a file says is more than text. Names are code, where GitHub looks for no link, no ``@name`` and
no ``#12``, and code that holds a backtick or a bar is written in entities, which Markdown takes for no
markup. The words of sentences that are not code are letters, numbers and plain punctuation (``blocks.prose``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from snapviz.report.blocks import (
    Block,
    Bullets,
    Details,
    Figure,
    Heading,
    Inline,
    Link,
    Paragraph,
    Table,
    Warnings,
    prose,
)
from snapviz.report.layout import Span

__all__ = ["LIMIT", "Writer", "inline", "length"]

LIMIT = 65_536
"""Characters of a comment on GitHub."""

_CUT = f"> [!NOTE]\n> Cut here: a comment has at most {LIMIT:,} characters. `--format html` and `json` have all.\n"

_ENTITIES = {character: f"&#{ord(character)};" for character in "&<>@"}
_MARKUP = re.compile(r"[&<>@\\`*_{}\[\]#~$|]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ]")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])")


def length(text: str) -> int:
    """Characters as a browser counts them, which are never fewer than anyone else's: units of UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class Writer:
    """Writes blocks as long as they fit; what does not ends the page, between two rows and with nothing open."""

    def __init__(self, limit: int, first: str) -> None:
        self._limit = limit - length(_CUT) - 2
        self._parts = [f"{first}\n"]
        self._size = length(self._parts[0])
        self._held = ""  # what is not written without something behind it
        self._open: list[str] = []  # what has to follow, innermost last
        self._cut = False

    def write(self, block: Block) -> bool:
        """Whether all of it fitted. Nothing may be written after what did not."""
        match block:
            case Heading():
                self._held += f"{'#' * block.level} {inline(block.text)}\n\n"
                fits = True
            case Paragraph():
                fits = self._add(f"{_begun(block.text)}\n\n")
            case Bullets():
                fits = self._each((f"- {_begun(item)}\n" for item in block.items), "\n")
            case Warnings():
                fits = self._warnings(block)
            case Table():
                fits = self._table(block)
            case Details():
                fits = self._details(block)
            case Figure():
                fits = all(map(self.write, block.beside))
        return fits

    def text(self) -> str:
        """The page."""
        end = "".join(reversed(self._open)) + (f"\n{_CUT}" if self._cut else "")
        return "".join(self._parts).rstrip("\n") + "\n" + end

    def _add(self, text: str) -> bool:
        text = self._held + text
        size = length(text)
        if self._cut or self._size + size + sum(map(length, self._open)) > self._limit:
            self._cut = True
            return False
        self._parts.append(text)
        self._size += size
        self._held = ""
        return True

    def _each(self, items: Iterable[str], end: str) -> bool:
        if not all(map(self._add, items)):
            return False
        # the blank line behind it is not worth a cut
        self._parts.append(end)
        self._size += length(end)
        return True

    def _warnings(self, block: Warnings) -> bool:
        self._held += f"> [!{'CAUTION' if block.grave else 'NOTE'}]\n"
        return self._each((f"> - {_begun(item)}\n" for item in block.items), "\n")

    def _table(self, block: Table) -> bool:
        if not block.rows:
            return True
        self._held += _row(prose(column.heading) for column in block.columns)
        self._held += f"|{'|'.join('---:' if column.number else '---' for column in block.columns)}|\n"
        return self._each(map(_row, block.rows), "\n") and (not block.note or self._add(f"{_begun(block.note)}\n\n"))

    def _details(self, block: Details) -> bool:
        self._held += f"<details><summary>{_html_inline(block.summary)}</summary>\n\n"
        self._open.append("\n</details>\n")
        before = len(self._parts)
        if not all(map(self.write, block.blocks)):
            if len(self._parts) == before:  # not even its line was written
                self._open.pop()
            return False
        self._open.pop()
        return self._add("</details>\n\n")


def inline(spans: Inline) -> str:
    """Spans as Markdown on one line, also in a table's cell."""
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    if isinstance(span, Link):
        # what is empty could not be clicked
        return f"[{_styled(span) if span.text.strip() else 'open'}]({span.url})"
    return _styled(span)


def _styled(span: Span) -> str:
    if span.style == "code":
        return _code(span.text)
    text = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), span.text)
    return f"**{text}**" if span.style == "strong" and text.strip() == text else text


def _code(text: str) -> str:
    if not text.strip():
        return "(empty)" if not text else "(blank)"
    if text.strip() == text and not set(text) & set("`|"):
        return f"`{text}`"
    return f"<code>{_NOT_PLAIN.sub(_entity, text)}</code>"


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};" if found[0].isascii() else found[0]


def _begun(spans: Inline) -> str:
    """A line that begins as text: blanks would make code of it, and a number with a dot a list."""
    return _NUMBERED.sub(r"\1\\\2", inline(spans).strip(), count=1)


def _row(cells: Iterable[Inline]) -> str:
    return f"| {' | '.join(map(inline, cells))} |\n"


def _html_inline(spans: Sequence[Span]) -> str:
    """The same where Markdown does not read: in the line of something to open."""
    return "".join(
        f"<code>{html.escape(span.text)}</code>" if span.style == "code" else html.escape(span.text) for span in spans
    )
