"""Records small programs under many allocator settings, with torch's own counters beside them.

``python tests/gpu/record_allocator.py OUT`` on a machine with a CUDA GPU and torch. Each program runs
in a process of its own and writes ``NAME.pickle.xz`` (``_snapshot()``, pickled) and ``NAME.json``
(per phase its window and the counters of all four measures). ``cpp`` writes the same moment twice:
once from Python and once with torch's C++ writer, which is built on the spot. What came of it is in
``tests/data/allocator``; ``tests/replay/test_recorded.py`` holds the replay against it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import lzma
import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1 << 20
MEASURES = ("allocated", "active", "requested", "reserved")

Work = Callable[[Any, random.Random, list[Any]], None]


def churn(torch: Any, rng: random.Random, live: list[Any], most: int = 48 * MIB, count: int = 120) -> None:
    """Allocates and frees tensors of all sizes, small ones more often."""
    for _ in range(count):
        if live and rng.random() < 0.45:
            live.pop(rng.randrange(len(live)))
        else:
            size = rng.choice((rng.randrange(1, 4096), rng.randrange(4096, MIB), rng.randrange(MIB, most)))
            live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def large(torch: Any, rng: random.Random, live: list[Any]) -> None:
    churn(torch, rng, live, most=400 * MIB, count=60)


def streams(torch: Any, rng: random.Random, live: list[Any]) -> None:
    """Blocks that another stream still uses when they are freed, so that they stay pending."""
    side = torch.cuda.Stream()
    for _ in range(20):
        churn(torch, rng, live, count=6)
        for tensor in rng.sample(live, min(3, len(live))):
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000)
                tensor.add_(1)
            tensor.record_stream(side)
        with torch.cuda.stream(side):
            churn(torch, rng, live, count=4)


def emptied(torch: Any, rng: random.Random, live: list[Any]) -> None:
    churn(torch, rng, live)
    del live[::2]
    torch.cuda.empty_cache()
    churn(torch, rng, live)


def graphed(torch: Any, rng: random.Random, live: list[Any]) -> None:
    churn(torch, rng, live, count=30)
    graph, inside = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        churn(torch, rng, inside, count=40)
    graph.replay()
    live.append((graph, inside))
    churn(torch, rng, live, count=30)


def pooled(torch: Any, rng: random.Random, live: list[Any]) -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        churn(torch, rng, live, count=40)
    live.append(pool)
    churn(torch, rng, live, count=40)


def starved(torch: Any, rng: random.Random, live: list[Any]) -> None:
    """An allocation that cannot be had: the allocator frees what it caches, tries again, and gives up."""
    torch.cuda.set_per_process_memory_fraction(0.02)
    churn(torch, rng, live)
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        live.append(torch.empty(64 << 30, dtype=torch.uint8, device="cuda"))
    churn(torch, rng, live, count=40)


PROGRAMS: dict[str, tuple[str, Work, dict[str, Any]]] = {
    "plain": ("", churn, {}),
    "plain_large": ("", large, {}),
    "plain_streams": ("", streams, {}),
    "plain_emptied": ("", emptied, {}),
    "plain_graph": ("", graphed, {}),
    "plain_mempool": ("", pooled, {}),
    "plain_oom": ("", starved, {}),
    "plain_context_all": ("", churn, {"context": "all"}),
    "plain_ring": ("", churn, {"max_entries": 500}),
    "plain_ring_streams": ("", streams, {"max_entries": 300}),
    "plain_midway": ("", churn, {"late": True}),
    "expandable": ("expandable_segments:True", churn, {}),
    "expandable_large": ("expandable_segments:True", large, {}),
    "expandable_streams": ("expandable_segments:True", streams, {}),
    "expandable_emptied": ("expandable_segments:True", emptied, {}),
    "expandable_graph": ("expandable_segments:True", graphed, {}),
    "expandable_oom": ("expandable_segments:True", starved, {}),
    "expandable_ring": ("expandable_segments:True", emptied, {"max_entries": 500}),
    "divisions": ("roundup_power2_divisions:4", churn, {}),
    "divisions_by_size": ("roundup_power2_divisions:[1:2,4:8,64:4,>:1]", large, {}),
    "max_split": ("max_split_size_mb:64", large, {}),
    "max_split_divisions": ("max_split_size_mb:32,roundup_power2_divisions:8", large, {}),
    "collected": ("garbage_collection_threshold:0.6", starved, {}),
}


def run_program(name: str, out: Path) -> None:
    import torch

    conf, work, options = PROGRAMS[name]
    rng, live = random.Random(name), []
    late = options.get("late", False)
    torch.cuda.init()
    if late:  # history that begins when much is allocated already
        churn(torch, rng, live)
    torch.cuda.memory._record_memory_history(
        context=options.get("context", "alloc"), stacks="python", max_entries=options.get("max_entries", 1_000_000)
    )
    phases = []
    for step in range(4):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = time.time_ns() // 1000
        time.sleep(0.001)
        work(torch, rng, live)
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        counters = {
            f"{which}_{m}": stats[f"{m}_bytes.all.{torch_word}"]
            for which, torch_word in (("peak", "peak"), ("end", "current"))
            for m in MEASURES
        }
        time.sleep(0.001)
        phases.append({"name": f"step{step}", "t0": start, "t1": time.time_ns() // 1000, **counters})
        if step % 2:
            del live[::3]
            gc.collect()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    about = {
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
        "conf": conf,
        "options": options,
        "phases": phases,
        "end": {m: stats[f"{m}_bytes.all.current"] for m in MEASURES},
    }
    write(out / name, snapshot, about)


def write(place: Path, snapshot: Any, about: dict[str, Any]) -> None:
    data = snapshot if isinstance(snapshot, bytes) else pickle.dumps(snapshot)
    place.with_suffix(".pickle.xz").write_bytes(lzma.compress(data, preset=9))
    place.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")


CPP = """
#include <torch/extension.h>
#include <torch/csrc/cuda/memory_snapshot.h>
py::bytes cpp_dump() { return py::bytes(torch::cuda::_memory_snapshot_pickled()); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("cpp_dump", &cpp_dump); }
"""


def run_cpp(out: Path) -> None:
    import torch
    from torch.utils.cpp_extension import load_inline

    module = load_inline("cpp_dump", CPP, extra_cflags=["-O0"], with_cuda=True, use_pch=False)
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    live: list[Any] = []
    streams(torch, random.Random(1), live)
    torch.cuda.synchronize()
    written = module.cpp_dump()
    from_python = torch.cuda.memory._snapshot()
    about = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    write(out / "written_by_cpp", written, about)
    write(out / "written_by_python", from_python, about)


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in [*PROGRAMS, "cpp"]:
        conf = PROGRAMS[name][0] if name in PROGRAMS else ""
        done = subprocess.run(
            [sys.executable, __file__, str(out), name], env=os.environ | {"PYTORCH_CUDA_ALLOC_CONF": conf}, check=False
        )
        sys.stdout.write(f"{name}: {'written' if done.returncode == 0 else f'failed, exit {done.returncode}'}\n")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if len(sys.argv) == 2:
        main(place)
    elif sys.argv[2] == "cpp":
        run_cpp(place)
    else:
        run_program(sys.argv[2], place)
