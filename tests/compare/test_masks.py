"""What takes no part in matching: masked frames and names, and C++ frames that are only on the way."""

from __future__ import annotations

import pytest

from snapviz.analyze.frames import FrameNames
from snapviz.compare.diff import diff
from snapviz.compare.masks import Masks
from snapviz.compare.plumbing import PLUMBING, is_plumbing
from snapviz.compare.stacks import JointStacks
from tests.analyze.builders import MIB, Trace, frame, run_of
from tests.compare.recorded import sharded


def run(*frames: dict, mib: int = 20, name: str = "run"):
    trace = Trace()
    trace.alloc(mib, *frames)
    return run_of(trace, name=name)


CALLER = frame("main", "/repo/train.py")
FORWARD = frame("forward", "/repo/model.py")


@pytest.mark.parametrize("mask", ["wrapper", r"^retry \(", r"utils/retry\.py", r"\(/repo/utils", ["nope", "wrapper"]])
def test_a_wrapper_of_a_pull_request_does_not_tell_stacks_apart(mask: str | list[str]) -> None:
    wrapper = frame("retry", "/repo/utils/retry.py") if mask != "wrapper" else frame("wrapper", "/repo/train.py")
    if isinstance(mask, list):
        wrapper = frame("wrapper", "/repo/train.py")
    base, head = run(FORWARD, CALLER, name="main"), run(FORWARD, wrapper, CALLER, name="pr")
    assert len(diff(base, head, "end").points[0].ranks[0].rows) == 2
    for one, other in ((base, head), (head, base)):
        report = diff(one, other, "end", mask=mask)
        assert report.points[0].ranks[0].rows == ()
        assert report.options.masks == ((mask,) if isinstance(mask, str) else tuple(mask))
    assert any("matches 1 frame (" in note for note in report.notes)


def test_a_frame_that_is_masked_by_its_path_on_one_side_is_on_the_other_too() -> None:
    names = []
    for root in ("/old", "/new"):
        trace = Trace()
        trace.alloc(20, frame("f", f"{root}/pkg/m.py"), frame("g", f"{root}/pkg/m.py"))
        names.append(FrameNames(trace.snap().columns))
    stacks = JointStacks(*names, Masks.of((r"f \(/old",)))
    assert stacks.texts(0, 0) == stacks.texts(1, 0) == ("g (…/pkg/m.py)",)


def test_a_mask_that_matches_nothing_is_said() -> None:
    report = diff(run(FORWARD), run(FORWARD), "end", mask="wraper")
    assert "--mask 'wraper' matches no frame and no part of a name" in report.notes


def test_parts_of_names_are_masked_where_they_match_whole() -> None:
    base, head = sharded(leak=True, name="main"), sharded(leak=True, prefix="guard_2.", name="pr")
    assert {row.owner for row in diff(base, head, "end").points[0].ranks[0].rows} == {"norm.bias", "guard_2.norm.bias"}
    report = diff(base, head, "end", mask=r"guard_\d")
    assert report.points[0].ranks[0].rows == ()
    # what dangles is called as its rows are
    assert {one.name for one in report.dangling} == {"norm.bias"}
    # a part that only begins so is another
    assert diff(base, head, "end", mask="guard").points[0].ranks[0].rows
    assert Masks.of(("a|b",)).name("a.b") == "a.b"


AUTOCAST = (
    "at::autocast::WrapFunction_<(at::autocast::CastPolicy)0, (c10::DeviceType)1, at::Tensor (at::Tensor const&), "
    "&at::_ops::mm::call>::call(at::Tensor const&)"
)
WRAP = "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoRuntimeFunctor_<at::Tensor>>"


def operator(*, autocast: bool, build: str = "allocate_or_resize_outputs", grad: bool = True) -> list[dict]:
    """An allocation of ``at::mm`` as ``stacks="all"`` records it."""
    cpp = [
        ("torch::unwind::unwind()", "??"),
        ("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)", ""),
        (f"at::TensorIteratorBase::{build}()", "??"),
        ("at::(anonymous namespace)::wrapper_CUDA_mm(at::Tensor const&)", "RegisterCUDA.cpp"),
        (f"{WRAP}::call()", ""),
        ("at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "??"),
        *[("torch::autograd::VariableType::(anonymous namespace)::mm(c10::DispatchKeySet)", "VariableType_3.cpp")]
        * grad,
        ("at::_ops::mm::call(at::Tensor const&)", "??"),
        *[(AUTOCAST, "??"), (f"{WRAP}::call()", ""), ("at::_ops::mm::call(at::Tensor const&)", "??")] * autocast,
        ("torch::autograd::THPVariable_mm(_object*, _object*, _object*)", "python_torch_functions_0.cpp"),
        ("cfunction_call", "/build/Objects/methodobject.c"),
    ]
    return [frame(*one) for one in cpp] + [FORWARD, CALLER]


def test_the_same_operator_under_autocast_is_the_same_stack() -> None:
    plain, cast = run(*operator(autocast=False), name="fp32"), run(*operator(autocast=True), mib=22, name="bf16")
    for base, head, delta in ((plain, cast, 2), (cast, plain, -2)):
        (row,) = diff(base, head, "end").points[0].ranks[0].rows
        assert (row.found_in, row.base_count, row.head_count, row.delta_bytes) == ("both", 1, 1, delta * MIB)
    assert [text.partition("(")[0] for text in row.stack] == [
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate",
        "at::",
        "at::_ops::mm::call",
        "torch::autograd::THPVariable_mm",
        "forward ",
        "main ",
    ]
    for other in (operator(autocast=False, build="fast_set_up"), operator(autocast=False, grad=False)):
        assert diff(plain, run(*other), "end").points[0].ranks[0].rows == ()


def test_a_copy_that_autocast_makes_is_another_stack() -> None:
    copy = [frame("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)", "??")]
    assert len(diff(run(FORWARD), run(*copy, FORWARD), "end").points[0].ranks[0].rows) == 2


def test_no_frame_of_python_is_plumbing() -> None:
    for prefix in (prefix for some in PLUMBING.values() for prefix in some):
        assert is_plumbing(f"{prefix}x", "??")
        assert not is_plumbing(f"{prefix}x", "/repo/model.py")
    assert not is_plumbing("at::_ops::mm::call(at::Tensor const&)", "??")
    assert not is_plumbing("at::autocast::cached_cast()", "??")
