"""Bare recordings of training steps, with what each step allocates and frees written as a function."""

from __future__ import annotations

from collections.abc import Callable

from snapviz.analyze.run import Run
from tests.analyze.builders import Trace, frame, run_of

__all__ = ["FORWARD", "KEEP", "RUNS", "steps_of", "training"]

FORWARD = frame("forward", "/repo/model.py", 7)
KEEP = frame("keep", "/repo/train.py", 31)

RUNS = (
    "main",
    "pr",
    "fsdp2_after",
    "fsdp2_before_notfixed",
    "thunder_478/main",
    "thunder_478/pr",
    "accelerate_fsdp2_8/accelerate",
    "accelerate_fsdp2_8/torch_optimizer_after_fsdp",
    "accelerate_fsdp2_8/torch_optimizer_before_fsdp_fixed",
    "accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed",
    "accelerate_fsdp2_2/accelerate",
    "accelerate_fsdp2_2/torch_optimizer_after_fsdp",
    "accelerate_fsdp2_2/torch_optimizer_before_fsdp_fixed",
    "accelerate_fsdp2_2/torch_optimizer_before_fsdp_not_fixed",
    "litgpt_eager_8/main",
    "litgpt_eager_8/pr",
    "litgpt_thunder_8/main",
    "litgpt_thunder_8/pr",
    "litgpt_eager_2/main",
    "litgpt_eager_2/pr",
    "litgpt_thunder_2/main",
    "litgpt_thunder_2/pr",
    "single",
    "single_expandable",
    "cuda_graph",
    "leak",
    "fsdp1",
    "ddp",
    "uneven_ranks",
)
"""Every bundled run."""

Step = Callable[[Trace, int], None]
"""What happens in a step of a number."""


def training(
    count: int, *steps: Step, between: Step | None = None, after: Callable[[Trace], None] | None = None
) -> Trace:
    """Weights, then ``count`` annotated steps; ``between`` happens after each of them, ``after`` in the end."""
    trace = Trace()
    trace.alloc(40, frame("weights"))
    for number in range(count):
        trace.mark("START", f"ProfilerStep#{number}")
        trace.free(trace.alloc(30, FORWARD))
        for step in steps:
            step(trace, number)
        trace.mark("END", f"ProfilerStep#{number}")
        if between is not None:
            between(trace, number)
    if after is not None:
        after(trace)
    return trace


def steps_of(count: int, *steps: Step, between: Step | None = None) -> Run:
    """The same as a run of one rank."""
    return run_of(training(count, *steps, between=between))
