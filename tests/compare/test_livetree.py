"""What two runs hold as one tree: exact against the curves, the same with its sides swapped, found again by name."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from snapviz.analyze.facts import MEASURES
from snapviz.analyze.moments import parse_at
from snapviz.analyze.tree import Branch
from snapviz.compare.livetree import BASE, BASE_COUNT, CHANGED, EITHER, HEAD, HEAD_COUNT, Division, LiveTree, live_tree
from snapviz.compare.rank import RankDiff
from snapviz.compare.view import view_of
from tests.analyze.builders import MIB, Trace, frame, run_of, sample

PAIRS = [("thunder_478/main", "thunder_478/pr"), ("litgpt_eager_2/main", "litgpt_eager_2/pr"), ("fsdp1", "ddp")]
DIVISIONS: tuple[Division, ...] = ("stack", "module", "category")


def both_of(base: str, head: str, measure: str = "allocated") -> RankDiff:
    return RankDiff(0, sample(base).rank(0).facts(), sample(head).rank(0).facts(), view_of(measure=measure))


def events(both: RankDiff, at: str = "peak") -> tuple[int | None, int | None]:
    base, head = both.moments(parse_at(at))
    return base.event if base else None, head.event if head else None


def whole(tree: LiveTree) -> list[int]:
    found: list[int] = tree.paths.sums(tree.paths.root()).tolist()
    return found


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("by", DIVISIONS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_the_root_is_the_curve_and_every_node_the_sum_of_its_parts(
    pair: tuple[str, str], by: Division, measure: str
) -> None:
    both = both_of(*pair, measure)
    when = events(both)
    found = live_tree(both, when, by)
    curves = [int(side.replay.curve(measure)[at]) for side, at in zip((both.base, both.head), when, strict=True)]
    assert whole(found)[: HEAD + 1] == curves
    for most in (2, 7, 60, 2_000):
        tree = found.paths.tree(found.paths.root(), EITHER, most)
        assert len(tree.nodes) <= most
        for node, children in zip(tree.nodes, tree.children(), strict=True):
            if node.branch is not None:
                below = sum((tree.nodes[child].weights for child in children), np.zeros(6, np.int64))
                assert (below + node.own == node.weights).all()
            base, head, *_, either, changed = node.weights.tolist()
            assert max(base, head) <= either <= base + head
            assert abs(head - base) <= changed <= either


def named(tree: LiveTree) -> Counter[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Every node by the texts from the root, with its weights."""
    nodes = tree.paths.tree(tree.paths.root(), EITHER).nodes
    return Counter(
        (tuple(tree.labels[step] for step in tree.paths.above(node.branch)), tuple(node.weights.tolist()))
        for node in nodes
        if node.branch is not None
    )


@pytest.mark.parametrize("by", DIVISIONS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_swapped_sides_give_the_same_tree_swapped(pair: tuple[str, str], by: Division) -> None:
    there = both_of(*pair)
    back = both_of(*pair[::-1])
    swapped = live_tree(back, events(back), by)
    order = [HEAD, BASE, HEAD_COUNT, BASE_COUNT, EITHER, CHANGED]
    assert named(live_tree(there, events(there), by)) == Counter(
        {(path, tuple(weights[at] for at in order)): count for (path, weights), count in named(swapped).items()}
    )


def test_what_the_pull_request_left_is_named() -> None:
    both = both_of(*PAIRS[0])
    tree = live_tree(both, events(both, "end"), "category")
    changed = {path: weights for path, weights in named(tree) if weights[CHANGED] and len(path) > 1}
    assert changed == {("dangling parameter", "p1"): (0, 4_194_304, 0, 1, 4_194_304, 4_194_304)}
    parts, more = tree.parts(tree.paths.root(), 1)
    assert [(one.category, one.owners, one.birth, one.delta_bytes) for one in parts] == [
        ("dangling parameter", ("p1",), "materialize", 4_194_304)
    ]
    assert more == 3


def two(base: Trace, head: Trace, measure: str = "allocated") -> RankDiff:
    return RankDiff(0, run_of(base).rank(0).facts(), run_of(head).rank(0).facts(), view_of(measure=measure))


LAST = 3
"""Event of what ``trained`` made last."""


def trained(size: int, root: str, deep: int = 3) -> Trace:
    trace = Trace()
    outer = [frame("main", f"{root}/train.py", 9)]
    trace.alloc(20, frame("norm", f"{root}/model.py", 4), *outer)
    trace.alloc(size, frame("mlp", f"{root}/model.py", 5), *[frame("again", f"{root}/model.py", 6)] * deep, *outer)
    return trace


def test_checkouts_in_other_places_and_deeper_recursion_are_one_stack() -> None:
    both = two(trained(40, "/home/one/repo"), trained(60, "/srv/two/repo", deep=9))
    tree = live_tree(both, (LAST, LAST))
    paths = {path[1:]: weights[:2] for path, weights in named(tree) if path}
    assert {tuple(text.split(" ")[0] for text in path): weights for path, weights in paths.items()} == {
        (): (60 * MIB, 80 * MIB),
        ("norm",): (20 * MIB, 20 * MIB),
        ("again", "mlp"): (40 * MIB, 60 * MIB),
    }
    assert whole(tree)[EITHER:] == [(20 + 60) * MIB, 20 * MIB]
    (where,), _ = tree.stacks(tree.paths.root(), 1)
    assert (where.base_bytes, where.head_bytes, where.base_lines, where.head_lines) == (
        40 * MIB,
        60 * MIB,
        (5, 6, 9),
        (5, 6, 9),
    )


def test_a_side_without_the_moment_holds_nothing() -> None:
    both = two(trained(40, "/a"), trained(40, "/a"))
    assert whole(live_tree(both, (None, LAST)))[:4] == [0, 60 * MIB, 0, 2]
    assert whole(live_tree(both, (-1, LAST)))[:4] == [0, 60 * MIB, 0, 2]
    nothing = live_tree(both, (None, None))
    assert whole(nothing) == [0] * 6
    assert nothing.parts(nothing.paths.root(), 5) == nothing.stacks(nothing.paths.root(), 5) == ([], 0)


def test_a_branch_is_found_again_by_what_a_url_says_of_it() -> None:
    both = both_of(*PAIRS[1])
    tree = live_tree(both, events(both))
    way: list[Branch] = [tree.paths.root()]
    while below := list(tree.paths.below(way[-1])):
        way.append(below[-1])
    tokens = [tree.token(branch) for branch in way[1:]]
    assert len(tokens) > 2
    again = live_tree(both_of(*PAIRS[1]), events(both))
    assert again.walk(tokens) == (way, True)
    assert again.walk([*tokens[:2], "nonsense"]) == (way[:3], False)


def test_what_is_reserved_and_unused_is_no_allocation() -> None:
    both = both_of(*PAIRS[0], "reserved")
    for by in DIVISIONS:
        tree = live_tree(both, events(both), by)
        (unused,) = [weights for path, weights in named(tree) if path == ("(reserved, in no allocation)",)]
        assert unused[BASE] > 0
        assert unused[BASE_COUNT] == unused[HEAD_COUNT] == 0


def test_the_parts_and_stacks_of_a_branch_sum_to_it() -> None:
    both = both_of(*PAIRS[1])
    tree = live_tree(both, events(both))
    for node in tree.paths.tree(tree.paths.root(), EITHER, 40).nodes:
        if node.branch is not None:
            parts, _ = tree.parts(node.branch, 10**6)
            stacks, _ = tree.stacks(node.branch, 10**6)
            for found in (parts, stacks):
                assert [
                    sum(getattr(one, name) for one in found)
                    for name in ("base_bytes", "head_bytes", "base_count", "head_count")
                ] == node.weights[:4].tolist()


def test_layers_that_differ_in_a_number_can_be_one() -> None:
    both = both_of(*PAIRS[1])
    for by in ("module", "category"):
        each, folded = (live_tree(both, events(both), by, fold) for fold in (False, True))  # type: ignore[arg-type]
        assert whole(each)[:4] == whole(folded)[:4]
        assert len(folded.paths) < len(each.paths)
        assert not any(label.isdecimal() for label in folded.labels)
        assert "*" in folded.labels


def test_owners_that_differ_in_a_number_are_one_part() -> None:
    both = both_of(*PAIRS[1])
    tree = live_tree(both, events(both), "category")
    parts, more = tree.parts(tree.paths.root(), 100)
    layers = [one for one in parts if len(one.owners) > 1]
    assert more == 0
    assert layers
    for one in layers:
        assert len({re.sub(r"\d+", "#", owner) for owner in one.owners}) == 1
        assert max(one.base_count, one.head_count) >= len(one.owners)
    assert len({(one.category, re.sub(r"\d+", "#", one.owners[0]), one.birth) for one in parts}) == len(parts)


def test_what_is_searched_for_counts_every_path_once() -> None:
    both = both_of(*PAIRS[0])
    tree = live_tree(both, events(both, "end"), "stack")
    main = tree.looked_for("MAIN (")
    assert [tree.labels[step].split(" ")[0] for step in main] == ["main"]
    assert tree.weights_with(main).tolist() == whole(tree)
    assert tree.weights_with(tree.looked_for("__init__ (/"))[: HEAD + 1].tolist() == [0, 4_194_304]
    assert tree.weights_with(set()).tolist() == [0] * 6
