"""``snapviz.testing``: plain assertions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.run import RankFailure
from snapviz.errors import InputError, RunError, UsageError
from snapviz.testing import assert_no_dangling, assert_no_growth, assert_phase_peak, assert_within
from tests.analyze.builders import SAMPLES, sample


def said(work: Callable[[], None]) -> str:
    with pytest.raises(AssertionError) as caught:
        work()
    return str(caught.value)


def test_what_is_kept_says_nothing() -> None:
    assert_phase_peak(sample("pr"), "train", "14.1 MiB")
    assert_phase_peak(str(SAMPLES / "pr"), "train", 14_680_576, rank="all")
    assert_phase_peak(SAMPLES / "pr", "train/step0", "22 MiB", rank=1, measure="reserved")
    assert_no_dangling(sample("main"))
    assert_no_dangling(sample("pr"), "4 MiB")
    assert_no_growth(sample("single"))
    assert_no_growth(sample("leak"), "2 MiB")
    assert_within(sample("pr"), "phase.train.peak:40%", "dangling:4MiB", baseline=SAMPLES / "main")


FAILURES: dict[str, Callable[[], None]] = {
    "phase peak": lambda: assert_phase_peak(sample("fsdp2_before_notfixed"), "train", "900 MiB"),
    "all ranks": lambda: assert_phase_peak(sample("uneven_ranks"), "train/step", "100 MiB", rank="all"),
    "dangling": lambda: assert_no_dangling(sample("litgpt_eager_2/pr")),
    "growth": lambda: assert_no_growth(sample("leak"), "1 MiB"),
    "budgets": lambda: assert_within(sample("pr"), "peak:5%", "end:0%", baseline=sample("main"), rank=1),
    "not judged": lambda: assert_no_growth(sample("pr")),
}


@pytest.mark.parametrize("name", FAILURES)
def test_messages(name: str, snapshot: SnapshotAssertion) -> None:
    assert said(FAILURES[name]) + "\n" == snapshot


def test_the_worst_rank_is_told() -> None:
    text = said(lambda: assert_phase_peak(sample("uneven_ranks"), "train/step", "100 MiB"))
    assert text.startswith("Phase 'train/step' peaked at ")
    assert "on rank 1, limit 100.0 MiB" in text.splitlines()[0]
    assert "also above the limit: rank 0" in text


def test_a_broken_rank_is_no_pass() -> None:
    broken = replace(sample("main"), failures=(RankFailure(2, "rank2.pickle", "cut short"),))
    text = said(lambda: assert_phase_peak(broken, "train", "1 TiB"))
    assert text == "phase.train.peak:1TiB cannot be judged: rank 2: main: rank2.pickle could not be read: cut short"
    assert_phase_peak(broken, "train", "1 TiB", rank=0)


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (lambda: assert_phase_peak(sample("pr"), "trian", "1 GiB"), UsageError, "there is: materialize, shard"),
        (lambda: assert_phase_peak(sample("pr"), "train", "1 GB"), UsageError, "write '1 GiB'"),
        (lambda: assert_phase_peak(sample("pr"), "train", "1 GiB", rank="min"), UsageError, "use 'max', 'all'"),
        (lambda: assert_phase_peak(sample("pr"), "train", "1 GiB", rank=9), RunError, "no rank 9"),
        (lambda: assert_phase_peak(sample("pr"), "train", 1, measure="free"), UsageError, "'free' is no measure"),
        (lambda: assert_phase_peak("/nowhere", "train", 1), InputError, "/nowhere"),
        (lambda: assert_within(sample("pr")), UsageError, "no budget to judge"),
        (lambda: assert_within(sample("pr"), "peak:5%"), UsageError, "none to compare with"),
        (lambda: assert_within(sample("pr"), "peak"), UsageError, "'peak' is no budget"),
    ],
)
def test_what_cannot_be_meant_is_no_assertion(work: Callable[[], None], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        work()
    assert words in str(caught.value)
