"""The state machine that turns what hooks tell into phases."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from snapviz.record.auto import Auto
from tests.record.phaselog import PhaseStub

pytest.importorskip("torch")


@pytest.fixture
def log() -> PhaseStub:
    return PhaseStub()


def train_step(auto: Auto, micro_batches: int = 1, optimizers: int = 1) -> None:
    for _ in range(micro_batches):
        with auto.forward():
            pass
        with auto.backward():
            pass
    for number in range(optimizers):
        step(auto, number)


def step(auto: Auto, optimizer: object = "adam") -> None:
    auto.optimizer_begins(optimizer)
    auto.optimizer_ended(optimizer)


def in_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


# ------------------------------------------------------------------ stretches


def test_calls_of_one_kind_are_one_stretch(log: PhaseStub) -> None:
    auto = Auto(log)
    auto.touch("materialize")
    for _ in range(33):
        auto.touch("shard")
    auto.touch("optimizer")
    assert log.names == ["materialize", "shard", "optimizer"]
    assert log.opened == ["optimizer"], "the last stretch goes on"


def test_only_the_outermost_activity_counts(log: PhaseStub) -> None:
    auto = Auto(log)
    with auto.activity("shard"):
        auto.touch("materialize")
        with auto.activity("ddp"):
            pass
    assert log.names == ["shard"]


def test_a_stretch_may_come_again(log: PhaseStub) -> None:
    auto = Auto(log)
    for name in ("materialize", "optimizer", "shard", "optimizer"):
        auto.touch(name)
    assert log.names == ["materialize", "optimizer", "shard", "optimizer"]


def test_an_activity_that_raises_is_over(log: PhaseStub) -> None:
    auto = Auto(log)
    with pytest.raises(KeyError), auto.activity("shard"):
        raise KeyError
    auto.touch("optimizer")
    assert log.names == ["shard", "optimizer"]


def test_each_thread_has_its_own_outermost_activity(log: PhaseStub) -> None:
    auto = Auto(log)
    with auto.activity("shard"):
        in_thread(lambda: auto.touch("materialize"))
    assert log.names == ["shard", "materialize"]


def test_an_optimizer_that_steps_before_training_is_part_of_making_it(log: PhaseStub) -> None:
    auto = Auto(log)
    step(auto)
    train_step(auto)
    assert log.names[:3] == ["optimizer", "train", "train/step0"]
    assert auto.steps_begun == 1


# ------------------------------------------------------------------ steps


def test_a_step_has_forward_backward_and_optimizer(log: PhaseStub) -> None:
    auto = Auto(log)
    auto.touch("optimizer")
    train_step(auto)
    train_step(auto)
    parts = [["", "/forward", "/backward", "/optimizer"]] * 2
    steps = [f"train/step{i}{part}" for i, names in enumerate(parts) for part in names]
    assert log.names == ["optimizer", "train", *steps]
    assert log.opened == ["train", "train/step1"]


def test_micro_batches_and_several_optimizers_are_one_step(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto, micro_batches=2, optimizers=2)
    train_step(auto)
    assert log.names.count("train/step0/forward") == 2
    assert log.names.count("train/step0/optimizer") == 2
    assert "train/step2" not in log.names


def test_without_an_optimizer_all_is_the_first_step(log: PhaseStub) -> None:
    auto = Auto(log)
    for _ in range(3):
        with auto.forward():
            pass
    assert log.names == ["train", "train/step0", *["train/step0/forward"] * 3]


def test_a_forward_that_nobody_sees_leaves_the_step_to_backward(log: PhaseStub) -> None:
    auto = Auto(log)
    for _ in range(2):
        with auto.backward():
            pass
        step(auto)
    assert [name for name in log.names if name.count("/") == 1] == ["train/step0", "train/step1"]


def test_a_backward_after_the_optimizer_begins_no_step_where_forwards_are_seen(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    with auto.backward():
        pass
    assert auto.steps_begun == 1


def test_forwards_within_backward_are_none(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    with auto.forward():
        pass
    with auto.backward(), auto.forward(), auto.backward():
        pass
    assert log.names[-3:] == ["train/step1", "train/step1/forward", "train/step1/backward"]


def test_optimizers_that_step_within_backward_end_the_step(log: PhaseStub) -> None:
    auto = Auto(log)
    for _ in range(2):
        with auto.forward():
            pass
        with auto.backward():
            in_thread(lambda: step(auto))
    assert "train/step1" in log.names
    assert not [name for name in log.names if name.endswith("optimizer")]


def test_the_forward_of_a_closure_belongs_to_the_same_step(log: PhaseStub) -> None:
    auto = Auto(log)
    auto.touch("materialize")
    train_step(auto)
    with auto.forward():
        pass
    auto.optimizer_begins("lbfgs")
    with auto.forward():
        pass
    auto.optimizer_ended("lbfgs")
    assert auto.steps_begun == 2
    assert log.names[-3:] == ["train/step1/forward", "train/step1/optimizer", "train/step1/forward"]
    assert log.opened == ["train", "train/step1"]


def test_an_optimizer_within_another_is_the_same_part(log: PhaseStub) -> None:
    auto = Auto(log)
    with auto.forward():
        pass
    auto.optimizer_begins("outer")
    step(auto, "inner")
    assert log.opened[-1] == "train/step0/optimizer"
    auto.optimizer_ended("outer")
    assert log.names.count("train/step0/optimizer") == 1
    assert log.opened[-1] == "train/step0"


def test_an_optimizer_that_raised_does_not_stop_the_rest(log: PhaseStub) -> None:
    auto = Auto(log)
    with auto.forward():
        pass
    auto.optimizer_begins("out of memory")
    train_step(auto)
    train_step(auto)
    assert log.names[-4:] == [f"train/step1{part}" for part in ("", "/forward", "/backward", "/optimizer")]


def test_a_forward_that_raises_is_over(log: PhaseStub) -> None:
    auto = Auto(log)
    with pytest.raises(KeyError), auto.forward():
        raise KeyError
    assert log.opened == ["train", "train/step0"]
    with auto.forward():
        pass
    assert log.names.count("train/step0/forward") == 2


def test_a_forward_in_another_thread_is_no_step_of_this_one(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)

    def evaluate() -> None:
        with auto.forward():
            pass

    in_thread(evaluate)
    assert auto.steps_begun == 1
    assert log.opened == ["train", "train/step0"]


def test_training_is_never_left(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    for name in ("materialize", "optimizer", "jit"):
        auto.touch(name)
    assert log.opened == ["train", "train/step0"]
    assert log.names[-1] == "train/step0/optimizer"


def test_what_is_sharded_during_training_has_a_phase_in_its_step(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    auto.touch("shard")
    auto.touch("shard")
    assert log.opened[-1] == "train/step0/shard"
    train_step(auto)
    assert log.names.count("train/step0/shard") == 1
    assert log.opened == ["train", "train/step1"]


# ------------------------------------------------------------------ as many steps as asked for


def test_after_the_steps_asked_for_it_is_done_once(log: PhaseStub) -> None:
    done: list[list[str]] = []
    auto = Auto(log, steps=2, on_done=lambda: done.append(list(log.opened)))
    for _ in range(4):
        train_step(auto)
    assert done == [["train", "train/step1"]]
    assert auto.steps_begun == 2
    assert log.names[-1] == "train/step1/optimizer"


def test_it_is_not_done_before_a_further_step_begins(log: PhaseStub) -> None:
    done: list[int] = []
    auto = Auto(log, steps=2, on_done=lambda: done.append(1))
    train_step(auto)
    train_step(auto)
    assert not done, "what follows the last optimizer step belongs to the last step"


def test_ending_the_process_passes_through(log: PhaseStub) -> None:
    def leave() -> None:
        raise SystemExit(0)

    auto = Auto(log, steps=1, on_done=leave)
    train_step(auto)
    with pytest.raises(SystemExit), auto.forward():
        pass


# ------------------------------------------------------------------ the user's own phases


def test_a_phase_of_the_user_ends_a_stretch(log: PhaseStub) -> None:
    auto = Auto(log)
    auto.touch("materialize")
    auto.pause()
    log.open("mine")
    auto.touch("shard")
    log.close()
    auto.resume()
    auto.touch("shard")
    assert log.names == ["materialize", "mine", "shard"]


def test_a_phase_of_the_user_lies_in_the_step(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    auto.pause()
    log.open("eval")
    with auto.forward():
        pass
    log.close()
    auto.resume()
    train_step(auto)
    assert "train/step0/eval" in log.names
    assert log.opened == ["train", "train/step1"]


def test_a_phase_of_the_user_ends_what_is_sharded_in_a_step(log: PhaseStub) -> None:
    auto = Auto(log)
    train_step(auto)
    auto.touch("shard")
    auto.pause()
    log.open("mine")
    assert log.opened[-1] == "train/step0/mine"


def test_a_step_within_a_phase_of_the_user_still_ends_the_step(log: PhaseStub) -> None:
    auto = Auto(log)
    for _ in range(2):
        with auto.forward():
            pass
        auto.pause()
        log.open("update")
        step(auto)
        log.close()
        auto.resume()
    assert "train/step1/update" in log.names
    assert log.opened == ["train", "train/step1"]


def test_a_phase_of_the_user_within_a_hooked_call_lies_in_its_stretch(log: PhaseStub) -> None:
    auto = Auto(log)
    with auto.activity("materialize"):
        auto.pause()
        log.open("load")
        log.close()
        auto.resume()
    assert log.names == ["materialize", "materialize/load"]


# ------------------------------------------------------------------ what goes wrong


def test_what_goes_wrong_is_told_once_and_raises_nothing(log: PhaseStub) -> None:
    auto = Auto(log)
    log.broken = True
    with pytest.warns(RuntimeWarning, match=r"no more phases .*ValueError: broken"):
        auto.touch("shard")
    train_step(auto)  # a second warning would be an error
    log.broken = False
    train_step(auto)
    assert log.names == []


def test_a_warning_that_is_an_error_does_not_reach_the_program(log: PhaseStub) -> None:
    auto = Auto(log)
    log.broken = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto.touch("shard")


def test_a_forked_process_makes_no_phases(log: PhaseStub, monkeypatch: pytest.MonkeyPatch) -> None:
    auto = Auto(log)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    auto.touch("materialize")
    train_step(auto)
    assert log.names == []


def test_nothing_is_made_once_it_is_stopped(log: PhaseStub) -> None:
    auto = Auto(log)
    auto.stop()
    train_step(auto)
    assert log.names == []
