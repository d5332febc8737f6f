"""What is left to explain: references that Python does not show."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from snapviz.record.holders.counts import Counts, sentence  # noqa: E402
from tests.record.holders.builders import Model, kinds, look, target  # noqa: E402

CPP = "that Python does not show (C++: a DDP bucket, an autograd graph, …)"


def hide(*tensors: Any) -> Any:
    """A list of C++, which the garbage collector cannot look into."""
    return torch._C.ScriptList(list(tensors))


def test_this_torch_counts_as_expected() -> None:
    assert Counts().reliable


def test_everything_is_explained_of_a_model_in_use() -> None:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    model.p1.exp().sum().backward()
    optimizer.step()
    loss, view, kept = (model.p1 @ model.p1).exp().sum(), model.p1[0], model.p1.grad
    assert "unexplained" not in kinds(target(model.p1))
    assert "unexplained" not in kinds(target(kept))
    assert loss is not view


def test_a_tensor_in_cpp() -> None:
    model = Model()
    where, hidden = target(model.p1), hide(model.p1)
    assert look(where) == ["Model._parameters['p1'] ← model (HERE)", f"1 more reference {CPP}"]
    assert kinds(where) == ["module", "unexplained"]
    del hidden
    assert kinds(where) == ["module"]


def test_an_alias_in_cpp() -> None:
    model = Model()
    where, hidden = target(model.p1), hide(model.p1.detach(), model.p1.detach())
    assert look(where)[-1] == f"2 more references {CPP}"
    del hidden
    assert len(look(where)) == 1


def test_both_and_a_view_and_a_graph() -> None:
    model = Model()
    where, hidden = target(model.p1), hide(model.p1.detach(), model.p1)
    loss, view = (model.p1 @ model.p1).sum(), model.p1[0]
    assert look(where)[-1] == f"2 more references {CPP}"
    assert hidden is not loss is not view


def test_no_python_object_at_all() -> None:
    w = torch.ones(3)
    where, hidden = target(w), hide(w)
    del w
    assert look(where) == [f"no Python object holds it: 1 reference {CPP}"]
    assert kinds(where) == ["unexplained"]
    assert hidden is not None


def test_a_value_of_a_call_in_progress() -> None:
    box: list[Any] = []

    def made() -> Any:
        w = torch.ones(3)
        box.append(target(w))
        return w

    _, paths = [made(), look(box[0])]
    assert paths == ["no Python object is seen to hold it: 1 reference from a call in progress, an extension, …"]


def test_a_torch_that_counts_otherwise_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(storage: int) -> int:
        return 9

    monkeypatch.setattr(torch._C, "_storage_Use_Count", more)
    assert not Counts().reliable
    model = Model()
    where, hidden = target(model.p1), hide(model.p1)
    assert kinds(where) == ["module"]
    del model
    assert look(where) == ["no Python object is seen to hold it"]
    assert hidden is not None


def test_nothing_left_over_says_nothing() -> None:
    assert sentence(0, 0, any_holder=True) is None
    assert sentence(0, 0, any_holder=False) is None
    assert sentence(None, 3, any_holder=True) is None
