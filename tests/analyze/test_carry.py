"""Names carried to later steps: only where a step makes as many of a kind, and in the same order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.analyze.passes import analyze
from tests.analyze.builders import MIB, Trace, frame, record
from tests.test_sample_runs import sample

GRADIENT = frame("accumulate", "/w/engine.py")


def steps(counts: list[int], named: list[bool]) -> Facts:
    """Each step makes so many blocks of 20 MiB in one line, w0, w1, …; some steps' names are read at their end."""
    trace = Trace()
    phases, boundaries = [], []
    for number, (count, read) in enumerate(zip(counts, named, strict=True)):
        start = trace.tick()
        made = [trace.alloc(20, GRADIENT) for _ in range(count)]
        if read:
            boundaries.append((trace.now, [("gradient", f"l.w{i}", at, 20 * MIB) for i, at in enumerate(made)]))
        trace.tick()
        for at in made:
            trace.free(at)
        phases.append((f"train/step{number}", start, trace.tick()))
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(0), record(phases, boundaries))


def told(facts: Facts) -> list[tuple[str, str, str]]:
    columns = zip(facts.owner, facts.category, facts.evidence, strict=True)
    return [(facts.owners[o], CATEGORIES[c], EVIDENCE[e]) for o, c, e in columns]


def test_the_nth_of_a_step_is_what_the_nth_was() -> None:
    found = told(steps([2, 2, 2], [False, True, False]))
    names = [("l.w0", "gradient"), ("l.w1", "gradient")]
    assert [one[:2] for one in found] == names * 3
    assert [one[2] for one in found] == ["inferred"] * 2 + ["recorded"] * 2 + ["inferred"] * 2


def test_nothing_is_carried_where_a_step_makes_more_or_fewer() -> None:
    found = told(steps([2, 3, 1], [True, False, False]))
    assert [one[0] for one in found] == ["l.w0", "l.w1", "", "", "", ""]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=7))
def test_a_carried_name_is_never_another_one_than_a_step_of_the_same_shape_has(program: list[tuple[int, bool]]) -> None:
    counts, named = [count for count, _ in program], [read for _, read in program]
    found = told(steps(counts, named))
    known = {count for count, read in program if read}
    at = 0
    for count in counts:
        for i in range(count):
            assert found[at + i][0] == (f"l.w{i}" if count in known else "")
        at += count


def test_modules_of_a_step_that_noted_them_are_those_of_a_later_one() -> None:
    """Windows of three steps of five: what the others make has the modules of what is like it."""
    for name in ("single", "litgpt_eager_8/main"):
        facts = sample(name).ranks[0].facts()
        activation = facts.category == CATEGORIES.index("activation")
        births = [facts.births.index(f"train/step{number}/forward") for number in (1, 3)]
        noted, carried = ([facts.modules[i] for i in facts.module[activation & (facts.birth == at)]] for at in births)
        assert noted == carried
        assert len(set(noted)) > 10


def test_names_of_a_hidden_step_of_a_real_run_come_back_right() -> None:
    for name in ("single", "accelerate_fsdp2_2/torch_optimizer_after_fsdp", "litgpt_thunder_2/main"):
        rank = sample(name).ranks[0]
        whole = rank.facts()
        assert rank.record is not None
        kept = tuple(b for b in rank.record.boundaries if "step2" not in (b.phase or ""))
        assert len(kept) < len(rank.record.boundaries)
        less = analyze(
            0, rank.columns, whole.replay, rank.record.model_copy(update={"boundaries": kept}), rank.world_size
        )
        hidden = (whole.evidence == EVIDENCE.index("recorded")) & (less.evidence != EVIDENCE.index("recorded"))
        assert hidden.any()
        texts = [facts.owners[i] for facts in (whole,) for i in facts.owner[hidden]]
        again = [less.owners[i] for i in less.owner[hidden]]
        assert [b for b in again if b] == [a for a, b in zip(texts, again, strict=True) if b]
        assert sum(map(bool, again)) >= 0.9 * len(again)


def test_no_rule_is_the_reason_for_a_carried_category() -> None:
    trace = Trace()
    phases, boundaries = [], []
    for number in range(2):
        start = trace.tick()
        made = trace.alloc(20, frame("forward", "/w/model.py"))
        if not number:
            boundaries.append((trace.now, [("buffer", "cache", made, 20 * MIB)]))
        trace.tick()
        trace.free(made)
        phases.append((f"train/step{number}", start, trace.tick()))
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), record(phases, boundaries))
    assert told(facts)[1] == ("cache", "buffer", "inferred")
    assert facts.rule[1] == len(facts.rules)


def test_of_two_steps_that_know_a_name_the_one_before_gives_it() -> None:
    trace = Trace()
    phases, boundaries = [], []
    for number, name in enumerate(("early", None, "late", None)):
        start = trace.tick()
        made = trace.alloc(20, GRADIENT)
        boundaries += [(trace.now, [("gradient", name, made, 20 * MIB)])] if name else []
        trace.tick()
        trace.free(made)
        phases.append((f"train/step{number}", start, trace.tick()))
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), record(phases, boundaries))
    assert [facts.owners[i] for i in facts.owner] == ["early", "early", "late", "late"]
