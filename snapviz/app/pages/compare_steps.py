"""Steps of a run on Compare: which of them a folded phase stands for, and what they leave behind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from dash import html

from snapviz.analyze.facts import Facts
from snapviz.analyze.growth import find_growth
from snapviz.analyze.remembered import remembered
from snapviz.analyze.stretches import Stretches
from snapviz.report.layout import clean, cut
from snapviz.report.words import plural
from snapviz.units import format_bytes, format_exact

__all__ = ["growth_line", "steps_in_words"]

Int64 = npt.NDArray[np.int64]

_NUMBERED = re.compile(r"(step|iteration|iter|epoch|batch)[-_ ]?(\d{1,18})")
_LEAST = 4
"""Steps from which on growth can be told."""


def steps_in_words(sides: Iterable[Facts], names: Iterable[str]) -> dict[str, str]:
    """Folded phase → the steps it stands for (``steps 1–7``), by the first side that has several of them."""
    found: dict[str, str] = {}
    wanted = [name for name in names if name]
    for facts in sides:
        stretches = Stretches(facts)
        for name in wanted:
            if name not in found and (words := _words([one.name for one in stretches.named(name)])):
                found[name] = words
    return found


def _words(names: list[str]) -> str:
    numbers: set[int] = set()
    words: set[str] = set()
    for name in names:
        parts = [match for part in name.split("/") if (match := _NUMBERED.fullmatch(part))]
        if len(parts) != 1:
            return ""
        words.add(parts[0][1])
        numbers.add(int(parts[0][2]))
    if len(numbers) < 2 or len(words) != 1:
        return ""
    first, last = min(numbers), max(numbers)
    several = f"{words.pop()}s".replace("batchs", "batches").replace("iters", "iterations")
    gaps = "" if last - first + 1 == len(numbers) else f", {len(numbers):,} of them"
    return f"{several} {first:,}–{last:,}{gaps}"


def _made(facts: Facts, members: Int64) -> str:
    """Where the largest of some allocations that nobody names was made."""
    table = facts.replay.allocations
    stack = facts.stack_lines(int(table.stack[members[int(table.block_bytes[members].argmax())]]))
    return f", made in {cut(clean(stack[0]), 100)}" if stack else ""


def growth_line(facts: Facts) -> list[Any]:
    """What the steps of a run leave behind each time, as ``snapviz leaks`` finds it; nothing where nothing grows."""
    growth = remembered(facts, "growth", "", lambda: find_growth(facts))
    rate = growth.rate_bytes
    if len(growth.steps) < _LEAST or rate <= 0 or not growth.groups:
        return []
    groups = [one for one in growth.groups if one.way == "grows"] or list(growth.groups)
    owners = {facts.owners[int(owner)] for one in groups for owner in facts.owner[one.members]} - {""}
    others = f" and {plural(len(owners) - 1, 'more owner')}" if len(owners) > 1 else ""
    what = f": {cut(clean(min(owners)), 80)}{others}" if owners else _made(facts, groups[0].members)
    sure = "grows" if any(one.way == "grows" for one in growth.groups) else "may grow"
    text = f"It {sure} by {format_bytes(rate)} a step over {plural(len(growth.steps), 'step')}{what}. "
    more = html.Span(["snapviz leaks", " tells what stays."], className="faint")
    return [html.P([html.Strong(text, title=f"{format_exact(rate)} a step"), more], className="compare-grows")]
