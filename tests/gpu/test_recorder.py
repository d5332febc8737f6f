"""The recorder on a real device: every figure against torch's counters, every name against its module.

Skipped where there is no CUDA device. What ran where: README.md in this folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snapviz
from snapviz.analyze.module_windows import module_windows
from snapviz.analyze.run import Rank, load_run
from snapviz.snapshot.columns import ACTIONS
from tests.truth import misnamed, off_counters
from tests.windowtruth import BLOCKS, kept_by_window, misplaced, outside_of_windows

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device here: what is recorded on one is not checked", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "sample_snapshots" / "scripts" / "programs.py"
MIB = 1 << 20


@pytest.fixture
def fake_group() -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    torch.distributed.destroy_process_group()


def layers(width: int = 1_024) -> Any:
    return torch.nn.Sequential(*(torch.nn.Linear(width, width, device="cuda") for _ in range(4)))


def address(tensor: Any) -> int:
    return int(getattr(tensor, "_local_tensor", tensor).untyped_storage().data_ptr())


def only_rank(path: Path) -> Rank:
    run = load_run(path, cache=False)
    assert run.failures == ()
    (rank,) = run.ranks
    assert off_counters(rank) == []
    assert misnamed(rank) == []
    return rank


def named(rank: Rank, phase: str, kind: str) -> dict[str, int]:
    assert rank.record is not None
    stop_us = next(one.stop_us for one in rank.record.phases if one.name == phase)
    boundary = [one for one in rank.record.boundaries if one.time_us <= stop_us][-1]
    # a model that an earlier test left, and that nobody collected yet, has names without one before them
    return {n.name: n.address for n in boundary.names if n.kind == kind and n.name.startswith("model.")}


def located(net: Any, of: Callable[[Any], Any] = lambda param: param) -> dict[str, int]:
    return {f"model.{name}": address(of(param)) for name, param in net.named_parameters()}


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "snapviz", "record", *arguments],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_every_name_is_where_its_module_and_optimizer_have_it(tmp_path: Path, fake_group: None, before: bool) -> None:
    from torch.distributed.fsdp import fully_shard

    with snapviz.record(tmp_path / "run") as rec:
        with rec.phase("materialize"):
            net = layers()
            rec.watch(model=net)
        originals = located(net)
        stale = torch.optim.AdamW(net.parameters()) if before else None
        with rec.phase("shard"):
            for layer in net:
                fully_shard(layer)
            fully_shard(net)
        optimizer = stale or torch.optim.AdamW(net.parameters())
        with rec.phase("train"), rec.phase("step0"):
            net(torch.randn(8, 1_024, device="cuda")).sum().backward()
            with rec.phase("optimizer"):
                optimizer.step()
            shards = located(net)
            gradients = located(net, lambda param: param.grad)
        states = {
            f"model.{name}.{key}": address(value)
            for name, param in net.named_parameters()
            for key, value in optimizer.state.get(param, {}).items()
            if value.is_cuda
        }
    rank = only_rank(tmp_path / "run")
    assert named(rank, "materialize", "parameter") == originals
    assert named(rank, "train/step0/optimizer", "shard") == shards
    assert named(rank, "train/step0/optimizer", "gradient") == gradients
    assert named(rank, "train/step0/optimizer", "optimizer_state") == states
    dangling = {one.name: one.requested_bytes for one in rank.facts().dangling}
    assert rank.record is not None
    if not before:
        assert dangling == {}
        assert rank.record.holders == ()
        return
    # tiny ones share a page of nothing: every parameter has an allocation of its own
    assert dangling == {name: (1_024 * 1_024 if "weight" in name else 1_024) * 4 for name in originals}
    held = {holder.parameter: holder.path for holder in rank.record.holders if holder.kind == "optimizer"}
    assert held.keys() == originals.keys()
    assert all(path.startswith("stale.param_groups[0]['params'][") for path in held.values()), held


def test_history_begins_with_the_first_allocation_of_a_script_that_sets_its_allocator(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\n"
        "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = os.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:True'\n"
        "import torch\n"
        "x = torch.ones(1 << 20, device='cuda')\n"
    )
    done = cli("-o", str(tmp_path / "run"), "--", str(script))
    assert done.returncode == 0, done.stderr
    rank = only_rank(tmp_path / "run")
    assert rank.record is not None
    assert rank.record.history is not None
    assert rank.record.history.first_allocation
    assert rank.columns.settings["expandable_segments"] is True


@pytest.mark.parametrize("program", ["single", "graph", "leak"])
def test_a_script_without_a_line_changed(tmp_path: Path, program: str) -> None:
    done = cli("-o", str(tmp_path / "run"), "--steps", "3", "--", str(PROGRAMS), program)
    assert done.returncode == 0, done.stderr
    rank = only_rank(tmp_path / "run")
    names = rank.facts().phases.names
    assert names[:2] == ("materialize", "optimizer")
    assert {"train/step0/forward", "train/step2/backward", "train/step2/optimizer"} <= set(names)
    assert "train/step3" not in names


def test_running_out_of_memory_is_written_and_raised_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nkept = torch.ones(1 << 20, device='cuda')\ntorch.ones(1 << 50, device='cuda')\n")
    done = cli("-o", str(tmp_path / "run"), "--", str(script))
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr
    assert "snapviz/record" not in done.stderr
    rank = only_rank(tmp_path / "run")
    assert "oom" in {ACTIONS[code] for code in rank.columns.events.action.tolist()}


def test_sigterm_writes_and_ends_the_process_as_before(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, torch\nkept = torch.ones(1 << 20, device='cuda')\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "snapviz", "record", "-o", str(tmp_path / "run"), "--", str(script)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    process.stdout.close()
    assert int(only_rank(tmp_path / "run").facts().replay.allocated_bytes.max()) == 4 * MIB


def test_recording_that_is_on_is_left_alone(tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history()
    try:
        with pytest.raises(snapviz.RecordError, match="recorded already"):
            snapviz.record(tmp_path / "run").start()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def test_memory_outside_the_allocator_is_noted(tmp_path: Path) -> None:
    with snapviz.record(tmp_path / "run") as rec, rec.phase("a"):
        kept = torch.ones(1 << 20, device="cuda")
        time.sleep(0.001)
        del kept
    rank = only_rank(tmp_path / "run")
    assert rank.record is not None
    counters = rank.record.phases[0].counters
    assert counters is not None
    assert counters.device_total_bytes is not None
    assert counters.device_free_bytes is not None
    outside = counters.device_total_bytes - counters.device_free_bytes - counters.end_reserved_bytes
    assert outside > 100 * MIB  # a context alone takes more


WINDOWS = """
import json, sys, torch
{blocks}

def plain():
    return torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))

# what a block saves by its own hooks is not checkpointed
checkpointed = sys.argv[1] == "checkpointed"
model = (torch.nn.Sequential(*(plain() for _ in range(4))) if checkpointed else model_of(4, 512)).cuda()
if sys.argv[1] == "fsdp2":
    from torch.distributed.fsdp import fully_shard
    torch.distributed.init_process_group("nccl")
    for module in (*model, model):
        fully_shard(module)
blocks, run = [] if checkpointed else list(model), model
if checkpointed:
    from torch.utils.checkpoint import checkpoint
    class Checkpointed(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
        def forward(self, x):
            for block in self.inner:
                x = checkpoint(block, x, use_reentrant=False)
            return x
    run = Checkpointed(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved = []
for step in range(4):
    run(torch.randn(64, 512, device="cuda")).sum().backward()
    saved.append([each for block in blocks for each in block.saved])
    for block in blocks:
        block.saved.clear()
    optimizer.step()
    optimizer.zero_grad()
json.dump(saved, open(sys.argv[2], "w"))
"""


@pytest.mark.parametrize("way", ["plain", "fsdp2"])
def test_what_a_module_makes_is_made_in_its_windows(tmp_path: Path, way: str) -> None:
    rank, saved = recorded_windows(tmp_path, way)
    blocks = [str(number) for number in range(4)]
    for step in range(3):
        forward = f"train/step{step}/forward"
        assert len(saved[step]) == 8, "two of each block"
        assert misplaced(rank, forward, saved[step]) == []
        assert outside_of_windows(rank, forward, blocks, f"forward ({tmp_path / 'train.py'}:") == []
    if way == "plain":
        # the windows tell them apart: what is of other blocks is none of the first
        others = [("0", address) for _, address in saved[1][2:]]
        assert len(misplaced(rank, "train/step1/forward", others)) == len(others)
        # the first step has a library's workspaces too
        kept = kept_by_window(rank, "train/step1/forward", blocks)
        assert list(kept) == blocks
        assert set(kept.values()) == {64 * 512 * (4 + 4 + 1) * 4}


def test_what_runs_again_has_windows_in_backward(tmp_path: Path) -> None:
    rank, _ = recorded_windows(tmp_path, "checkpointed")
    found = module_windows(rank.record)
    assert found is not None
    assert found.complete
    again = [found.names[name] for name in found.name[found.recomputed].tolist()]
    blocks = [name for name in again if name.count(".") == 1]
    assert blocks == [f"inner.{number}" for number in (3, 2, 1, 0)] * 3
    phases = rank.facts().phases
    for start_us, stop_us in zip(found.start_us[found.recomputed], found.stop_us[found.recomputed], strict=True):
        within = (phases.start_us <= start_us) & (phases.stop_us >= stop_us)
        assert any(name.endswith("/backward") for name, here in zip(phases.names, within, strict=True) if here)


def recorded_windows(tmp_path: Path, way: str) -> tuple[Rank, list[list[tuple[str, int]]]]:
    script = tmp_path / "train.py"
    # the names of a whole model have nothing before them
    script.write_text(WINDOWS.replace("{blocks}", BLOCKS.replace('name="model"', 'name=""')))
    world = ("--world-size", "4") if way == "fsdp2" else ()
    done = cli("-o", str(tmp_path / "run"), *world, "--", str(script), way, str(tmp_path / "saved.json"))
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "saved.json").read_text())
    return only_rank(tmp_path / "run"), [[(path.lstrip("."), address) for path, address in step] for step in saved]
