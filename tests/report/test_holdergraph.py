"""Holders as a graph: hops from the recorder's paths, shared beginnings once, a count where many are kept alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.outlived import dangling
from snapviz.report.plots.holders import HolderNode, Hop, holder_graph, hops_of
from snapviz.schema import UNEXPLAINED
from tests.analyze.builders import kept, sample


def drawn(node: HolderNode) -> object:
    below = [drawn(child) for child in node.children]
    what = f"{node.parameters} held" if node.is_leaf else " ".join(part for part in (node.what, node.where) if part)
    return (node.edge, what, *below)


@pytest.mark.parametrize(
    ("path", "hops"),
    [
        (
            "Model._parameters['p1'] ← ThunderModule._model ← model (thunder_478.py:47)",
            [
                Hop("model", "thunder_478.py:47", ""),
                Hop("ThunderModule", "", "._model"),
                Hop("Model", "", "._parameters['p1']"),
            ],
        ),
        (
            "optimizer.param_groups[0]['params'][7] ← optimizer (train.py:3)",
            [Hop("optimizer", "train.py:3", ".param_groups[0]['params'][7]")],
        ),
        ("global KEPT['a b.w'] in train.py", [Hop("global KEPT", "in train.py", "['a b.w']")]),
        ("local 'x'[0].w in main (train.py:47)", [Hop("local 'x'", "in main (train.py:47)", "[0].w")]),
        (
            "closure variable 'fn'[0] of outer.<locals>.hook (a.py:3)",
            [Hop("closure variable 'fn'", "of outer.<locals>.hook (a.py:3)", "[0]")],
        ),
        (
            "jit.<locals>.update.<locals>.wrapped._parameters['p1'] (__init__.py:832)",
            [Hop("jit.<locals>.update.<locals>.wrapped", "__init__.py:832", "._parameters['p1']")],
        ),
        ("class attribute Cache.kept['x']", [Hop("class attribute Cache", "", ".kept['x']")]),
        ("saved tensors of AddBackward0", [Hop("saved tensors of AddBackward0", "", "")]),
        ("shard p1, which is a view of it", [Hop("shard p1, which is a view of it", "", "")]),
        ("", [Hop("", "", "")]),
    ],
)
def test_a_path_in_hops(path: str, hops: list[Hop]) -> None:
    assert hops_of(path) == hops


def test_the_thunder_module_that_keeps_p1() -> None:
    graph = holder_graph(dangling(sample("thunder_478/pr")).ranks[0].dangling)
    leaf = ("._parameters['p1']", "1 held")
    assert [drawn(root) for root in graph.roots] == [
        ("", "model thunder_478.py:47", ("is", "ThunderModule", ("._model", "Model", leaf))),
        ("", "jit.<locals>.update_call_statistics.<locals>.wrapped __init__.py:832", leaf),
    ]
    assert (graph.ways, graph.more, graph.unheld) == (2, 0, ())


@pytest.mark.parametrize(
    ("run", "count", "size"),
    [
        ("accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed", 338, 6_187_964_416),
        ("litgpt_eager_8/pr", 227, 13_476_831_232),
    ],
)
def test_hundreds_that_are_held_alike_are_one_leaf(run: str, count: int, size: int) -> None:
    graph = holder_graph(dangling(sample(run)).ranks[0].dangling)
    (root,) = graph.roots
    (leaf,) = root.children
    assert (root.parameters, root.block_bytes, leaf.parameters, len(leaf.names)) == (count, size, count, count)


def test_shared_hops_are_one_node_and_a_parameter_counts_once() -> None:
    found = [
        kept("a.w", ("Model.a ← m (t.py:1)", "module"), ("Other.a ← m (t.py:1)", "module"), size=3),
        kept("b.w", ("Model.b ← m (t.py:1)", "module"), size=5),
        kept("c.w"),
    ]
    graph = holder_graph(found)
    (root,) = graph.roots
    assert (root.what, root.parameters, root.block_bytes) == ("m", 2, 8)
    assert sorted(child.what for child in root.children) == ["Model", "Other"]
    assert graph.unheld == ("c.w",)


def test_what_nobody_can_explain_comes_last_and_keeps_its_words() -> None:
    words = "2 references that nothing explains (x.py:3)"
    graph = holder_graph([kept("a", (words, UNEXPLAINED), ("Model.a", "module"))])
    assert [root.kind for root in graph.roots] == ["module", UNEXPLAINED]
    assert words in graph.roots[1].what


def test_many_ways_are_counted() -> None:
    found = [kept(f"p{at}", (f"Kind{'x' * at}.w", "object")) for at in range(40)]
    graph = holder_graph(found)
    assert (graph.ways, graph.more, len(graph.roots)) == (24, 16, 24)


@given(st.text(max_size=300), st.sampled_from(["", "module", UNEXPLAINED]))
def test_any_text_is_a_path(path: str, kind: str) -> None:
    assert hops_of(path, kind)
    holder_graph([kept("a", (path, kind))])


def test_a_hostile_path_takes_no_time() -> None:
    for path in ("local '" + "'" * 900, "a.<locals>." * 90, "[" * 1_000, " ← " * 300, "x in " * 200 + " (a:1"):
        assert hops_of(path)
