"""A training job in miniature, with the knobs that a diff has to see, or not to see."""

from __future__ import annotations

from tests.analyze.builders import Trace, frame

TORCH = "/v/lib/python3.11/site-packages/torch"


def job(
    *, root: str = "/repo/main", shift: int = 0, leak: int = 0, scale: int = 1, steps: int = 3, device: int = 0
) -> Trace:
    """Parameters, then steps of four all-gathers and activations; ``leak`` gathers of the last are kept."""
    trace = Trace(device)
    outer = [frame("train", f"{root}/train.py", 12 + shift), frame("<module>", f"{root}/train.py", 40 + shift)]
    forward = [frame("forward", f"{root}/pkg/model.py", 7 + shift), *outer]
    for _ in range(3):
        trace.alloc(22, frame("to_empty", f"{TORCH}/nn/modules/module.py"), *outer)
    for step in range(steps):
        trace.mark("START", f"ProfilerStep#{step}")
        trace.mark("START", "forward")
        kept = []
        for layer in range(4):
            gather = trace.alloc(64, frame("foreach_all_gather", f"{TORCH}/distributed/fsdp/_c.py"), *forward)
            kept.append(trace.alloc(30 * scale, frame("linear", f"{TORCH}/nn/functional.py"), *forward))
            if step < steps - 1 or layer >= leak:
                trace.free(gather)
        trace.mark("END", "forward")
        for address in kept:
            trace.free(address, *outer)
        trace.mark("END", f"ProfilerStep#{step}")
    return trace
