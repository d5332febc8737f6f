"""What dangles in one run: every parameter, each phase without it, holders and what to do about them."""

from __future__ import annotations

import re

import pytest

from snapviz.analyze.advice import ADVICE, advice_for
from snapviz.analyze.outlived import dangling, holder_kinds, without_only
from snapviz.analyze.run import RankFailure, load_run
from snapviz.schema import UNEXPLAINED, Dangling, DanglingReport, RankDangling
from tests.analyze.builders import MIB, ROOT, SAMPLES, Trace, frame, kept, load_for_tests, record, run_of, sample
from tests.compare.recorded import sharded, steps

PR = 4_194_304


def only(report: DanglingReport) -> RankDangling:
    (rank,) = report.ranks
    return rank


def test_a_parameter_that_stays_costs_every_phase_after_its_sharding() -> None:
    rank = only(dangling(sharded(leak=True)))
    (one,) = rank.dangling
    assert (one.name, one.block_bytes, one.birth_phase, one.should_go_in, one.gone_in) == (
        "norm.bias",
        20 * MIB,
        "materialize",
        "shard",
        None,
    )
    assert (rank.dangling_bytes, rank.lasting_bytes, rank.unheld, rank.holders) == (20 * MIB, 20 * MIB, 1, ())
    assert [(row.phase, row.peak_bytes // MIB, (row.without_bytes or 0) // MIB) for row in rank.phases] == [
        ("materialize", 20, 20),
        ("shard", 40, 40),
        ("train/step0", 200, 180),
    ]
    assert rank.without is not None
    assert (rank.peak_bytes, rank.without.peak_bytes, rank.without.saved_bytes) == (200 * MIB, 180 * MIB, 20 * MIB)
    assert all(row.saved_bytes == row.peak_bytes - (row.without_bytes or 0) and row.exact for row in rank.phases)


def test_nothing_dangles_and_nothing_is_known_are_two_things() -> None:
    rank = only(dangling(sharded()))
    assert (rank.dangling, rank.dangling_known, rank.dangling_why, rank.phases, rank.without) == (
        (),
        True,
        "",
        (),
        None,
    )
    bare = only(dangling(load_run(SAMPLES / "pr" / "rank00000.pickle.zst", loader=load_for_tests)))
    assert (bare.dangling, bare.dangling_known) == ((), False)
    assert bare.dangling_why == "no record says what the parameters were before sharding"
    assert [one.block_bytes for one in bare.suspects] == [PR]


def late() -> tuple[Trace, list[tuple[str, int, int]], list[tuple[int, list[tuple[str, str, int, int]]]]]:
    """A parameter that goes in the step after its sharding, and one that stays."""
    trace = Trace()
    start, first, second = trace.now, trace.alloc(20, frame("a")), trace.alloc(40, frame("b"))
    made = trace.tick()
    trace.alloc(20, frame("shard"))
    done = trace.tick()
    trace.tick()
    trace.alloc(100, frame("forward"))
    trace.free(first)
    trace.alloc(60, frame("forward"))
    end = trace.tick()
    phases = [("materialize", start, made), ("shard", made + 1, done), ("train/step0", done + 1, end)]
    names = [("parameter", "a", first, 20 * MIB), ("parameter", "b", second, 40 * MIB)]
    return trace, phases, [(made, names), (end, [("shard", "a", 0, 1)])]


def test_what_went_late_counts_for_the_phases_before() -> None:
    trace, phases, boundaries = late()
    rank = only(dangling(run_of(trace, records=[record(phases, boundaries)])))
    assert [(one.name, one.gone_in) for one in rank.dangling] == [("b", None), ("a", "train/step0")]
    assert (rank.dangling_bytes, rank.lasting_bytes) == (60 * MIB, 40 * MIB)
    # the peak is 20 + 40 + 20 + 100 + 60 − 20, of which b is 40; just before, 180 with both of them
    assert rank.without is not None
    assert (rank.peak_bytes, rank.without.peak_bytes) == (220 * MIB, 180 * MIB)


def test_of_a_phase_that_is_not_whole_nobody_knows_it_without() -> None:
    trace, phases, boundaries = late()
    whole = only(dangling(run_of(trace, records=[record(phases, boundaries)])))
    objects = trace.objects()
    objects["device_traces"][0] = trace.events[3:]
    cut = only(dangling(run_of(objects, records=[record(phases, boundaries)])))
    assert cut.dangling
    assert {row.phase: row.without_bytes for row in cut.phases if row.phase != "materialize"} == {
        row.phase: row.without_bytes for row in whole.phases if row.phase != "materialize"
    }
    assert [row.without_bytes for row in cut.phases if row.phase == "materialize"] == [None]
    assert [row.saved_bytes for row in cut.phases if row.phase == "materialize"] == [None]


def test_the_worst_rank_comes_first_and_one_rank_can_be_asked_for() -> None:
    failures = (RankFailure(2, "rank2.pickle", "truncated"),)
    trace, *known = late()
    run = run_of(Trace(), trace, records=[record([]), record(*known)], failures=failures)
    report = dangling(run)
    assert [(one.rank, one.dangling_bytes // MIB) for one in report.ranks] == [(1, 60), (0, 0)]
    assert [one.rank for one in report.broken] == [2]
    alone = dangling(run, rank=0)
    assert ([one.rank for one in alone.ranks], alone.broken) == ([0], ())
    assert DanglingReport.model_validate_json(report.model_dump_json()) == report


# ------------------------------------------------------------------ holders


def one(name: str, size: int, *holders: tuple[str, str]) -> Dangling:
    return kept(name, *holders, size=size, run=None)


def test_each_kind_of_holder_with_what_it_keeps() -> None:
    found = [
        one("a", 10, ("2 references", UNEXPLAINED), ("opt[0]", "optimizer"), ("opt[7]", "optimizer")),
        one("b", 5, ("m.b", "module"), ("opt[1]", "optimizer")),
        one("c", 100, ("m.c", "module")),
        one("d", 1),
        one("e", 1, ("something", "new kind")),
    ]
    rows = holder_kinds(found)
    assert [(row.kind, row.parameters, row.held_bytes, row.example) for row in rows] == [
        ("module", 2, 105, "m.b"),
        ("optimizer", 2, 15, "opt[0]"),
        ("new kind", 1, 1, "something"),
        (UNEXPLAINED, 1, 10, "2 references"),
    ]
    assert [row.advice == ADVICE.get(row.kind, "") for row in rows] == [True] * 4
    assert rows[2].advice == advice_for("new kind") == ""


def test_a_holder_without_a_kind_is_one_all_the_same() -> None:
    (row,) = holder_kinds([one("a", 1, ("x", "")).model_copy(update={"holder_kinds": ()})])
    assert (row.kind, row.example, row.advice) == ("", "x", "")


def test_there_is_advice_for_every_kind_that_the_recorder_knows() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "snapviz" / "record" / "holders").glob("*.py")]
    paths = (ROOT / "snapviz" / "record" / "holders" / "paths.py").read_text("utf-8")
    said = set(re.findall(r'return "(\w+)", f"', paths))
    edges = (ROOT / "snapviz" / "record" / "holders" / "edges.py").read_text("utf-8")
    styles = set(re.findall(r'^    "torch[\w.]+": "(\w+)"', edges, re.MULTILINE)) - {"list"}
    assert len(said) >= 8
    assert {"module", "optimizer", "autograd", "tensor"} <= styles
    assert said | styles | {"optimizer_state", "closure", "default", "object", "view", UNEXPLAINED} <= set(ADVICE)
    assert any("optimizer_state" in text for text in texts)


def test_advice_is_one_line_of_sentences() -> None:
    assert all("\n" not in text and text[0].isupper() and text.endswith(".") for text in ADVICE.values())
    assert max(map(len, ADVICE.values())) < 170


# ------------------------------------------------------------------ real runs


@pytest.mark.parametrize(
    ("name", "ranks", "parameters", "held", "peak", "kind"),
    [
        ("thunder_478/pr", 2, 1, PR, 10_486_272, "module"),
        ("fsdp2_before_notfixed", 1, 75, 343_967_744, None, "optimizer"),
        ("litgpt_eager_8/pr", 1, 227, 13_476_831_232, None, "global"),
        ("litgpt_thunder_8/pr", 1, 17, 1_333_829_632, None, "module"),
        ("accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed", 1, 338, None, None, "optimizer"),
    ],
)
def test_the_leaks_of_the_samples(
    name: str, ranks: int, parameters: int, held: int | None, peak: int | None, kind: str
) -> None:
    report = dangling(sample(name))
    assert len(report.ranks) == ranks
    for rank in report.ranks:
        assert len(rank.dangling) == parameters
        assert rank.dangling_bytes == (held if held is not None else sum(d.block_bytes for d in rank.dangling))
        assert rank.without is not None
        assert rank.without.peak_bytes == max(row.without_bytes or 0 for row in rank.phases)
        assert peak is None or rank.without.peak_bytes == peak
        assert (rank.holders[0].kind, rank.holders[0].parameters, rank.unheld) == (kind, parameters, 0)
        assert rank.holders[0].advice


@pytest.mark.parametrize("name", ["thunder_478/main", "fsdp2_after", "uneven_ranks", "litgpt_eager_8/main"])
def test_where_nothing_dangles(name: str) -> None:
    assert all(not rank.dangling for rank in dangling(sample(name)).ranks)


def test_a_history_that_is_cut_says_why_it_cannot_tell() -> None:
    rank = only(dangling(steps((30, 40, 50), cut=1)))
    assert (rank.dangling_known, rank.phases) == (False, ())
    assert rank.dangling_why == "the record has no phase shard and names no shards"


def test_without_some_of_it_only_they_are_taken_out() -> None:
    facts = sample("accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed").rank(0).facts()
    every = [one.allocation for one in facts.dangling]
    assert without_only(facts, every) == without_only(facts, every[::-1])
    all_of_it = only(dangling(sample("accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed")))
    assert without_only(facts, every) == (all_of_it.without, all_of_it.phases)
    train = {row.phase: row.saved_bytes for row in without_only(facts, every[:1])[1]}
    assert train["train"] == facts.dangling[0].block_bytes
    assert without_only(facts, [])[0].saved_bytes == 0
