from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.frames import FrameNames
from snapviz.compare.stacks import NO_STACK, JointStacks, pair_files
from tests.analyze.builders import Trace, frame

PARTS = st.sampled_from(["a", "b", "c", "model.py", "train.py", "__init__.py", "utils.py"])
PATHS = st.sets(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=9)


@given(base=PATHS, head=PATHS)
def test_files_are_paired_alike_from_both_sides(base: set[str], head: set[str]) -> None:
    pairs = pair_files(base, head)
    assert pair_files(head, base) == {h: b for b, h in pairs.items()}
    assert len(set(pairs.values())) == len(pairs)
    assert all(pairs[path] == path for path in base & head)


def test_the_longest_suffix_wins() -> None:
    base = {"/r1/pkg/model.py", "/r1/model.py", "/r1/gone.py"}
    head = {"/r2/x/pkg/model.py", "/r2/x/model.py", "/r2/x/new.py"}
    assert pair_files(base, head) == {"/r1/pkg/model.py": "/r2/x/pkg/model.py", "/r1/model.py": "/r2/x/model.py"}
    # in the order of the paths it would be the other way round
    crossed = pair_files({"/a/x/model.py", "/b/y/model.py"}, {"/c/y/model.py", "/d/x/model.py"})
    assert crossed == {"/a/x/model.py": "/d/x/model.py", "/b/y/model.py": "/c/y/model.py"}


def test_files_that_are_alike_in_name_only_need_a_witness() -> None:
    assert pair_files({"/r1/a/__init__.py"}, {"/r2/b/__init__.py"}) == {}
    moved = pair_files({"/r1/__init__.py", "/r1/train.py"}, {"/r2/__init__.py", "/r2/train.py"})
    assert moved == {"/r1/__init__.py": "/r2/__init__.py", "/r1/train.py": "/r2/train.py"}


def test_no_choice_is_made_between_two_counterparts() -> None:
    base = {"/r/train.py", "/r/eval.py", "/r/__init__.py"}
    head = {"/x/train.py", "/y/eval.py", "/x/__init__.py", "/y/__init__.py"}
    assert pair_files(base, head) == {"/r/train.py": "/x/train.py", "/r/eval.py": "/y/eval.py"}


def joint(base: list[list[dict]], head: list[list[dict]]) -> tuple[list[int], list[int], JointStacks]:
    sides = []
    for stacks in (base, head):
        trace = Trace()
        for stack in stacks:
            trace.alloc(20, *stack)
        sides.append(trace.snap())
    names = JointStacks(*(FrameNames(side.columns) for side in sides))
    ids = [names.ids(i, side.replay(0).allocations.stack) for i, side in enumerate(sides)]
    return ids[0].tolist(), ids[1].tolist(), names


SAME = [
    ([frame("f", "/r1/model.py", 3)], [frame("f", "/r1/model.py", 9)]),
    ([frame("f", "/r1/model.py")], [frame("f", "/other/place/model.py")]),
    ([frame("f", "/v1/lib/python3.11/site-packages/t/a.py")], [frame("f", "/v2/site-packages/t/a.py")]),
    # checked out and installed, with either of them first; so too a library built from its checkout
    ([frame("f", "/home/me/proj/pkg/m.py")], [frame("f", "/v/site-packages/pkg/m.py")]),
    ([frame("f", "/v/site-packages/proj/m.py")], [frame("f", "/repo/main/m.py")]),
    ([frame("walk"), frame("walk"), frame("main")], [frame("walk"), frame("main")]),
    ([frame("k", "thunder.computation_3")], [frame("k", "thunder.computation_12")]),
    ([frame("<module>", "/r/train_main.py")], [frame("<module>", "/r/train_pr.py")]),
    ([], []),
]


@pytest.mark.parametrize(("base", "head"), SAME)
def test_these_are_the_same_stack(base: list[dict], head: list[dict]) -> None:
    for sides in (([base], [head]), ([head], [base])):
        one, other, _ = joint(*sides)
        assert one == other


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ([frame("f")], [frame("g")]),
        ([frame("f", "/r/a.py")], [frame("f", "/r/b.py")]),
        ([frame("f"), frame("main")], [frame("main"), frame("f")]),
        ([frame("f"), frame("g"), frame("f")], [frame("f"), frame("g")]),
        ([frame("f")], []),
        # both have the package as a library: a user's file of that name is another
        (
            [frame("f", "/r/m.py"), frame("g", "/v/site-packages/t/a.py")],
            [frame("f", "/v/site-packages/t/m.py"), frame("g", "/v/site-packages/t/a.py")],
        ),
    ],
)
def test_these_are_not(base: list[dict], head: list[dict]) -> None:
    one, other, _ = joint([base], [head])
    assert one != other


def test_two_files_of_one_name_are_kept_apart() -> None:
    base = [[frame("f", "/r1/x/m.py")], [frame("f", "/r1/y/m.py")]]
    head = [[frame("f", "/r2/y/m.py")], [frame("f", "/r2/x/m.py")]]
    one, other, _ = joint(base, head)
    assert one == other[::-1]
    assert len(set(one)) == 2


def test_no_stack_is_no_stack_and_texts_are_those_of_both_sides() -> None:
    base = [frame("f", "/r1/m.py", 3), frame("f", "/r1/m.py", 4), frame("g", "/r1/site-packages/t/a.py", 5)]
    head = [frame("f", "/r2/m.py", 8), frame("g", "/r2/site-packages/t/a.py", 6)]
    one, other, names = joint([base], [head])
    assert names.ids(0, np.array([-1], np.int32)).tolist() == [NO_STACK]
    assert one == other
    assert names.texts(0, 0) == names.texts(1, 0) == ("f (…/m.py)", "g (t/a.py)")
    assert (names.lines(0, 0), names.lines(1, 0)) == ((3, 5), (8, 6))


def test_paths_are_compared_to_a_depth_and_no_further() -> None:
    started = time.monotonic()
    base = {f"/r1/{i}/{'a/' * 20_000}m{i}.py" for i in range(20)}
    head = {f"/r2/{i}/{'a/' * 20_000}m{i}.py" for i in range(20)}
    assert len(pair_files(base, head)) == 20
    assert time.monotonic() - started < 3


def test_thousands_of_files_that_are_alike_in_name_take_no_time() -> None:
    started = time.monotonic()
    base = {f"/r1/p{i}/__init__.py" for i in range(4000)} | {"/r1/train.py"}
    head = {f"/r2/q{i}/__init__.py" for i in range(4000)} | {"/r2/train.py"}
    assert pair_files(base, head) == {"/r1/train.py": "/r2/train.py"}
    assert time.monotonic() - started < 3


def test_long_stacks_and_names_are_cut_in_what_is_shown() -> None:
    deep = [frame(f"{i}-{'f' * 10_000}", f"/{'d' * 10_000}/x{i}.py", i + 1) for i in range(500)]
    one, other, names = joint([deep], [deep])
    assert one == other
    texts, lines = names.texts(0, 0), names.lines(1, 0)
    assert len(texts) == len(lines) == 201
    assert (texts[150], lines[149:152]) == ("… 300 frames …", (150, -1, 451))
    assert texts[0].startswith("0-fff")
    assert texts[0].endswith("d/x0.py)")
    assert texts[-1].startswith("499-")
    assert max(map(len, texts)) <= 500 + 500 + 3
    # what is shown is cut, what is compared is not
    longer = [*deep[:300], frame("other"), *deep[301:]]
    one, other, _ = joint([deep], [longer])
    assert one != other


def test_a_stack_of_200_frames_is_whole() -> None:
    _, _, names = joint([[frame(f"f{i}") for i in range(200)]], [])
    assert len(names.texts(0, 0)) == 200
    assert names.texts(0, 0)[150] == "f150 (/repo/model.py)"
