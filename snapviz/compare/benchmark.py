"""The figures that trainers quote of two runs: tokens a second, and the peak of memory in training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.run import Run
from snapviz.compare.rank import RankDiff
from snapviz.compare.training import training_phases
from snapviz.schema import Benchmark, BenchmarkSide

__all__ = ["METRIC", "benchmark_of"]

METRIC = "tokens_per_s"
"""The metric of both manifests that calls for these figures: of the whole job."""

_ALLOCATED = MEASURES.index("allocated")


def benchmark_of(base: Run, head: Run, compared: Sequence[RankDiff]) -> Benchmark | None:
    """Both sides, of the ranks that are compared; none where a run has no such metric, or no rank is compared."""
    one = _side(base, [c.base for c in compared])
    other = _side(head, [c.head for c in compared])
    return Benchmark(base=one, head=other) if one is not None and other is not None else None


def _side(run: Run, ranks: Sequence[Facts]) -> BenchmarkSide | None:
    tokens = run.manifest.metrics.get(METRIC) if run.manifest else None
    if tokens is None or not ranks:
        return None
    peaks = [_training_peak(facts) for facts in ranks]
    highest = max(peak for peak, _ in peaks)
    return BenchmarkSide(
        tokens_per_s=float(tokens),
        tokens_per_s_per_gpu=tokens / run.world_size if run.world_size else None,
        memory_bytes=highest,
        memory_at_least=any(least for _, least in peaks),
    )


def _training_peak(facts: Facts) -> tuple[int, bool]:
    """Highest allocated in the training phases, of the recording where there are none; whether it may be higher."""
    train = training_phases(facts)
    if len(train):
        phases = facts.phases
        return int(phases.peak[train, _ALLOCATED].max()), bool(np.any(phases.least[train, _ALLOCATED]))
    return facts.replay.peak("allocated", 0, len(facts.replay))[0], facts.truncated
