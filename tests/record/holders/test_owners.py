"""Holders that live on: modules, optimizers, objects, classes, functions, globals."""

from __future__ import annotations

import functools
import types
from collections import deque
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")

from tests.record.holders.builders import Model, ThunderModule, kinds, look, target  # noqa: E402

kept_here: list[Any] = []


# fmt: off
def make(w: Any) -> Any:
    def step() -> Any: return w
    return step
# fmt: on


class Trainer:
    def __init__(self) -> None:
        self.history: list[Any] = []


class Slotted:
    __slots__ = ("w",)


class Registry:
    kept: ClassVar[dict[str, Any]] = {}


def test_a_module() -> None:
    model = Model()
    where = target(model.p1)
    assert look(where) == ["Model._parameters['p1'] ← model (HERE)"]
    where = target(model.p1)
    assert kinds(where) == ["module"]


def test_the_original_that_a_wrapper_keeps() -> None:
    m = ThunderModule(Model())
    where = target(m._model.p1)
    assert look(where) == ["Model._parameters['p1'] ← ThunderModule._model ← m (HERE)"]


def test_a_list_of_a_module() -> None:
    model = Model()
    model.w_list = [None, None, model.p1]
    where = target(model.p1)
    assert look(where) == [
        "Model._parameters['p1'] ← model (HERE)",
        "Model.w_list[2] ← model (HERE)",
    ]


def test_modules_that_only_list_are_folded() -> None:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([torch.nn.Identity(), Model()])
    model.w = torch.nn.ParameterList([torch.ones(3)])
    net = torch.nn.Sequential(torch.nn.Identity(), Model())
    where = target(model.layers[1].p1)
    assert look(where) == ["Model._parameters['p1'] ← Module.layers[1] ← model (HERE)"]
    where = target(model.w[0])
    assert look(where) == ["Module.w[0] ← model (HERE)"]
    where = target(net[1].p1)
    assert look(where) == ["Model._parameters['p1'] ← net[1] (HERE)"]


def test_each_module_that_shares_a_parameter_is_a_holder() -> None:
    model, other = Model(), ThunderModule(None)
    other.tied = model.p1
    where = target(model.p1)
    assert look(where) == [
        "Model._parameters['p1'] ← model (HERE)",
        "ThunderModule._parameters['tied'] ← other (HERE)",
    ]


def test_an_optimizer_made_before_sharding() -> None:
    optimizer, where = optimizer_of_a_model()  # noqa: RUF059
    assert look(where) == [
        "optimizer.param_groups[0]['params'][0] ← optimizer (HERE)",
        "optimizer.state (a key) ← optimizer (HERE)",
    ]
    assert kinds(where) == ["optimizer", "optimizer_state"]


def optimizer_of_a_model() -> tuple[Any, Any]:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    model.p1.sum().backward()
    optimizer.step()
    return optimizer, target(model.p1)


def test_an_optimizer_inside_an_object_goes_by_its_class() -> None:
    trainer = Trainer()
    trainer.optimizer, where = optimizer_of_a_model()
    assert look(where) == [
        "AdamW.param_groups[0]['params'][0] ← Trainer.optimizer ← trainer (HERE)",
        "AdamW.state (a key) ← Trainer.optimizer ← trainer (HERE)",
    ]


def test_the_state_of_an_optimizer() -> None:
    optimizer, _ = optimizer_of_a_model()
    (state,) = optimizer.state.values()
    where = target(state["exp_avg"])
    del state
    assert look(where) == ["optimizer.state[…]['exp_avg'] ← optimizer (HERE)"]
    assert kinds(where) == ["optimizer_state"]


def test_an_attribute_of_an_object() -> None:
    trainer = Trainer()
    trainer.history = [0, 1, 2, torch.ones(3)]
    where = target(trainer.history[3])
    assert look(where) == ["Trainer.history[3] ← trainer (HERE)"]
    where = target(trainer.history[3])
    assert kinds(where) == ["object"]


def test_an_attribute_of_an_object_whose_dict_was_asked_for() -> None:
    trainer = Trainer()
    trainer.__dict__["w"] = torch.ones(3)
    where = target(trainer.__dict__["w"])
    assert look(where) == ["Trainer.w ← trainer (HERE)"]


def test_a_slot() -> None:
    slotted = Slotted()
    slotted.w = torch.ones(3)
    where = target(slotted.w)
    assert look(where) == ["Slotted.w ← slotted (HERE)"]


def test_containers_are_folded() -> None:
    bag = Trainer()
    bag.history = [{"a": (0, deque([torch.ones(3)]))}, {frozenset([torch.ones(5)]): 0}, {7: torch.ones(6), b"x": 0}]
    (inner,) = next(iter(bag.history[1]))
    fifth = target(inner)
    del inner
    where = target(bag.history[0]["a"][1][0])
    assert look(where) == ["Trainer.history[0]['a'][1][0] ← bag (HERE)"]
    assert look(fifth) == ["Trainer.history[1] (a key)[…] ← bag (HERE)"]
    where = target(bag.history[2][7])
    assert look(where) == ["Trainer.history[2][7] ← bag (HERE)"]


def test_a_container_that_holds_itself() -> None:
    loop: list[Any] = [torch.ones(3)]
    loop.append(loop)
    where = target(loop[0])
    assert look(where)[0] == "local 'loop'[0] in test_a_container_that_holds_itself (HERE)"
    loop.clear()


def test_a_class_attribute() -> None:
    Registry.kept["w"] = torch.ones(3)
    where = target(Registry.kept["w"])
    try:
        assert look(where) == ["class attribute Registry.kept['w']"]
        assert kinds(where) == ["class"]
    finally:
        Registry.kept.clear()


def test_a_closure() -> None:
    step = make(torch.ones(3))
    where = target(step())
    line = make.__code__.co_firstlineno + 1
    assert look(where) == [f"closure variable 'w' of make.<locals>.step (test_owners.py:{line})"]
    assert kinds(where) == ["closure"]


def test_default_arguments() -> None:
    def step(a: int, b: int = 0, w: Any = torch.ones(3)) -> Any:  # noqa: B008
        return w

    def other(*, w: Any = [torch.ones(4)]) -> Any:  # noqa: B006, B008
        return w[0]

    first, second = step.__code__.co_firstlineno, other.__code__.co_firstlineno
    where = target(step(0))
    assert look(where) == [f"default argument 'w' of test_default_arguments.<locals>.step (test_owners.py:{first})"]
    where = target(other())
    assert look(where) == [
        f"default argument 'w'[0] of test_default_arguments.<locals>.other (test_owners.py:{second})"
    ]
    where = target(step(0))
    assert kinds(where) == ["default"]


def test_an_attribute_of_a_function() -> None:
    def step() -> None: ...

    step.cache = [torch.ones(3)]  # type: ignore[attr-defined]
    line = step.__code__.co_firstlineno
    name = "test_an_attribute_of_a_function.<locals>.step"
    where = target(step.cache[0])
    assert look(where) == [f"{name}.cache[0] (test_owners.py:{line})"]  # type: ignore[attr-defined]


def test_a_global_of_a_module() -> None:
    kept_here.append(torch.ones(3))
    where = target(kept_here[0])
    try:
        assert look(where) == [f"{__name__}.kept_here[0]"]
        assert kinds(where) == ["global"]
    finally:
        kept_here.clear()


def test_a_global_of_the_program() -> None:
    space: dict[str, Any] = {"__name__": "__main__", "__file__": "/home/me/train.py"}
    exec("def keep(w):\n    global model_copy\n    model_copy = w", space)
    space["keep"](torch.ones(3))
    keep, where = space["keep"], target(space["model_copy"])
    del space
    assert look(where) == ["global model_copy in train.py"]
    assert keep is not None


def test_a_module_object_that_is_no_module() -> None:
    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"loaded {name}")

    lazy = Lazy("lazy")
    lazy.w = torch.ones(3)
    where = target(lazy.w)
    assert look(where) == ["Lazy.w ← lazy (HERE)"]


def test_a_bound_method_keeps_its_object() -> None:
    methods = Trainer()
    methods.history = [Model().forward]
    where = target(methods.history[0].__self__.p1)
    assert look(where) == [
        "Model._parameters['p1'] ← bound method _forward_unimplemented ← Trainer.history[0] ← methods (HERE)"
    ]


def run(model: Any) -> list[str]:
    where = target(model.p1)
    return look(where)


def test_of_two_functions_the_outer_one_is_told() -> None:
    whole_model = Model()
    (path,) = run(whole_model)
    line = test_of_two_functions_the_outer_one_is_told.__code__.co_firstlineno + 2
    assert path == f"Model._parameters['p1'] ← whole_model (test_owners.py:{line})"


def test_a_name_is_nearer_than_another_object() -> None:
    model, trainer = Model(), Trainer()
    trainer.history.append(model)
    kept_here.append(model)
    where = target(model.p1)
    del model
    try:
        assert look(where) == [f"Model._parameters['p1'] ← {__name__}.kept_here[0]"]
    finally:
        kept_here.clear()
    assert look(where) == ["Model._parameters['p1'] ← Trainer.history[0] ← trainer (HERE)"]


def test_a_closure_ends_a_path_where_no_name_does() -> None:
    registry, step = Trainer(), make(Model())
    where = target(step().p1)
    line = make.__code__.co_firstlineno + 1
    closure = f"closure variable 'w' of make.<locals>.step (test_owners.py:{line})"
    assert look(where) == [f"Model._parameters['p1'] ← {closure}"]
    registry.history.append(Trainer())
    registry.history[0].history.append(step())
    path = "Model._parameters['p1'] ← Trainer.history[0] ← Trainer.history[0] ← registry (HERE)"
    assert look(where) == [path]


def test_a_function_that_wraps_a_module_is_named_after_it() -> None:
    model = Model()

    @functools.wraps(model)
    def wrapped() -> None:
        pass

    assert wrapped.__dict__["_parameters"] is model._parameters
    first, second = look(target(model.p1))
    assert first == "Model._parameters['p1'] ← model (HERE)"
    assert second.startswith("wrapped") or "wrapped" in second
