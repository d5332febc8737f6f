"""Which tensors lie in which storage: one pass over every object the garbage collector knows."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from snapviz.record.holders.clock import Clock
from snapviz.record.holders.safe import class_space, mro_of

__all__ = ["Edge", "Index", "Reader", "add_tensor", "build_index"]

_CHECK = 1 << 15
"""Objects between two looks at the clock: about 5 ms."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A reference from one object to another that Python does not show."""

    parent: int
    # id of what holds
    kind: str
    # grad, saved, variable, graph


@dataclass(slots=True)
class Index:
    """What one pass found.

    Everything but ``alive`` holds ids alone, so that there is one container to be left out of the search.
    """

    alive: dict[int, Any] = field(default_factory=dict)
    # id → object: while it is here no other object can get the id
    groups: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    # address of a wanted storage → tensors in it
    storages: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    # address → storage objects that Python held before the search
    tensors: set[int] = field(default_factory=set)
    # every tensor met
    nodes: set[int] = field(default_factory=set)
    # autograd nodes that Python holds
    hidden: dict[int, list[Edge]] = field(default_factory=lambda: defaultdict(list))
    # child → edges that the garbage collector does not show
    counted: Counter[int] = field(default_factory=Counter)
    # tensor → references of C++ to it that were found


class Reader:
    """Reads tensors past their overrides. Allocates nothing and starts no operator."""

    def __init__(self, wanted: dict[int, int], device_type: str) -> None:
        import torch

        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._base: Any = torch._C._TensorBase  # type: ignore[attr-defined, unused-ignore]
        self._storage = torch.UntypedStorage
        self._wanted = wanted
        self._sizes = frozenset(wanted.values())
        self._is_lazy = getattr(torch._C, "_is_cow_tensor", None)
        self._device_type = device_type

    def kind_of(self, cls: type) -> str:
        """``tensor``, ``storage``, ``node`` or nothing."""
        bases = mro_of(cls)
        if any(base is self._tensor for base in bases):
            return "tensor"
        if any(base is self._storage for base in bases):
            return "storage"
        return "node" if any("next_functions" in class_space(base) for base in bases[:3]) else ""

    def address(self, tensor: Any) -> int | None:
        """The address of the tensor's storage where it is a wanted one. Needs torch functions off."""
        try:
            # asking for the address of a lazy clone makes it a real one, in new memory
            if self._is_lazy is not None and self._is_lazy(tensor):
                return None
            # never tensor.device: a subclass may answer that by running an operator
            return self.storage_address(self._base.untyped_storage(tensor))
        except Exception:
            return None

    def storage_address(self, storage: Any) -> int | None:
        """The address of a storage where it is a wanted one."""
        try:
            # a freed storage (resize_(0)) has no address to ask for, and a fake one raises
            nbytes = self._storage.nbytes(storage)
            if (
                nbytes <= 0
                or nbytes not in self._sizes
                or self._storage.device.__get__(storage).type != self._device_type
            ):
                return None
            address = int(self._storage.data_ptr(storage))
        except Exception:
            return None
        return address if self._wanted.get(address) == nbytes else None

    def gradient(self, tensor: Any) -> Any:
        """The tensor's gradient where reading it does not warn."""
        base = self._base
        try:
            if base.is_leaf.__get__(tensor) or base.retains_grad.__get__(tensor):
                return base.grad.__get__(tensor)
        except Exception:
            return None
        return None

    def base_of(self, tensor: Any) -> Any:
        """What the tensor is a view of."""
        try:
            return self._base._base.__get__(tensor) if self._base._is_view(tensor) else None
        except Exception:
            return None

    def history(self, tensor: Any) -> Any:
        """The node that made the tensor."""
        try:
            return None if self._base.is_leaf.__get__(tensor) else self._base.grad_fn.__get__(tensor)
        except Exception:
            return None

    def is_parameter(self, tensor: Any) -> bool:
        """Whether it is what a module registers, and not made from one."""
        return any(base is self._parameter for base in mro_of(type(tensor)))

    def is_part(self, tensor: Any) -> bool:
        """Whether the tensor is known to be made from another that has the same storage."""
        try:
            whole = self._storage.nbytes(self._base.untyped_storage(tensor))
            return bool(self._base._is_view(tensor)) or self._base.nbytes.__get__(tensor) < whole
        except Exception:
            return False


def build_index(reader: Reader, more: Iterable[Any], clock: Clock, ignore: Collection[int]) -> Index:
    """Every tensor, storage and node that Python can reach; ``more`` are objects it may not list."""
    index = Index()
    kinds: dict[int, str] = {}
    objects = gc.get_objects()
    for number, obj in enumerate(objects):
        if number % _CHECK == 0 and clock.late():
            break
        cls = type(obj)
        kind = kinds.get(id(cls))
        if kind is None:
            kind = kinds[id(cls)] = reader.kind_of(cls)
        if kind and id(obj) not in ignore:
            _take(index, reader, obj, kind)
    del objects
    for obj in more:
        kind = reader.kind_of(type(obj))
        if kind and id(obj) not in ignore:
            _take(index, reader, obj, kind)
    return index


def _take(index: Index, reader: Reader, obj: Any, kind: str) -> None:
    if kind == "tensor":
        add_tensor(index, reader, obj)
    elif kind == "node":
        index.alive[id(obj)] = obj
        index.nodes.add(id(obj))
    else:
        address = reader.storage_address(obj)
        if address is not None and id(obj) not in index.storages[address]:
            index.alive[id(obj)] = obj
            index.storages[address].append(id(obj))


def add_tensor(index: Index, reader: Reader, tensor: Any) -> None:
    """Puts a tensor where it belongs, and with it the gradient and the base that it keeps."""
    if id(tensor) in index.tensors:
        return
    index.tensors.add(id(tensor))
    index.alive[id(tensor)] = tensor
    address = reader.address(tensor)
    if address is not None:
        index.groups[address].append(id(tensor))
    gradient, base = reader.gradient(tensor), reader.base_of(tensor)
    if gradient is not None:
        index.hidden[id(gradient)].append(Edge(id(tensor), "grad"))
    for kept in (gradient, base):
        if kept is not None:
            index.counted[id(kept)] += 1
            add_tensor(index, reader, kept)
