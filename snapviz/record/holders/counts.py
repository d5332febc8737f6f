"""How many references to a storage nobody can name.

A storage counts its tensors, in Python and in C++ alike, and its one Python object; a tensor counts its one
Python object and the references of C++ to it. What of that the search has not met is what C++ keeps by
itself. Each count is tried out on a tensor of the search's own first: with a torch that counts otherwise
there is no number rather than a wrong one.
"""

from __future__ import annotations

import sys
from typing import Any

from snapviz.record.holders.index import Index

__all__ = ["Counts", "sentence"]

_CPP = "C++: a DDP bucket, an autograd graph, …"
_CALL = "a call in progress, an extension, …"


class Counts:
    """Reads counts, once it is known how this torch counts."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self._base: Any = torch._C._TensorBase  # type: ignore[attr-defined, unused-ignore]
        self._by_python = 0
        self._kept = 0
        try:
            self.reliable = self._try_out()
        except Exception:
            self.reliable = False

    def hidden(self, index: Index, address: int) -> int:
        """References of C++ to a storage or to its tensors that are not among those found."""
        tensors = [index.alive[one] for one in index.groups[address]]
        by_storage = self._of_storage(tensors[0]) - 1 - len(tensors)
        by_tensor = [self._base._use_count(one) - 1 - index.counted[id(one)] for one in tensors]
        return max(0, by_storage) + sum(max(0, int(one)) for one in by_tensor)

    def in_python(self, index: Index, address: int) -> int:
        """References of Python to the tensors of a storage, the search's own left out."""
        found = 0
        if not self.reliable:
            return 0
        for one in index.groups[address]:
            kept = self._kept if self._base._use_count(index.alive[one]) > 1 else 0
            found += max(0, sys.getrefcount(index.alive[one]) - self._by_python - kept)
        return found

    def _of_storage(self, tensor: Any) -> int:
        storage = self._base.untyped_storage(tensor)
        return int(self._torch._C._storage_Use_Count(storage._cdata))

    def _try_out(self) -> bool:
        # a mode of the user's would see the operators
        if self._torch._C._len_torch_dispatch_stack() > 0:
            return False
        own = {0: self._torch.empty(1, device="cpu")}
        first = self._base._use_count(own[0]), self._of_storage(own[0])
        before = sys.getrefcount(own[0])
        alias = self._base.detach(own[0])
        second = self._base._use_count(own[0]), self._of_storage(own[0])
        view = self._base.view(own[0], 1)
        third = self._base._use_count(own[0]), self._of_storage(own[0])
        self._by_python, self._kept = before, sys.getrefcount(own[0]) - before
        of_view = int(self._base._is_view(view))
        del alias, view
        same = self._base.untyped_storage(own[0]) is self._base.untyped_storage(own[0])
        return same and (first, second, third) == ((1, 2), (1, 3), (1 + of_view, 4))


def sentence(hidden: int | None, in_python: int, any_holder: bool) -> str | None:
    """What is left to explain in words, none where that is nothing. ``hidden`` is none where unknown."""
    if any_holder:
        return f"{_references(hidden, 'more ')} that Python does not show ({_CPP})" if hidden else None
    if hidden is None:
        return "no Python object is seen to hold it"
    if hidden:
        return f"no Python object holds it: {_references(hidden)} that Python does not show ({_CPP})"
    return f"no Python object is seen to hold it: {_references(in_python)} from {_CALL}" if in_python else None


def _references(count: int | None, more: str = "") -> str:
    return f"{count} {more}reference{'' if count == 1 else 's'}"
