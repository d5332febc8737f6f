"""Colours of figures stand out from the page, be it light or dark: a figure is drawn once for both."""

from __future__ import annotations

import pytest

from snapviz.report.plots import colours

PAGES = ("#ffffff", "#0d1117")


def _light(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", [colours.BASE, colours.HEAD, colours.MORE, colours.LESS, colours.DANGLING])
def test_lines_of_both_runs_are_seen_on_either_page(colour: str, page: str) -> None:
    low, high = sorted((_light(colour), _light(page)))
    assert (high + 0.05) / (low + 0.05) >= 3
