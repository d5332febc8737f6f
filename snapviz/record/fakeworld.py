"""One rank of a big job in one process, through torch's fake process group.

The allocator, sharding and streams are real; communication does nothing. Values are wrong, the memory of
NCCL is missing, and times say nothing (torch/testing/_internal/distributed/fake_pg.py, 2.4 to 2.14).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from snapviz.errors import RecordError, UsageError
from snapviz.record.guard import tell

__all__ = ["fake_world"]

_MODULES = ("torch.distributed.distributed_c10d", "torch.distributed", "torch.distributed.device_mesh")
"""Where the names are taken from, also by scripts: those that come later take what is there then."""

_DDP_NAMES = ("__init__", "register_comm_hook", "_register_builtin_comm_hook")


@contextlib.contextmanager
def fake_world(rank: int, world_size: int) -> Iterator[None]:
    """Inside, this process is ``rank`` of ``world_size`` on one host, and any process group is a fake one.

    Its device stays the first: LOCAL_RANK is 0, whatever the rank. Nothing goes over the network. Raises
    ``UsageError`` for a rank outside the world, ``RecordError`` where a process group is there already or
    torch has none to offer.
    """
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is not one of a world of {world_size}: 0 to {world_size - 1}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(rank, world_size))
        stack.callback(_replace(_fakes(rank, world_size)))
        stack.callback(_let_ddp_reduce_nothing())
        yield


@contextlib.contextmanager
def _environment(rank: int, world_size: int) -> Iterator[None]:
    """What torchrun says to one of ``world_size`` processes on one host, but for the device."""
    wanted = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",  # never opened
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ |= wanted
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _fakes(rank: int, world_size: int) -> dict[str, Callable[..., Any]]:
    """Name → what stands in for it."""
    try:
        importlib.import_module("torch.distributed.device_mesh")  # it takes the names when it is imported
        from torch.distributed import distributed_c10d as c10d
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        raise RecordError(f"this torch has no process groups ({error})") from error
    if c10d.is_initialized():
        raise RecordError("there is a process group already: a world can only be faked before")
    init, new = c10d.init_process_group, c10d.new_group

    @functools.wraps(init)
    def init_process_group(*_: Any, **__: Any) -> None:
        # a device would have NCCL's communicator made at once, and a store or an address would be waited at
        init(backend="fake", store=FakeStore(), rank=rank, world_size=world_size)

    @functools.wraps(new)
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *_: Any, **rest: Any) -> Any:
        kept = {name: rest[name] for name in ("group_desc", "sort_ranks") if name in rest}
        return new(ranks, backend="fake", **kept)

    @functools.wraps(getattr(c10d, "split_group", new))
    def split_group(parent_pg: Any = None, split_ranks: Any = None, *_: Any, **__: Any) -> Any:
        return _split(new, rank, split_ranks)

    return {"init_process_group": init_process_group, "new_group": new_group, "split_group": split_group}


def _split(new: Callable[..., Any], rank: int, split_ranks: Any) -> Any:
    """Each part as a group of its own; the one that this rank is in. A fake group has nothing to be split."""
    mine = None
    for ranks in split_ranks or ():
        group = new(ranks, backend="fake")
        if rank in ranks:
            mine = group
    return mine


def _let_ddp_reduce_nothing() -> Callable[[], None]:
    """DDP asks what its all-reduce has made, and a fake one makes nothing: it gets its bucket as it is."""
    from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - its own short name

    replaced = {name: vars(DDP)[name] for name in _DDP_NAMES if name in vars(DDP)}

    @functools.wraps(replaced["__init__"])
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        replaced["__init__"](self, *args, **kwargs)
        # torch wants its own types in a hook's signature, or none
        replaced["register_comm_hook"](self, None, lambda _, bucket: _as_it_is(bucket))

    def ignored(*_: Any, **__: Any) -> None:
        tell("in a faked world nothing is communicated: the memory of this communication hook is missing")

    for name in replaced:
        setattr(DDP, name, init if name == "__init__" else ignored)

    def undo() -> None:
        for name, original in replaced.items():
            setattr(DDP, name, original)

    return undo


def _as_it_is(bucket: Any) -> Any:
    import torch

    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def _replace(fakes: dict[str, Callable[..., Any]]) -> Callable[[], None]:
    replaced = []
    for module in filter(None, map(sys.modules.get, _MODULES)):
        for name, fake in fakes.items():
            if hasattr(module, name):
                replaced.append((module, name, getattr(module, name), fake))
                setattr(module, name, fake)

    def undo() -> None:
        for module, name, original, fake in replaced:
            if getattr(module, name) is fake:
                setattr(module, name, original)

    return undo
