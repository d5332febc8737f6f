"""Modules from annotations and from names."""

from __future__ import annotations

import pytest

from snapviz.analyze.facts import ROOT, Facts
from snapviz.analyze.modules import module_of_name
from snapviz.analyze.passes import analyze
from snapviz.schema import RECOMPUTED
from tests.analyze.builders import MIB, Trace, frame, record

FORWARD = frame("forward", "/w/model.py")


def modules(trace: Trace) -> list[str]:
    facts = facts_of(trace)
    return [facts.modules[i] for i in facts.module]


def facts_of(trace: Trace) -> Facts:
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(0))


def moment(trace: Trace, name: str) -> None:
    trace.mark("START", name)
    trace.mark("END", name)
    trace.tick()


def test_what_runs_between_the_ends_of_a_forward_is_its_modules() -> None:
    trace = Trace()
    trace.alloc(20, FORWARD)
    moment(trace, "FSDP::pre_forward")
    trace.alloc(22, FORWARD)
    for layer in ("layers.0", "layers.1"):
        moment(trace, f"FSDP::pre_forward ({layer})")
        trace.alloc(24, FORWARD)
        moment(trace, f"FSDP::post_forward ({layer})")
        trace.tick()
    trace.alloc(26, FORWARD)
    moment(trace, "FSDP::post_forward")
    trace.tick()
    trace.alloc(28, FORWARD)
    assert modules(trace) == ["", ROOT, "layers.0", "layers.1", ROOT, ""]


def test_backward_lasts_until_its_last_part_and_a_forward_inside_it_is_recomputed() -> None:
    trace = Trace()
    moment(trace, "FSDP::pre_forward (layers.0)")
    trace.alloc(20, FORWARD)
    moment(trace, "FSDP::post_forward (layers.0)")
    moment(trace, "FSDP::pre_backward (layers.0)")
    moment(trace, "FSDP::pre_forward (layers.0)")
    trace.alloc(22, FORWARD)
    moment(trace, "FSDP::post_forward (layers.0)")
    trace.alloc(24)
    moment(trace, "FSDP::post_backward_accumulate (layers.0)")
    trace.alloc(26)
    moment(trace, "FSDP::post_backward_reduce (layers.0)")
    trace.tick()
    trace.alloc(28, FORWARD)
    assert modules(trace) == ["layers.0"] * 4 + [""]
    assert facts_of(trace).recomputed.tolist() == [False, True, False, False, False]


def test_a_forward_that_never_ends_lends_its_name_to_nothing() -> None:
    trace = Trace()
    moment(trace, "FSDP::pre_forward (layers.0)")
    trace.alloc(20, FORWARD)
    assert modules(trace) == [""]


def test_what_is_made_in_a_recorded_window_is_that_modules() -> None:
    trace = Trace()
    windows: list[tuple[int, int, int, int]] = []

    def run(name: int, again: bool = False, inner: int | None = None) -> None:
        start = trace.now
        trace.alloc(20, FORWARD)
        trace.tick()
        if inner is not None:
            run(inner, again)
        trace.alloc(22, FORWARD)
        windows.append((name, start, trace.now, RECOMPUTED if again else 0))
        trace.tick()

    trace.alloc(24, FORWARD)
    trace.tick()
    run(0, inner=1)
    run(1, again=True)
    trace.alloc(26, FORWARD)
    noted = {"names": ("", "_orig_mod.layers.0"), "windows": tuple(sorted(windows, key=lambda one: one[1]))}
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), record([("train", 0, trace.now)], modules=noted))
    found = [facts.modules[i] for i in facts.module]
    assert found == ["", ROOT, "layers.0", "layers.0", ROOT, "layers.0", "layers.0", ""]
    assert facts.recomputed.tolist() == [False] * 5 + [True, True, False]


def test_several_modules_of_one_group_are_what_they_share() -> None:
    trace = Trace()
    for name in ("model.embed, model.norm", "embed, lm_head"):
        moment(trace, f"FSDP::pre_forward ({name})")
        trace.alloc(20, FORWARD)
        moment(trace, f"FSDP::post_forward ({name})")
        trace.tick()
    assert modules(trace) == ["model", ROOT]


def test_a_name_says_which_module_has_it_whenever_it_was_made() -> None:
    trace = Trace()
    made = [trace.alloc(20 + 2 * i, FORWARD) for i in range(4)]
    names = [
        ("parameter", "_orig_mod.layers.0.w", made[0], 20 * MIB),
        ("optimizer_state", "layers.1.w.exp_avg", made[1], 22 * MIB),
        ("gradient", "bias", made[2], 24 * MIB),
    ]
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), record([("a", 0, trace.now)], [(trace.now, names)]))
    assert [facts.modules[i] for i in facts.module] == ["layers.0", "layers.1", ROOT, ""]


@pytest.mark.parametrize(
    ("name", "parts", "module"),
    [
        ("layers.0.w", 1, "layers.0"),
        ("layers.0.w.exp_avg", 2, "layers.0"),
        ("w", 1, ROOT),
        ("layers.0 (9 tensors)", 1, "layers.0"),
        ("a.x and 3 more", 1, ROOT),
        ("layers.3", 0, "layers.3"),
        ("model.a, model.b", 0, "model"),
    ],
)
def test_the_module_of_a_name(name: str, parts: int, module: str) -> None:
    assert module_of_name(name, parts) == module


def test_a_module_that_a_later_backward_never_came_to_is_not_still_in_an_earlier_one() -> None:
    trace = Trace()

    def layer(callback: bool) -> None:
        moment(trace, "FSDP::pre_forward (layers.0)")
        trace.alloc(20, FORWARD)
        moment(trace, "FSDP::post_forward (layers.0)")
        if not callback:
            moment(trace, "FSDP::pre_backward (layers.0)")
            trace.alloc(22)
        # torch ends every module of the model here: those whose inputs need no gradient, and those never come to
        trace.mark("START", "FSDP::root_post_backward_callback")
        moment(trace, "FSDP::post_backward_accumulate (layers.0)")
        trace.mark("END", "FSDP::root_post_backward_callback")
        trace.tick()

    layer(callback=False)
    trace.alloc(24, frame("step", "/w/optimizer.py"))
    layer(callback=True)
    facts = facts_of(trace)
    assert [facts.modules[i] for i in facts.module] == ["layers.0", "layers.0", "", "layers.0"]
    assert not facts.recomputed.any()
