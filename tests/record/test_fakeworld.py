"""One rank of many in one process: any process group is a fake one, and all is as before afterwards."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from snapviz import RecordError, UsageError
from snapviz.record.fakeworld import fake_world

torch = pytest.importorskip("torch")
dist = torch.distributed

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from torch.distributed import device_mesh, distributed_c10d

    def touched() -> list[Any]:
        modules, names = (dist, distributed_c10d, device_mesh), ("init_process_group", "new_group", "split_group")
        places = [(module, name) for module in modules for name in names if hasattr(module, name)]
        ddp = torch.nn.parallel.DistributedDataParallel
        return [getattr(*place) for place in places] + [
            ddp.__init__,
            ddp.register_comm_hook,
            *map(os.environ.get, NAMES),
        ]

    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_PORT", "4711")
    before = touched()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    assert touched() == before


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    monkeypatch.setattr(dist.distributed_c10d, "rendezvous", refuse)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("backend", ["nccl", "gloo", "cpu:gloo,cuda:nccl", None])
def test_whatever_backend_is_asked_for_is_fake(backend: str | None) -> None:
    with fake_world(5, 8):
        dist.init_process_group(backend, timeout=None, device_id=torch.device("cuda", 0))
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (5, 8, "fake")
        assert os.environ["LOCAL_RANK"] == "0"
        dist.all_reduce(torch.ones(3))
        dist.barrier()
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("backend", ["gloo", "nccl", None])
def test_groups_within_it_are_fake(backend: str | None) -> None:
    with fake_world(1, 4):
        dist.init_process_group("nccl")
        group = dist.new_group([0, 1], backend=backend, use_local_synchronization=True, group_desc="pair")
        assert dist.get_backend(group) == "fake"
        assert dist.get_world_size(group) == 2
        other = dist.new_group([2, 3], None, backend)
        assert dist.get_rank(other) == -1
        part = dist.split_group(None, [[0, 2], [1, 3]])
        assert dist.get_process_group_ranks(part) == [1, 3]
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_network")
def test_a_mesh_makes_the_group_by_itself() -> None:
    with fake_world(3, 8):
        mesh = dist.init_device_mesh("cpu", (2, 4), mesh_dim_names=("replicate", "shard"))
        assert dist.get_backend() == "fake"
        assert mesh.get_local_rank("shard") == 3
        assert dist.get_world_size(mesh["shard"].get_group()) == 4
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_network")
def test_ddp_trains() -> None:
    with fake_world(0, 2):
        dist.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        assert model.module.weight.grad is not None
        with pytest.warns(RuntimeWarning, match="this communication hook is missing"):
            model.register_comm_hook(None, lambda state, bucket: None)
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_network")
def test_a_shard_is_one_of_as_many_as_there_are_ranks() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    with fake_world(0, 8):
        mesh = dist.init_device_mesh("cpu", (8,))
        model = torch.nn.Linear(16, 64, bias=False)
        fully_shard(model, mesh=mesh)
        assert model.weight.to_local().numel() == 16 * 64 // 8
        model(torch.ones(1, 16)).sum().backward()
        assert model.weight.grad.to_local().shape == (8, 16)
        older = FullyShardedDataParallel(torch.nn.Linear(16, 64, bias=False), device_id=torch.device("cpu"))
        assert next(older.parameters()).numel() == 16 * 64 // 8
        dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.usefixtures("no_network")
def test_accelerate_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with fake_world(2, 4):
        state = accelerate.PartialState(cpu=True)
        assert (state.num_processes, state.process_index, state.local_process_index) == (4, 2, 0)
        accelerate.PartialState._reset_state()
        dist.destroy_process_group()
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)


@pytest.mark.parametrize(("rank", "size"), [(4, 4), (-1, 4), (0, 0)])
def test_a_rank_lies_in_its_world(rank: int, size: int) -> None:
    with pytest.raises(UsageError, match="is not one of a world"), fake_world(rank, size):
        pass


def test_a_group_that_is_there_already_is_an_error() -> None:
    with fake_world(0, 2):
        dist.init_process_group("gloo")
        with pytest.raises(RecordError, match="a process group already"), fake_world(0, 2):
            pass
        dist.destroy_process_group()
