"""Where a tensor's bytes lie: storage address and size, through the wrappers that torch puts around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Row", "inner", "is_split", "row", "storage_of"]


_PLAIN = ("Tensor", "Parameter")
"""Classes whose storage is where the tensor says it is."""


class Row(NamedTuple):
    """One tensor at one boundary; what ``schema.NameRecord`` says, as a plain tuple."""

    kind: str
    name: str
    address: int
    nbytes: int  # of the storage
    dtype: str
    shape: tuple[int, ...]


def inner(name: str, tensor: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The plain tensors a tensor consists of, each with its name: a DTensor's local one, a wrapper's parts."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None and depth < 4:
        yield from inner(name, local, depth + 1)
    elif depth < 4 and hasattr(type(tensor), "__tensor_flatten__"):
        attributes, _ = tensor.__tensor_flatten__()
        for attribute in attributes:
            yield from inner(f"{name}.{attribute}", getattr(tensor, attribute), depth + 1)
    else:
        yield name, tensor


def is_split(tensor: Any) -> bool:
    """Whether a DTensor is cut along some dimension of its mesh, rather than whole on every rank."""
    return any(placement.is_shard() for placement in getattr(tensor, "placements", ()))


def storage_of(tensor: Any, device_type: str) -> tuple[int, int] | None:
    """(address, bytes) of a plain tensor's storage; None on another device, and where nothing is allocated.

    What FSDP2 has released keeps its storage, of no bytes, whose next address is another.
    """
    if tensor.device.type != device_type:
        return None
    storage = tensor.untyped_storage()
    # a fake tensor says cuda, and lies on meta; asking for it costs as much as all the rest
    if type(tensor).__name__ not in _PLAIN and storage.device.type != device_type:
        return None
    nbytes = storage.nbytes()
    if not nbytes:
        return None
    address = storage.data_ptr()
    return (address, nbytes) if address else None


def row(kind: str, name: str, tensor: Any, device_type: str) -> Row | None:
    """The row of a plain tensor, or None where it has no bytes on such a device."""
    found = storage_of(tensor, device_type)
    if found is None:
        return None
    return Row(kind, name, *found, str(tensor.dtype), tuple(tensor.shape))
