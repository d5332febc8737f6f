"""What dangles after sharding, recorded with who keeps it, and read back as such."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import snapviz
from snapviz.analyze.run import load_run
from tests.record.builders import FakeBackend, record_of

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def no_other_model() -> None:
    gc.collect()  # what another test left would be the first root, and take the names without a word before them


def shard(net: Any, backend: FakeBackend) -> None:
    """Cuts each parameter in two, as a framework would: the module gets another one."""
    for layer in net:  # a local that held one of the originals would keep it
        layer.weight = torch.nn.Parameter(backend.own(layer.weight[: len(layer.weight) // 2].detach().clone()))


def recorded(path: Path, keep: bool) -> None:
    backend = FakeBackend()
    with snapviz.record(path, backend=backend, rank=0, world_size=2) as rec:
        with rec.phase("materialize"):
            net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(3)))
            for layer in net:
                backend.own(layer.weight)
            rec.watch(net)
        kept = list(net.parameters()) if keep else []
        with rec.phase("shard"):
            shard(net, backend)
        with rec.phase("train"), rec.phase("step0"):
            del kept


def test_what_is_kept_is_named_with_its_bytes_and_its_holder(tmp_path: Path) -> None:
    recorded(tmp_path / "pr", keep=True)
    facts = load_run(tmp_path / "pr").ranks[0].facts()
    assert [(one.name, one.block_bytes, one.gone_in) for one in facts.dangling] == [
        (f"{i}.weight", 64 * 64 * 4, "train/step0") for i in range(3)
    ]
    for i, one in enumerate(facts.dangling):
        assert any(path.startswith(f"local 'kept'[{i}] in recorded (test_dangling.py") for path in one.holders)


def test_what_is_released_is_not_looked_for(tmp_path: Path) -> None:
    recorded(tmp_path / "main", keep=False)
    assert record_of(tmp_path / "main").holders == ()
    assert load_run(tmp_path / "main").ranks[0].facts().dangling == ()


def test_it_is_looked_for_when_asked_and_not_when_told_not_to(tmp_path: Path) -> None:
    backend = FakeBackend()
    with snapviz.record(tmp_path / "run", backend=backend, holders=False) as rec:
        with rec.phase("materialize"):
            net = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
            backend.own(net[0].weight)
            rec.watch(net)
        kept = net[0].weight
        with rec.phase("shard"):
            shard(net, backend)
        assert rec._boundaries.notes.holders == []
        rec.find_holders()
        assert {holder.parameter for holder in rec._boundaries.notes.holders} == {"0.weight"}
        del kept


def test_every_layer_that_is_sharded_by_itself_is_looked_at(tmp_path: Path) -> None:
    backend = FakeBackend()
    with snapviz.record(tmp_path / "run", backend=backend, rank=0, world_size=2) as rec:
        net = torch.nn.Sequential()
        rec.watch(net)
        kept = []
        for i in range(6):
            with rec.phase("materialize"):
                net.append(torch.nn.Linear(64, 64, bias=False))
                backend.own(net[i].weight)
            kept.append(net[i].weight)
            with rec.phase("shard"):
                net[i].weight = torch.nn.Parameter(backend.own(net[i].weight[:32].detach().clone()))
        with rec.phase("train"):
            del kept
    found = load_run(tmp_path / "run").ranks[0].facts().dangling
    assert {one.name for one in found} == {f"{i}.weight" for i in range(6)}
    assert all(one.holders for one in found)
