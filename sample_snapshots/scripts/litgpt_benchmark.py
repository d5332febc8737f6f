"""thunder's benchmark_litgpt.py, as lightning-thunder's first seed ran it, on a model that has its weights.

The benchmark makes the model on the meta device and shards after it, so that there is nothing to keep. Here it is
made on the device, as one that is to be trained further is, and the parameters that were whole are released (main)
or kept (``--keep``, pr): by thunder's own transform, or, with ``--compile=eager``, by a dict beside FSDP. Every other
argument is the benchmark's, but ``--share-device``, for two ranks on one. Needs lightning-thunder, litgpt and
jsonargparse. tokens/s become the run's metric.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

import snapviz

if "--share-device" in sys.argv:  # several ranks on one device, which NCCL refuses and gloo does not
    os.environ["LOCAL_RANK"] = "0"
    dist.init_process_group("gloo")
    # the benchmark makes its group as it is imported
    dist.init_process_group = lambda *_, **__: None

import thunder.benchmarks.benchmark_litgpt as benchmark
import thunder.distributed.transforms.fsdp_v2 as transforms

KEPT: dict[str, torch.Tensor] = {}


class OnTheDevice(benchmark.Benchmark_litGPT):  # type: ignore[misc]
    """The benchmark, with a model whose weights are there before it is sharded."""

    keep = False

    def init_model(self) -> Any:
        with self.device if isinstance(self.device, torch.device) else torch.device(self.device):
            return benchmark.GPT(self.config).to(torch.bfloat16)

    def setup_distributed(self, model: Any) -> Any:
        if self.keep and "thunder" not in self.compile:
            KEPT.update((name, param.detach()) for name, param in model.named_parameters())
        return super().setup_distributed(model)


def main() -> None:
    OnTheDevice.keep = "--keep" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--keep", "--share-device")]
    if OnTheDevice.keep:
        plain = transforms.FSDPTransform.__init__

        @functools.wraps(plain)
        def keeping(self: Any, *args: Any, **kwargs: Any) -> None:
            plain(self, *args, **(kwargs | {"release_original_parameters": False}))

        transforms.FSDPTransform.__init__ = keeping
    from jsonargparse import ArgumentParser

    parser = ArgumentParser()
    parser.add_class_arguments(benchmark.Benchmark_litGPT, fail_untyped=False)
    bench = OnTheDevice(**vars(parser.parse_args(arguments)))
    bench.train()
    if benchmark.global_rank in (0, None):
        bench.add_perf_metrics()
        tokens = bench.perf_metrics["tokens_per_sec"]
        print(f"tokens/s {tokens:,.1f}   peak {bench.perf_metrics['memory_used_GB']:.2f} GB")
        snapviz.metric("tokens_per_s", tokens)


if __name__ == "__main__":
    main()
