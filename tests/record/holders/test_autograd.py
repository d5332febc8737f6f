"""What autograd keeps, and tensors that share a storage."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.record.holders.builders import Model, find, kinds, look, target  # noqa: E402


def test_saved_tensors_and_the_accumulator() -> None:
    w = torch.nn.Parameter(torch.ones(4, 4))
    where = target(w)
    loss = torch.addmm(torch.ones(4), torch.ones(4, 4, requires_grad=True), w).sum()
    del w
    assert look(where) == [
        "saved tensors of AddmmBackward0 ← loss (HERE)",
        "variable of AccumulateGrad ← loss (HERE)",
    ]
    assert kinds(where) == ["autograd", "autograd"]
    loss.backward()
    del loss
    assert look(where) == []


def test_a_saved_result() -> None:
    w = torch.ones(3, requires_grad=True).exp()
    loss = w.sum() + 1
    where = target(w)
    del w
    assert look(where) == ["saved tensors of ExpBackward0 ← loss (HERE)"]
    assert loss is not None


def test_a_saved_tensor_changed_in_place() -> None:
    w = torch.nn.Parameter(torch.ones(4, 4))
    loss, where = (w @ w).sum(), target(w)
    with torch.no_grad():
        w.add_(1)
    del w
    assert "saved tensors of MmBackward0 ← loss (HERE)" in look(where)
    assert loss is not None


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Any) -> Any:
        ctx.save_for_backward(w)
        ctx.copies = [w]
        return w * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


def test_a_function_of_the_user() -> None:
    w = torch.ones(3, requires_grad=True)
    loss, where = Twice.apply(w), target(w)
    del w
    assert look(where) == [
        "TwiceBackward.copies[0] ← loss (HERE)",
        "saved tensors of TwiceBackward ← loss (HERE)",
        "variable of AccumulateGrad ← loss (HERE)",
    ]
    assert kinds(where) == ["autograd"] * 3
    assert loss is not None


def test_hooks_that_unpack_are_not_run() -> None:
    def unpack(packed: Any) -> Any:
        raise AssertionError("unpacked")

    w = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda each: {"kept": each}, unpack):
        loss = w.exp()
    where = target(loss)
    history = loss.grad_fn
    del loss
    assert look(where) == ["saved tensors of ExpBackward0['kept'] ← history (HERE)"]
    assert history is not None


def test_the_shortest_graph_is_told() -> None:
    w = torch.nn.Parameter(torch.ones(3))
    where = target(w)
    far = w * 2
    for _ in range(2000):
        far = far + 1
    del w
    assert look(where) == ["variable of AccumulateGrad ← far (HERE)"]


def test_a_gradient() -> None:
    model = Model()
    model.p1.grad = torch.ones(4, 4)
    where = target(model.p1.grad)
    assert look(where) == ["Parameter.grad ← Model._parameters['p1'] ← model (HERE)"]
    assert kinds(where) == ["tensor"]


@pytest.mark.parametrize("alias", ["detach", "data", "narrow"])
def test_what_shares_the_storage_is_a_holder(alias: str) -> None:
    model = Model()
    where = target(model.p1)
    with torch.no_grad():
        v = {"detach": model.p1.detach, "data": lambda: model.p1.data, "narrow": lambda: model.p1.narrow(0, 1, 2)}[
            alias
        ]()
    name = "test_what_shares_the_storage_is_a_holder"
    assert look(where) == [f"local 'v' in {name} (HERE), a view of it", "Model._parameters['p1'] ← model (HERE)"]
    assert v is not None


def test_a_view_alone() -> None:
    v = torch.ones(4)[1:]
    where = target(v)
    assert look(where) == ["local 'v' in test_a_view_alone (HERE), a view of it"]


def test_a_storage() -> None:
    model = Model()
    where, raw = target(model.p1), model.p1.untyped_storage()
    assert look(where) == [
        "local 'raw' in test_a_storage (HERE), its storage",
        "Model._parameters['p1'] ← model (HERE)",
    ]
    assert raw is not None


def test_an_attribute_of_a_tensor() -> None:
    w = torch.ones(3)
    w.main = torch.ones(5)
    where = target(w.main)
    assert look(where) == ["Tensor.main ← w (HERE)"]


@pytest.mark.filterwarnings("ignore")
def test_a_subclass_that_is_made_of_tensors() -> None:
    two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(two(torch.ones(3), torch.zeros(3)))
    where = target(model.w.a)
    assert look(where)[-1].endswith("Tensor.a ← Module._parameters['w'] ← model (HERE)")


def test_a_freed_storage_has_no_address() -> None:
    w = torch.ones(3)
    where = target(w)
    w.untyped_storage().resize_(0)
    assert find(where).holders == ()
