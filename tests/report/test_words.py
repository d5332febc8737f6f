"""The small words: what a hostile or an odd text may not cost."""

from __future__ import annotations

import math
import time

import pytest

from snapviz.report.words import fold_names, frames_in_words, number


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("step (/r/train.py:31)", None, "step train.py:31"),
        ("step (/r/train.py)", 7, "step train.py:7"),
        ("step (/r/train.py:31)", 8, "step train.py:8"),
        ("step (/r/train.py:-1)", None, "step train.py"),
        ("step (C:/r/train.py)", -1, "step train.py"),
        ("f(int (*)(x)) (a.cpp:3)", None, "f(int (*)(x)) a.cpp:3"),
        ("f (x\n.py:3)", None, "f x\\x0a.py:3"),
        ("f (a.py:" + "9" * 5000 + ")", None, "f a.py:999"),
        ("… 300 frames …", -1, "… 300 frames …"),
        ("bare", None, "bare"),
        ("torch::unwind::unwind() (??:0)", None, "only C++ frames"),
    ],
)
def test_a_frame_in_words(text: str, line: int | None, words: str) -> None:
    assert frames_in_words([text], None if line is None else [line], 80).startswith(words)


def test_torchs_own_unwinder_is_no_frame_of_the_stack() -> None:
    own = ["torch::unwind::unwind() (??:0)", "torch::CapturedTraceback::gather(bool, bool, bool) (??:0)"]
    assert frames_in_words([*own, "at::empty (??:0)"], None, 80).startswith("at::empty")
    assert frames_in_words([*own, "step (/r/train.py:3)"], None, 80) == "step train.py:3"
    assert frames_in_words(own, None, 80) == "only C++ frames"


def test_a_hostile_frame_takes_no_time() -> None:
    started = time.monotonic()
    frames_in_words([" (" * 100_000 + " (x\n.py"], None, 80)
    frames_in_words([" (" * 100_000 + " (x\n.py)"], None, 80)
    assert time.monotonic() - started < 2


def test_names_with_numbers_no_machine_has() -> None:
    names = [f"p{'9' * 5000}", f"p{'9' * 4999}8"]
    ((_, positions),) = fold_names(names)
    assert positions == [0, 1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1024, "1,024"),
        (85765.2, "85,765.2"),
        (0.5, "0.5"),
        (10**400, "more than 1e308"),
        (-(10**400), "less than -1e308"),
        (1e300, "1e+300"),
        (math.nan, "nan"),
    ],
)
def test_a_metric_of_any_size(value: float, words: str) -> None:
    assert number(value) == words
