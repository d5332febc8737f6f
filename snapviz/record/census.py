"""The census of a boundary: which tensor lies where, by name, and which originals are still there.

Nothing here allocates on the device, and nothing keeps a tensor: originals are watched by a weak reference
to their storage, never to a parameter (``swap_tensors`` raises for a tensor with weak references).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from snapviz.record.sharded import Managed, Named, is_thunder, joined, of_fsdp1, of_fsdp2, of_thunder
from snapviz.record.tensors import Row, inner, is_split, row, storage_of
from snapviz.record.watched import Watched
from snapviz.schema import is_place

__all__ = ["Census", "Original"]

_WRAPPERS = ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")
"""Attributes that stand between a module's path and its child's: a name is to be the same with and without."""

_RUN_WITH = ("parameter", "shard", "unsharded")
"""Kinds of what a module runs with. FSDP1 has an optimizer's parameters lie in what it gathered, for a while."""

_DATA_PARALLEL = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine")
"""Wrappers that call what they wrap ``module``, as other classes may call a child of theirs."""


@dataclass
class Original:
    """A parameter as it was before sharding."""

    name: str
    address: int
    nbytes: int
    weak: Any = field(default=None, repr=False)  # StorageWeakRef; None where it was seen just now

    def is_there(self) -> bool:
        """Whether its storage lives and still has its bytes where they were."""
        import torch

        if self.weak is None:
            return True
        if self.weak.expired():
            return False
        storage = torch.UntypedStorage._new_with_weak_ptr(self.weak.cdata)
        return storage is not None and storage.nbytes() > 0 and storage.data_ptr() == self.address


class Census:
    """Takes the names of everything that is watched."""

    def __init__(self, watched: Watched, device_type: str) -> None:
        self._watched = watched
        self._device_type = device_type
        self._originals: dict[tuple[str, int], Original] = {}
        """By name and address: one that another took the place of is watched on while it is there."""
        self._called: dict[int, tuple[str, tuple[int, ...]]] = {}
        """Id of a parameter, on any device → what its module called it, and its shape: what an optimizer holds
        on to is told by that, though its bytes came to the device only as it was sharded."""
        self._held: dict[int, str] = {}
        """Id of a parameter that an optimizer held when names were last taken → its name then. It is the same
        object as long as it is held: FSDP1 puts views in its place in the module between forward and backward."""
        self.lost: set[str] = set()
        """What could not be read, in words: a framework's inside may look otherwise in its next version."""
        self.complete = True
        """Whether all could be read when names were last taken."""

    def take(self) -> tuple[Row, ...]:
        """Rows of all watched modules and optimizers, each once, in a steady order."""
        self.complete = True
        rows: dict[tuple[str, str, int], Row] = {}
        by_id: dict[int, str] = {}
        for kind, name, tensor in self._of_modules(by_id):
            self._add(rows, kind, name, tensor)
            if kind == "parameter" and _has_storage(tensor):
                # the first of its names, where it is tied: FSDP2 calls it that too
                self._called[id(tensor)] = (by_id.get(id(tensor), name), tuple(tensor.shape))
        self._originals = {key: original for key, original in self._originals.items() if original.is_there()}
        by_address = _by_address(self._originals.values())
        held, self._held = self._held, {}
        by_id = held | by_id
        for kind, name, tensor in self._of_optimizers(by_id, by_address):
            self._add(rows, kind, name, tensor)
        return tuple(rows.values())

    def paths(self) -> Iterator[tuple[str, Any]]:
        """Every module that is watched, each with what the names of its parameters begin with."""
        for label, root in self._watched.modules():
            yield from _walk(label, root, set())

    def dangling(self, rows: Iterable[Row]) -> list[Original]:
        """What was once a parameter, is there, and is nothing that ``rows`` run with."""
        run_with = {found.address: found.name for found in rows if found.kind in _RUN_WITH}
        names = set(run_with.values())
        there = _by_address(one for one in self._originals.values() if one.is_there())
        for found in rows:
            # a master copy of an optimizer's own was never a module's
            if found.kind == "optimizer_param" and (found.name in names or not is_place(found.name)):
                there.setdefault(found.address, Original(found.name, found.address, found.nbytes))
        return [one for address, one in there.items() if address not in run_with]

    # ------------------------------------------------------------------ what there is

    def _add(self, rows: dict[tuple[str, str, int], Row], kind: str, name: str, tensor: Any) -> None:
        # one tensor that has no storage, or not yet, must not lose the others
        try:
            self._name(rows, kind, name, tensor)
        except Exception as error:
            self._lose(f"the {kind} {name}", error)

    def _name(self, rows: dict[tuple[str, str, int], Row], kind: str, name: str, tensor: Any) -> None:
        if not _has_storage(tensor):
            return
        if kind == "parameter" and is_split(tensor):
            kind = "shard"
        for part, plain in inner(name, tensor):
            found = row(kind, part, plain, self._device_type)
            if found is not None:
                rows.setdefault((kind, part, found.address), found)
                if kind == "parameter":
                    self._remember(found, plain)

    def _remember(self, found: Row, tensor: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        known = self._originals.get((found.name, found.address))
        if known is None or known.weak.expired():
            weak = StorageWeakRef(tensor.untyped_storage())
            self._originals[found.name, found.address] = Original(found.name, found.address, found.nbytes, weak)

    def _of_modules(self, by_id: dict[int, str]) -> Iterator[Named]:
        for label, root in self._watched.modules():
            # one module that cannot be read must not lose the others
            try:
                yield from _of_root(label, root, by_id)
            except Exception as error:
                self._lose(f"names of a {type(root).__name__}", error)

    def _of_optimizers(self, by_id: dict[int, str], by_address: dict[int, Original]) -> Iterator[Named]:
        for label, optimizer in self._watched.optimizers():
            try:
                yield from self._of_optimizer(label or type(optimizer).__name__, optimizer, by_id, by_address)
            except Exception as error:
                self._lose(f"names of a {type(optimizer).__name__}", error)

    def _lose(self, what: str, error: Exception) -> None:
        self.complete = False
        self.lost.add(f"{what} ({type(error).__name__}: {error})")

    def _of_optimizer(
        self, label: str, optimizer: Any, by_id: dict[int, str], by_address: dict[int, Original]
    ) -> Iterator[Named]:
        names: dict[int, str] = {}
        held = [
            (param, f"{label}.param_groups[{i}]['params'][{j}]")
            for i, group in enumerate(optimizer.param_groups)
            for j, param in enumerate(group["params"])
        ]
        # keys of the state that no group has any more: they keep what they are
        held += [(param, f"{label}.state, key {i}") for i, param in enumerate(optimizer.state) if _is_tensor(param)]
        for param, place in held:
            if id(param) not in names:
                names[id(param)] = by_id.get(id(param)) or self._former_name(param, by_address) or place
                self._held[id(param)] = names[id(param)]
                yield "optimizer_param", names[id(param)], param
        for number, (param, state) in enumerate(optimizer.state.items()):
            yield from _tensors_in("optimizer_state", names.get(id(param), f"{label}.state {number}"), state)

    def _former_name(self, param: Any, by_address: dict[int, Original]) -> str | None:
        """What the parameter in the same storage was called before it was replaced in its module."""
        for _, plain in inner("", param):
            found = storage_of(plain, self._device_type)
            original = by_address.get(found[0]) if found else None
            if original is not None and original.is_there():
                return original.name
        # an id can be another object's by now: one of the same shape as well is not likely
        name, shape = self._called.get(id(param), (None, None))
        return name if shape == tuple(param.shape) else None


def _by_address(originals: Iterable[Original]) -> dict[int, Original]:
    """The first at each address: tied parameters are one."""
    found: dict[int, Original] = {}
    for one in originals:
        found.setdefault(one.address, one)
    return found


def _of_root(label: str, root: Any, by_id: dict[int, str]) -> Iterator[Named]:
    modules = list(_walk(label, root, set()))
    paths = {id(module): path for path, module in modules}
    managed: Managed = set()
    for path, module in modules:
        if is_thunder(module):
            found = tuple(of_thunder(path, module))
        else:
            found = (*of_fsdp2(path, module, paths, managed), *of_fsdp1(path, module, managed))
        for kind, name, tensor in found:
            if kind in ("parameter", "shard"):
                by_id.setdefault(id(tensor), name)
            yield kind, name, tensor
    for path, module in modules:
        if not is_thunder(module):
            yield from _of_module(path, module, managed, by_id)


def _of_module(path: str, module: Any, managed: Managed, by_id: dict[int, str]) -> Iterator[Named]:
    """What a module itself holds: its own parameters, their gradients, its buffers."""
    for attribute, param in module._parameters.items():
        if param is None:
            continue
        name = joined(path, attribute)
        # FSDP1 lets an optimizer have the originals, which are views of its flat parameter by then
        by_id.setdefault(id(param), name)
        if (id(module), attribute) in managed:
            continue
        yield "parameter", name, param
        if param.grad is not None:
            yield "gradient", name, param.grad
    for attribute, buffer in module._buffers.items():
        if buffer is not None:
            yield "buffer", joined(path, attribute), buffer


def _walk(path: str, module: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """A module and all below it, each once, with its path; not into what a ThunderModule keeps."""
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    if is_thunder(module):
        return
    for attribute, child in module._modules.items():
        if child is not None:
            wraps = attribute in _WRAPPERS or (attribute == "module" and type(module).__name__ in _DATA_PARALLEL)
            yield from _walk(path if wraps else joined(path, attribute), child, seen)


def _tensors_in(kind: str, name: str, value: Any, depth: int = 0) -> Iterator[Named]:
    """The tensors in an optimizer's state, which may be dicts and lists of them."""
    if _is_tensor(value):
        yield kind, name, value
    elif depth < 4 and isinstance(value, dict):
        for key, one in value.items():
            yield from _tensors_in(kind, f"{name}.{key}", one, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _tensors_in(kind, f"{name}[{i}]", one, depth + 1)


def _has_storage(tensor: Any) -> bool:
    """Whether a tensor has one: a lazy module's parameter has none yet, a sparse one's parts have their own."""
    import torch

    return tensor.layout is torch.strided and not isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
