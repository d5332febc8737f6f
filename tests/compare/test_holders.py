from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.compare.holders import keepers_of, kept_by, short_path
from snapviz.schema import Dangling
from tests.analyze.builders import kept

THUNDER = "Model._parameters['p1'] ← ThunderModule._model ← a ← b ← m (train.py:31)"


def dangling(name: str, *holders: str, kinds: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> Dangling:
    # a record may say fewer kinds than holders
    return kept(name).model_copy(update={"holders": holders, "holder_kinds": kinds, "names": names or (name,)})


def test_one_parameter_has_its_holder_as_it_is() -> None:
    assert kept_by([dangling("p1", THUNDER)], 100) == f"kept by {THUNDER}"
    assert kept_by([dangling("p1")], 100) == ""
    assert kept_by([], 100) == ""


@pytest.mark.parametrize(
    ("path", "folded"),
    [
        ("optimizer.param_groups[0]['params'][{n}]", "optimizer.param_groups[0]['params'][…] (6 of 6)"),
        ("model.layers.{i}.mlp._parameters['w{j}'] ← m", "model.layers.….mlp._parameters['…'] ← m (6 of 6)"),
        ("model.layers.{i}.mlp.w ← f (a.py:3)", "model.layers.….mlp.w ← f (a.py:3) (6 of 6)"),
        ("the same for all", "the same for all (6 of 6)"),
    ],
)
def test_what_keeps_many_alike_is_one_phrase(path: str, folded: str) -> None:
    pairs = [(i, j) for i in range(3) for j in range(2)]
    found = [dangling(f"model.layers.{i}.mlp.w{j}", path.format(i=i, j=j, n=2 * i + j)) for i, j in pairs]
    assert keepers_of(found, 100) == [folded]


def test_lines_of_files_are_not_folded() -> None:
    found = [dangling("a", "x ← f (a.py:3)"), dangling("b", "x ← f (a.py:4)")]
    assert keepers_of(found, 100) == ["x ← f (a.py:3) (1 of 2)", "x ← f (a.py:4) (1 of 2)"]


def test_the_holder_of_most_comes_first_whatever_else_holds_them() -> None:
    found = [dangling(f"l.{i}.w", f"module.{chr(97 + i)}", f"opt.state[{i}]") for i in range(4)]
    found += [dangling("x", "ema.x"), dangling("y", "ema.x"), dangling("z", "cache"), dangling("none")]
    assert keepers_of(found, 100) == ["opt.state[…] (4 of 8)", "ema.x (2 of 8)"]


def test_what_is_not_explained_comes_last_and_is_called_that() -> None:
    unexplained = [dangling(f"p{i}", "2 references", kinds=("unexplained",)) for i in range(5)]
    found = [*unexplained, dangling("x", "m.x", "1 reference", kinds=("module", "unexplained"))]
    assert keepers_of(found, 100) == ["m.x (1 of 6)", "unexplained: 2 references (5 of 6)"]
    assert kept_by(unexplained[:1], 100) == "kept by unexplained: 2 references"
    assert (
        kept_by([dangling("x", "unexplained (2 left)", kinds=("unexplained",))], 100) == "kept by unexplained (2 left)"
    )
    assert kept_by([dangling("x", "", kinds=("unexplained",))], 100) == "kept by unexplained references"
    # a module of that name hides nothing
    named = dangling("unexplained.w", "unexplained.w", "2 references", kinds=("module", "unexplained"))
    assert kept_by([named], 100) == "kept by unexplained.w"


def test_a_path_keeps_both_of_its_ends() -> None:
    assert short_path(THUNDER, 72) == THUNDER
    assert short_path(THUNDER, 68) == "Model._parameters['p1'] ← ThunderModule._model ← … ← m (train.py:31)"
    assert short_path(THUNDER, 50) == "Model._parameters['p1'] ← … ← m (train.py:31)"
    assert short_path(THUNDER, 30) == "Model._parameters['p1'] ← …"
    assert short_path("a" * 30 + "b" * 30, 11) == "aaaaa…bbbbb"


@given(hops=st.lists(st.text("ab'[]0. ", max_size=30), min_size=1, max_size=8), width=st.integers(1, 90))
def test_a_path_fits_and_changes_only_where_it_does_not(hops: list[str], width: int) -> None:
    path = " ← ".join(hops)
    short = short_path(path, width)
    assert len(short) <= width
    assert (short == path) == (len(path) <= width)


@given(st.lists(st.tuples(st.text(max_size=12), st.lists(st.text(max_size=20), max_size=3)), max_size=6))
def test_any_names_and_paths_give_a_phrase(found: list[tuple[str, list[str]]]) -> None:
    some = [dangling(name, *paths) for name, paths in found]
    assert bool(keepers_of(some, 40)) == any(paths for _, paths in found)
