"""Text from files in a figure: plotly reads tags and ``%{…}`` in its texts, and nothing of a name may be one."""

from __future__ import annotations

from snapviz.report.layout import clean, cut

__all__ = ["words"]


def words(text: str, most: int = 80) -> str:
    """A text as a figure shows it as it stands: clean, cut to so many columns, what could be a tag written out."""
    return cut(clean(text), most).replace("&", "&amp;").replace("<", "&lt;").replace("%{", "% {")
