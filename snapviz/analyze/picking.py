"""The allocation at a place of a timeline, all that is known of one, and those that a text is found in.

Legend: A allocations, F frames, S stacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.axis import Window
from snapviz.analyze.facts import CATEGORIES, EVIDENCE, RECORDED, DanglingParameter, Facts
from snapviz.analyze.remembered import remembered
from snapviz.replay.model import START

__all__ = ["Found", "Lifetime", "find_text", "lifetime", "pick"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

LONGEST_TEXT = 200
"""Characters that are searched for: a person types fewer."""


def pick(facts: Facts, window: Window, place: float, height_bytes: float) -> tuple[int, int | None]:
    """The event that is shown at a place of a window, and the allocation that is drawn at a height there.

    Allocations lie in order of age, the oldest at the bottom; none above all of them. The window must have columns.
    """
    event = int(window.columns.shown[window.column_at(place)])
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(event))
    at = int(np.searchsorted(np.cumsum(table.block_bytes[live]), height_bytes, side="right"))
    return event, int(live[at]) if height_bytes >= 0 and at < len(live) else None


# ------------------------------------------------------------------ one allocation


@dataclass(frozen=True)
class Lifetime:
    """All that is known of one allocation. Events and times (µs since the epoch) are none where it has none."""

    allocation: int
    name: str  # of its owner, "" where nobody knows
    module: str  # "" where nobody knows
    category: str
    evidence: str  # one of EVIDENCE
    why: str  # of the rule that gave the category, "" where none did
    birth_phase: str
    born_event: int | None  # none: before the recording
    born_us: int | None
    freed_event: int | None  # when the free was asked for; none: it lives to the end
    freed_us: int | None
    reusable_event: int | None  # when its block could be used again; none: not in the recording
    requested_bytes: int
    block_bytes: int
    estimated: bool  # the block may be larger
    recomputed: bool
    address: int
    stack: tuple[str, ...]  # innermost first
    dangling: DanglingParameter | None
    suspected: tuple[str, ...]  # what speaks for it, where a record could tell and there is none


def lifetime(facts: Facts, allocation: int) -> Lifetime:
    """One allocation by its index; it must be in the table."""
    table, replay = facts.replay.allocations, facts.replay
    born, freed = int(table.alloc_event[allocation]), int(table.free_requested_event[allocation])
    reusable = int(table.free_completed_event[allocation])
    rule, evidence = int(facts.rule[allocation]), int(facts.evidence[allocation])
    return Lifetime(
        allocation=allocation,
        name=facts.owners[int(facts.owner[allocation])],
        module=facts.modules[int(facts.module[allocation])],
        category=CATEGORIES[int(facts.category[allocation])],
        evidence=EVIDENCE[evidence],
        why=facts.rules[rule].why if evidence != RECORDED and rule < len(facts.rules) else "",
        birth_phase=facts.births[int(facts.birth[allocation])],
        born_event=born if born > START else None,
        born_us=_time(facts, born),
        freed_event=freed if freed < len(replay) else None,
        freed_us=_time(facts, freed),
        reusable_event=reusable if reusable < len(replay) else None,
        requested_bytes=int(table.requested_bytes[allocation]),
        block_bytes=int(table.block_bytes[allocation]),
        estimated=bool(table.estimated[allocation]),
        recomputed=bool(facts.recomputed[allocation]),
        address=int(table.address[allocation]),
        stack=facts.stack_lines(int(table.stack[allocation])),
        dangling=next((one for one in facts.dangling if one.allocation == allocation), None),
        suspected=next((one.evidence for one in facts.suspects if allocation in one.allocations), ()),
    )


def _time(facts: Facts, event: int) -> int | None:
    inside = 0 <= event < len(facts.replay) and facts.replay.has_times
    return int(facts.replay.time_us[event]) if inside else None


# ------------------------------------------------------------------ search


@dataclass(frozen=True)
class Found:
    """The allocations that a text is found in."""

    mask: Bool  # [A]
    count: int
    block_bytes: int  # of all of them, whenever they live


def find_text(facts: Facts, text: str) -> Found:
    """The allocations in whose owner, dangling names, category, module, birth phase or stack a text occurs, in small or
    capital letters. A text is no pattern; none is found for an empty one."""
    wanted = text[:LONGEST_TEXT].casefold()
    return remembered(facts, "text", wanted, lambda: _find_text(facts, wanted))


def _find_text(facts: Facts, wanted: str) -> Found:
    table = facts.replay.allocations
    mask = np.zeros(len(table), bool)
    if wanted:
        mask |= _fits(facts.owners, wanted)[facts.owner] | _fits(facts.modules, wanted)[facts.module]
        mask |= _fits(facts.births, wanted)[facts.birth] | _fits(CATEGORIES, wanted)[facts.category]
        mask |= np.append(_in_stacks(facts, wanted), False)[table.stack]
        mask[[one.allocation for one in facts.dangling if _fits((one.name, *one.names), wanted).any()]] = True
    return Found(mask, int(mask.sum()), int(table.block_bytes[mask].sum()))


def _fits(texts: Iterable[str], wanted: str) -> Bool:
    return np.array([wanted in text.casefold() for text in texts], bool)


def _in_stacks(facts: Facts, wanted: str) -> Bool:
    """[S] the stacks that have the text in a frame that is shown."""
    frames = facts.frames
    fits = _fits(map(frames.text, range(len(facts.columns.frames.name))), wanted)
    stacks = np.unique(facts.replay.allocations.stack)
    out = np.zeros(len(facts.columns.stacks), bool)
    for stack in stacks[stacks >= 0].tolist():
        out[stack] = fits[frames.of(stack)].any()
    return out
