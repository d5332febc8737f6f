"""Text from files in a figure: plotly reads tags and ``%{…}`` in its texts, and nothing of a name may be one."""

from __future__ import annotations

from snapviz.report.layout import clean, cut

__all__ = ["escaped", "words"]


def escaped(text: str) -> str:
    """A text in which plotly finds no tag, no entity and no ``%{…}`` of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")


def words(text: str, most: int = 80) -> str:
    """A text as a figure shows it as it stands: clean, cut to so many columns, what could be a tag written out."""
    return escaped(cut(clean(text), most))
