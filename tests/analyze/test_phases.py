from __future__ import annotations

import numpy as np
import pytest

from snapviz.analyze.facts import BEFORE, OUTSIDE
from snapviz.analyze.passes import analyze
from snapviz.analyze.phases import end_of_run, fold, folded_phases, phase_of
from snapviz.analyze.scopes import find_scopes
from snapviz.replay.model import MEASURES
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record


def facts_of(trace: Trace, rank_record: RankRecord | None = None):
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(trace.device), rank_record)


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("train/step0", "train/step0"),
        ("train/step7", "train/step"),
        ("train/step12/forward", "train/step/forward"),
        ("epoch2/step0", "epoch/step0"),
        ("layer3", "layer3"),
        ("step", "step"),
        ("materialize", "materialize"),
    ],
)
def test_later_steps_fold(name: str, folded: str) -> None:
    assert fold(name) == folded


def test_scopes_become_steps_and_what_is_inside_them() -> None:
    trace = Trace()
    trace.alloc(20, frame("before"))
    for step in range(3):
        trace.mark("START", f"ProfilerStep#{step}")
        trace.mark("START", "forward")
        address = trace.alloc(30, frame("act"))
        trace.mark("END", "forward")
        trace.mark("START", "FSDP::all_gather (layers.0)")
        trace.mark("END", "FSDP::all_gather (layers.0)")
        trace.mark("START", "Optimizer.step#AdamW.step")
        trace.free(address)
        trace.mark("END", "Optimizer.step#AdamW.step")
        trace.mark("END", f"ProfilerStep#{step}")
    trace.alloc(40, frame("after"))
    facts = facts_of(trace)
    assert facts.phases.source == "annotations"
    assert facts.phases.names[:4] == ("train/step0", "train/step0/forward", "train/step0/optimizer", "train/step1")
    births = [facts.births[b] for b in facts.birth]
    assert births == [OUTSIDE, *(f"train/step{i}/forward" for i in range(3)), OUTSIDE]
    assert list(folded_phases(facts.phases)) == [
        "train/step0",
        "train/step0/forward",
        "train/step0/optimizer",
        "train/step",
        "train/step/forward",
        "train/step/optimizer",
    ]
    assert any("1 kind of short library scopes" in note for note in facts.notes)


def test_peak_end_and_growth_are_those_of_the_curve_in_all_four_measures() -> None:
    trace = Trace()
    kept = trace.alloc(20)
    start = trace.tick()
    trace.free(trace.alloc(60))
    trace.alloc(40)
    stop = trace.tick()
    trace.free(kept)
    phases = facts_of(trace, record([("a", start, stop), ("b", stop, trace.now)])).phases
    assert phases.names == ("a", "b")
    assert MEASURES == ("requested", "allocated", "active", "reserved")
    assert (phases.start // MIB).tolist() == [[20, 20, 20, 20], [60, 60, 60, 120]]
    assert (phases.peak // MIB).tolist() == [[80, 80, 80, 120], [60, 60, 60, 120]]
    assert (phases.end // MIB).tolist() == [[60, 60, 60, 120], [40, 40, 40, 120]]
    assert (phases.growth // MIB).tolist() == [[40, 40, 40, 100], [-20, -20, -20, 0]]


def test_a_phase_without_events_is_as_high_as_what_was_there() -> None:
    trace = Trace()
    trace.alloc(20)
    start, stop = trace.tick(), trace.tick()
    trace.alloc(40)
    phases = facts_of(trace, record([("quiet", start, stop)])).phases
    assert (phases.peak[0] // MIB).tolist() == (phases.end[0] // MIB).tolist() == [20, 20, 20, 20]
    assert phases.first[0] == phases.stop[0]


def test_annotations_that_do_not_balance_are_told_and_harm_nothing() -> None:
    trace = Trace()
    trace.mark("END", "forward")
    trace.mark("START", "eval")
    trace.alloc(20)
    trace.mark("START", "eval/inner")
    trace.alloc(40)
    facts = facts_of(trace)
    assert facts.phases.names == ("eval", "eval/eval|inner")
    assert any("3 annotations have no partner" in note for note in facts.notes)


def test_scopes_of_one_name_inside_each_other_are_paired_from_the_inside() -> None:
    trace = Trace()
    for stage in ("START", "START"):
        trace.mark(stage, "eval")
        trace.alloc(20)
    for stage in ("END", "END"):
        trace.mark(stage, "eval")
        trace.alloc(30)
    facts = facts_of(trace)
    assert facts.phases.names == ("eval", "eval/eval")
    assert [facts.births[b] for b in facts.birth] == ["eval", "eval/eval", "eval", OUTSIDE]


def test_steps_are_inferred_from_the_optimizer_and_say_so() -> None:
    trace = Trace()
    for _ in range(2):
        trace.alloc(20)
        trace.mark("START", "Optimizer.step#SGD.step")
        trace.alloc(30)
        trace.mark("END", "Optimizer.step#SGD.step")
    trace.alloc(40)
    facts = facts_of(trace)
    assert facts.phases.source == "optimizer steps"
    births = [facts.births[b] for b in facts.birth]
    inferred = [i for i, name in enumerate(facts.phases.names) if name.count("/") == 1]
    assert facts.phases.start_us[inferred[1]] == facts.phases.stop_us[inferred[0]] + 1
    steps = [f"train/step{i}{end}" for i in range(2) for end in ("", "/optimizer")]
    assert births == [*steps, OUTSIDE]
    assert any("steps are inferred" in note for note in facts.notes)


def test_without_anything_the_run_is_one_phase() -> None:
    trace = Trace()
    trace.free(trace.alloc(20))
    facts = facts_of(trace)
    assert facts.phases.names == ("run",)
    assert (int(facts.phases.first[0]), int(facts.phases.stop[0])) == (0, 4)
    assert any("no phases are recorded" in note for note in facts.notes)


def test_what_is_older_than_the_recording_says_so() -> None:
    trace = Trace()
    trace.alloc(20, frame("old"))
    trace.events.clear()
    trace.alloc(30, frame("new"))
    facts = facts_of(trace)
    assert sorted(facts.births[b] for b in facts.birth) == [BEFORE, "run"]


def test_a_record_that_reaches_further_back_than_the_ring() -> None:
    trace = Trace()
    old = trace.alloc(20, frame("old"))
    made = trace.tick()
    trace.events.clear()
    trace.tick()
    trace.alloc(30, frame("new"))
    phases = [("materialize", 0, made), ("shard", made, trace.now), ("train/step0", trace.now + 1, trace.now + 2)]
    nothing = (made - 1, [])  # a boundary at which nothing was named is no set of names
    names = [nothing, (made, [("parameter", "w", old, 20 * MIB)]), (trace.now, [("shard", "v", old, 20 * MIB)])]
    facts = facts_of(trace, record(phases, names))
    assert facts.phases.names == ("shard", "train/step0")
    assert "phase materialize lies before the first event that is left: it is not shown" in facts.notes
    assert any(note.startswith("phase shard began before the first event") for note in facts.notes)
    assert "1 set of names older than the first event that is left: not used" in facts.notes
    assert [facts.owners[o] for o in facts.owner] == ["v", ""]
    assert facts.dangling == ()


@pytest.mark.parametrize("count", [32, 33, 40])
def test_no_count_decides_what_is_a_phase(count: int) -> None:
    trace = Trace()
    trace.mark("START", "ProfilerStep#0")
    for name in ("layer", "FullyShardedDataParallel.forward"):
        for _ in range(count):
            trace.mark("START", name)
            trace.mark("END", name)
    trace.alloc(20)
    trace.mark("END", "ProfilerStep#0")
    phases = facts_of(trace).phases
    assert {name: len(at) for name, at in folded_phases(phases).items()} == {
        "train/step0": 1,
        "train/step0/layer": count,
    }


def optimizers(names: list[str], steps: int = 3) -> Trace:
    trace = Trace()
    trace.alloc(20)
    for _ in range(steps):
        trace.free(trace.alloc(100))
        for name in names:
            trace.mark("START", f"Optimizer.step#{name}.step")
            trace.free(trace.alloc(30))
            trace.mark("END", f"Optimizer.step#{name}.step")
    return trace


@pytest.mark.parametrize("names", [["AdamW"], ["Muon", "AdamW"], ["Muon", "AdamW", "SGD"]])
def test_a_step_ends_with_the_last_of_its_optimizers(names: list[str]) -> None:
    phases = facts_of(optimizers(names)).phases
    steps = [i for i, name in enumerate(phases.names) if name.count("/") == 1]
    assert [phases.names[i] for i in steps] == ["train/step0", "train/step1", "train/step2"]
    # each holds its forward, which is the highest
    assert phases.peak[steps, 1].tolist() == [120 * MIB] * 3


def test_a_recording_that_begins_between_two_optimizers_is_cut_as_the_whole_is() -> None:
    trace = optimizers(["Muon", "AdamW"])
    whole = facts_of(trace).phases
    # its first event is left from inside the first AdamW
    trace.events = [event for event in trace.events if event["time_us"] > int(whole.start_us[2])]
    phases = facts_of(trace).phases
    steps = [i for i, name in enumerate(phases.names) if name.count("/") == 1]
    assert phases.stop_us[steps].tolist() == sorted(whole.stop_us[[n.count("/") == 1 for n in whole.names]].tolist())


def test_the_vectorised_peaks_are_the_replays_own() -> None:
    trace = optimizers(["Muon", "AdamW"])
    facts = facts_of(trace)
    phases, replay = facts.phases, facts.replay
    for index in range(len(phases)):
        first, stop = int(phases.first[index]), int(phases.stop[index])
        assert phases.peak[index].tolist() == [replay.peak(measure, first, stop)[0] for measure in MEASURES]
        assert phases.start[index].tolist() == list(vars(replay.after(first - 1)).values())
        assert phases.end[index].tolist() == list(vars(replay.after(stop - 1)).values())


def test_events_without_times_have_one_phase() -> None:
    trace = Trace()
    trace.alloc(20)
    for event in trace.events:
        del event["time_us"]
    facts = facts_of(trace, record([("a", 0, 10)], [(5, [("parameter", "w", 1, 1)])]))
    assert facts.phases.names == ("run",)
    assert any("carry no times" in note for note in facts.notes)
    assert not np.any(facts.owner)


def test_the_innermost_phase_holds_an_event() -> None:
    trace = Trace()
    trace.mark("START", "outer")
    trace.alloc(20)
    trace.mark("START", "inner")
    trace.alloc(30)
    trace.mark("END", "inner")
    trace.mark("END", "outer")
    trace.alloc(40)
    phases = facts_of(trace).phases
    assert [phase_of(phases, e) for e in (-1, 1, 3, 5)] == [None, "outer", "outer/inner", None]


def test_a_phase_that_holds_all_that_its_outer_one_does_is_the_innermost() -> None:
    trace = Trace()
    trace.mark("START", "outer")
    trace.mark("START", "inner")
    trace.alloc(30)
    trace.mark("END", "inner")
    trace.mark("END", "outer")
    phases = facts_of(trace).phases
    assert (phases.first[0], phases.stop[0]) == (phases.first[1], phases.stop[1])
    assert phase_of(phases, int(phases.first[0])) == "outer/inner"


def marked(*marks: tuple[str, str, int], at: tuple[int, ...] = (1_500, 2_500)) -> Trace:
    """Allocations at these times, and annotations (stage, name, time)."""
    trace = Trace()
    for time in at:
        trace.now = time - 20
        trace.alloc(20)
    trace.annotations = [{"name": n, "stage": stage, "device": 0, "time_us": time} for stage, n, time in marks]
    return trace


@pytest.mark.parametrize("ended", [False, True])
def test_what_nests_without_end_is_a_phase_only_so_deep(ended: bool) -> None:
    marks = [("START", f"scope{i}", 1_000 + i) for i in range(600)]
    marks += [("END", f"scope{i}", 4_000 - i) for i in range(600)] if ended else []
    facts = facts_of(marked(*marks))
    assert facts.phases.names == tuple("/".join(f"scope{i}" for i in range(depth)) for depth in range(1, 9))
    assert any(note.startswith("592 scopes more than 8 deep") for note in facts.notes)


def test_what_lies_deep_in_others_is_still_a_step_and_what_is_in_it() -> None:
    marks = [("START", f"scope{i}", 1_000 + i) for i in range(9)]
    marks += [(stage, "ProfilerStep#0", time) for stage, time in (("START", 1_400), ("END", 2_600))]
    marks += [(stage, "forward", time) for stage, time in (("START", 1_401), ("END", 2_599))]
    facts = facts_of(marked(*marks))
    assert facts.phases.names[-2:] == ("train/step0", "train/step0/forward")
    assert any(note.startswith("1 scope more") for note in facts.notes)


def test_a_phases_name_never_grows_long() -> None:
    names = [c * 1_000_000 for c in "abcd"]
    facts = facts_of(marked(*(("START", name, 1_000 + i) for i, name in enumerate(names))))
    assert facts.phases.names == ("a" * 200 + "…", "a" * 200 + "…/" + "b" * 200 + "…")
    assert any(note.startswith("2 scopes more") for note in facts.notes)


def test_scopes_that_share_a_name_share_its_text() -> None:
    name = "x" * 100_000
    marks = [(stage, name, 1_000 + i) for i in range(50) for stage in ("START", "END")]
    columns = marked(*marks).snap().columns
    scopes, _ = find_scopes(columns, 0, 0, 5_000)
    assert len(scopes) == 50
    assert {id(scope.name) for scope in scopes} == {id(scopes[0].name)}
    assert len(scopes[0].name) == 201


def test_a_file_has_no_more_than_a_thousand_names_and_all_its_steps() -> None:
    marks = [mark for i in range(1_200) for mark in (("START", f"{i}x", 1_000 + i), ("END", f"{i}x", 1_000 + i))]
    marks += [("START", "ProfilerStep#1", 2_400), ("END", "ProfilerStep#1", 2_600)]
    facts = facts_of(marked(*marks))
    assert len(folded_phases(facts.phases)) == 1_000
    assert "train/step1" in facts.phases.names
    assert any(note.startswith("201 scopes of further names: not shown") for note in facts.notes)


LAST = (1 << 63) - 1


@pytest.mark.parametrize("time", [LAST, LAST - 1, 1 << 62])
def test_scopes_at_the_end_of_time_are_scopes(time: int) -> None:
    step = "Optimizer.step#SGD.step"
    marks = [(stage, step, time) for _ in range(2) for stage in ("START", "END")]
    facts = facts_of(marked(*marks, ("START", "Optimizer.step#Never.step", time)))
    assert facts.phases.source == "optimizer steps"
    assert facts.phases.peak[0].tolist() == [40 * MIB] * 4


def test_times_before_1970_are_none_and_an_end_before_its_start_is_its_start() -> None:
    marks = [("START", "old", -5), ("END", "old", -3), ("START", "back", 1_400), ("END", "back", 1_300)]
    phases = facts_of(marked(*marks)).phases
    assert (phases.names, phases.start_us.tolist(), phases.stop_us.tolist()) == (("back",), [1_400], [1_400])


@pytest.mark.parametrize("digits", [19, 5_000])
def test_a_number_of_too_many_digits_counts_nothing(digits: int) -> None:
    assert fold("step" + "9" * digits) == "step" + "9" * digits
    assert fold("step" + "9" * 18) == "step"
    facts = facts_of(marked(("START", "step" + "9" * digits, 1_000), ("START", "ProfilerStep#" + "9" * digits, 1_001)))
    assert len(folded_phases(facts.phases)) == 2


def ring() -> Trace:
    trace = Trace()
    trace.alloc(20, frame("old"))
    trace.events.clear()
    trace.now = 5_000
    trace.alloc(30, frame("new"))
    return trace


def test_where_all_recorded_phases_are_lost_the_run_is_one_phase() -> None:
    facts = facts_of(ring(), record([("shard", 0, 1_000), ("train/step0", 1_000, 2_000)]))
    assert (facts.phases.names, facts.phases.source) == (("run",), "none")
    assert (int(facts.phases.first[0]), int(facts.phases.stop[0])) == (0, len(facts.replay))
    why = "all recorded phases lie before the first event that is left: the whole recording is one phase, 'run'"
    assert why in facts.notes
    assert any(note.startswith("phases shard, train/step0 lie before the first event") for note in facts.notes)
    assert facts.dangling_why == "the phase shard lies before the first event that is left"


def test_a_reversed_phase_is_where_it_starts() -> None:
    facts = facts_of(ring(), record([("a", 0, 1_000), ("back", 5_025, 0)]))
    assert facts.phases.names == ("back",)
    assert facts.phases.stop_us.tolist() == [5_025]


def test_phases_that_began_too_early_are_not_all_told() -> None:
    facts = facts_of(ring(), record([(f"p{i}", i, 6_000) for i in range(50)]))
    assert sum("began before the first event that is left: " in note for note in facts.notes) == 8
    assert "42 more phases began before the first event that is left" in facts.notes


def test_a_long_stack_is_shown_without_its_middle_and_each_text_once() -> None:
    trace = Trace()
    for name in ("a", "b"):
        trace.alloc(20, frame(name), *(frame("f" * 100_000, line=i % 2) for i in range(998)), frame("main"))
    facts = facts_of(trace)
    first, second = (facts.stack_lines(int(stack)) for stack in facts.replay.allocations.stack)
    assert len(first) == 201
    assert first[150] == "… 800 frames …"
    assert (first[0], first[-1]) == ("a (/repo/model.py:1)", "main (/repo/model.py:1)")
    assert max(map(len, first)) < 600
    assert len({id(text) for text in first + second}) == 7


def test_a_run_ends_with_its_training_and_not_when_the_program_lets_go() -> None:
    for phase, more, at_the_end in (("train", 0, False), ("train", 40, True), ("warmup", 0, True)):
        trace = Trace()
        start = trace.now
        model = trace.alloc(30)
        trace.free(trace.alloc(20))
        stop = trace.tick()
        if more:
            trace.alloc(more)  # what stays counts, whenever it was made
        trace.free(model)
        facts = facts_of(trace, record([(phase, start, stop)], []))
        over = end_of_run(facts)
        assert (over == len(facts.replay) - 1) == at_the_end
        held = facts.replay.after(over).allocated_bytes
        assert held == ((more if at_the_end else 30) << 20)


def test_an_empty_recording_ends_where_it_starts() -> None:
    assert end_of_run(facts_of(Trace(), record([("train", 0, 10)], []))) == -1
