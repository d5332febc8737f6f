"""Names of what a framework shards, from where that framework keeps it.

Each function yields ``(kind, name, tensor)`` and adds to ``managed`` the parameters, as (id of the module,
attribute), that are not to be named again as what they look like at the moment: FSDP2 puts the shard and
the gathered parameter into the same attribute in turn.

Sources, by version: torch/distributed/fsdp/_fully_shard (2.6 to 2.14; ``_composable/fsdp`` before),
torch/distributed/fsdp/_flat_param.py, thunder/core/module.py (0.2.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Managed", "Named", "is_thunder", "joined", "of_fsdp1", "of_fsdp2", "of_thunder"]

Named = tuple[str, str, Any]
Managed = set[tuple[int, str]]


def joined(path: str, name: str) -> str:
    """``path.name``, or the name alone at the root."""
    return f"{path}.{name}" if path else name


# ------------------------------------------------------------------ FSDP2


def of_fsdp2(path: str, module: Any, paths: dict[int, str], managed: Managed) -> Iterator[Named]:
    """What ``fully_shard`` made of a module; ``paths``: id of a module → its path."""
    get_state = getattr(module, "_get_fsdp_state", None)
    if get_state is None:
        return
    for group in _groups(get_state()):
        gathered = getattr(getattr(group, "_all_gather_result", None), "all_gather_output", None)
        if gathered is not None:
            yield "all_gather", joined(path, "all_gather_output"), gathered
        for param in getattr(group, "fsdp_params", ()):
            yield from _of_fsdp_param(param, paths, managed)


def _groups(state: Any) -> Iterable[Any]:
    # from 2.12 the singular raises where there are several
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return tuple(several)
    one = getattr(state, "_fsdp_param_group", None)
    return () if one is None else (one,)


def _of_fsdp_param(param: Any, paths: dict[int, str], managed: Managed) -> Iterator[Named]:
    name = _first_name(param._module_info, paths, managed)
    sharded = getattr(param, "sharded_param", None)
    if sharded is not None:
        yield "shard", name, sharded
        if sharded.grad is not None:
            yield "gradient", name, sharded.grad
    for gathered in getattr(param, "all_gather_outputs", ()):
        yield "unsharded", name, gathered
    unsharded = getattr(param, "_unsharded_param", None)
    if unsharded is not None and unsharded.grad is not None:
        yield "gradient", name, unsharded.grad
    accumulated = getattr(param, "unsharded_accumulated_grad", None)
    if accumulated is not None:
        yield "gradient", name, accumulated


def _first_name(info: Any, paths: dict[int, str], managed: Managed) -> str:
    """What the first module that has it calls it: tied weights have several, and FSDP2 takes any of them."""
    places = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names, strict=False)]
    managed.update((id(module), attribute) for module, attribute in places)
    if len(places) > 1:
        order = list(paths)
        places.sort(key=lambda place: order.index(id(place[0])) if id(place[0]) in paths else len(order))
    module, attribute = places[0]
    return joined(paths.get(id(module), "?"), attribute)


# ------------------------------------------------------------------ FSDP1

_FLAT_UNSHARDED = ("_full_param_padded", "_full_prec_full_param_padded")


def of_fsdp1(path: str, module: Any, managed: Managed) -> Iterator[Named]:
    """What a FullyShardedDataParallel holds: one flat parameter, cut, for all it wraps."""
    handle = vars(module).get("_handle")
    flat = getattr(handle, "flat_param", None)
    if flat is None:
        return
    managed.add((id(getattr(handle, "_fully_sharded_module", None)), "_flat_param"))
    managed.add((id(module), "_flat_param"))
    for info in (*getattr(flat, "_param_infos", ()), *getattr(flat, "_shared_param_infos", ())):
        managed.add((id(info.module), info.param_name))
    name = joined(path, "_flat_param")
    local = getattr(flat, "_local_shard", None)
    yield "shard", name, flat if local is None else local
    if (low := getattr(flat, "_mp_shard", None)) is not None:
        yield "shard", joined(name, "mixed_precision"), low
    for attribute in _FLAT_UNSHARDED:
        if (full := getattr(flat, attribute, None)) is not None:
            yield "unsharded", name, full
    for gradient in (flat.grad, getattr(flat, "_saved_grad_shard", None)):
        if gradient is not None:
            yield "gradient", name, gradient


# ------------------------------------------------------------------ lightning-thunder


def is_thunder(module: Any) -> bool:
    """Whether it is a ThunderModule, which keeps the module it was made from inside."""
    return type(module).__name__ == "ThunderModule" and type(module).__module__.startswith("thunder")


def of_thunder(path: str, module: Any) -> Iterator[Named]:
    """What a ThunderModule runs with: its own parameters where it overrides them, else the module's.

    An original that it only keeps is not named: nothing uses it.
    """
    own = dict(module._overrides_parameters)
    original = dict(module._model.named_parameters(remove_duplicate=False))
    for name in dict.fromkeys((*original, *own)):
        tensor = own.get(name, original.get(name))
        if tensor is None:
            continue
        before = original.get(name)
        cut = before is not None and tensor is not before and tensor.numel() < before.numel()
        yield "shard" if cut else "parameter", joined(path, name), tensor
        if tensor.grad is not None:
            yield "gradient", joined(path, name), tensor.grad
    buffers = dict(module._model.named_buffers()) | dict(module._overrides_buffers)
    for name, tensor in buffers.items():
        if tensor is not None:
            yield "buffer", joined(path, name), tensor
