"""What two runs hold as one tree: exact against the curves, the same with its sides swapped, found again by name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import CATEGORIES, MEASURES
from snapviz.analyze.moments import parse_at
from snapviz.analyze.peak import Ask, live_groups, peak
from snapviz.analyze.run import Run, load_run
from snapviz.analyze.tree import Branch
from snapviz.compare.held import held, unused_bytes
from snapviz.compare.livetree import BASE, BASE_COUNT, CHANGED, EITHER, HEAD, HEAD_COUNT, Division, LiveTree, live_tree
from snapviz.compare.rank import RankDiff
from snapviz.compare.view import view_of
from snapviz.schema import UNUSED
from tests.analyze.builders import MIB, Trace, frame, record, run_of, sample

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


# ------------------------------------------------------------------ one run alone


def by_category(tree: LiveTree, side: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for part in tree.parts(tree.paths.root(), 10**6)[0]:
        found[part.category] += (part.base_bytes, part.head_bytes)[side]
    return {category: count for category, count in found.items() if count}


@pytest.mark.parametrize("measure", MEASURES)
def test_categories_of_one_run_alone_are_those_that_every_command_says(shared: Path, measure: str) -> None:
    for path in sorted((shared / "corpus").glob("*.pickle.xz")):
        facts = load_run(path).ranks[0].facts()
        event = facts.replay.peak(measure, 0, len(facts.replay))[1]  # type: ignore[arg-type]
        live, size = held(facts, event, measure)  # type: ignore[arg-type]
        wanted: Counter[str] = Counter()
        for code, count in zip(facts.category[live].tolist(), size.tolist(), strict=True):
            wanted[CATEGORIES[code]] += count
        if measure == "reserved":
            wanted[UNUSED] = unused_bytes(facts, event)
        if measure == "allocated":
            told = {group.label: group.live_bytes for group in live_groups(facts, event, "category")}
            assert told == dict(wanted)
        both = RankDiff(0, facts, facts, view_of(measure=measure))  # type: ignore[arg-type]
        for events_of, side in (((event, None), 0), ((None, event), 1), ((event, event), 0)):
            tree = live_tree(both, events_of, "category")
            assert by_category(tree, side) == {one: count for one, count in wanted.items() if count}, path.name


@pytest.mark.parametrize("name", ["inductor-frames", "pair-grad"])
def test_categories_of_one_run_alone_are_those_of_the_peak_command(shared: Path, name: str) -> None:
    run = load_run(shared / "corpus" / f"{name}.pickle.xz")
    (rank,) = peak(run, Ask(by="category"), run.ranks[0].rank).ranks
    facts = run.ranks[0].facts()
    tree = live_tree(RankDiff(0, facts, facts), (None, rank.moment.event), "category")
    assert by_category(tree, 1) == {one.label: one.live_bytes for one in rank.categories}


# ------------------------------------------------------------------ what a comparison calls the same


Made = list[tuple[int, int, int]]
"""Of each parameter: its size in MiB, where its first half was made, and where its second was."""


def named_run(made: Made) -> Run:
    """Parameters that a record names, in two allocations each, made on the way through one of three functions."""
    trace = Trace()
    start = trace.now
    names = []
    for index, (mib, *places) in enumerate(made):
        for half, place in enumerate(places):
            address = trace.alloc(mib, frame("init"), frame(f"make{place}"), frame("main"))
            kind = "parameter" if half == 0 else "gradient"
            names.append((kind, f"layers.{index}.weight", address, mib * MIB))
    trace.alloc(60, frame("forward"), frame("main"))
    end = trace.tick()
    return run_of(trace, records=[record([("train", start, end)], [(end, names)])])


MADE = st.lists(st.tuples(st.sampled_from([20, 40]), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)


@given(MADE, MADE)
def test_what_a_comparison_calls_unchanged_is_no_change_in_the_tree(base: Made, head: Made) -> None:
    both = RankDiff(0, named_run(base).rank(0).facts(), named_run(head).rank(0).facts())
    rows = both.point(parse_at("end")).rows
    moved = sum(row.base_bytes + row.head_bytes for row in rows)
    for by in DIVISIONS:
        tree = live_tree(both, events(both, "end"), by)
        root = whole(tree)
        assert root[CHANGED] <= moved
        assert root[HEAD] - root[BASE] == sum(row.delta_bytes for row in rows)
        assert int(tree.paths.weights[CHANGED].sum()) == root[CHANGED]
        stacks, more = tree.stacks(tree.paths.root(), 10**6)
        assert more == 0
        assert sum(abs(one.head_bytes - one.base_bytes) for one in stacks) <= moved
        for one in stacks:
            assert one.base_lines is None or len(one.base_lines) == len(one.base_frames or one.frames)
            assert one.head_lines is None or len(one.head_lines) == len(one.frames)


def test_a_shard_that_was_made_on_another_way_is_the_same_shard() -> None:
    both = both_of(*PAIRS[0])
    tree = live_tree(both, events(both))
    changed = [where for where in tree.stacks(tree.paths.root(), 100)[0] if where.base_bytes != where.head_bytes]
    assert [where.head_bytes - where.base_bytes for where in changed] == [4_194_304]
    (moved,) = [where for where in tree.stacks(tree.paths.root(), 100)[0] if where.base_frames]
    assert (moved.base_bytes, moved.head_bytes) == (2_097_152, 2_097_152)
    assert any(text.startswith("fsdp (") for text in moved.base_frames)
    assert not any(text.startswith("fsdp (") for text in moved.frames)
