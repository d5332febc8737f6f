"""What the live page shows, in finished numbers: the moment on each side, the tree, the branch that is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.moments import At, moment, parse_at
from snapviz.analyze.phases import phase_of
from snapviz.analyze.stretches import Stretches, exact_after
from snapviz.analyze.tree import Branch, Node, Tree
from snapviz.app.recent import Recent
from snapviz.app.results import Results
from snapviz.app.sides import Sides, sides_of
from snapviz.app.state import State
from snapviz.compare.livetree import BASE, CHANGED, EITHER, HEAD, Division, LiveTree, live_tree
from snapviz.compare.rank import RankDiff
from snapviz.compare.view import view_of
from snapviz.replay.model import START
from snapviz.report.layout import clean
from snapviz.report.plots.icicle import Cell, Drawn
from snapviz.report.words import frames_in_words, plural

__all__ = ["RECORDED", "Look", "Looks", "When"]

RECORDED = ", as far as it is recorded"
"""Of a moment before which the recording lacks something."""

LEAST, ABOUT = "≥ ", "~ "
"""Before a number that may have been higher, and before one that is not exact."""

_KEPT = 8
"""Trees that a worker keeps: a click on a branch then costs no more than its picture."""

_CELLS = 500
"""Cells of one picture: with what a pointer shows of each, about 150 KB."""

_SHARE = 800
"""A cell of less than one part in so many is about a pixel wide: it stands with its neighbours as one."""

_ESTIMATE = "a part of it is an estimate"

_LABEL = 70
"""Columns of a cell's text."""


@dataclass(frozen=True)
class When:
    """Where a side is looked at."""

    event: int
    events: int  # of that side
    since_us: int | None  # after its first event; none where events carry no times
    phase: str | None
    total_bytes: int
    words: str  # at the peak of the run
    unsure: str  # why the numbers are not exact; "" where they are
    mark: str  # before the total: ``≥`` where it may have been higher, ``~`` where it is not exact


@dataclass(frozen=True)
class Look:
    """A moment of one rank, and the branch of its tree that is chosen."""

    sides: Sides
    when: tuple[When | None, When | None]
    missing: tuple[str, ...]  # why a side has nothing
    live: LiveTree
    by: Division
    drawn: Drawn
    way: tuple[Branch, ...]  # from the root to the branch that is chosen
    lost: bool  # whether the URL names a branch that is not there
    q: str

    @property
    def alone(self) -> int | None:
        """The side that is there alone, where there is nothing to compare: 0 base, 1 head."""
        return None if self.sides.both else int(self.sides.facts[0] is None)

    @property
    def recorded(self) -> str:
        """What is said of numbers that are a part of what they may have been."""
        return RECORDED if any(when and when.mark == LEAST for when in self.when) else ""

    @property
    def chosen(self) -> Branch:
        """The branch that is looked at."""
        return self.way[-1]

    @cached_property
    def shown(self) -> int:
        """Index in ``way`` of the branch that fills the picture: what has nothing below it stands in its parent's."""
        last = len(self.way) - 1
        return last - 1 if last and self.live.paths.is_leaf(self.chosen) else last

    @property
    def width(self) -> int:
        """Which weight is drawn."""
        return {"difference": EITHER, "changes": CHANGED, "base": BASE, "head": HEAD}[self.drawn]

    @cached_property
    def tree(self) -> Tree:
        """The nodes of the picture."""
        root = self.way[self.shown]
        whole = int(self.live.paths.sums(root)[self.width])
        return self.live.paths.tree(root, self.width, _CELLS, -(-whole // _SHARE))

    @cached_property
    def cells(self) -> list[Cell]:
        """The same as they are drawn."""
        return self._told_apart([self._cell(node, at) for at, node in enumerate(self.tree.nodes)])

    def _told_apart(self, cells: list[Cell]) -> list[Cell]:
        """The same, those beside each other that read alike with the first step in which they differ."""
        alike: dict[tuple[int, str], list[int]] = {}
        for at, cell in enumerate(cells):
            if self.tree.nodes[at].branch is not None:
                alike.setdefault((cell.parent, cell.label), []).append(at)
        for some in alike.values():
            ways = [self.live.label(one) for at in some if (one := self.tree.nodes[at].branch) is not None]
            for at, step in zip(some, _first_difference(ways) if len(some) > 1 else (), strict=False):
                told = frames_in_words((step,), None, _LABEL) if self.by == "stack" else clean(step)
                cells[at] = replace(cells[at], label=f"{told} → {cells[at].label}")
        return cells

    def _cell(self, node: Node, at: int) -> Cell:
        base, head, base_count, head_count = node.weights[:4].tolist()
        label = f"… {plural(node.hidden, 'smaller group')}" if node.branch is None else self.label(node.branch)
        if at == 0 and self.shown == 0:
            label = f"all that rank {self.sides.rank} holds{self.recorded}"
        width = int(node.weights[self.width])
        return Cell(node.parent, label, self._group(node, at), base, head, base_count, head_count, width, node.hidden)

    def _group(self, node: Node, at: int) -> str:
        """The category that a cell has its colour from, where only one side is drawn."""
        if node.branch is None or (at == 0 and self.shown == 0) or self.width not in (BASE, HEAD):
            return ""
        return self.live.category(node.branch, self.width)

    def label(self, branch: Branch) -> str:
        """A branch's own steps in one line: dotted names, or the frames that tell something, outermost first."""
        texts = self.live.label(branch)
        if self.by != "stack":
            # a category is no part of a name
            first = [clean(texts.pop(0))] if self.by == "category" and not branch.above and texts else []
            return ": ".join([*first, *([".".join(map(clean, texts))] if texts else [])])
        if len(texts) == 1 and not texts[0].endswith(")"):
            return clean(texts[0])
        told = frames_in_words(texts[::-1], None, _LABEL)
        return " → ".join(told.removesuffix(" ← …").split(" ← ")[::-1])

    @cached_property
    def steps_found(self) -> set[int]:
        """The steps that are searched for."""
        return self.live.looked_for(self.q) if self.q else set()

    @cached_property
    def hits(self) -> list[bool] | None:
        """Which cells are searched for; none where nothing is."""
        if not self.q:
            return None
        found = self.steps_found
        return [
            node.branch is not None and not found.isdisjoint(self.live.paths.steps(node.branch))
            for node in self.tree.nodes
        ]

    def tokens(self, branch: Branch | None, within: Sequence[Branch]) -> str:
        """What a URL calls a branch: the tokens of all branches on the way to it."""
        way = [*within[1:], *([branch] if branch is not None else [])]
        return ".".join(map(self.live.token, way))

    def place(self, index: int) -> str:
        """What a URL calls a cell of the picture; of several together, what they lie in. The first leads outwards."""
        if index <= 0 or index >= len(self.tree.nodes):
            return self.tokens(None, self.way[: self.shown])
        way: list[Branch] = []
        while index > 0:
            node = self.tree.nodes[index]
            if node.branch is not None:
                way.append(node.branch)
            index = node.parent
        return self.tokens(None, (*self.way[: self.shown + 1], *way[::-1]))

    @cached_property
    def at_chosen(self) -> int | None:
        """Which cell is the branch that is looked at, where that does not fill the picture."""
        if self.shown == len(self.way) - 1:
            return None
        return next((at for at, node in enumerate(self.tree.nodes) if node.branch == self.chosen), None)

    @property
    def same(self) -> bool:
        """Whether both sides hold the same, group by group."""
        return int(self.live.paths.sums(self.way[0])[CHANGED]) == 0


def _first_difference(ways: Sequence[Sequence[str]]) -> list[str]:
    """Of each way its step at the first place where they are not all the same."""
    place = next((at for at, steps in enumerate(zip(*ways, strict=False)) if len(set(steps)) > 1), 0)
    return [way[place] for way in ways]


class Looks:
    """What was looked at last. Safe to share between threads."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._trees: Recent[str, LiveTree] = Recent(_KEPT)

    def of(self, state: State) -> Look:
        """What a state asks for. Raises ``SnapvizError``."""
        sides = sides_of(self._results, state)
        at = parse_at(state.at or "peak")
        found = [self._when(sides, side, at, state) for side in (0, 1)]
        when = found[0][0], found[1][0]
        by: Division = next((one for one in get_args(Division) if one == state.by), "stack")
        live = self._tree(sides, when, by, state)
        way, whole = live.walk([token for token in state.zoom.split(".") if token][:64])
        drawn: Drawn = next((one for one in ("changes", "base", "head") if one == state.view), "difference")
        if not sides.both:
            drawn = "head" if sides.facts[0] is None else "base"
        missing = tuple(why for _, why in found if why)
        return Look(sides, when, missing, live, by, drawn, tuple(way), not whole, state.q)

    def _when(self, sides: Sides, side: int, at: At, state: State) -> tuple[When | None, str]:
        facts = sides.facts[side]
        if facts is None:
            return None, ""
        cursor = (state.bt, state.ht)[side]
        if cursor is not None:
            return _at_event(facts, max(START, min(cursor, len(facts.replay) - 1)), state.measure), ""
        measure = next(one for one in MEASURES if one == state.measure)
        found = moment(facts, Stretches(facts), at, measure)
        if found is None:
            return None, f"{sides.names[side]} has no phase {clean(at.phase or '')}: it holds nothing in what follows"
        unsure, mark = ("", "") if found.trust.exact else (_ESTIMATE, ABOUT)
        if not found.trust.whole:
            unsure, mark = "the recording began later, so that it may have been higher before", LEAST
        return _when(facts, found.event, state.measure, at.title, unsure, mark), ""

    def _tree(self, sides: Sides, when: tuple[When | None, When | None], by: Division, state: State) -> LiveTree:
        events = when[0].event if when[0] else None, when[1].event if when[1] else None
        key = self._results.key("live", state, sides.rank, events, by, state.show == "each", state.measure)
        known = self._trees.get(key)
        if known is not None:
            return known
        base, head = sides.either
        live = live_tree(
            RankDiff(sides.rank, base, head, view_of(measure=state.measure)), events, by, state.show != "each"
        )
        return self._trees.put(key, live)


def _at_event(facts: Facts, event: int, measure: str) -> When:
    unsure, mark = ("", "") if exact_after(facts, event) else (_ESTIMATE, ABOUT)
    return _when(facts, event, measure, "at the cursor", unsure, mark)


def _when(facts: Facts, event: int, measure: str, words: str, unsure: str, mark: str) -> When:
    replay = facts.replay
    timed = replay.has_times and event >= 0
    return When(
        event=event,
        events=len(replay),
        since_us=int(replay.time_us[event] - replay.time_us[0]) if timed else None,
        phase=phase_of(facts.phases, event),
        total_bytes=int(np.int64(getattr(replay.after(event), f"{measure}_bytes"))),
        words=words,
        unsure=unsure,
        mark=mark,
    )
