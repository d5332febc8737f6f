"""What training steps leave behind."""

from __future__ import annotations

import pytest

from snapviz.analyze.facts import Facts
from snapviz.compare.steps import Growth, growth_of
from tests.analyze.builders import MIB, Trace, frame, record, run_of, sample


def steps(kept: list[int], parent: str = "train", word: str = "step", freed_after: int | None = None) -> Facts:
    """Weights, then a step for each entry, which keeps so many MiB; ``freed_after``: each is freed that much later."""
    trace = Trace()
    phases = [("setup", trace.now, trace.now)]
    trace.alloc(20, frame("weights"))
    live: list[int] = []
    for step, mib in enumerate(kept):
        begin = trace.tick()
        trace.free(trace.alloc(40, frame("activation")))
        if mib:
            live.append(trace.alloc(mib, frame("kept")))
        if freed_after is not None and len(live) > freed_after:
            trace.free(live.pop(0))
        phases.append((f"{parent}/{word}{step}", begin, trace.tick()))
        trace.tick()
    return run_of(trace, records=[record(phases)]).ranks[0].facts()


def grown(facts: Facts) -> Growth:
    found = growth_of(facts)
    assert isinstance(found, Growth), found
    return found


def test_what_each_step_keeps() -> None:
    found = grown(steps([20] * 6))
    assert (found.kind, found.steps, found.per_step_bytes, found.exact) == ("train/step", 3, 20 * MIB, True)
    assert int(found.kept.sum()) == 3


@pytest.mark.parametrize(
    ("kept", "per_step"),
    [
        ([0] * 5, 0),
        # what the first step makes, and the second, is what all use
        ([60, 0, 0, 0, 0], 0),
        ([60, 20, 0, 0, 0], 0),
        # the last may hold what a next one would have let go
        ([0, 0, 0, 0, 20], 0),
        # once is growth as well, on average
        ([0, 0, 20, 0, 0], 10 * MIB),
        ([0, 20, 0, 20, 0, 20, 0], 10 * MIB),
    ],
)
def test_which_steps_count(kept: list[int], per_step: int) -> None:
    assert grown(steps(kept)).per_step_bytes == per_step


@pytest.mark.parametrize("lag", [1, 2])
def test_what_is_replaced_is_no_growth(lag: int) -> None:
    assert grown(steps([20] * 9, freed_after=lag)).per_step_bytes == 0


def test_growth_is_never_rounded_to_nothing() -> None:
    assert Growth("train/step", 7, 1, True, grown(steps([0] * 5)).kept, 0).per_step_bytes == 1


@pytest.mark.parametrize(("count", "words"), [(0, "there are 0"), (1, "there is 1"), (3, "there are 3")])
def test_it_takes_four_steps(count: int, words: str) -> None:
    assert growth_of(steps([20] * count)) == f"it takes 4 training steps to see growth, and {words}"


@pytest.mark.parametrize(("parent", "word"), [("train", "iteration_"), ("train/epoch0", "batch"), ("other", "step")])
def test_kinds_of_steps(parent: str, word: str) -> None:
    assert grown(steps([20] * 6, parent, word)).per_step_bytes == 20 * MIB


def test_a_leak_per_step_of_a_real_run() -> None:
    found = grown(sample("leak").ranks[0].facts())
    assert (found.steps, found.per_step_bytes, found.exact) == (3, 2 * MIB, True)
    for name in ("single", "ddp", "fsdp1", "litgpt_eager_2/main", "litgpt_eager_2/pr", "uneven_ranks"):
        for rank in sample(name).ranks:
            assert grown(rank.facts()).per_step_bytes == 0
