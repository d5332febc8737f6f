"""The search as a whole: bounds, order, and a heap full of objects that bite."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from snapviz.record.holders import Target, find_holders  # noqa: E402
from tests.record.holders.builders import Model, ThunderModule, find, look, target  # noqa: E402


def many(count: int) -> tuple[Any, list[Target]]:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(count)]
    return torch.optim.AdamW(weights), [target(each, f"w{i}") for i, each in enumerate(weights)]


def test_300_parameters_of_one_optimizer() -> None:
    optimizer, targets = many(300)
    found = find(*targets)
    assert found.complete
    paths = [f"optimizer.param_groups[0]['params'][{i}]" for i in range(300)]
    assert [each.path.partition(" ← ")[0] for each in found.holders] == paths
    assert [each.parameter for each in found.holders] == [each.name for each in targets]
    assert len(optimizer.param_groups) == 1


def test_the_order_is_that_of_the_targets_then_the_shortest_path() -> None:
    first, second = Model(), ThunderModule(Model())
    old = first.p1
    found = find(target(second._model.p1, "b"), target(first.p1, "a"))
    assert [(each.parameter, each.path.count("←")) for each in found.holders] == [("b", 2), ("a", 0), ("a", 1)]
    assert old is first.p1


def test_two_names_of_one_storage() -> None:
    model = Model()
    found = find(target(model.p1, "a"), target(model.p1, "b"))
    assert [each.parameter for each in found.holders] == ["a", "b"]


def test_no_time() -> None:
    model = Model()
    found = find(target(model.p1), deadline_s=0)
    assert (found.holders, found.complete) == ((), False)
    assert found.searched_us < 1_000_000


def test_time_that_ends_on_the_way() -> None:
    optimizer, targets = many(3)
    for micros in (1, 100, 1_000, 10_000, 30_000, 100_000):
        found = find(*targets, deadline_s=micros / 1e6)
        assert not any(each.kind == "unexplained" for each in found.holders)
    assert optimizer is not None


def test_no_more_paths_than_asked_for() -> None:
    model = Model()
    model.kept = [model.p1] * 5
    found = find(target(model.p1), max_paths=2)
    assert [each.path.partition(" ←")[0] for each in found.holders] == ["Model._parameters['p1']", "Model.kept[0]"]
    assert not found.complete


def test_no_deeper_than_asked_for() -> None:
    m = ThunderModule(ThunderModule(Model()))
    found = find(target(m._model._model.p1), max_depth=2)
    assert [each.path for each in found.holders] == ["Model._parameters['p1'] ← ThunderModule._model"]
    assert not found.complete


def test_what_is_ignored_is_no_holder() -> None:
    class Own:
        def __init__(self) -> None:
            self.rows = [torch.ones(3)]

    own = Own()
    where = target(own.rows[0])
    assert look(where, ignore=[id(own.rows)]) == []
    assert look(where, ignore=[id(own)]) == []
    assert look(where, ignore=[id(own.rows[0])]) == []
    assert look(where) == ["Own.rows[0] ← own (HERE)"]


def test_another_size_at_the_same_address_is_another_storage() -> None:
    w = torch.ones(3)
    where = target(w)
    assert find(Target("w", where.address, where.nbytes + 4)).holders == ()
    assert find_holders([where], device_type="cuda").holders == ()
    assert find(Target("w", where.address, 0)).holders == ()


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        look(target(torch.ones(3)))
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()


def test_frozen_objects_are_not_seen_and_it_is_said() -> None:
    model = Model()
    where = target(model.p1)
    gc.freeze()
    try:
        assert not find(where).complete
    finally:
        gc.unfreeze()


def test_no_weak_references_to_parameters_and_nothing_kept() -> None:
    model = Model()
    where = target(model.p1)
    gc.collect()
    look(where)
    assert weakref.getweakrefcount(model.p1) == 0
    storage = weakref.ref(model.p1.untyped_storage())
    del model
    assert storage() is None


class Meta(type):
    def __eq__(cls, other: object) -> bool:
        raise touched("Meta.__eq__")

    def __hash__(cls) -> int:
        raise touched("Meta.__hash__")

    def __instancecheck__(cls, instance: object) -> bool:
        raise touched("Meta.__instancecheck__")

    def __getattribute__(cls, name: str) -> Any:
        raise touched(f"Meta.{name}")


TOUCHED: list[str] = []


def touched(name: str) -> Exception:
    TOUCHED.append(name)
    return RuntimeError(name)


def raising(name: str) -> Any:
    def method(*_: Any, **__: Any) -> Any:
        raise touched(name)

    return method


BITES = (
    "__eq__",
    "__hash__",
    "__getattr__",
    "__getattribute__",
    "__iter__",
    "__len__",
    "__bool__",
    "__repr__",
    "items",
)


def biting(base: type, **more: Any) -> Any:
    space = {name: raising(name) for name in BITES} | {"__class__": property(raising("__class__"))} | more
    return Meta(base.__name__.title() + "Trap", (base,), space)


def traps(w: Any) -> tuple[list[Any], list[Any]]:
    """Objects that hold ``w``, and their classes."""
    plain, with_dict = biting(object), biting(object, __dict__=property(raising("__dict__")))
    classes = [plain, with_dict, biting(dict), biting(list), biting(tuple), biting(types.ModuleType)]
    held = [object.__new__(plain), object.__new__(with_dict), dict.__new__(classes[2]), list.__new__(classes[3])]
    held += [tuple.__new__(classes[4], [w]), types.ModuleType.__new__(classes[5])]
    types.ModuleType.__init__(held[5], "trap")
    for one in (0, 1, 5):
        object.__setattr__(held[one], "w", w)
    dict.__setitem__(held[2], "w", w)
    list.append(held[3], w)
    return held, classes


def test_objects_that_bite_are_not_touched() -> None:
    held, classes = traps(torch.ones(3))
    where = target(list.__getitem__(held[3], 0))
    dead = weakref.proxy(Model())
    TOUCHED.clear()
    found = find(where, max_paths=20)
    assert TOUCHED == []
    function = test_objects_that_bite_are_not_touched
    here = f"{function.__name__} (test_search.py:{function.__code__.co_firstlineno + 5})"
    assert [each.path.partition(" ←")[0] for each in found.holders] == [
        f"local 'held'[2]['w'] in {here}",
        f"local 'held'[3][0] in {here}",
        f"local 'held'[4][0] in {here}",
        "ModuleTrap.w",
        "ObjectTrap (inside)",
        "ObjectTrap.w",
    ]
    assert len(classes) == 6
    assert weakref.getweakrefcount is not dead


def test_keys_that_bite() -> None:
    class Key:
        armed = False

        def __hash__(self) -> int:
            if Key.armed:
                raise touched("hash")
            return 1

        def __eq__(self, other: object) -> bool:
            raise touched("eq")

        def __repr__(self) -> str:
            raise touched("repr")

    kept = {Key(): torch.ones(3)}
    where = target(next(iter(kept.values())))
    Key.armed = True
    TOUCHED.clear()
    assert look(where) == ["local 'kept'[…] in test_keys_that_bite (HERE)"]
    assert TOUCHED == []


def test_a_tensor_that_overrides_everything() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise touched("torch function")

    with torch._C.DisableTorchFunctionSubclass():
        loud = torch.ones(3).as_subclass(Loud)
        where = target(loud)
    TOUCHED.clear()
    assert look(where) == ["local 'loud' in test_a_tensor_that_overrides_everything (HERE), a view of it"]
    assert TOUCHED == []


def test_tensors_without_memory_are_passed_over() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    meta, empty, model = torch.ones(3, device="meta"), torch.ones(0), Model()
    sparse = torch.ones(3).to_sparse()
    where = target(model.p1)
    assert look(where) == ["Model._parameters['p1'] ← model (HERE)"]
    assert len({id(each) for each in (fake, meta, empty, sparse)}) == 4


def test_a_lazy_clone_stays_one() -> None:
    w = torch.ones(3)
    lazy = torch._lazy_clone(w)
    assert torch._C._is_cow_tensor(lazy)
    find(Target("w", 1, 12))
    assert torch._C._is_cow_tensor(lazy)


def test_garbage_that_waits_for_the_collector() -> None:
    class Loop:
        pass

    def make() -> Target:
        loop, ring = Loop(), [torch.ones(3)]
        ring.append(ring)  # type: ignore[arg-type]
        loop.me, loop.w = loop, torch.ones(5)  # type: ignore[attr-defined]
        rings.append(target(ring[0]))
        return target(loop.w)  # type: ignore[attr-defined]

    rings: list[Target] = []
    gc.collect()
    gc.disable()
    try:
        assert look(make()) == ["Loop.w"]
        assert look(rings[0]) == ["a list[0] that nothing in Python is seen to hold"]
    finally:
        gc.enable()
    gc.collect()
    assert look(rings[0]) == []


def test_a_mode_of_the_user_sees_nothing() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, *_: Any, **__: Any) -> Any:
            raise touched("dispatch")

    model = Model()
    where = target(model.p1)
    TOUCHED.clear()
    with Mode():
        paths = look(where)
    assert (paths, TOUCHED) == (["Model._parameters['p1'] ← model (HERE)"], [])
