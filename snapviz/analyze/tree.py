"""Weighted paths as a tree of bounded size: what an icicle is drawn from.

Legend: n paths given, d distinct ones, L their steps together, k weights of each path.

Steps that all paths below them share are one node, so that a recursion of a hundred thousand frames is one
node and not as many. What there is no room for stays in the sum: a node ``more`` beside its largest siblings,
or below a node that was not opened. Every node's weights are its own and those of its children, exactly.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from snapviz.analyze.groups import sums

__all__ = ["MOST_NODES", "Branch", "Node", "PathTree", "Tree"]

Int64 = npt.NDArray[np.int64]

MOST_NODES = 2_000
"""Nodes of a tree: a browser draws no more at ease, and a screen has no more columns."""

_WIDEST = 400
"""Children of one node that are told apart."""


@dataclass(frozen=True)
class Branch:
    """Some of the distinct paths: all that begin with the same steps."""

    first: int
    stop: int  # one past the last
    above: int  # steps that its parent has already
    depth: int  # steps that all of them share


@dataclass(frozen=True)
class Node:
    """A branch as it is shown, or several together that are not."""

    parent: int  # index of its parent, -1: the root
    branch: Branch | None  # none: ``more``
    weights: Int64  # [k]
    own: Int64  # [k] of the path that ends here
    hidden: int = 0  # branches (of ``more``) that are not told apart


@dataclass(frozen=True)
class Tree:
    """Nodes, each after its parent; siblings by weight, the largest first, ``more`` last."""

    nodes: tuple[Node, ...]

    def children(self) -> list[list[int]]:
        """Of each node the indices of its children."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes[1:], 1):
            found[node.parent].append(index)
        return found


class PathTree:
    """Distinct paths in order. Paths that are equal are one, and their weights are added."""

    def __init__(self, steps: Int64, offsets: Int64, weights: Int64) -> None:
        """``steps`` [L] from 0, path i is ``steps[offsets[i]:offsets[i + 1]]``; ``weights`` [k, n], none negative."""
        raw = steps.astype(">u4").tobytes()
        at = (4 * offsets).tolist()
        texts = [raw[begin:end] for begin, end in itertools.pairwise(at)]
        # big-endian numbers sort as bytes do
        distinct = sorted(set(texts))
        place = {text: index for index, text in enumerate(distinct)}
        self.path = np.array([place[text] for text in texts], np.int64)  # [n] index of the distinct path
        self._steps = np.frombuffer(b"".join(distinct), ">u4").astype(np.int64)
        self._offsets = np.append(0, np.cumsum([len(text) // 4 for text in distinct], dtype=np.int64))
        self._cumulated = np.zeros((0, len(distinct) + 1), np.int64)
        self.weigh(np.stack([sums(self.path, row, len(distinct))[0] for row in weights]))
        self._shared = self._common()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def weights(self) -> Int64:
        """[k, d] of each distinct path."""
        found: Int64 = np.diff(self._cumulated, axis=1)
        return found

    def weigh(self, weights: Int64) -> None:
        """Adds further weights [j, d] of the distinct paths."""
        cumulated = np.zeros((len(weights), len(self) + 1), np.int64)
        np.cumsum(weights, axis=1, out=cumulated[:, 1:])
        self._cumulated = np.concatenate([self._cumulated, cumulated])

    def _common(self) -> Int64:
        """[d] steps that each path shares with the one before it, from the first on; 0 for the first."""
        shared = np.zeros(len(self), np.int64)
        length = np.diff(self._offsets)
        least = np.minimum(length[1:], length[:-1])
        for index in np.flatnonzero(least).tolist():
            count = int(least[index])
            one, other = int(self._offsets[index]), int(self._offsets[index + 1])
            apart = self._steps[one : one + count] != self._steps[other : other + count]
            shared[index + 1] = int(apart.argmax()) if apart.any() else count
        return shared

    # ------------------------------------------------------------------ branches

    def root(self) -> Branch:
        """All paths. It has no step of its own."""
        return Branch(0, len(self), 0, 0)

    def steps(self, branch: Branch) -> list[int]:
        """The steps from the branch's parent down to it: those that are its own."""
        begin = int(self._offsets[branch.first])
        found: list[int] = self._steps[begin + branch.above : begin + branch.depth].tolist()
        return found

    def step(self, branch: Branch) -> int:
        """The first of them, which no sibling has."""
        return int(self._steps[int(self._offsets[branch.first]) + branch.above])

    def above(self, branch: Branch) -> list[int]:
        """All steps from the root to the branch's end."""
        begin = int(self._offsets[branch.first])
        found: list[int] = self._steps[begin : begin + branch.depth].tolist()
        return found

    def sums(self, branch: Branch) -> Int64:
        """[k] weights of all its paths."""
        found: Int64 = self._cumulated[:, branch.stop] - self._cumulated[:, branch.first]
        return found

    def own(self, branch: Branch) -> Int64:
        """[k] weights of the path that ends where the branch does; zeros where none does."""
        if not self.ends(branch):
            return np.zeros(len(self._cumulated), np.int64)
        return self.sums(Branch(branch.first, branch.first + 1, branch.above, branch.depth))

    def ends(self, branch: Branch) -> bool:
        """Whether its first path ends there: a shorter one sorts before those that go on."""
        if branch.first == branch.stop:
            return False
        return int(self._offsets[branch.first + 1] - self._offsets[branch.first]) == branch.depth

    def is_leaf(self, branch: Branch) -> bool:
        """Whether nothing is below it."""
        return branch.stop - branch.first <= self.ends(branch)

    def parts(self, branch: Branch) -> tuple[Int64, Int64, Int64]:
        """Of the branches below: [c] first path, one past the last, and depth."""
        begin = branch.first + self.ends(branch)
        if begin >= branch.stop:
            none = np.zeros(0, np.int64)
            return none, none, none
        shared = self._shared[begin : branch.stop].copy()
        cuts = np.append(0, 1 + np.flatnonzero(shared[1:] <= branch.depth))
        first = begin + cuts
        # what a branch shares lasts as long as its neighbours share it; a lone path shares all of itself
        shared[cuts] = np.iinfo(np.int64).max
        depth = np.minimum(np.minimum.reduceat(shared, cuts), np.diff(self._offsets)[first])
        return first, np.append(first[1:], branch.stop), depth

    def below(self, branch: Branch) -> Iterator[Branch]:
        """The branches below, in the order of their steps."""
        for first, stop, depth in zip(*(one.tolist() for one in self.parts(branch)), strict=True):
            yield Branch(first, stop, branch.depth, depth)

    def members(self, branch: Branch) -> Int64:
        """[m] indices of the paths given to it."""
        return np.flatnonzero((self.path >= branch.first) & (self.path < branch.stop))

    def having(self, steps: Collection[int]) -> npt.NDArray[np.bool_]:
        """[d] which distinct paths have any of these steps."""
        hits = np.append(0, np.cumsum(np.isin(self._steps, list(steps))))
        found: npt.NDArray[np.bool_] = hits[self._offsets[1:]] > hits[self._offsets[:-1]]
        return found

    # ------------------------------------------------------------------ a tree of bounded size

    def tree(self, root: Branch, width: int, most: int = MOST_NODES, least: int = 1) -> Tree:
        """The tree below a branch, of at most ``most`` nodes, those with the largest weight ``width`` opened first.

        What has less than ``least`` of it stands in ``more``; at least 1, for what is not seen needs no node.
        """
        return _Growing(self, width, max(2, most), max(1, least)).grown(root)


@dataclass
class _Growing:
    """A tree on its way: a node that is not opened yet has a place kept for its ``more``."""

    paths: PathTree
    width: int
    most: int
    least: int
    nodes: list[Node] = field(default_factory=list)
    kept: int = 0  # places that are promised
    waiting: list[tuple[int, int]] = field(default_factory=list)  # -weight, index

    def grown(self, root: Branch) -> Tree:
        self._add(-1, root)
        while self.waiting:
            self._open(heapq.heappop(self.waiting)[1])
        return Tree(tuple(self.nodes))

    def _add(self, parent: int, branch: Branch) -> None:
        weights = self.paths.sums(branch)
        if not self.paths.is_leaf(branch):
            heapq.heappush(self.waiting, (-int(weights[self.width]), len(self.nodes)))
            self.kept += 1
        self.nodes.append(Node(parent, branch, weights, self.paths.own(branch)))

    def _open(self, index: int) -> None:
        """Puts what is below a node into the tree, as far as there is room."""
        branch = self.nodes[index].branch
        assert branch is not None
        self.kept -= 1
        below = self.paths.parts(branch)
        shown = self._shown(*below, room=self.most - len(self.nodes) - self.kept)
        left = self.nodes[index].weights - self.nodes[index].own
        for first, stop, depth in zip(*(one[shown].tolist() for one in below), strict=True):
            self._add(index, Branch(first, stop, branch.depth, depth))
            left = left - self.nodes[-1].weights
        if hidden := len(below[0]) - len(shown):
            self.nodes.append(Node(index, None, left, np.zeros_like(left), hidden))

    def _shown(self, first: Int64, stop: Int64, depth: Int64, room: int) -> Int64:
        """Which of the branches get a node: the heaviest, two places for each that may be opened, one for ``more``."""
        cumulated = self.paths._cumulated[self.width]
        weight = cumulated[stop] - cumulated[first]
        order = np.argsort(-weight, kind="stable")
        order = order[weight[order] >= self.least][:_WIDEST]
        leaf = (stop - first == 1) & (np.diff(self.paths._offsets)[first] == depth)
        places = np.cumsum(np.where(leaf[order], 1, 2))
        if len(order) < len(first) or int(places[-1]) > room:
            order = order[: int(np.searchsorted(places, room - 1, "right"))]
        found: Int64 = order
        return found
