"""Names by storage address: modules, optimizers, shards, and originals that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from snapviz.record.census import Census
from snapviz.record.tensors import Row
from snapviz.record.watched import Watched

torch = pytest.importorskip("torch")


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.remove()


def census(watched: Watched) -> Census:
    return Census(watched, "cpu")


def names(rows: tuple[Row, ...], kind: str) -> list[str]:
    return [row.name for row in rows if row.kind == kind]


def address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))


@pytest.fixture
def fake_group() -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    torch.distributed.destroy_process_group()


def test_every_parameter_gradient_and_buffer_where_it_lies(watched: Watched) -> None:
    net = model()
    watched.add(net)
    net(torch.ones(2, 4)).sum().backward()
    rows = census(watched).take()
    for name, param in net.named_parameters():
        (found,) = [row for row in rows if row.kind == "parameter" and row.name == name]
        assert found == Row("parameter", name, address(param), param.nbytes, "torch.float32", tuple(param.shape))
        (found,) = [row for row in rows if row.kind == "gradient" and row.name == name]
        assert found.address == address(param.grad)
    assert names(rows, "buffer") == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]


def test_optimizer_state_by_the_parameters_name(watched: Watched) -> None:
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(net.parameters())
    watched.add(net)
    watched.add(optimizer)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    rows = census(watched).take()
    assert names(rows, "optimizer_param") == ["weight", "bias"]
    states = {row.name: row.address for row in rows if row.kind == "optimizer_state"}
    for name, param in net.named_parameters():
        for key, value in optimizer.state[param].items():
            assert states[f"{name}.{key}"] == address(value)


def test_state_in_lists_and_dicts_of_an_optimizer_of_ones_own(watched: Watched) -> None:
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([param])
    optimizer.state[param] = {"factors": [torch.ones(2), {"inverse": torch.ones(1)}], "count": 3}
    watched.add(optimizer)
    rows = census(watched).take()
    stem = "SGD.param_groups[0]['params'][0]"
    assert names(rows, "optimizer_state") == [f"{stem}.factors[0]", f"{stem}.factors[1].inverse"]


def test_what_is_made_is_seen_and_only_roots_count(watched: Watched) -> None:
    watched.install()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(2))
            self.scale = torch.nn.Parameter(torch.ones(1))

    net = Net()
    optimizer = torch.optim.SGD(net.parameters())
    assert [module for _, module in watched.modules()] == [net]
    assert [found for _, found in watched.optimizers()] == [optimizer]
    wrapped = torch.nn.Sequential(net)
    assert [module for _, module in watched.modules()] == [wrapped]


def test_what_was_there_before_is_found(watched: Watched) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters())
    watched.look_around()
    assert [module for _, module in watched.modules() if module is net or module in list(net)] == [net]
    assert optimizer in [found for _, found in watched.optimizers()]


def test_a_child_that_registers_a_parameter_later_is_no_root(watched: Watched) -> None:
    watched.install()
    net = torch.nn.ModuleDict({"embed": torch.nn.Linear(4, 4, bias=False), "head": torch.nn.Linear(4, 4, bias=False)})
    net["head"].weight = net["embed"].weight  # as transformers ties them
    assert [module for _, module in watched.modules()] == [net]


def test_a_name_stays_what_it_was_when_other_roots_come_and_classes_change(watched: Watched, fake_group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    watched.install()
    net, critic = model(), model()
    before = [name for name, _ in watched.modules()]
    mesh = torch.distributed.init_device_mesh("cpu", (4,))
    for root in (net, critic):
        fully_shard(root, mesh=mesh)
    other = torch.nn.Linear(1, 1)
    assert [name for name, _ in watched.modules()] == [*before, "Linear"]
    assert before == ["", "Sequential"]
    late = Watched()
    late.add(other)
    late.add(net)
    assert [name for name, _ in late.modules()] == ["", "Sequential"], "FSDP2 puts FSDP before a class's name"


def test_watching_a_part_of_a_root_does_not_name_it_twice(watched: Watched) -> None:
    net = model()
    watched.add(net)
    watched.add(net[0])
    assert [module for _, module in watched.modules()] == [net]
    watched.add(net[0], "mine")
    assert [name for name, _ in watched.modules()] == ["", "mine"]


def test_several_roots_are_told_apart(watched: Watched) -> None:
    one, two, mine = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    watched.add(one)
    watched.add(two)
    watched.add(mine, "critic")
    rows = census(watched).take()
    assert names(rows, "parameter")[::2] == ["weight", "Linear.weight", "critic.weight"]


def test_watching_keeps_nothing(watched: Watched) -> None:
    watched.install()
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    taker = census(watched)
    taker.take()
    storage = net[0].weight.untyped_storage()
    from torch.multiprocessing.reductions import StorageWeakRef

    weak = StorageWeakRef(storage)
    del storage, net, optimizer
    gc.collect()
    assert weak.expired()
    assert taker.take() == ()


def test_hooks_are_gone_afterwards() -> None:
    from torch.nn.modules import module

    before = torch.optim.Optimizer.__init__
    tables = (module._global_parameter_registration_hooks, module._global_module_registration_hooks)
    counts = [len(table) for table in tables]
    watched = Watched()
    watched.install()
    assert torch.optim.Optimizer.__init__ is not before
    watched.remove()
    assert torch.optim.Optimizer.__init__ is before
    assert [len(table) for table in tables] == counts


def test_shards_of_fully_shard_and_the_originals_an_optimizer_keeps(watched: Watched, fake_group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (4,))
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(net.parameters())
    watched.add(net)
    watched.add(optimizer)
    taker = census(watched)
    before = {row.name: row for row in taker.take() if row.kind == "parameter"}
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    rows = taker.take()
    assert names(rows, "parameter") == []
    shards = {row.name: row for row in rows if row.kind == "shard"}
    assert shards.keys() == before.keys()
    for name, param in net.named_parameters():
        assert shards[name].address == address(param._local_tensor)
        assert shards[name].shape == tuple(param._local_tensor.shape)
    stale = {row.name: row.address for row in rows if row.kind == "optimizer_param"}
    assert stale == {name: row.address for name, row in before.items()}
    assert [one.name for one in taker.dangling(rows)] == list(before)
    # accelerate's fix: the optimizer gets the shards
    for group in optimizer.param_groups:
        group["params"] = list(net.parameters())
    optimizer.state.clear()
    rows = taker.take()
    assert taker.dangling(rows) == []
    assert {row.name for row in rows if row.kind == "optimizer_param"} == before.keys()


def test_originals_that_came_to_the_device_only_as_they_were_sharded(watched: Watched, fake_group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(net.parameters())
    watched.add(net)
    watched.add(optimizer)
    taker = Census(watched, "cuda")
    assert taker.take() == ()
    taker._device_type = "cpu"  # as if the CPU were a device, which all of it now comes to
    for param in net.parameters():
        param.data = param.data.clone()
    originals = {name: address(param) for name, param in net.named_parameters()}
    fully_shard(net, mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    rows = taker.take()
    assert {one.name: one.address for one in taker.dangling(rows)} == originals
    master = torch.nn.Parameter(torch.ones(8, 8))
    optimizer.add_param_group({"params": [master]})
    rows = taker.take()
    assert {one.name: one.address for one in taker.dangling(rows)} == originals, (
        "an optimizer's own copy is no original"
    )


def test_a_tied_parameter_goes_by_its_first_name(watched: Watched, fake_group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    net[1].weight = net[0].weight
    optimizer = torch.optim.AdamW(net.parameters())
    watched.add(net)
    watched.add(optimizer)
    taker = census(watched)
    taker.take()
    fully_shard(net, mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    rows = taker.take()
    assert names(rows, "shard") == ["0.weight"]
    assert names(rows, "optimizer_param") == ["0.weight"]
    assert {one.name for one in taker.dangling(rows)} == {"0.weight"}
    assert len({one.address for one in taker.dangling(rows)}) == 1


def test_what_fsdp2_gathers_is_named_while_it_is_there(watched: Watched, fake_group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    fully_shard(net, mesh=torch.distributed.init_device_mesh("cpu", (4,)), reshard_after_forward=False)
    watched.add(net)
    taker = census(watched)
    loss = net(torch.ones(2, 8)).sum()
    rows = taker.take()
    assert set(names(rows, "unsharded")) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert names(rows, "parameter") == []
    loss.backward()
    rows = taker.take()
    assert names(rows, "unsharded") == []
    assert set(names(rows, "gradient")) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert not taker.lost


def test_fsdp1s_parameters_keep_their_names_and_are_not_stale_while_gathered(
    watched: Watched, fake_group: None
) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    net = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    watched.add(net)
    taker = census(watched)
    taker.take()
    wrapped = FullyShardedDataParallel(
        net, use_orig_params=True, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, device_id=torch.device("cpu")
    )
    watched._adopted(wrapped, net)
    optimizer = torch.optim.AdamW(wrapped.parameters())
    watched.add(optimizer)
    for _ in range(2):
        taker.take()
        output = wrapped(torch.ones(2, 8))
        rows = taker.take()
        assert names(rows, "unsharded") == ["_flat_param"]
        # of four ranks the first may have nothing of the second parameter
        assert {"0.weight"} <= set(names(rows, "optimizer_param")) <= {"0.weight", "1.weight"}
        assert taker.dangling(rows) == []
        output.sum().backward()
        optimizer.step()
        rows = taker.take()
        assert taker.dangling(rows) == []
        states = names(rows, "optimizer_state")
        assert states
        assert all(name.startswith(("0.weight.", "1.weight.")) for name in states), states
    assert not taker.lost


def test_the_names_do_not_change_with_a_wrapper(watched: Watched, fake_group: None) -> None:
    net = model()
    watched.add(net)
    plain = names(census(watched).take(), "parameter")
    other = Watched()
    wrapped = torch.nn.parallel.DistributedDataParallel(torch.compile(net, backend="eager"))
    other.add(wrapped)
    assert names(census(other).take(), "parameter") == plain


class ThunderModule(torch.nn.Module):  # type: ignore[misc]
    """What thunder.core.module.ThunderModule (0.2.6) keeps of the module it is made from."""

    __module__ = "thunder.core.module"

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._model = inner
        self._overrides_parameters = dict(inner.named_parameters())
        self._overrides_buffers: dict[str, Any] = {}


def test_thunder_is_named_by_what_it_runs_with(watched: Watched) -> None:
    watched.install()
    net = torch.nn.Linear(4, 4)
    taker = census(watched)
    taker.take()
    jitted = ThunderModule(net)
    assert names(taker.take(), "parameter") == ["weight", "bias"]
    # a transform makes another one, of the same module, with the shards
    sharded = ThunderModule(net)
    sharded._overrides_parameters["weight"] = torch.nn.Parameter(torch.ones(1, 4))
    for _ in range(2):
        rows = taker.take()
        assert names(rows, "shard") == ["weight"]
        assert names(rows, "parameter") == ["bias"]
        assert [one.name for one in taker.dangling(rows)] == ["weight"]
        del jitted._overrides_parameters["weight"]  # the original stays in net
        jitted._overrides_parameters["weight"] = None
    net.register_parameter("weight", None)
    assert taker.dangling(taker.take()) == []


def test_an_original_that_went_is_not_dangling_and_its_address_may_come_again(watched: Watched) -> None:
    net = torch.nn.Linear(64, 64, bias=False)
    watched.add(net)
    taker = census(watched)
    taker.take()
    net.weight = torch.nn.Parameter(net.weight[:8].detach().clone())
    gc.collect()
    assert [one.name for one in taker.dangling(())] == []
    kept = net.weight
    taker.take()
    net.weight = torch.nn.Parameter(torch.ones(2, 64))
    # another has its name now, and it is still there
    assert [one.address for one in taker.dangling(taker.take())] == [address(kept)]
    del kept
    assert taker.dangling(taker.take()) == []


def test_a_storage_that_was_released_by_resizing_is_gone(watched: Watched) -> None:
    net = torch.nn.Linear(4, 4, bias=False)
    watched.add(net)
    taker = census(watched)
    taker.take()
    keep = net.weight
    net.weight = torch.nn.Parameter(torch.ones(1, 4))
    del net.weight
    assert [one.name for one in taker.dangling(taker.take())] == ["weight"]
    keep.untyped_storage().resize_(0)
    assert taker.dangling(taker.take()) == []


def test_a_module_that_cannot_be_read_loses_only_its_own_names(watched: Watched) -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def _get_fsdp_state(self) -> None:
            raise AttributeError("changed in torch 9")

    odd, fine = Odd(), torch.nn.Linear(1, 1)
    watched.add(odd)
    watched.add(fine)
    taker = census(watched)
    assert names(taker.take(), "parameter") == ["Linear.weight", "Linear.bias"]  # the other one is the first
    assert taker.lost == {"names of a Odd (AttributeError: changed in torch 9)"}


def test_a_tensor_without_a_storage_loses_only_itself(watched: Watched) -> None:
    net = torch.nn.ModuleDict(
        {
            "lazy": torch.nn.LazyLinear(3),
            "sparse": torch.nn.Embedding(4, 2, sparse=True),
            "plain": torch.nn.Linear(2, 2),
        }
    )
    net["sparse"](torch.tensor([1])).sum().backward()
    watched.add(net)
    taker = census(watched)
    assert names(taker.take(), "parameter") == ["sparse.weight", "plain.weight", "plain.bias"]
    assert not taker.lost

    class Odd(torch.Tensor):
        placements = None

    net["plain"].register_parameter("odd", torch.nn.Parameter(torch.ones(1).as_subclass(Odd)))
    assert "plain.weight" in names(taker.take(), "parameter")
    # what could not be read may be in use: nothing is to be called dangling for want of its name
    assert taker.lost
    assert not taker.complete


def test_other_devices_and_meta_and_fake_tensors_are_left_out(watched: Watched) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.device("meta"):
        watched.add(torch.nn.Linear(2, 2))
    with FakeTensorMode():
        watched.add(torch.nn.Linear(2, 2))
    assert census(watched).take() == ()
