"""What recording costs, on a CUDA device: ``python benchmarks/recording.py [--json FILE]``.

Three things, each with and without recording in turn, in one process: a pair of an allocation and its free, at 30
Python frames; the boundary of a phase of Llama-2-7b under FSDP2, names and all; and a training step of that model.
Llama-2-7b is made from its configuration, as one rank of 8 by torch's fake process group. Needs transformers.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import snapviz
from snapviz.record.auto import Auto
from snapviz.record.backend import CudaBackend, HistorySettings
from snapviz.record.recorder import Recorder

FRAMES = 30
PAIRS = 20_000
ROUNDS = 9


def deep(frames: int, work: Callable[[], float]) -> float:
    """Calls ``work`` as the last of so many Python frames in all."""
    return work() if len(inspect.stack(0)) + 1 >= frames else deep(frames, work)


def pairs() -> float:
    """µs a pair of allocation and free, many of them."""
    start = time.perf_counter()
    for _ in range(PAIRS):
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    return (time.perf_counter() - start) / PAIRS * 1e6


def measure_pairs() -> dict[str, float]:
    """µs without recording, with it, and with annotations too: medians of rounds in turn."""
    backend = CudaBackend()
    torch.cuda.init()
    pairs()
    off, on, annotated = [], [], []
    for _ in range(ROUNDS):
        off.append(deep(FRAMES, pairs))
        for with_them, times in ((False, on), (True, annotated)):
            backend.start(HistorySettings(annotations=with_them))
            times.append(deep(FRAMES, pairs))
            backend.stop()
    without, recorded = statistics.median(off), statistics.median(on)
    with_annotations = statistics.median(annotated)
    return {
        "off_us": without,
        "on_us": recorded,
        "more_us": recorded - without,
        "annotated_us": with_annotations,
        "annotated_more_us": with_annotations - without,
    }


def llama(layers: int) -> tuple[Any, Any, Any]:
    """The model, sharded, its optimizer and a batch."""
    from torch.distributed.fsdp import fully_shard
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        config = LlamaConfig(num_hidden_layers=layers, attn_implementation="sdpa", use_cache=False)
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model, reshard_after_forward=False)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for param in model.parameters():
            param._local_tensor.normal_(std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)
    return model, optimizer, torch.randint(32_000, (1, 4_096), device="cuda")


def step(model: Any, optimizer: Any, batch: Any) -> float:
    """Seconds of one training step."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    loss = model(input_ids=batch, labels=batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure_boundary(model: Any, optimizer: Any, batch: Any, scratch: Path) -> dict[str, float]:
    """ms of a boundary at which names are read, and of one inside a later step, at which they are not."""
    recorder = Recorder(scratch / "boundary", rank=0, world_size=8, holders=False)
    with recorder:
        recorder.watch(model, optimizer)
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        recorder.open("train")
        full = [_timed(lambda name=name: _open_and_close(recorder, name)) / 2 for name in "abcdefghi"]
        names = len(recorder._boundaries.notes.censuses[-1].rows)
        recorder.open("step0")
        for _ in range(4):
            _open_and_close(recorder, "forward")
        later = [_timed(lambda: _open_and_close(recorder, "forward")) / 2 for _ in range(9)]
    optimizer.zero_grad()
    return {"full_ms": statistics.median(full), "later_ms": statistics.median(later), "names": names}


def count_annotations(model: Any, batch: Any, with_them: bool) -> int:
    """Annotations that one forward leaves in a snapshot."""
    backend = CudaBackend()
    backend.start(HistorySettings(annotations=with_them))
    model(input_ids=batch, labels=batch)
    snapshot = backend.snapshot() or {}
    backend.stop()
    return len(snapshot.get("external_annotations", ()))


def _open_and_close(recorder: Recorder, name: str) -> None:
    recorder.open(name)
    recorder.close()


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measure_steps(model: Any, optimizer: Any, batch: Any, scratch: Path, blocks: int) -> dict[str, float]:
    """Seconds a step, in blocks with recording and without in turn, and the median of the ratios of neighbours.

    The first three steps of a recording, in which names are read, are measured by themselves.
    """
    plain, recorded, first, ratios = [], [], [], []
    for _ in range(3):
        step(model, optimizer, batch)
    for block in range(blocks):
        without = [step(model, optimizer, batch) for _ in range(8)]
        recorder = Recorder(scratch / f"steps{block}", rank=0, world_size=8, holders=False)
        recorder.start()
        auto = Auto(recorder)
        recorder.at_stop(auto.install())
        recorder.auto = auto
        recorder.watch(model, optimizer)
        with_it = [step(model, optimizer, batch) for _ in range(8)]
        recorder.stop()
        plain += without[3:]
        recorded += with_it[3:]
        first += with_it[:3]
        ratios.append(statistics.median(with_it[3:]) / statistics.median(without[3:]))
    percent = 100 * (statistics.median(ratios) - 1)
    return {
        "plain_s": statistics.median(plain),
        "recorded_s": statistics.median(recorded),
        "first_three_s": statistics.median(first),
        "percent": percent,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--pairs-only", action="store_true", help="leave out what needs the model's steps")
    args = parser.parse_args()
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.cuda.set_device(0)
    found: dict[str, Any] = {
        "machine": {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "snapviz": snapviz.__version__},
        "pair": measure_pairs(),
    }
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    with tempfile.TemporaryDirectory() as scratch:
        model, optimizer, batch = llama(args.layers)
        found["annotations"] = {str(on): count_annotations(model, batch, on) for on in (False, True)}
        if args.pairs_only:
            print(json.dumps(found, indent=1))
            return 0
        found["boundary"] = measure_boundary(model, optimizer, batch, Path(scratch))
        found["step"] = measure_steps(model, optimizer, batch, Path(scratch), args.blocks)
    dist.destroy_process_group()
    print(table(found))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    return 0


def table(found: dict[str, Any]) -> str:
    """The figures as markdown."""
    machine, pair, boundary, steps = found["machine"], found["pair"], found["boundary"], found["step"]
    rows = [
        ("allocation and free at 30 frames, µs more", f"{pair['more_us']:.2f}", "2"),
        ("the same with annotations, µs more", f"{pair['annotated_more_us']:.2f}", "2"),
        (f"boundary of a phase, {boundary['names']:,} names, ms", f"{boundary['full_ms']:.1f}", "20"),
        ("boundary inside a later step, ms", f"{boundary['later_ms']:.2f}", "–"),
        ("training step, % more", f"{steps['percent']:+.2f}", "2"),
    ]
    after = (
        f"A pair takes {pair['off_us']:.2f} µs without and {pair['on_us']:.2f} µs with recording; a step "
        f"{steps['plain_s'] * 1e3:.1f} ms and {steps['recorded_s'] * 1e3:.1f} ms, and "
        f"{steps['first_three_s'] * 1e3:.1f} ms in the first three steps, in which names are read."
    )
    lines = [
        f"{machine['device']}, torch {machine['torch']}, snapviz {machine['snapviz']}; medians.",
        "",
        "| | measured | at most |",
        "| --- | ---: | ---: |",
        *(f"| {what} | {value} | {target} |" for what, value, target in rows),
        "",
        after,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
