"""Budgets judged: within, hit, not judged, on the worst rank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapviz.analyze.run import RankFailure, Run
from snapviz.compare.budgets import check, exit_code, judge
from snapviz.compare.spec import parse_budget
from snapviz.errors import RunError, UsageError
from snapviz.schema import Budget
from tests.analyze.builders import MIB, Trace, frame, record, run_of, sample
from tests.compare.recorded import sharded, steps

BROKEN = (RankFailure(1, "rank00001.pickle", "cut short"),)


def one(spec: str, head: Run, base: Run | None = None, rank: int | None = None) -> Budget:
    (found,) = judge(base, head, [parse_budget(spec)], rank)
    return found


def outcome(budget: Budget) -> tuple[str, int | None, int]:
    return budget.state, budget.worst_rank, exit_code([budget])


def ranks(*mib: int, name: str = "run") -> Run:
    """A run of which each rank peaks at so many MiB in ``train``."""
    traces, records = [], []
    for number, size in enumerate(mib):
        trace = Trace(number)
        begin = trace.now
        trace.free(trace.alloc(size, frame("forward")))
        traces.append(trace)
        records.append(record([("train", begin, trace.tick())], rank=number, world_size=len(mib)))
    return run_of(*traces, records=records, name=name)


# ------------------------------------------------------------------ forms


@pytest.mark.parametrize(
    ("spec", "state", "base", "head", "limit"),
    [
        ("peak:5%", "hit", 10_486_272, 14_680_576, 11_010_585),
        ("peak:+4MiB", "within", 10_486_272, 14_680_576, 14_680_576),
        ("peak:+4194303", "hit", 10_486_272, 14_680_576, 14_680_575),
        ("peak:14680576", "within", None, 14_680_576, 14_680_576),
        ("peak:14680575", "hit", None, 14_680_576, 14_680_575),
        ("peak.reserved:12MiB", "hit", None, 22 * MIB, 12 * MIB),
        ("end:0%", "hit", 6_291_968, 10_486_272, 6_291_968),
        ("end.requested:6MiB", "hit", None, 10_485_764, 6 * MIB),
        ("phase.train.peak:40%", "within", 10_486_272, 14_680_576, 14_680_780),
        ("phase.train/step0.peak:39.9%", "hit", 10_486_272, 14_680_576, 14_670_294),
        ("phase.shard.end:+0B", "hit", 2_097_664, 6_291_968, 2_097_664),
        ("phase.materialize.peak.reserved:0%", "within", 22 * MIB, 22 * MIB, 22 * MIB),
        ("category.shard:0%", "within", 2 * MIB, 2 * MIB, 2 * MIB),
        ("end.category.parameter:0%", "hit", 0, 4 * MIB, 0),
        ("phase.shard.end.category.parameter:4MiB", "within", None, 4 * MIB, 4 * MIB),
        ("dangling:0B", "hit", None, 4 * MIB, 0),
        ("dangling:4MiB", "within", None, 4 * MIB, 4 * MIB),
        # of nothing any percentage is nothing
        ("dangling:1000000%", "hit", 0, 4 * MIB, 0),
    ],
)
def test_forms(spec: str, state: str, base: int | None, head: int, limit: int) -> None:
    budget = one(spec, sample("pr"), sample("main"))
    assert outcome(budget) == (state, 0, int(state == "hit"))
    assert [r.rank for r in budget.ranks] == [0, 1]
    for rank in budget.ranks:
        assert (rank.base_bytes, rank.head_bytes, rank.limit_bytes) == (base, head, limit)
        assert rank.over_bytes == head - limit


def test_nothing_to_nothing_is_no_growth() -> None:
    assert outcome(one("dangling:0%", sample("main"), sample("main"))) == ("within", 0, 0)


def test_growth_of_steps() -> None:
    assert outcome(one("growth:0B", sample("leak"))) == ("hit", 0, 1)
    assert outcome(one("growth:2MiB", sample("leak"))) == ("within", 0, 0)
    assert outcome(one("growth:+2MiB", sample("leak"), sample("single"))) == ("within", 0, 0)
    few = one("growth:1GiB", sample("pr"))
    assert outcome(few) == ("not judged", None, 2)
    assert few.ranks[0].why == "it takes 4 training steps to see growth, and there is 1"


# ------------------------------------------------------------------ ranks


def test_the_worst_rank_is_named() -> None:
    head = ranks(40, 60, 60, 50)
    assert outcome(one("phase.train.peak:40MiB", head)) == ("hit", 1, 1)
    assert outcome(one("phase.train.peak:1GiB", head)) == ("within", 1, 0)
    # of what is allowed to each
    assert outcome(one("phase.train.peak:10%", head, ranks(20, 60, 60, 40))) == ("hit", 0, 1)
    assert outcome(one("phase.train.peak:10%", head, ranks(20, 60, 60, 40), rank=1)) == ("within", 1, 0)


def test_one_rank_alone() -> None:
    head = ranks(40, 60)
    assert outcome(one("peak:40MiB", head, rank=0)) == ("within", 0, 0)
    with pytest.raises(RunError, match="no rank 5 could be read"):
        one("peak:40MiB", head, rank=5)
    with pytest.raises(UsageError, match="neither run has it"):
        one("peak:5%", head, head, rank=5)


def test_a_broken_rank_is_never_within_and_2_is_before_1() -> None:
    head = replace(ranks(40), failures=BROKEN, name="pr")
    within, hit = one("peak:40MiB", head), one("peak:20MiB", head)
    assert (within.state, hit.state, exit_code([within]), exit_code([hit])) == ("not judged", "hit", 2, 2)
    assert within.ranks[1].why == "pr: rank00001.pickle could not be read: cut short"
    assert [r.state for r in hit.ranks] == ["hit", "not judged"]
    assert exit_code([one("peak:40MiB", head, rank=0)]) == 0


def test_no_rank_at_all_is_not_within() -> None:
    nothing = Run("pr", "pr", None, (), (RankFailure(None, "", "3 more ranks are missing", 3),))
    budget = one("phase.train.peak:1GiB", nothing)
    assert outcome(budget) == ("not judged", None, 2)
    assert budget.ranks[0].rank is None
    assert exit_code([one("peak:1GiB", Run("pr", "pr", None, ()))]) == 2


def test_a_rank_that_only_one_run_has() -> None:
    base, head = ranks(40, 40, name="main"), ranks(40, 40, 40, name="pr")
    more = one("peak:0%", head, base)
    assert [r.state for r in more.ranks] == ["within", "within", "not judged"]
    assert more.ranks[2].why == "main has no rank 2 to compare with"
    fewer = one("peak:0%", base, head)
    assert fewer.ranks[2].why == "main has no rank 2"
    assert exit_code([more]) == exit_code([fewer]) == 2
    # what needs no baseline is judged without one
    assert outcome(one("peak:40MiB", head, base)) == ("within", 0, 0)
    broken = replace(ranks(40, name="main"), failures=BROKEN)
    assert one("peak:0%", base, broken).ranks[1].why == "main (base): rank00001.pickle could not be read: cut short"


# ------------------------------------------------------------------ phases


def test_a_phase_that_no_rank_has_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        one("phase.trian.peak:5%", sample("pr"), sample("main"))
    words = "phase.trian.peak:5%: no rank has a phase trian (there is: materialize, shard, train/step0, train)"
    assert str(caught.value) == words


def test_a_phase_that_one_rank_or_one_run_lacks_is_not_within() -> None:
    head, base = ranks(40, 40, name="pr"), ranks(40, 40, name="main")
    other = head.ranks[1]
    other.record = record([("other", 0, 1)], rank=1)
    lacking = one("phase.train.peak:1GiB", head)
    assert [r.state for r in lacking.ranks] == ["within", "not judged"]
    assert lacking.ranks[1].why == "pr has no phase train there"
    assert one("phase.train.peak:0%", base, head).ranks[1].why == "pr has no phase train there"
    assert one("phase.other.end:0%", base, head).state == "not judged"


def test_phases_of_other_sources_are_not_compared() -> None:
    bare = replace(ranks(40), ranks=tuple(replace(r, record=None, _facts=None) for r in ranks(40).ranks))
    budget = one("phase.train.peak:0%", bare, ranks(40))
    assert budget.ranks[0].why in (
        "phases come from another source on each side",
        "run (head) has no phase train there",
    )
    assert budget.state == "not judged"


# ------------------------------------------------------------------ what is not exact


def test_a_lower_bound_can_hit_and_is_never_within() -> None:
    cut = steps((60, 60), cut=1)
    assert outcome(one("phase.train.peak:100MiB", cut)) == ("not judged", None, 2)
    hit = one("phase.train/step1.peak:20MiB", cut)
    assert outcome(hit) == ("hit", 0, 1)
    assert hit.ranks[0].head_at_least
    assert "lower bound" in one("peak:100MiB", cut).ranks[0].why


def test_a_limit_to_a_lower_bound_can_be_kept_and_is_never_hit() -> None:
    cut, whole = steps((60, 60), cut=1), steps((60, 60))
    high = steps((100, 100))
    assert outcome(one("peak:0%", steps((20, 20), late=20), cut)) == ("within", 0, 0)
    over = one("peak:0%", high, cut)
    assert outcome(over) == ("not judged", None, 2)
    assert over.ranks[0].base_at_least
    assert outcome(one("peak:0%", cut, whole)) == ("not judged", None, 2)


def test_torchs_counters_are_believed() -> None:
    counted = steps((60, 60), cut=1, counted=True)
    assert outcome(one("phase.train/step1.peak:80MiB", counted)) == ("within", 0, 0)
    assert outcome(one("phase.train/step1.peak:79MiB", counted)) == ("hit", 0, 1)
    # what torch did not count is a lower bound all the same
    assert one("phase.train/step1.peak.active:1GiB", counted).state == "not judged"
    # and what was live at a peak is not known from how high it was
    live = one("phase.train/step1.peak.category.activation:1GiB", counted)
    assert (live.state, live.ranks[0].why) == ("not judged", "the peak itself may not be in the recording")


def test_an_estimate_is_neither_within_nor_hit() -> None:
    head = sharded()
    facts = head.ranks[0].facts()
    facts = replace(facts, exact=False, notes=("sizes are a guess",), replay=replace(facts.replay, consistent=False))
    facts = replace(facts, phases=replace(facts.phases, exact=facts.phases.exact & False))
    head.ranks[0]._facts = facts
    for spec in ("peak:1B", "peak:1GiB", "end:1GiB", "phase.shard.peak:1GiB", "phase.shard.end:1B", "dangling:0B"):
        budget = one(spec, head)
        assert outcome(budget) == ("not judged", None, 2)
        assert budget.ranks[0].why == "its figure is an estimate: sizes are a guess"
    assert one("end:0%", sharded(), head).state == "not judged"
    assert one("category.unknown:1GiB", head).state == "not judged"


def test_what_dangles_is_known_or_not_judged() -> None:
    assert outcome(one("dangling:0B", sharded())) == ("within", 0, 0)
    assert outcome(one("dangling:0B", sharded(leak=True))) == ("hit", 0, 1)
    unknown = one("dangling:0B", ranks(40))
    assert outcome(unknown) == ("not judged", None, 2)
    assert unknown.ranks[0].why.startswith("what dangles cannot be told: the record has no phase shard")


def test_categories_that_rest_on_stacks_are_called_inferred() -> None:
    named = one("category.shard:1GiB", sharded())
    assert (named.state, named.ranks[0].inferred) == ("within", False)
    assert one("category.activation:1GiB", sharded()).ranks[0].inferred
    bare = sharded()
    bare.ranks[0].record = None
    # where only one side has names, both are compared by what stacks say
    assert one("category.shard:0%", sharded(), bare).ranks[0].inferred


# ------------------------------------------------------------------ the rest


def test_a_limit_to_another_run_needs_one() -> None:
    with pytest.raises(UsageError, match="there is none to compare with"):
        one("peak:5%", sample("pr"))
    assert judge(None, sample("pr"), []) == ()


def test_every_budget_is_judged_and_listed_in_order() -> None:
    specs = [parse_budget(text) for text in ("peak:1B", "end:1GiB", "dangling:0B")]
    report = check(sample("pr"), specs, sample("main"))
    assert [(b.spec, b.state) for b in report.budgets] == [
        ("peak:1B", "hit"),
        ("end:1GiB", "within"),
        ("dangling:0B", "hit"),
    ]
    assert [c.spec for c in report.culprits] == ["peak:1B", "dangling:0B"]
    peak, dangling = report.culprits
    assert peak.held_bytes == sum(row.live_bytes for row in peak.live) == 14_680_576
    assert dangling.held_bytes == sum(d.block_bytes for d in dangling.dangling) == 4 * MIB


def test_culprits_of_growth_are_what_the_steps_left() -> None:
    (left,) = check(sample("leak"), [parse_budget("growth:0B")]).culprits
    assert (left.held_bytes, sum(row.live_count for row in left.live)) == (10 * MIB, 5)
