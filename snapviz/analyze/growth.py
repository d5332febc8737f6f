"""What each step leaves behind: growth from step to step, and the stacks that cause it.

Legend: E events, A allocations, S steps, m long-lived allocations, g groups of them.

A step lasts until the next begins (``steps.py``), and an allocation's age is the number of steps that
began while it lived. Long-lived is what reached an age of 1. Groups are by stack without line numbers;
what has no stack, by its requested size. Owner and category are told of a group and do not split it:
a record names what is there in the first steps only, and the same leak goes on without a name.

What a group leaves behind is what is live at the end of the run and older than anything of that group
was when it was freed. So a queue, a prefetched batch, a loss that is freed in the next step or a list
that is cleared now and then leave nothing behind, however much of them is live at the end. A group
grows when it leaves something behind in several steps and has not stopped doing so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.groups import group_keys
from snapviz.analyze.steps import Steps, find_steps
from snapviz.analyze.stretches import exact_after
from snapviz.errors import UsageError

__all__ = ["AFTER", "TIMES", "Growing", "Growth", "Way", "check_options", "find_growth", "lower_median"]

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

AFTER = 1
"""Steps that have to begin while an allocation lives before it counts as left behind."""

TIMES = 3
"""Steps in which a group has to leave something behind: two may be a warm-up."""

_ALLOCATED = MEASURES.index("allocated")

Way = Literal["grows", "may grow", "stopped"]
"""``may grow``: in every step that could show it, and these are fewer than asked for. ``stopped``: it
grew, and then longer than ever not."""


@dataclass(frozen=True)
class Growing:
    """One group that left something behind in several steps. k of them, m allocations."""

    way: Way
    members: Int64  # [m] into the allocation table, by step
    steps: Int64  # [k] ascending: those it left something behind in
    step_bytes: Int64  # [k] block bytes of each
    step_counts: Int64  # [k] allocations of each
    oldest_freed: int  # age at which one of the group was freed, the highest; 0 where all go in their step
    last_judged: int  # the last step whose allocations are old enough to count

    @property
    def total_bytes(self) -> int:
        """All it left behind."""
        return int(self.step_bytes.sum())

    @property
    def span(self) -> int:
        """Steps over which it left behind what it did."""
        gaps = np.diff(self.steps)
        if int(gaps.min()) == int(gaps.max()):
            return len(self.steps) * int(gaps[0])
        return self.last_judged - int(self.steps[0]) + 1


@dataclass(frozen=True)
class Growth:
    """One rank's steps. ``groups`` are the largest first; those that grow before all others."""

    steps: Steps
    after: int
    times: int
    end_bytes: Int64  # [S] allocated at the end of each step's own phase
    certain: Bool  # [S] whether that is known to the byte, or counted by torch
    whole: Bool  # [S] whether no event of it is missing
    left_after_bytes: Int64  # [S] made in it and live ``after`` steps later; -1 where the run was over before
    left_after_count: Int64  # [S] the same in allocations
    left_bytes: Int64  # [S] made in it and live at the end of the run
    left_count: Int64  # [S]
    groups: tuple[Growing, ...]

    @property
    def judged(self) -> int:
        """Steps whose ends are compared: all but the last, which ends where the recording of it does."""
        return max(0, len(self.steps) - 1)

    @property
    def deltas(self) -> Int64:
        """[S - 1] growth of the ends from each step to the next."""
        return np.diff(self.end_bytes)

    @property
    def median_delta(self) -> int | None:
        """The (lower) median growth of the judged ends in bytes; none where there are not two of them."""
        deltas = self.deltas[: max(0, self.judged - 1)]
        return lower_median(deltas) if len(deltas) else None

    @property
    def rate_bytes(self) -> int:
        """Bytes a step that what grows, or may grow, leaves behind, each group rounded down."""
        return sum(one.total_bytes // one.span for one in self.groups if one.way != "stopped")

    def growing(self) -> tuple[Growing, ...]:
        """The groups that grow for certain."""
        return tuple(one for one in self.groups if one.way == "grows")

    def kept_bytes(self) -> Int64:
        """[S] what the groups that grow, or may grow, left behind of each step."""
        kept = np.zeros(len(self.steps), np.int64)
        for one in self.groups:
            if one.way != "stopped":
                np.add.at(kept, one.steps, one.step_bytes)
        return kept


def lower_median(values: Int64) -> int:
    """The median; of an even number of values the lower of the two in the middle, so that it is one of them."""
    ordered = np.sort(values)
    return int(ordered[(len(ordered) - 1) // 2])


def check_options(after: int, times: int) -> None:
    """Raises ``UsageError`` for an ``after`` below 1 or a ``times`` below 2."""
    if after < 1:
        raise UsageError(f"--after {after}: what is left behind lives on into a later step, so 1 or more")
    if times < 2:
        raise UsageError(f"--times {times}: what grows does so again and again, so 2 or more")


def find_growth(facts: Facts, after: int = AFTER, times: int = TIMES) -> Growth:
    """Growth of one rank, by ``AFTER`` and ``TIMES``. Raises ``UsageError`` as ``check_options`` does."""
    check_options(after, times)
    steps = find_steps(facts)
    phases = facts.phases
    born, gone = _ages(facts, steps)
    # no age is higher than the number of steps, and a number that int64 does not hold is an age too
    age = min(after, len(steps) + 1)
    left_after = _left_after(facts, steps, born, age)
    left = _summed(facts, born, gone == len(steps), len(steps))
    return Growth(
        steps=steps,
        after=after,
        times=times,
        end_bytes=phases.end[steps.phase, _ALLOCATED],
        certain=_certain(facts, steps),
        whole=phases.whole[steps.phase],
        left_after_bytes=left_after[0],
        left_after_count=left_after[1],
        left_bytes=left[0],
        left_count=left[1],
        groups=_groups(facts, steps, born, gone, age, times),
    )


def _certain(facts: Facts, steps: Steps) -> Bool:
    """[S] whether the end of each step is known: that of one whose beginning is lost may well be."""
    phases, replay = facts.phases, facts.replay
    sure = exact_after(facts, len(replay))
    later = sure & (phases.stop[steps.phase] - 1 >= replay.estimated_until)
    certain: Bool = phases.exact[steps.phase] | phases.counted[steps.phase] | later
    return certain


def _ages(facts: Facts, steps: Steps) -> tuple[Int64, Int64]:
    """[A] the step each allocation was made in (-1 before the first), and the one it went in (S: none)."""
    table = facts.replay.allocations
    born = steps.of(table.alloc_event)
    gone = np.where(table.free_requested_event > steps.over, len(steps), steps.of(table.free_requested_event))
    # what a program makes after its training is no step's
    return np.where(table.alloc_event > steps.over, -1, born), gone.astype(np.int64)


def _left_after(facts: Facts, steps: Steps, born: Int64, after: int) -> tuple[Int64, Int64]:
    """[S] bytes and number of what each step made that is live ``after`` steps later; -1 where none is."""
    last = steps.last
    count = len(steps)
    inside = np.flatnonzero((born >= 0) & (born + after < count))
    freed = facts.replay.allocations.free_requested_event
    lives = np.zeros(len(born), bool)
    if len(inside):
        lives[inside] = freed[inside] > last[born[inside] + after]
    size, number = _summed(facts, born, lives, count)
    judged = np.arange(count) + after < count
    return np.where(judged, size, -1), np.where(judged, number, -1)


def _summed(facts: Facts, born: Int64, mask: Bool, count: int) -> tuple[Int64, Int64]:
    """[S] block bytes and number of the masked allocations, by the step they were made in."""
    chosen = np.flatnonzero(mask & (born >= 0))
    size = np.zeros(count, np.int64)
    np.add.at(size, born[chosen], facts.replay.allocations.block_bytes[chosen])
    return size, np.bincount(born[chosen], minlength=count).astype(np.int64)


# ------------------------------------------------------------------ groups


def _groups(facts: Facts, steps: Steps, born: Int64, gone: Int64, after: int, times: int) -> tuple[Growing, ...]:
    count = len(steps)
    if count < 3:
        return ()
    age = np.minimum(gone, count - 1) - born
    long_lived = np.flatnonzero(age >= 1)
    group, groups = _alike(facts, long_lived)
    freed = gone[long_lived] < count
    oldest = np.zeros(groups, np.int64)
    np.maximum.at(oldest, group[freed], age[long_lived][freed])
    needed = np.maximum(oldest + 1, after)
    kept = ~freed & (born[long_lived] >= 0) & (age[long_lived] >= needed[group])
    found = []
    for members, of in _by_group(long_lived[kept], group[kept], born):
        again = _of_the_first_again(facts, members, born)
        one = _growing(facts, again, born, count - 1 - int(needed[of]), int(oldest[of]), times)
        found += [one] if one is not None else []
    order = ("grows", "may grow", "stopped")
    return tuple(sorted(found, key=lambda one: (order.index(one.way), -one.total_bytes, int(one.members[0]))))


def _by_group(kept: Int64, group: Int64, born: Int64) -> list[tuple[Int64, int]]:
    """The members of each group that are of several steps, in order of those, and its number."""
    if len(kept) == 0:
        return []
    first, last = np.full(group.max() + 1, np.iinfo(np.int64).max), np.full(group.max() + 1, -1, np.int64)
    np.minimum.at(first, group, born[kept])
    np.maximum.at(last, group, born[kept])
    several = np.flatnonzero((first < last)[group])
    order = several[np.lexsort((kept[several], born[kept[several]], group[several]))]
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return [(kept[part], int(group[part[0]])) for part in np.split(order, cuts) if len(part)]


def _of_the_first_again(facts: Facts, members: Int64, born: Int64) -> Int64:
    """The members without what only the first step made: a workspace can have the stack of what leaks.

    Of the first step those count that are as large as one of a later step, and no more than the most of
    any later step, the youngest first.
    """
    begun = int(np.searchsorted(born[members], 0, "right"))
    first, later = members[:begun], members[begun:]
    if len(first) == 0 or len(later) == 0:
        return members
    size = facts.replay.allocations.requested_bytes
    most = int(np.bincount(born[later]).max())
    return np.append(first[np.isin(size[first], size[later])][-most:], later)


def _growing(
    facts: Facts, members: Int64, born: Int64, last_judged: int, oldest_freed: int, times: int
) -> Growing | None:
    """What a group's members say of it; none where too few steps left any behind."""
    steps, inverse, counts = np.unique(born[members], return_inverse=True, return_counts=True)
    if len(steps) < 2:
        return None
    # in every step that could show it, from its first on, and there are too few of those to be sure
    too_few = len(steps) < times
    if too_few and (last_judged + 1 >= times or len(steps) != last_judged - int(steps[0]) + 1):
        return None
    widest = int(np.diff(steps).max())
    overdue = last_judged - int(steps[-1]) >= widest
    size = np.zeros(len(steps), np.int64)
    np.add.at(size, inverse.reshape(-1), facts.replay.allocations.block_bytes[members])
    way: Way = "stopped" if overdue else "may grow" if too_few else "grows"
    return Growing(way, members, steps, size, counts.astype(np.int64), oldest_freed, last_judged)


def _alike(facts: Facts, chosen: Int64) -> tuple[Int64, int]:
    """[m] the group of each chosen allocation, and g: by stack, and without one by requested size."""
    table = facts.replay.allocations
    stack = _stack_keys(facts, table.stack[chosen])
    _, size = np.unique(np.where(stack == 0, table.requested_bytes[chosen], 0), return_inverse=True)
    return group_keys([stack, size.reshape(-1)])


def _stack_keys(facts: Facts, stacks: Int32) -> Int64:
    """[m] equal where two stacks are the same functions, repetitions and lines aside; 0 without frames."""
    names = facts.frames
    distinct, inverse = np.unique(stacks, return_inverse=True)
    known: dict[bytes, int] = {b"": 0}
    # two pairs of names can read alike
    texts: dict[tuple[str, str], int] = {}
    alike = np.array([texts.setdefault(pair, len(texts)) for pair in names.names], np.int64)
    keys = []
    for stack in distinct.tolist():
        frames = names.of(stack) if stack >= 0 else np.zeros(0, np.int32)
        pairs = alike[names.of_frame[frames]] if len(frames) else np.zeros(0, np.int64)
        once = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
        keys.append(known.setdefault(once.tobytes(), len(known)))
    return np.array(keys, np.int64)[inverse.reshape(-1)]
