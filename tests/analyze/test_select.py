"""What is picked, and what memory would be without it: held against a replay without those events."""

from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.select import curve_without, parse_selector
from snapviz.errors import UsageError
from tests.test_sample_runs import sample


def _facts() -> Facts:
    return sample("fsdp2_before_notfixed").ranks[0].facts()


@pytest.mark.parametrize(
    "text", ["dangling", "category:activation", "owner:layers", "phase:train/step1", "stack:cross_entropy", "stack:."]
)
def test_the_curve_without_is_what_is_left_allocated(text: str) -> None:
    facts = _facts()
    since = parse_selector(text).since(facts)
    start, curve = curve_without(facts, since)
    table = facts.replay.allocations
    assert start == facts.replay.start.allocated_bytes
    assert (curve <= facts.replay.allocated_bytes).all()
    assert (curve < facts.replay.allocated_bytes).any()
    for event in range(0, len(facts.replay), 499):
        left = table.allocated_after(event) & (since >= event)
        assert int(table.block_bytes[left].sum()) == int(curve[event])


def test_a_category_is_all_of_it_and_nothing_else() -> None:
    facts = _facts()
    masks = [parse_selector(f"category:{name}").mask(facts) for name in CATEGORIES]
    assert (np.sum(masks, axis=0) == 1).all()


def test_what_dangles_is_taken_out_only_once_it_is_due() -> None:
    facts = _facts()
    first = int(facts.dangling_since.min())
    _, curve = curve_without(facts, parse_selector("dangling").since(facts))
    assert (curve[: first + 1] == facts.replay.allocated_bytes[: first + 1]).all()
    assert int(facts.replay.allocated_bytes[-1] - curve[-1]) == 343_967_744


@pytest.mark.parametrize(
    "text", ["", "owner", "owner:", "category:gradients", "stack:(", "size:3", "owner:" + "x" * 2_000]
)
def test_what_picks_nothing_is_said_with_what_would(text: str) -> None:
    with pytest.raises(UsageError):
        parse_selector(text)
