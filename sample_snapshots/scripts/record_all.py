"""Records every sample run again: ``python sample_snapshots/scripts/record_all.py OUT [NAME...]``.

Needs a CUDA device, snapviz, and what the scripts need (accelerate, transformers, lightning-thunder, litgpt,
jsonargparse); a run whose packages are missing is said to be left out. With one device, two ranks share it over gloo;
with two, they talk over NCCL.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ACCELERATE = (
    "torch_optimizer_after_fsdp",
    "torch_optimizer_before_fsdp_not_fixed",
    "torch_optimizer_before_fsdp_fixed",
    "accelerate",
)
LITGPT = (
    "--model_name=Llama-2-7b-hf --distributed_mode=fsdp --shard_mode=zero2 --bucketing_mode=none "
    "--max_iters=8 --warmup_iters=4"
)


@dataclass(frozen=True)
class Sample:
    """One run: a script with its arguments, on ``ranks`` processes or as one rank of ``world``."""

    name: str
    script: str
    arguments: str = ""
    ranks: int = 1
    world: int | None = None
    options: str = ""
    allocator: str = ""
    shares: str = "--backend gloo"  # what the script is told where ranks share a device


def samples() -> list[Sample]:
    """All of them, by name; names with a slash are runs that belong together."""
    found = [
        Sample("thunder_478/main", "thunder_478.py", ranks=2, options="--set release_original_parameters=True"),
        Sample("thunder_478/pr", "thunder_478.py", "--keep", 2, options="--set release_original_parameters=False"),
    ]
    for run in ACCELERATE:
        found.append(Sample(f"accelerate_fsdp2_8/{run}", "accelerate_fsdp2.py", run, world=8))
        found.append(Sample(f"accelerate_fsdp2_2/{run}", "accelerate_fsdp2.py", f"{run} --layers 8", ranks=2))
    for run, keep in (("main", ""), ("pr", " --keep")):
        found += [
            Sample(f"litgpt_eager_8/{run}", "litgpt_benchmark.py", f"--compile=eager {LITGPT}{keep}", world=8),
            Sample(
                f"litgpt_eager_2/{run}",
                "litgpt_benchmark.py",
                f"--compile=eager {LITGPT} --n_layers=8{keep}",
                ranks=2,
                shares="--share-device",
            ),
            Sample(
                f"litgpt_thunder_2/{run}",
                "litgpt_benchmark.py",
                f"--compile=thunder {LITGPT} --n_layers=2{keep}",
                ranks=2,
                shares="--share-device",
            ),
            Sample(
                f"litgpt_thunder_8/{run}",
                "litgpt_benchmark.py",
                f"--compile=thunder {LITGPT} --n_layers=2{keep}",
                world=8,
            ),
        ]
    found += [
        Sample("single", "programs.py", "single"),
        Sample("single_expandable", "programs.py", "single", allocator="expandable_segments:True"),
        Sample("cuda_graph", "programs.py", "graph"),
        Sample("leak", "programs.py", "leak --steps 6"),
        Sample("fsdp1", "programs.py", "fsdp1", ranks=2),
        Sample("ddp", "programs.py", "ddp", ranks=2),
        Sample("uneven_ranks", "programs.py", "uneven", ranks=2),
    ]
    return found


def command(sample: Sample, out: Path, shared: bool) -> list[str]:
    """The command line that records a sample."""
    record = ["-m", "snapviz", "record", "-o", str(out / sample.name), "-f", *shlex.split(sample.options)]
    script = ["--", os.path.relpath(HERE / sample.script), *shlex.split(sample.arguments)]
    if sample.world:
        return [sys.executable, *record, "--world-size", str(sample.world), "--rank", "0", *script]
    if sample.ranks == 1:
        return [sys.executable, *record, *script]
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={sample.ranks}", "--standalone"]
    return [*launcher, *record, *script, *(shlex.split(sample.shares) if shared else [])]


def run(line: list[str], environment: dict[str, str], timeout: int) -> int:
    """The exit code of a command; where it takes too long it is ended, and every rank with it."""
    process = subprocess.Popen(line, env=environment, start_new_session=True)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def record(sample: Sample, out: Path, shared: bool, timeout: int) -> int:
    """Records one sample; its exit code."""
    environment = dict(os.environ)
    if sample.allocator:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = sample.allocator
    start = time.monotonic()
    print(f"== {sample.name}", flush=True)
    code = run(command(sample, out, shared), environment, timeout)
    print(f"== {sample.name}: exit {code}, {time.monotonic() - start:.0f} s", flush=True)
    return code


def main() -> int:
    """Records those that were asked for; how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help="what the names begin with; all without")
    parser.add_argument("--timeout", type=int, default=240, help="seconds that one run may take")
    parser.add_argument("--at-once", type=int, default=1, help="runs at once; they see each other's free memory")
    args = parser.parse_args()
    import torch

    devices = torch.cuda.device_count()
    if not devices:
        parser.error(f"torch {torch.__version__} sees no CUDA device to record on")
    wanted = [sample for sample in samples() if not args.names or sample.name.startswith(tuple(args.names))]
    with ThreadPoolExecutor(args.at_once) as pool:
        codes = pool.map(lambda one: record(one, args.out, devices < one.ranks, args.timeout), wanted)
        return sum(code != 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main())
