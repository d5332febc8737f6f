"""Ranks one after the other: the same facts, and of many no replay that stays."""

from __future__ import annotations

from snapviz.analyze.each import each_rank
from tests.analyze.builders import run_of
from tests.compare.jobs import job


def test_few_ranks_keep_their_facts_and_many_do_not() -> None:
    few = run_of(*(job() for _ in range(3)))
    assert [one is rank for (one, _), rank in zip(each_rank(few.ranks), few.ranks, strict=True)] == [True] * 3
    assert all(rank._facts is not None for rank in few.ranks)
    many = run_of(*(job(leak=i % 2) for i in range(17)))
    told: list[str] = []
    peaks = [int(facts.replay.allocated_bytes.max()) for _, facts in each_rank(many.ranks, told.append)]
    assert all(rank._facts is None and not rank.snapshot._replays for rank in many.ranks)
    assert peaks == [int(rank.facts().replay.allocated_bytes.max()) for rank in many.ranks]
    assert [words for words in told if words.startswith("analysing")] == [f"analysing rank {i}" for i in range(17)]
