"""What stands above the reports of one run: which run it is, and what their numbers cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from snapviz.report.layout import Line, Span, clean, line, width_of, wrapped
from snapviz.report.words import broken_in_words, plural
from snapviz.schema import BrokenRank, RankDangling, RankInfo, RankLeaks, RunSummary

__all__ = ["UNREAD", "broken_lines", "note_lines", "run_lines", "told_once"]

_RANKS = 4
"""Different ranks told in full; --rank tells of any other."""

UNREAD = " What could not be read counts for nothing here."
"""How a verdict ends where a rank is missing from it."""


def run_lines(run: RunSummary, width: int) -> list[Line]:
    """The run's name and what it ran on."""
    ranks = plural(len(run.ranks), "rank")
    facts = [f"{ranks} of {run.world_size}" if run.world_size and run.world_size != len(run.ranks) else ranks]
    facts += [f"torch {run.torch}"] * bool(run.torch) + [run.device or ""] * bool(run.device)
    facts += [f"commit {run.git.commit[:7]}{', dirty' if run.git.dirty else ''}"] if run.git else []
    name, told = clean(run.name), clean(" · ".join(facts))
    if width_of(name) + width_of(told) + 3 <= width:
        return [line(Span(name, "strong"), "   ", Span(told, "faint"))]
    return [*wrapped(name, width, style="strong"), *wrapped(told, width, style="faint")]


R = TypeVar("R", RankInfo, RankDangling, RankLeaks)


def told_once(ranks: Sequence[R], likeness: Callable[[R], object], tell: Callable[[R], list[Line]]) -> list[Line]:
    """Every rank: what ``tell`` makes of the first few that differ, and a line for each other."""
    lines: list[Line] = []
    told: dict[object, int] = {}
    for rank in ranks:
        alike = told.setdefault(likeness(rank), rank.rank)
        if alike != rank.rank:
            lines += [line(), line(Span(f"rank {rank.rank}", "strong"), f": the same as rank {alike}, to the byte")]
        elif len(told) <= _RANKS:
            lines += tell(rank)
        else:
            lines += [line(), line(Span(f"rank {rank.rank}", "strong"), f": see --rank {rank.rank}")]
    return lines


def broken_lines(broken: Iterable[BrokenRank], width: int) -> list[Line]:
    """The ranks that could not be read."""
    lines: list[Line] = []
    for one in broken:
        which = f"{broken_in_words(one)} could not be read: " if one.source else ""
        lines += wrapped(clean(f"{which}{one.message}"), width, "! ", "  ", "warning")
    return lines


def note_lines(notes: Iterable[str], width: int) -> list[Line]:
    """What the numbers below cannot say."""
    return [part for note in notes for part in wrapped(clean(note), width, "~ ", "  ")]
