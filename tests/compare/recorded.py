"""Recorded runs in miniature: a parameter, its shard, an activation; and recordings whose beginning is gone."""

from __future__ import annotations

from typing import Any

from snapviz.analyze.run import Run
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record, run_of

SITE = "/v/lib/python3.11/site-packages"
INIT = frame("__init__", f"{SITE}/torch/nn/modules/linear.py")
SHARD = frame("_init_sharded_param", f"{SITE}/torch/distributed/fsdp/_fsdp_param.py")
ADAM = frame("_init_group", f"{SITE}/torch/optim/adam.py")
FORWARD = frame("forward", "/repo/model.py")


def sharded(
    *,
    leak: bool = False,
    activation: int = 100,
    state: int = 60,
    made_by: dict[str, Any] = INIT,
    prefix: str = "",
    name: str = "run",
) -> Run:
    """A parameter of 20 MiB that its sharding releases, or with ``leak`` does not, an activation, and
    optimizer state."""
    trace = Trace()
    start, whole = trace.now, trace.alloc(20, made_by)
    made, shard = trace.tick(), trace.alloc(20, SHARD)
    if not leak:
        trace.free(whole)
    done = trace.tick()
    trace.tick()
    trace.alloc(activation, FORWARD)
    trace.alloc(state, ADAM)
    end = trace.tick()
    phases = [("materialize", start, made), ("shard", made + 1, done), ("train/step0", done + 1, end)]
    owner = f"{prefix}norm.bias"
    names = [(made, [("parameter", owner, whole, 20 * MIB)]), (end, [("shard", owner, shard, 20 * MIB)])]
    return run_of(trace, records=[record(phases, names)], name=name)


def steps(
    peaks: tuple[int, ...], cut: int | None = None, counted: bool = False, late: int = 20, name: str = "run"
) -> Run:
    """Weights of 20 MiB, then a step for each peak: an activation of it, and one of ``late`` MiB when it is
    gone; ``cut`` leaves out the events of that step, and before, up to the free of the late one."""
    trace = Trace()
    start = trace.now
    trace.alloc(20, frame("weights"))
    phases, counters, first = [("setup", start, trace.tick())], [(20, 20)], 0
    for step, mib in enumerate(peaks):
        begin = trace.tick()
        trace.free(trace.alloc(mib, FORWARD))
        address = trace.alloc(late, FORWARD)
        first = len(trace.events) if step == cut else first
        trace.free(address)
        phases.append((f"train/step{step}", begin, trace.tick()))
        held = sum(int(segment["total_size"]) for segment in trace.segments.values())
        counters.append((20 + max(mib, late), held // MIB))
        trace.tick()
    objects = trace.objects()
    objects["device_traces"][0] = trace.events[first:]
    known = record(phases)
    return run_of(objects, records=[_counted(known, counters) if counted else known], name=name)


def _counted(known: RankRecord, counters: list[tuple[int, int]]) -> RankRecord:
    document = known.model_dump()
    for phase, (peak, reserved) in zip(document["phases"], counters, strict=True):
        phase["counters"] = {
            "peak_allocated_bytes": peak * MIB,
            "end_allocated_bytes": 20 * MIB,
            "peak_reserved_bytes": reserved * MIB,
            "end_reserved_bytes": reserved * MIB,
        }
    return RankRecord.model_validate(document)
