"""What lines, lifetimes, sizes and threads add to a stack, each on a trace made for it."""

from __future__ import annotations

from typing import Any

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.passes import analyze
from tests.analyze.builders import Trace, frame

TORCH = "/v/lib/python3.11/site-packages/torch"
FSDP1 = f"{TORCH}/distributed/fsdp/_runtime_utils.py"
FSDP2 = f"{TORCH}/distributed/fsdp/_fully_shard"
FORWARD = frame("forward", "/w/model.py")
STEP = frame("step", f"{TORCH}/optim/optimizer.py")


def told(trace: Trace) -> list[str]:
    return [CATEGORIES[code] for code in facts_of(trace).category]


def facts_of(trace: Trace) -> Facts:
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(trace.device))


def apply(line: int) -> tuple[dict[str, Any], ...]:
    return frame("convert", f"{TORCH}/nn/modules/module.py", 9), frame("_apply", f"{TORCH}/nn/modules/module.py", line)


def test_what_fsdp1_pads_is_not_what_it_reduces_into() -> None:
    trace = Trace()
    for mib, line in ((40, 898), (20, 901), (20, 901)):
        trace.alloc(mib, frame("_get_reduce_scatter_tensors", FSDP1, line), frame("_reduce_grad", FSDP1, 848))
    assert told(trace) == ["communication", "gradient", "gradient"]


def test_fsdp1_that_pads_nothing_makes_gradients_only() -> None:
    trace = Trace()
    trace.alloc(20, frame("_get_reduce_scatter_tensors", FSDP1, 901))
    assert told(trace) == ["gradient"]


def test_a_module_moves_parameters_and_then_buffers() -> None:
    trace = Trace()
    for mib, line in ((40, 965), (30, 965), (20, 1035)):
        trace.alloc(mib, *apply(line))
    assert told(trace) == ["parameter", "parameter", "buffer"]


def test_as_much_moved_again_is_gradients_and_no_buffers() -> None:
    trace = Trace()
    for mib, line in ((40, 965), (30, 965), (30, 1001), (40, 1001)):
        trace.alloc(mib, *apply(line))
    assert "buffer" not in told(trace)


def test_fsdp2_moves_as_many_parameters_as_it_then_makes_shards() -> None:
    trace = Trace()
    moves = frame("_move_states_to_device", f"{FSDP2}/_fsdp_init.py", 96)
    shards = frame("_init_sharded_param", f"{FSDP2}/_fsdp_param.py", 1)
    for mib in (40, 60, 44):
        trace.alloc(mib, moves)
    for mib in (20, 30):
        trace.alloc(mib, shards)
    trace.alloc(48, moves)  # buffers alone: no shard follows
    trace.alloc(50, FORWARD)
    assert told(trace) == ["parameter", "parameter", "buffer", "shard", "shard", "buffer", "activation"]


def test_a_shard_larger_than_what_was_moved_is_of_something_else() -> None:
    trace = Trace()
    trace.alloc(20, frame("_move_states_to_device", f"{FSDP2}/_fsdp_init.py", 96))
    trace.alloc(30, frame("_init_sharded_param", f"{FSDP2}/_fsdp_param.py", 1))
    assert told(trace) == ["buffer", "shard"]


def test_what_an_optimizer_makes_and_the_next_forward_finds_is_its_state() -> None:
    trace = Trace()
    kept = frame("step", "/w/my_optimizer.py", 74)
    for _ in range(2):
        trace.free(trace.alloc(20, FORWARD))
        state = trace.alloc(22, kept, STEP)
        trace.free(trace.alloc(24, frame("step", "/w/my_optimizer.py", 80), STEP))
    trace.free(trace.alloc(20, FORWARD))
    trace.free(state)
    assert told(trace) == ["activation", "optimizer state", "temporary"] * 2 + ["activation"]


BACKWARD = frame("_engine_run_backward", f"{TORCH}/autograd/graph.py")


def test_what_autograds_thread_makes_is_a_gradient_once_a_forward_has_begun() -> None:
    trace = Trace()
    trace.alloc(20)
    trace.alloc(22, FORWARD)
    trace.alloc(26, BACKWARD)
    trace.alloc(24)
    assert told(trace) == ["unknown", "activation", "gradient", "gradient"]


def test_without_a_sign_of_backward_another_thread_makes_no_gradients() -> None:
    trace = Trace()
    trace.alloc(22, FORWARD)
    for _ in range(3):
        trace.alloc(24)
    assert told(trace) == ["activation", *["unknown"] * 3]
    trace.mark("START", "Optimizer.step#AdamW.step")
    trace.mark("END", "Optimizer.step#AdamW.step")
    trace.alloc(26)
    assert told(trace) == ["activation", *["gradient"] * 4]


def test_a_recording_without_stacks_tells_of_no_thread() -> None:
    trace = Trace()
    trace.alloc(20, FORWARD)
    for _ in range(20):
        trace.alloc(24)
    assert told(trace) == ["activation"] + ["unknown"] * 20


def test_cublas_workspaces_are_made_once_and_never_freed() -> None:
    trace = Trace()
    linear = (frame("forward", f"{TORCH}/nn/modules/linear.py", 134), FORWARD)
    result = trace.alloc(20, *linear)
    trace.alloc(32, *linear)  # 33,554,432 bytes, right behind a result of 20 MiB
    trace.alloc(26, BACKWARD)
    trace.alloc(32)  # and in autograd's thread, still there in the next forward
    trace.free(result)
    trace.free(trace.alloc(20, *linear))
    trace.alloc(32, FORWARD)  # of that size, and the only one of its line: an activation
    facts = facts_of(trace)
    kinds = [CATEGORIES[code] for code in facts.category]
    assert kinds == ["activation", "workspace", "gradient", "workspace", "activation", "activation"]
    assert [facts.owners[i] for i in facts.owner] == ["", "cuBLAS", "", "cuBLAS", "", ""]


def test_gradients_and_caches_of_the_workspaces_size_are_no_workspaces() -> None:
    trace = Trace()
    trace.alloc(22, FORWARD)
    trace.alloc(26, BACKWARD)
    for mib in (20, 22, 32, 24):
        trace.alloc(mib)  # the recording ends in this backward: nothing tells them apart
    assert told(trace)[2:] == ["gradient"] * 4
    trace = Trace()
    for mib in (20, 22, 32, 24):
        trace.alloc(mib, frame("make_cache", "/w/serve.py"), FORWARD)
    assert told(trace) == ["activation"] * 4


def test_results_of_the_workspaces_size_are_no_workspaces() -> None:
    trace = Trace()
    linear = (frame("forward", f"{TORCH}/nn/modules/linear.py", 134), FORWARD)
    for _ in range(3):
        trace.alloc(32, *linear)
    assert told(trace) == ["activation"] * 3


def test_cpp_frames_tell_of_cublas_autocast_and_the_engine() -> None:
    trace = Trace()
    for name in (
        "at::cuda::getNewWorkspace()",
        "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)",
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
        "c10d::ProcessGroupNCCL::allgather()",
    ):
        trace.alloc(20, frame(name, "??"), *([FORWARD] if "Engine" not in name else []))
    assert told(trace) == ["workspace", "temporary", "gradient", "communication"]


def test_what_a_closure_runs_inside_an_optimizers_step_is_no_optimizers() -> None:
    trace = Trace()
    call = frame("_call_impl", f"{TORCH}/nn/modules/module.py", 1751)
    engine = frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 825)
    closure = (frame("closure", "/w/train.py", 9), frame("step", f"{TORCH}/optim/adamw.py", 220), STEP)
    for _ in range(2):
        trace.alloc(20, FORWARD, call, *closure)
        trace.alloc(22, engine, *closure)
        trace.alloc(24, frame("_single_tensor", f"{TORCH}/optim/adamw.py", 300), *closure[1:])
        trace.alloc(26, frame("step", f"{TORCH}/optim/adamw.py", 220), frame("hook", "/w/train.py", 3), engine)
    assert told(trace)[:4] == ["activation", "gradient", "optimizer state", "optimizer state"]
    assert told(trace)[4:] == ["activation", "gradient", "temporary", "temporary"]


def test_what_reentrant_checkpointing_makes_of_gradients_is_not_recomputed() -> None:
    trace = Trace()
    engine = frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 825)
    again = (frame("backward", f"{TORCH}/utils/checkpoint.py", 300), engine)
    trace.alloc(20, FORWARD, *again)
    trace.alloc(22, engine, *again)
    facts = facts_of(trace)
    assert [CATEGORIES[code] for code in facts.category] == ["activation", "gradient"]
    assert facts.recomputed.tolist() == [True, False]
