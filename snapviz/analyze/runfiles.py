"""What the files of a run are called."""

from __future__ import annotations

import re

__all__ = [
    "RANK_FILE",
    "RANK_IN_NAME",
    "RECORD_FILE",
    "SNAPSHOT_FILE",
    "TRAILING_NUMBER",
    "is_record_name",
    "is_snapshot_name",
    "names_a_rank",
]

RANK_FILE = re.compile(r"rank(\d+)\.(?:pickle|pkl)(?:\.(?:gz|xz|zst))?")
RECORD_FILE = re.compile(r"rank\d+\.json(?:\.zst)?")
# a name may hold anything, a line end too: a rank must not be left out for it
SNAPSHOT_FILE = re.compile(r".*\.(?:pickle|pkl|p)(?:\.(?:gz|xz|zst))?", re.DOTALL)
RANK_IN_NAME = re.compile(r"(?:.*[^A-Za-z])?rank[-_ ]?(\d+)(?!\d).*", re.IGNORECASE | re.DOTALL)
TRAILING_NUMBER = re.compile(r".*?(\d+)(?:\.(?:pickle|pkl|p))(?:\.(?:gz|xz|zst))?", re.DOTALL)


def is_record_name(name: str) -> bool:
    """Whether a file of this name is a rank's record."""
    return RECORD_FILE.fullmatch(name) is not None


def is_snapshot_name(name: str) -> bool:
    """Whether a file of this name is taken for a snapshot where nobody names it."""
    return SNAPSHOT_FILE.fullmatch(name) is not None


def names_a_rank(name: str) -> bool:
    """Whether a snapshot's name says which rank it is."""
    return RANK_IN_NAME.fullmatch(name) is not None
