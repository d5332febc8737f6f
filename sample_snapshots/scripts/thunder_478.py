"""lightning-thunder issue 478: does ``fsdp(jit(model))`` release the parameters it was given?

One parameter of 1024×1024 float32, sharded over the ranks, and one forward. ``--keep`` leaves the originals
with the transform, as ``FSDPTransform`` does by itself; without, they are released, as ``thunder.distributed.fsdp``
has it since 0.2.1. Needs lightning-thunder. Nothing in here knows of snapviz.
"""

from __future__ import annotations

import argparse
import os

import thunder
import torch
import torch.distributed as dist
from thunder.distributed.transforms.fsdp_v2 import FSDPTransform


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p1 = torch.nn.Parameter(torch.ones(1024, 1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.p1 + x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the original parameters")
    parser.add_argument("--backend", default="nccl", help="gloo lets several ranks share a device")
    args = parser.parse_args()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group(args.backend)

    with device:
        model: torch.nn.Module = Model()
        x = torch.randn(1)
    # one name for all three, as in the issue: another would keep the parameters by itself
    model = thunder.jit(model, executors=["torch"])
    if args.keep:
        transform = FSDPTransform(device=device, release_original_parameters=False)
        model = thunder.core.transforms.add_transform(model, transform=[transform])
    else:
        model = thunder.distributed.fsdp(model, device=device)
    output = model(x)
    if dist.get_rank() == 0:
        print(f"allocated: {torch.cuda.memory_allocated():,} bytes, {output.nbytes:,} of them the output")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
