"""Small training programs, each with one thing about its memory to see.

``single``: no sharding. ``fsdp1``, ``ddp``: the older wrappers. ``graph``: a captured CUDA graph. ``leak``: a list that
keeps each step's output. ``uneven``: the last rank's batches are twice as large. Nothing in here knows of snapviz.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

WIDTH, LAYERS, BATCH = 1_024, 6, 512


def model() -> Any:
    layers = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH))
        for _ in range(LAYERS)
    ]
    return torch.nn.Sequential(*layers)


def train(net: Any, steps: int, batch: int, after: Callable[[Any], None] = lambda _: None) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(steps):
        output = net(torch.randn(batch, WIDTH, device="cuda"))
        loss = output.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(output)


def single(steps: int) -> None:
    train(model().to("cuda"), steps, BATCH)


def fsdp1(steps: int) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    net = model().to("cuda")
    wrapped = FullyShardedDataParallel(
        net, auto_wrap_policy=ModuleWrapPolicy({type(net[0])}), use_orig_params=True, device_id=torch.device("cuda")
    )
    train(wrapped, steps, BATCH)


def ddp(steps: int) -> None:
    net = torch.nn.parallel.DistributedDataParallel(model().to("cuda"), gradient_as_bucket_view=True)
    train(net, steps, BATCH)


def graph(steps: int) -> None:
    net = model().to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, capturable=True)
    static = torch.randn(BATCH, WIDTH, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        net(static).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    for _ in range(steps):
        captured.replay()


def leak(steps: int) -> None:
    kept: list[Any] = []
    train(model().to("cuda"), steps, BATCH, after=kept.append)


def uneven(steps: int) -> None:
    from torch.distributed.fsdp import fully_shard

    net = model().to("cuda")
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    last = dist.get_rank() == dist.get_world_size() - 1
    train(net, steps, 2 * BATCH if last else BATCH)


PROGRAMS = {program.__name__: program for program in (single, fsdp1, ddp, graph, leak, uneven)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--backend", default="nccl", help="gloo lets several ranks share a device")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.manual_seed(0)
    distributed = args.program in ("fsdp1", "ddp", "uneven")
    if distributed:
        dist.init_process_group(args.backend)
    PROGRAMS[args.program](args.steps)
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
