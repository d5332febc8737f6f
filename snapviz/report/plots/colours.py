"""Colours of figures, safe for the colour-blind: orange grew, blue shrank, never red against green."""

from __future__ import annotations

from snapviz.analyze.facts import CATEGORIES

__all__ = ["BASE", "CATEGORY", "DANGLING", "FAINT", "FREE", "HEAD", "LESS", "MORE", "PALETTE", "by_name", "by_sign"]

BASE = "#8c959f"
"""Of base: grey, what head is compared with."""
HEAD = "#7566c4"
"""Of head, where neither more nor less is meant."""
MORE = "#b35900"
"""Head has more."""
LESS = "#1d6cc0"
"""Head has less."""
DANGLING = "#d6006c"
"""What should have been gone: the one colour that nothing else has."""
FAINT = "#6e7781"
"""Lines and words that stand back."""
FREE = "#d8dee4"
"""Reserved, and in no allocation."""

# by code; neighbours in a picture differ in lightness too, after Okabe and Ito's and Tol's sets
CATEGORY = dict(
    zip(
        CATEGORIES,
        (
            "#a0a8b0",
            "#c8553d",
            "#4477aa",
            "#e8a33d",
            "#785ef0",
            "#66b7d9",
            "#0f8b8d",
            "#d9c27c",
            "#7d8f5b",
            "#b07aa1",
            "#59463f",
        ),
        strict=True,
    )
)
"""Category → colour."""

PALETTE = (
    "#4477aa", "#e8a33d", "#785ef0", "#0f8b8d", "#c8553d", "#66b7d9", "#7d8f5b", "#b07aa1", "#d9c27c", "#59463f",
    "#3b6e8f", "#b8860b", "#9d7bd8", "#4fa69a", "#94451f", "#2f4b7c",
)  # fmt: skip
"""Of groups that have no colour of their own, in order."""


def by_name(name: str) -> str:
    """The colour of a group by its name: the same in base and in head, whatever order they come in."""
    # not hash(): it differs from process to process
    place = sum((at + 1) * ord(letter) for at, letter in enumerate(name[:200]))
    return PALETTE[place % len(PALETTE)]


def by_sign(delta: int) -> str:
    """Orange above zero, blue below, faint at it."""
    return MORE if delta > 0 else LESS if delta < 0 else FAINT
