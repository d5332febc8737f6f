"""Pages read by parsers of others: what GitHub would see in Markdown, and a browser in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

BLOCKS = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "html_block"),
    *("table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close"),
    *("tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close"),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
    *("blockquote_open", "blockquote_close"),
}
INLINE = {"text", "code_inline", "html_inline", "strong_open", "strong_close", "softbreak"}
OURS = re.compile(
    r"(?:<!-- snapviz:[\w.-]+ -->|<details><summary>(?:[^<]|<code>[^<]*</code>)*</summary>|</details>)\n*"
)
ACTIVE = re.compile(r"@\w|#\d|https?:|www\.|gh-\d|:\w+:|\$|\w@\w", re.IGNORECASE)
"""What GitHub looks for in text that is not code."""


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def check_markdown(markdown: str) -> list[str]:
    """Asserts that nothing but what the report is made of is in it; returns the texts of its code."""
    names: list[str] = []
    opened = comments = 0
    for token in parsed(markdown):
        assert token.type in BLOCKS, (token.type, token.content)
        if token.type == "html_block":
            assert OURS.fullmatch(token.content), token.content
            assert not ACTIVE.search(re.sub(r"<code>.*?</code>", "", token.content)), token.content
            opened += token.content.count("<details>") - token.content.count("</details>")
            assert opened in (0, 1)
            comments += token.content.count("<!--")
        if token.type == "inline":
            names += _inline(token)
    assert (opened, comments) == (0, 1)
    return names


def _inline(token: Token) -> Iterator[str]:
    inside, held, outside = False, "", ""
    for child in token.children or []:
        assert child.type in INLINE | {"text_special"}, (child.type, token.content)
        if child.type == "html_inline":
            assert child.content == ("</code>" if inside else "<code>"), token.content
            if inside:
                yield held
            inside, held = not inside, ""
        elif child.type == "code_inline":
            assert not inside
            yield child.content
            outside += " "
        elif inside:
            held += child.content
        else:
            outside += child.content
    assert not inside
    # alerts are GitHub's: a quote that begins with one
    assert not ACTIVE.search(outside), outside


class Page(HTMLParser):
    """A page taken apart: balanced, with nothing that asks for anything."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data: list[tuple[int, str]] = []  # value and text of every figure
        self._figure: tuple[int, int] | None = None
        self.feed(page)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        assert len(known) == len(attrs), (tag, attrs)
        self.tags.append((tag, known))
        if tag != "meta":
            self.open.append(tag)
        if tag == "data":
            self._figure = int(known["value"] or ""), len(self.text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # only drawings have elements of this form
        assert tag in ("rect", "line", "path"), tag
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open[-1] == tag, (self.open, tag)
        self.open.pop()
        if tag == "data":
            assert self._figure is not None
            self.data.append((self._figure[0], self.text[self._figure[1] :]))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data
