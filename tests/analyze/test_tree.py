"""Trees of weighted paths: sums at every node, whatever is left out, and the bounds."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.tree import MOST_NODES, PathTree, Tree

paths = st.lists(
    st.tuples(st.lists(st.integers(0, 4), min_size=0, max_size=9), st.integers(0, 100), st.integers(0, 100)),
    max_size=40,
)


def tree_of(given: list[tuple[list[int], int, int]]) -> PathTree:
    steps = np.array([step for path, *_ in given for step in path], np.int64)
    offsets = np.append(0, np.cumsum([len(path) for path, *_ in given])).astype(np.int64)
    weights = np.array([[one[1] for one in given], [one[2] for one in given]], np.int64).reshape(2, len(given))
    return PathTree(steps, offsets, weights)


def named(paths: PathTree, tree: Tree) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Steps from the root → weights, of every node that is told apart."""
    return {tuple(paths.above(n.branch)): tuple(n.weights.tolist()) for n in tree.nodes[1:] if n.branch is not None}


def prefixes(given: list[tuple[list[int], int, int]]) -> dict[tuple[int, ...], tuple[int, int]]:
    """The oracle: the sum of every beginning of a path."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])
    for path, one, other in given:
        for length in range(len(path) + 1):
            found[tuple(path[:length])][0] += one
            found[tuple(path[:length])][1] += other
    return {path: (one, other) for path, (one, other) in found.items()}


@given(paths, st.integers(2, 30), st.integers(0, 1), st.integers(0, 150))
def test_sums_are_exact_at_every_node_and_nodes_are_bounded(
    given: list[tuple[list[int], int, int]], most: int, width: int, least: int
) -> None:
    paths = tree_of(given)
    tree = paths.tree(paths.root(), width, most, least)
    assert 1 <= len(tree.nodes) <= most
    assert tree.nodes[0].weights.tolist() == [sum(one[1] for one in given), sum(one[2] for one in given)]
    oracle = prefixes(given)
    for node, children in zip(tree.nodes, tree.children(), strict=True):
        below = sum((tree.nodes[child].weights for child in children), np.zeros(2, np.int64))
        assert (below + node.own == node.weights).all() or node.branch is None
        assert node.branch is not None or (not children and node.hidden > 0)
        shown = [int(tree.nodes[child].weights[width]) for child in children if tree.nodes[child].branch]
        assert shown == sorted(shown, reverse=True)
    for path, weights in named(paths, tree).items():
        assert weights == oracle[path]


@given(paths)
def test_with_room_for_all_every_branching_is_there(given: list[tuple[list[int], int, int]]) -> None:
    paths = tree_of([(path, one + 1, other + 1) for path, one, other in given])
    tree = paths.tree(paths.root(), 0)
    assert all(node.branch is not None for node in tree.nodes)
    assert len(tree.nodes) <= 2 * len(paths) + 1
    ends = Counter(tuple(path) for path, *_ in given if path)
    assert ends.keys() <= {tuple(paths.above(node.branch)) for node in tree.nodes[1:] if node.branch is not None}


@given(paths)
def test_branches_lead_to_their_paths(given: list[tuple[list[int], int, int]]) -> None:
    paths = tree_of(given)
    for node in paths.tree(paths.root(), 0).nodes:
        if node.branch is not None:
            prefix = paths.above(node.branch)
            expected = [at for at, (path, *_) in enumerate(given) if path[: len(prefix)] == prefix]
            assert paths.members(node.branch).tolist() == expected


@given(paths, st.integers(0, 1))
def test_heavier_ones_are_opened_first(given: list[tuple[list[int], int, int]], width: int) -> None:
    paths = tree_of(given)
    whole = {weights[width] for weights in named(paths, paths.tree(paths.root(), width)).values()}
    few = paths.tree(paths.root(), width, 6)
    for node in few.nodes:
        if node.branch is None:
            kept = [int(few.nodes[c].weights[width]) for c in few.children()[node.parent] if few.nodes[c].branch]
            assert all(value in whole for value in kept)


def test_what_all_paths_share_is_one_node() -> None:
    deep = list(range(100_000))
    paths = tree_of([(deep, 3, 0), ([*deep[:60_000], 7, 8], 4, 1), ([9], 1, 1)])
    tree = paths.tree(paths.root(), 0)
    assert [(len(paths.steps(n.branch)), n.weights[0]) for n in tree.nodes[1:] if n.branch is not None] == [
        (60_000, 7),
        (1, 1),
        (2, 4),
        (40_000, 3),
    ]


@pytest.mark.parametrize("bend", [1, 1_000])
def test_absurdly_wide_or_deep_stays_bounded_and_exact(bend: int) -> None:
    # a comb: each path leaves the spine one step later than the one before
    comb = [([1] * (at * bend % 5_000) + [2, at + 3], 1 + at % 7, 1) for at in range(3_000)]
    wide = [([0, at + 5_000], 1, 0) for at in range(20_000)]
    paths = tree_of(comb + wide)
    tree = paths.tree(paths.root(), 0)
    assert len(tree.nodes) <= MOST_NODES
    total = [sum(1 + at % 7 for at in range(3_000)) + 20_000, 3_000]
    assert sum(node.own + (node.branch is None) * node.weights for node in tree.nodes).tolist() == total


def test_a_single_path_and_none() -> None:
    nothing = tree_of([])
    assert [node.weights.tolist() for node in nothing.tree(nothing.root(), 0).nodes] == [[0, 0]]
    one = tree_of([([], 5, 6)])
    tree = one.tree(one.root(), 0)
    assert [(node.weights.tolist(), node.own.tolist()) for node in tree.nodes] == [([5, 6], [5, 6])]
