"""What a diff tells beside the allocator's own memory: what else the device held, and how fast it trained."""

from __future__ import annotations

from snapviz.schema.base import Model

__all__ = ["Benchmark", "BenchmarkSide", "OutsideDelta"]


class OutsideDelta(Model):
    """Memory of the device that is not the allocator's, at the end of a phase: contexts, NCCL, other processes."""

    rank: int
    # as in PhaseDelta
    phase: str
    # folded; at the end of the last of that name
    base_bytes: int
    # total − free − reserved, of the whole device
    head_bytes: int
    # as base_bytes
    delta_bytes: int
    # head − base


class BenchmarkSide(Model):
    """One run in the figures that trainers quote."""

    tokens_per_s: float
    # as in the manifest's metrics
    tokens_per_s_per_gpu: float | None
    # divided by the world size; none where nothing says it
    memory_bytes: int
    # highest allocated in a training phase, of a recording without one in all of it, on the worst rank
    memory_at_least: bool
    # whether that peak may have been higher


class Benchmark(Model):
    """Both runs in the figures that trainers quote."""

    base: BenchmarkSide
    # base's
    head: BenchmarkSide
    # head's
