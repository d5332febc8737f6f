"""Names in figures: whatever they hold is shown, and means nothing."""

from __future__ import annotations

import pytest

from snapviz.report.plots.words import escaped, words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>w</b>", "&lt;b&gt;w&lt;/b&gt;"),
        ("&lt;", "&amp;lt;"),
        ("%{y}", "% {y}"),
        ("layers.3.mlp → w1", "layers.3.mlp → w1"),
    ],
)
def test_nothing_of_a_name_is_read_by_plotly(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert words(text) == shown
