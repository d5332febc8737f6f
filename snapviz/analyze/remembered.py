"""What a page works out of one rank's facts again and again, kept with them: it goes when they go."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from snapviz.analyze.facts import Facts

__all__ = ["remembered"]

T = TypeVar("T")


def remembered(facts: Facts, what: str, key: Hashable, make: Callable[[], T], most: int = 2) -> T:
    """What ``make`` gives for a key, made once; of each ``what`` the last ``most`` keys are kept.

    Not a field: a copy with other fields (``dataclasses.replace``) begins without it.
    """
    kept: dict[str, dict[Hashable, T]] = vars(facts).setdefault("_remembered", {})
    known = kept.get(what, {})
    found = known[key] if key in known else make()
    others = [(one, value) for one, value in known.items() if one != key]
    # a new mapping each time: another thread may be reading the old one
    kept[what] = dict([*others[-(most - 1) :], (key, found)]) if most > 1 else {key: found}
    return found
