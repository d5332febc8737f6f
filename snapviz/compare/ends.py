"""Whether two ranks end with the same thing: a recorded one with its training, a bare snapshot with its program."""

from __future__ import annotations

from typing import Literal

from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import end_of_run

__all__ = ["ends_with_training"]


def ends_with_training(base: Facts, head: Facts) -> Literal["base", "head"] | None:
    """The side that ends with its training where the other has no record to tell when that was; none where both tell.

    What a program frees as it ends would look like a difference.
    """
    if head.record is None and end_of_run(base) < len(base.replay) - 1:
        return "base"
    if base.record is None and end_of_run(head) < len(head.replay) - 1:
        return "head"
    return None
