from __future__ import annotations

import pytest

from snapviz.analyze.facts import CATEGORIES, EVIDENCE, Facts
from snapviz.analyze.names import joint_name
from snapviz.analyze.passes import analyze
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record

TORCH = "/v/lib/python3.11/site-packages/torch"
FSDP = f"{TORCH}/distributed/fsdp/_fully_shard"


def facts_of(trace: Trace, rank_record: RankRecord | None = None) -> Facts:
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(trace.device), rank_record)


def told(facts: Facts) -> list[tuple[str, str, str]]:
    return [
        (facts.owners[o], CATEGORIES[c], EVIDENCE[e])
        for o, c, e in zip(facts.owner, facts.category, facts.evidence, strict=True)
    ]


@pytest.mark.parametrize(
    ("category", "stack"),
    [
        ("shard", [("_init_sharded_param", f"{FSDP}/_fsdp_param.py"), ("__init__", f"{FSDP}/_fsdp_param.py")]),
        ("communication", [("allocate", f"{FSDP}/_c.py"), ("foreach_all_gather", f"{FSDP}/_c.py")]),
        ("communication", [("_all_gather_base", f"{TORCH}/distributed/distributed_c10d.py")]),
        ("optimizer state", [("zeros_like", f"{TORCH}/_refs.py"), ("_init_group", f"{TORCH}/optim/adamw.py")]),
        ("temporary", [("_multi_tensor_adamw", f"{TORCH}/optim/adamw.py"), ("step", f"{TORCH}/optim/adamw.py")]),
        ("gradient", [("mm", "/w/ops.py"), ("_engine_run_backward", f"{TORCH}/autograd/graph.py")]),
        (
            "activation",
            [("recompute_fn", f"{TORCH}/utils/checkpoint.py"), ("_engine_run_backward", f"{TORCH}/autograd/graph.py")],
        ),
        ("parameter", [("__init__", f"{TORCH}/nn/modules/linear.py"), ("build", "/w/train.py")]),
        ("activation", [("forward", "/w/model.py"), ("_call_impl", f"{TORCH}/nn/modules/module.py")]),
        # C++ frames, which stacks="all" puts first, push nothing out of reach
        ("parameter", [("c10::malloc", "??")] * 9 + [("__init__", f"{TORCH}/nn/modules/linear.py")]),
        # whatever has a constructor: a KV cache, a gradient buffer
        ("unknown", [("__init__", "/w/cache.py"), ("main", "/w/serve.py")]),
        ("unknown", [("__init__", "/v/site-packages/megatron/core/distributed/param_and_grad_buffer.py")]),
        ("parameter", [("__new__", f"{TORCH}/nn/parameter.py"), ("__init__", "/w/model.py")]),
        # a torch that was built where it was checked out
        ("optimizer state", [("_init_group", "/opt/pytorch/torch/optim/adam.py"), ("step", "/w/train.py")]),
        ("parameter", [("__init__", "/opt/pytorch/torch/nn/modules/linear.py"), ("main", "/w/train.py")]),
        ("gradient", [("backward", "/opt/pytorch/torch/_tensor.py"), ("main", "/w/train.py")]),
        ("unknown", [("backward", "/opt/torch/mine/_tensor.py"), ("main", "/w/train.py")]),
        ("unknown", [("load", "/w/data.py")]),
        ("unknown", []),
        # a trainer that runs everything from its constructor makes nothing a parameter
        ("unknown", [("load", "/w/data.py"), *[("f", "/w/a.py"), ("g", "/w/a.py")] * 2, ("__init__", "/w/train.py")]),
    ],
)
def test_categories_come_from_stacks(category: str, stack: list[tuple[str, str]]) -> None:
    trace = Trace()
    trace.alloc(20, *(frame(name, file) for name, file in stack))
    assert told(facts_of(trace)) == [("", category, "inferred")]


def test_a_name_belongs_to_what_was_live_there_then() -> None:
    trace = Trace()
    first = trace.alloc(20, frame("__init__"))
    then = trace.tick()
    trace.free(first)
    trace.tick()
    again = trace.alloc(20, frame("f"))
    assert again == first
    names = [("parameter", "w", first, 20 * MIB)]
    facts = facts_of(trace, record([("a", 0, trace.now)], [(then, names)]))
    assert told(facts) == [("w", "parameter", "recorded"), ("", "unknown", "inferred")]


def test_many_names_in_one_allocation_are_one_owner() -> None:
    trace = Trace()
    address = trace.alloc(20)
    names = [("gradient", f"layers.0.{n}", address + i * MIB, MIB) for i, n in enumerate(("w2", "w1", "w3"))]
    facts = facts_of(trace, record([("a", 0, trace.now)], [(trace.now, names)]))
    assert told(facts) == [("layers.0 (3 tensors)", "gradient", "recorded")]


def test_joint_names_do_not_depend_on_order() -> None:
    assert joint_name(["b.x", "a.x"]) == joint_name(["a.x", "b.x"]) == "a.x and 1 more"
    assert joint_name(["m.l.0.w", "m.l.1.w"]) == "m.l (2 tensors)"
    assert joint_name(["m.l1", "m.l2"]) == "m (2 tensors)"


def test_the_optimizer_names_a_parameter_only_where_nothing_better_does() -> None:
    trace = Trace()
    one, other = trace.alloc(20), trace.alloc(30)
    names = [
        ("optimizer_param", "g0.0", one, 20 * MIB),
        ("shard", "w", one, 20 * MIB),
        ("optimizer_param", "stale", other, 30 * MIB),
        ("something_new", "x", other + 8, 8),
    ]
    facts = facts_of(trace, record([("a", 0, trace.now)], [(trace.now, names)]))
    assert told(facts) == [("w", "shard", "recorded"), ("stale", "parameter", "recorded")]


def test_what_an_all_gather_filled_is_communication_with_an_owner() -> None:
    trace = Trace()
    gathered, stale, whole, gradient = (trace.alloc(mib) for mib in (20, 30, 40, 50))
    names = [
        ("unsharded", "layers.0.w", gathered, 20 * MIB),
        # who else holds it says less than what it is, whatever else it is called says more
        ("optimizer_param", "g0.0", stale, 30 * MIB),
        ("unsharded", "layers.1.w", stale, 30 * MIB),
        ("unsharded", "x", whole, 40 * MIB),
        ("parameter", "layers.2.w", whole, 40 * MIB),
        ("unsharded", "y", gradient, 50 * MIB),
        ("gradient", "layers.3.w", gradient, 50 * MIB),
    ]
    facts = facts_of(trace, record([("a", 0, trace.now)], [(trace.now, names)]))
    assert told(facts) == [
        ("layers.0.w", "communication", "recorded"),
        ("layers.1.w", "communication", "recorded"),
        ("layers.2.w", "parameter", "recorded"),
        ("layers.3.w", "gradient", "recorded"),
    ]


def test_names_that_lie_nowhere_are_counted() -> None:
    trace = Trace()
    address = trace.alloc(20)
    names = [
        ("shard", "w", address + 20 * MIB, 1),
        ("shard", "v", address - 1, 1),
        ("shard", "u", address + 20 * MIB - 1, 1),
    ]
    facts = facts_of(trace, record([("a", 0, trace.now)], [(trace.now, names)]))
    assert told(facts) == [("u", "shard", "recorded")]
    assert "2 recorded names lie in no live allocation and are left out" in facts.notes


def test_a_scope_with_a_modules_name_says_whose_communication_it_is() -> None:
    trace = Trace()
    gather = [frame("allocate", f"{FSDP}/_c.py"), frame("foreach_all_gather", f"{FSDP}/_c.py")]
    trace.mark("START", "FSDP::all_gather (layers.3)")
    trace.alloc(20, *gather)
    trace.alloc(30, frame("load", "/w/data.py"))
    trace.mark("END", "FSDP::all_gather (layers.3)")
    trace.alloc(40, *gather)
    assert told(facts_of(trace)) == [
        ("layers.3", "communication", "annotated"),
        ("", "unknown", "inferred"),
        ("", "communication", "inferred"),
    ]


def reduce_frames(inner: list[tuple[str, int]], line: int) -> list[dict]:
    file = f"{FSDP}/_fsdp_collectives.py"
    return [*(frame(name, file, at) for name, at in inner), frame("foreach_reduce", file, line)]


@pytest.mark.parametrize("inner", [[("allocate", 59)], [], [("__torch_function__", 9)]])
def test_what_fsdp_reduces_into_is_a_gradient_and_its_input_communication(inner: list[tuple[str, int]]) -> None:
    trace = Trace()
    trace.alloc(40, *reduce_frames([("chunk_cat", 233), ("foreach_reduce_scatter_copy_in", 673)], 999))
    trace.alloc(60, *reduce_frames(inner, 522))
    trace.alloc(20, *reduce_frames(inner, 537))
    trace.alloc(22, *reduce_frames([("_to_dtype_if_needed", 167)], 603))
    kinds = [category for _, category, _ in told(facts_of(trace))]
    assert kinds == ["communication", "communication", "gradient", "gradient"]


def test_one_line_alone_of_foreach_reduce_is_not_guessed_at() -> None:
    trace = Trace()
    trace.alloc(60, *reduce_frames([("allocate", 59)], 537))
    assert told(facts_of(trace)) == [("", "communication", "inferred")]


def test_a_scope_that_never_ended_lends_its_name_to_nothing() -> None:
    trace = Trace()
    gather = [frame("foreach_all_gather", f"{FSDP}/_c.py")]
    trace.mark("START", "FSDP::pre_forward (layers.3)")
    trace.mark("START", "FSDP::all_gather (layers.0)")
    trace.alloc(20, *gather)
    trace.mark("END", "FSDP::all_gather (layers.0)")
    trace.alloc(30, *gather)
    assert told(facts_of(trace)) == [
        ("layers.0", "communication", "annotated"),
        ("", "communication", "inferred"),
    ]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (f"{TORCH}/distributed/tensor/placement_types.py", "DTensor cuts the tensor"),
        ("/v/lib/python3.11/site-packages/thunder/distributed/utils.py", "thunder cuts the parameter"),
    ],
)
def test_a_shard_says_who_cut_it(file: str, why: str) -> None:
    trace = Trace()
    trace.alloc(20, frame("_shard_tensor", file))
    facts = facts_of(trace)
    assert told(facts) == [("", "shard", "inferred")]
    assert facts.rules[int(facts.rule[0])].why == why
