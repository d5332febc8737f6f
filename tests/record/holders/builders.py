"""What the tests of the search share."""

from __future__ import annotations

import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from snapviz.record.holders import Found, Target, find_holders  # noqa: E402


class Model(torch.nn.Module):
    """One parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.p1 = torch.nn.Parameter(torch.ones(4, 4))


class ThunderModule(torch.nn.Module):
    """Keeps the original, as thunder does."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model


def target(tensor: Any, name: str = "p1") -> Target:
    storage = tensor.untyped_storage()
    return Target(name, storage.data_ptr(), storage.nbytes())


def find(*targets: Target, **options: Any) -> Found:
    return find_holders(targets, device_type="cpu", **options)


def look(*targets: Target, **options: Any) -> list[str]:
    """The paths found, with HERE for the line of the caller."""
    caller = sys._getframe(1)
    here = f"{caller.f_code.co_filename.rsplit('/', 1)[-1]}:{caller.f_lineno}"
    found = find(*targets, **options)
    assert found.complete
    return [each.path.replace(here, "HERE") for each in found.holders]


def kinds(*targets: Target) -> list[str]:
    return [each.kind for each in find(*targets).holders]
