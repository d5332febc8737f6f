"""C++ frames that are on the way and say nothing: they take no part in matching.

With ``stacks="all"`` a stack holds torch's dispatcher, its autocast and autograd layers and the Python
interpreter's own functions. Which of them stand between an operator and who asked for it depends on
whether autocast or gradients are on, and on the builds, not on what is allocated: equal allocations
would meet in two rows, one for each run. The operator itself (``at::_ops::bmm::call``) stays, and so does
what allocates for a reason of its own (``at::autocast::cached_cast`` is a copy that autocast made).
"""

from __future__ import annotations

from snapviz.analyze.frames import is_python

__all__ = ["PLUMBING", "is_plumbing"]

PLUMBING: dict[str, tuple[str, ...]] = {
    "takes the stack": ("torch::unwind::", "torch::CapturedTraceback::"),
    "autocast around an operator": ("at::autocast::WrapFunction_<",),
    "autograd around an operator": (
        "torch::autograd::VariableType::",
        "torch::ADInplaceOrView::",
    ),
    "dispatches an operator": (
        "c10::BoxedKernel",
        "c10::Dispatcher::",
        "c10::KernelFunction::",
        "c10::impl::BoxedKernelWrapper<",
        "c10::impl::make_boxed_from_unboxed_functor<",
        "c10::impl::wrap_kernel_functor_unboxed_<",
    ),
    "sets up an elementwise operator, in a way that depends on the dtypes": ("at::TensorIteratorBase::",),
    "chooses cuBLAS's kernel by dtype": ("at::cuda::blas::", "void at::cuda::blas::"),
    "the Python interpreter": (
        "PyCFunction_",
        "PyEval_",
        "PyNumber_",
        "PyObject_",
        "PyRun_",
        "PyVectorcall_",
        "Py_",
        "_PyCFunction_",
        "_PyEval_",
        "_PyFunction_",
        "_PyObject_",
        "_PyRun_",
        "_PyVectorcall_",
        "__libc_",
        "_start",
        "binary_op",
        "cfunction_",
        "method_vectorcall",
        "object_vacall",
        "partial_",
        "pymain_",
        "pyrun_",
        "run_eval_code_obj",
        "run_mod",
        "slot_",
        "type_call",
        "vectorcall_",
    ),
}
"""What a C++ function does that is left out → how the names of such functions begin."""

_PREFIXES = tuple(prefix for some in PLUMBING.values() for prefix in some)

_OPERATOR, _AGAIN = "at::_ops::", "::redispatch("
"""An operator on its way from one layer to the next; its ``call`` stands further out."""


def is_plumbing(function: str, file: str) -> bool:
    """Whether a frame, under its comparable names, is one of these; a frame of Python never is."""
    if is_python(file):
        return False
    return function.startswith(_PREFIXES) or (function.startswith(_OPERATOR) and _AGAIN in function)
