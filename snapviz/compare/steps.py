"""Whether training steps leave memory behind: what later steps make and never let go.

Legend: A allocations, P phases, n steps of one kind in order of their start.

The first two steps are what the others are held against: the first makes what every later one uses, such as
optimizer state, and the second shows where a step ends. The last is a witness alone, since a recording can end
within it. Of what the steps between made, that counts which is still allocated at the end of the last: each later
step has left it. A step that replaces what an earlier one kept adds nothing, so that no more counts than their ends
have risen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.stretches import exact_after
from snapviz.schema import is_training

__all__ = ["Growth", "growth_of"]

Bool = npt.NDArray[np.bool_]

_NUMBERED = re.compile(r"(step|iteration|iter|epoch|batch)[-_ ]?\d{1,18}")
_FEWEST = 4
"""Steps that show growth: two to begin with, one that may leave something, and one that has to leave it alone."""
_MOST_KINDS = 50
"""Kinds of steps that are looked at; a training has one or two."""

_ALLOCATED = MEASURES.index("allocated")


@dataclass(frozen=True)
class Growth:
    """What the steps of one kind leave, per step and in all."""

    kind: str  # as train/step
    steps: int  # those that could leave something
    total_bytes: int
    exact: bool
    kept: Bool  # [A] what they made and left
    until: int  # the last event of the last step, after which it is still there

    @property
    def per_step_bytes(self) -> int:
        """On average, rounded up: growth is never 0 where there is some."""
        return -(-self.total_bytes // self.steps)


def growth_of(facts: Facts) -> Growth | str:
    """The kind of step that leaves the most; in words why it cannot be told."""
    kinds = _kinds(facts)
    enough = {kind: indices for kind, indices in kinds.items() if len(indices) >= _FEWEST}
    if not enough:
        most = max(map(len, kinds.values()), default=0)
        return f"it takes {_FEWEST} training steps to see growth, and there {'is' if most == 1 else 'are'} {most}"
    if len(enough) > _MOST_KINDS:
        return f"there are {len(enough):,} kinds of steps, more than {_MOST_KINDS}"
    found = [_growth(facts, kind, indices) for kind, indices in enough.items()]
    return max(found, key=lambda one: one.per_step_bytes)


def _kinds(facts: Facts) -> dict[str, list[int]]:
    """Kind → indices of its phases that are whole; of training phases, where there are any."""
    phases = facts.phases
    found: dict[str, list[int]] = {}
    for index, name in enumerate(phases.names):
        if phases.whole[index] and _NUMBERED.fullmatch(name.rpartition("/")[2]):
            found.setdefault(_kind(name), []).append(index)
    training = {kind: indices for kind, indices in found.items() if is_training(kind)}
    return training or found


def _kind(name: str) -> str:
    """A name without its numbers: ``train/step``, the first step like all others."""
    parts = name.split("/")
    return "/".join(match[1] if (match := _NUMBERED.fullmatch(part)) else part for part in parts)


def _growth(facts: Facts, kind: str, indices: list[int]) -> Growth:
    phases, table = facts.phases, facts.replay.allocations
    end = [int(phases.stop[index]) - 1 for index in indices]
    made = (table.alloc_event > end[1]) & (table.alloc_event <= end[-2])
    kept = made & (table.free_requested_event > end[-1])
    risen = int(phases.end[indices[-2], _ALLOCATED]) - int(phases.end[indices[1], _ALLOCATED])
    return Growth(
        kind=kind,
        steps=len(indices) - 3,
        total_bytes=max(0, min(risen, int(table.block_bytes[kept].sum()))),
        exact=exact_after(facts, end[1]),
        kept=kept,
        until=end[-1],
    )
