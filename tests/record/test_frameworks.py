"""The hooks on real modules of torch, on the CPU: which phases they make, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import copy
import gc
import importlib
import pickle
import sys
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snapviz.record.auto import Auto
from snapviz.record.fakeworld import fake_world
from snapviz.record.frameworks import importing, patching
from tests.record.phaselog import PhaseStub

torch = pytest.importorskip("torch")
nn = torch.nn

# dynamo puts something around Module.__init__ when it is first used, and leaves it there
importlib.import_module("torch._dynamo.mutation_guard").install_generation_tagging_init()

STEP = ["train/step0", "train/step0/forward", "train/step0/backward", "train/step0/optimizer"]


def hooked() -> dict[str, Any]:
    """Everything that is replaced or registered in torch, as it is now."""
    from torch.distributed import fsdp
    from torch.distributed._composable import fsdp as composable
    from torch.distributed.fsdp._fully_shard import _fully_shard
    from torch.distributed.tensor import parallel
    from torch.nn.modules import module
    from torch.optim import optimizer

    places = {
        f"{owner.__name__}.{name}": vars(owner).get(name)
        for owner, names in (
            (nn.Module, ("to", "cuda", "to_empty", "__init__", "compile", "__call__", "_compiled_call_impl")),
            (optimizer.Optimizer, ("__init__",)),
            (torch, ("compile",)),
            (torch.autograd, ("backward", "grad")),
            (fsdp, ("fully_shard",)),
            (_fully_shard, ("fully_shard",)),
            (composable, ("fully_shard",)),
            (fsdp.FullyShardedDataParallel, ("__init__",)),
            (parallel, ("parallelize_module",)),
            (nn.parallel.DistributedDataParallel, ("__init__",)),
            (Model, ("_compiled_call_impl",)),
        )
        for name in names
    }
    tables = [name for name in dir(module) if name.startswith("_global_") and isinstance(getattr(module, name), dict)]
    assert len(tables) > 5
    places |= {name: dict(getattr(module, name)) for name in tables}
    places["optimizer"] = (dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks))
    return places | {"meta_path": list(sys.meta_path), "waiting": dict(importing._FINDER.waiting)}


class Block(nn.Module):
    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, device=device)

    def forward(self, x: Any) -> Any:
        return self.linear(x).relu()


class Model(nn.Module):
    def __init__(self, layers: int = 3, checkpointed: bool = False, device: Any = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(device) for _ in range(layers))
        self.checkpointed = checkpointed

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


def data() -> Any:
    return torch.randn(2, 4)


@pytest.fixture
def log() -> PhaseStub:
    return PhaseStub()


@pytest.fixture
def auto(log: PhaseStub) -> Iterator[Auto]:
    """Hooks that are on for the test; all that they touched is as before when it ends."""
    before = hooked()
    made = Auto(log, device_type="cpu")
    undo = made.install()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield made
    assert not made._off, "something went wrong"
    undo()
    assert hooked() == before


@pytest.fixture
def world() -> Iterator[None]:
    with fake_world(0, 4):
        torch.distributed.init_process_group("nccl")
        yield
        torch.distributed.destroy_process_group()


def run_step(model: Any, *optimizers: Any, micro_batches: int = 1) -> None:
    for _ in range(micro_batches):
        model(data()).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


# ------------------------------------------------------------------ plain training


def test_a_plain_training(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        run_step(model, optimizer)
    later = [name.replace("step0", "step1") for name in STEP]
    assert log.names == ["materialize", "optimizer", "train", *STEP, *later]
    assert log.watched == [model]


def test_what_a_program_lets_go_of_is_gone(auto: Auto, log: PhaseStub) -> None:
    class Loss(torch.nn.Module):
        """Without a constructor of its own: Module's is called by the program's function itself."""

    device = "cpu"  # a local that a look at the frame would find
    full = torch.ones(3)
    storage = weakref.ref(full)
    loss = Loss()
    del full
    assert storage() is None
    assert loss is not None
    assert device == "cpu"


def test_a_class_that_is_written_by_value_leaves_the_recorder_behind(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    run_step(model, torch.optim.SGD(model.parameters()))
    put = vars(type(model))["_compiled_call_impl"]
    # cloudpickle writes a class of __main__ with all that is in it, and nothing of ours can be written
    assert pickle.loads(pickle.dumps(put)) is None
    assert copy.deepcopy(put) is put


def test_a_step_goes_on_until_its_gradients_are_cleared(auto: Auto, log: PhaseStub) -> None:
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()  # before the step: a boundary of its own would say nothing
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert log.marked == ["train/step0"], "the second call came between two steps"
    optimizer.zero_grad()
    assert log.marked == ["train/step0", "train/step1"]


def test_gradient_accumulation_and_two_optimizers(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=2)
    first = torch.optim.AdamW(model.blocks[0].parameters())
    second = torch.optim.SGD(model.blocks[1].parameters(), lr=0.1)
    for _ in range(2):
        run_step(model, first, second, micro_batches=3)
    parts = [name.rpartition("/")[2] for name in log.names if name.startswith("train/step1/")]
    assert parts == ["forward", "backward"] * 3 + ["optimizer"] * 2
    assert auto.steps_begun == 2


def test_checkpointing_begins_nothing_within_backward(auto: Auto, log: PhaseStub) -> None:
    model = Model(checkpointed=True)
    optimizer = torch.optim.AdamW(model.parameters())
    run_step(model, optimizer)
    assert log.names == ["materialize", "optimizer", "train", *STEP]


def test_reentrant_checkpointing_calls_backward_within_backward(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=1)
    optimizer = torch.optim.AdamW(model.parameters())
    x = data().requires_grad_()
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=True).sum().backward()
    optimizer.step()
    assert log.names == ["materialize", "optimizer", "train", *STEP]


def test_lbfgs_calls_the_model_in_its_step(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(data()).sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        model(data())
        optimizer.step(closure)
    assert auto.steps_begun == 1
    assert log.opened == ["train", "train/step0"]


def test_an_optimizer_within_backward(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=1)
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    for _ in range(2):
        run_step(model)
    assert auto.steps_begun == 2
    assert not [name for name in log.names if name.endswith("/optimizer")]


def test_a_loss_and_a_metric_are_no_roots(auto: Auto, log: PhaseStub) -> None:
    loss = nn.MSELoss()
    loss(data(), data())
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.L1Loss()
    assert log.opened == ["optimizer"], "it has no parameters to be made"
    loss(model(data()), data()).backward()
    optimizer.step()
    assert log.names == ["materialize", "optimizer", "train", *STEP]


def test_an_evaluation_before_training_begins_nothing(auto: Auto, log: PhaseStub) -> None:
    model = Model().eval()
    with torch.no_grad():
        model(data())
    assert log.names == ["materialize"]


def test_an_evaluation_between_steps_begins_no_step(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_step(model, optimizer)
    model.eval()
    with torch.no_grad():
        model(data())
    assert auto.steps_begun == 1


def test_a_second_root_is_found(auto: Auto, log: PhaseStub) -> None:
    generator, discriminator = Model(layers=1), Block()
    optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    for _ in range(4):
        discriminator(generator(data())).sum().backward()
        optimizer.step()
    assert log.names.count("train/step3/forward") == 2
    assert log.watched == [generator, discriminator]


def test_a_root_holds_others_of_its_class(auto: Auto, log: PhaseStub) -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4)))
    for _ in range(4):
        model(data())
    assert log.names.count("train/step0/forward") == 4
    assert log.watched == [model]
    assert nn.Sequential._compiled_call_impl is not None


def test_no_submodule_costs_anything_after_the_first_steps(auto: Auto) -> None:
    seen: list[Any] = []

    class Watching(Block):
        def forward(self, x: Any) -> Any:
            seen.append((nn.Module._compiled_call_impl, Block._compiled_call_impl))
            return super().forward(x)

    model = Model(checkpointed=True)
    model.blocks.append(Watching())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        run_step(model, optimizer)
    assert all(None not in pair for pair in seen)
    seen.clear()
    run_step(model, optimizer)
    assert seen == [(None, None)] * 2, "in forward, and again in backward"


def test_after_two_steps_only_roots_are_seen(auto: Auto) -> None:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert nn.Module._compiled_call_impl is not None
    for _ in range(3):
        run_step(model, optimizer)
    assert nn.Module._compiled_call_impl is None
    assert Model._compiled_call_impl is not None


def test_grad_is_backward_too(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    torch.autograd.grad(model(data()).sum(), list(model.parameters()))
    assert log.names[-1] == "train/step0/backward"


# ------------------------------------------------------------------ what must not change


def test_a_model_is_copied_and_pickled_without_hooks(auto: Auto) -> None:
    model = Model()
    run_step(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert "_compiled_call_impl" not in vars(other)
        assert not other._forward_hooks
        assert not other._forward_pre_hooks


def test_a_model_goes_when_it_is_let_go(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_step(model, optimizer)
    log.watched.clear()
    gc.disable()
    try:
        ref = weakref.ref(model)
        del model
        assert ref() is None
    finally:
        gc.enable()


def test_what_a_program_does_wrong_is_its_own_error(auto: Auto) -> None:
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        Model().to("nonsense")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        Model()(torch.randn(2, 3))


def test_a_failing_hook_is_told_and_does_not_fail_the_call(log: PhaseStub) -> None:
    before = hooked()
    auto = Auto(log, device_type="cpu")
    undo = auto.install()

    class Odd(Block):
        def parameters(self, recurse: bool = True) -> Any:
            raise ValueError("odd")

    odd = Odd()
    with pytest.warns(RuntimeWarning, match=r"calls of a Odd are no steps .*odd"):
        odd(data())
    odd(data())  # told once: another warning would be an error here
    # another module's are steps all the same
    Model()(data()).sum().backward()
    assert "train/step0/forward" in log.names
    undo()
    assert hooked() == before


def test_what_was_kept_from_before_passes_through(log: PhaseStub) -> None:
    auto = Auto(log, device_type="cpu")
    undo = auto.install()
    kept = torch.autograd.backward
    undo()
    assert torch.autograd.backward is not kept
    kept(torch.ones(1, requires_grad=True).sum())
    assert log.names == []


def test_what_somebody_else_put_over_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = SimpleNamespace(call=lambda: 1)
    undo = patching.wrap(owner, "call", lambda: pytest.fail("still called"))
    ours = owner.call

    def theirs() -> int:
        return int(ours()) + 1

    owner.call = theirs
    undo()
    assert owner.call is theirs
    assert theirs() == 2


# ------------------------------------------------------------------ torch.compile


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("way", ["function", "method", "blocks"])
def test_a_compiled_root(auto: Auto, log: PhaseStub, way: str) -> None:
    model = Model()
    if way == "blocks":
        for block in model.blocks:
            block.compile(backend="eager", fullgraph=True)
    elif way == "method":
        model.compile(backend="eager", fullgraph=True)
    compiled = torch.compile(model, backend="eager", fullgraph=True) if way == "function" else model
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        run_step(compiled, optimizer)
    assert auto.steps_begun == 3
    assert [name for name in log.names if name.startswith("train/step2")] == [s.replace("0", "2") for s in STEP]
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
def test_a_compiled_training_step_is_compiled_as_before(auto: Auto, log: PhaseStub) -> None:
    from torch._dynamo.testing import CompileCounter

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(data())  # known as a root
    counter = CompileCounter()

    @torch.compile(backend=counter, fullgraph=True)
    def loss(x: Any) -> Any:
        return model(x).sum()

    for _ in range(3):
        loss(data()).backward()
        optimizer.step()
    assert counter.frame_count == 1
    assert log.names.count("train/step0/backward") == 3
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_compiled_has_nothing_of_ours_in_it() -> None:
    class Owner:
        @staticmethod
        def double(x: Any) -> Any:
            return x * 2

    entered: list[int] = []

    def context(x: Any) -> Any:
        entered.append(1)
        return contextlib.nullcontext()

    undo = patching.wrap(Owner, "double", context)
    compiled = torch.compile(Owner.double, backend="eager", fullgraph=True)
    outer = torch.compile(lambda x: Owner.double(x) + 1, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)) == 2
    assert outer(torch.ones(1)) == 3
    assert not entered
    assert Owner.double(1) == 2
    assert entered
    undo()
    torch._dynamo.reset()


# ------------------------------------------------------------------ modules


def test_a_model_that_moves_to_the_device_materializes(auto: Auto, log: PhaseStub) -> None:
    with torch.device("meta"):
        model = Model()
    assert log.names == []
    model.to_empty(device="cpu")
    assert log.names == ["materialize"]


def test_the_first_parameter_lies_in_the_phase(auto: Auto, log: PhaseStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The phase begins before it is made, and not when it is registered."""
    seen: list[list[str]] = []
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *args, **kwargs: (seen.append(list(log.opened)), empty(*args, **kwargs))[1]
    )
    auto.device_type = "meta"
    nn.Linear(2, 2, device="meta")
    assert seen[0] == ["materialize"]


@pytest.mark.parametrize("change", ["device", "dtype", "nothing"])
def test_only_what_is_made_anew_materializes(log: PhaseStub, change: str) -> None:
    model = Model()
    auto = Auto(log, device_type="meta" if change == "device" else "cpu")
    undo = auto.install()
    model.to({"device": "meta", "dtype": torch.bfloat16, "nothing": torch.float32}[change])
    undo()
    assert log.names == ([] if change == "nothing" else ["materialize"])


# ------------------------------------------------------------------ sharding


def test_fsdp2_on_a_whole_model(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (4,))
    model = Model()
    stale = torch.optim.AdamW(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        run_step(model, optimizer)
    stretches = [name for name in log.names if "/" not in name]
    assert stretches == ["materialize", "optimizer", "shard", "optimizer", "train"]
    assert [name for name in log.names if name.startswith("train/step1")] == [s.replace("0", "1") for s in STEP]
    assert fully_shard.state(model) is not None
    del stale


def test_weights_tied_after_sharding_are_not_made_anew(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import fully_shard

    model = Model()
    fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    model.blocks[0].linear.weight = model.blocks[1].linear.weight
    assert log.opened == ["shard"]


def test_shards_in_the_hosts_memory_are_a_roots(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import fully_shard

    auto.device_type = "cuda"
    model, other = Model(), Model()
    fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    other(data())
    assert log.names == ["shard"]
    model(data())
    assert log.names == ["shard", "train", *STEP[:2]]


@pytest.mark.filterwarnings("ignore:DTensor random operators:UserWarning")
def test_fsdp2_on_the_meta_device(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed._composable.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (4,))
    with torch.device("meta"):
        model = Model()
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh)
    model.to_empty(device="cpu")
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.reset_parameters()
    run_step(model, torch.optim.AdamW(model.parameters()))
    assert log.names == ["shard", "materialize", "optimizer", "train", *STEP]


def test_fsdp1(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(Model(), device_id=torch.device("cpu"))
    assert log.names == ["materialize", "shard"]
    assert isinstance(model, FullyShardedDataParallel)


def test_ddp(auto: Auto, log: PhaseStub, world: None) -> None:
    model = nn.parallel.DistributedDataParallel(Model())
    run_step(model, torch.optim.AdamW(model.parameters()))
    assert log.names == ["materialize", "ddp", "optimizer", "train", *STEP]
    assert log.watched == [model]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_accelerate(auto: Auto, log: PhaseStub) -> None:
    accelerate = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, PartialState

    accelerator = accelerate.Accelerator(cpu=True)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    model(data()).sum().backward()
    optimizer.step()
    AcceleratorState._reset_state()
    PartialState._reset_state()
    assert log.names == ["materialize", "optimizer", "materialize", "train", *STEP]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_accelerate_with_fsdp2_is_shard_and_nothing_else(
    auto: Auto, log: PhaseStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerate = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, PartialState

    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with fake_world(0, 4):
        plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2)
        accelerator = accelerate.Accelerator(fsdp_plugin=plugin)
        assert accelerator.num_processes == 4
        # what it chooses by itself only where there is an accelerator
        accelerator.state.distributed_type = accelerate.DistributedType.FSDP
        accelerator.state.fsdp_plugin = plugin
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters())
        accelerator.prepare(model, optimizer)
        accelerator.prepare(torch.utils.data.DataLoader([1]))
        AcceleratorState._reset_state()
        PartialState._reset_state()
        torch.distributed.destroy_process_group()
    assert log.names == ["materialize", "optimizer", "shard"]


# ------------------------------------------------------------------ frameworks that are not installed


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    path = folder.joinpath(*name.split(".")).with_suffix("") / "__init__.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(folder)


@pytest.fixture
def forgotten() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("thunder", "deepspeed", "transformers")]:
        del sys.modules[name]


FAKE_THUNDER = """
from thunder.core.jit_ext import thunder_general_jit
def jit(fn, *, transforms=None, **_):
    return fn
"""
FAKE_READER = """
import torch
def thunder_general_jit(model):
    return torch.nn.Module._compiled_call_impl, type(model)._compiled_call_impl
"""
FAKE_DISTRIBUTED = """
import thunder
def fsdp(model): return thunder.jit(model)
def ddp(model): return thunder.jit(model)
"""


@pytest.mark.usefixtures("forgotten")
def test_thunder(auto: Auto, log: PhaseStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "thunder", FAKE_THUNDER)
    package(tmp_path, monkeypatch, "thunder.distributed", FAKE_DISTRIBUTED)
    package(tmp_path, monkeypatch, "thunder.core", "")
    package(tmp_path, monkeypatch, "thunder.core.jit_ext", FAKE_READER)
    thunder = importlib.import_module("thunder")
    distributed = importlib.import_module("thunder.distributed")

    class FSDPTransform:
        pass

    model = Model()
    thunder.jit(model)
    distributed.fsdp(model)
    distributed.ddp(model)
    thunder.jit(model, transforms=[FSDPTransform()])
    assert log.names == ["materialize", "jit", "shard", "ddp", "shard"]
    model(data())
    found = nn.Module._compiled_call_impl, Model._compiled_call_impl
    assert None not in found
    assert thunder.thunder_general_jit(model) == (None, None), "thunder reads what is there"
    assert (nn.Module._compiled_call_impl, Model._compiled_call_impl) == found


@pytest.mark.usefixtures("forgotten")
def test_deepspeed(auto: Auto, log: PhaseStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "deepspeed", "def initialize(model=None, config=None): return model.to('cpu')")
    deepspeed = importlib.import_module("deepspeed")
    deepspeed.initialize(model=Model())
    assert log.names == ["materialize", "shard"]


@pytest.mark.usefixtures("forgotten")
def test_transformers(auto: Auto, log: PhaseStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "class PreTrainedModel:\n"
        "    @classmethod\n"
        "    def from_pretrained(cls, name): return cls._from_config(name)\n"
        "    @classmethod\n"
        "    def _from_config(cls, config): return cls\n"
    )
    package(tmp_path, monkeypatch, "transformers", "")
    package(tmp_path, monkeypatch, "transformers.modeling_utils", text)
    base = importlib.import_module("transformers.modeling_utils").PreTrainedModel

    class Llama(base):  # type: ignore[misc]
        pass

    with torch.device("meta"):
        assert Llama.from_pretrained("x") is Llama
    assert log.names == []
    assert Llama.from_pretrained("x") is Llama
    assert log.names == ["materialize"]


# ------------------------------------------------------------------ importing


def test_an_import_is_followed_and_left_as_it_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "followed_by_snapviz", "value = 1")
    before = list(sys.meta_path)
    seen: list[Any] = []
    forget = importing.when_imported("followed_by_snapviz", seen.append)
    module = importlib.import_module("followed_by_snapviz")
    assert seen == [module]
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    forget()
    assert sys.meta_path == before
    assert importing._FINDER.waiting == {}
    del sys.modules["followed_by_snapviz"]


def test_a_failing_import_fails_as_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "fails_for_snapviz", "raise ZeroDivisionError")
    forgets = [
        importing.when_imported(name, lambda module: pytest.fail("it was not imported"))
        for name in ("fails_for_snapviz", "missing_for_snapviz")
    ]
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("fails_for_snapviz")
    with pytest.raises(ModuleNotFoundError, match="missing_for_snapviz"):
        importlib.import_module("missing_for_snapviz")
    for forget in forgets:
        forget()
    assert importing._FINDER not in sys.meta_path


def test_what_follows_may_fail_and_the_import_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "odd_for_snapviz", "")

    def fail(_: Any) -> None:
        raise AttributeError("it looks otherwise")

    forget = importing.when_imported("odd_for_snapviz", fail)
    with pytest.warns(RuntimeWarning, match="odd_for_snapviz is not followed .*it looks otherwise"):
        importlib.import_module("odd_for_snapviz")
    forget()
    del sys.modules["odd_for_snapviz"]
