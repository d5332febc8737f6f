"""Categories from stacks: a first cut, where no record names an allocation.

Legend: A allocations, S stacks, L frames of all stacks, K distinct (file, function) pairs, M rules.

``RULES`` is the whole of what is believed here: the first rule of which any frame of the stack fits
decides. Every result is "inferred", and "annotated" where a scope that carries a module's name
(``FSDP::all_gather (layers.3)``) also says whose communication it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import ANNOTATED, CATEGORIES, INFERRED, Facts
from snapviz.analyze.frames import is_python
from snapviz.analyze.scopes import find_scopes
from snapviz.analyze.windows import painted

__all__ = ["CONSTRUCTOR", "RULES", "Rule", "find_categories", "stack_rules"]

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """``category`` where a frame's function is one of ``functions`` and its file one of ``files``.

    Files are prefixes of the comparable name (``torch/optim/``), or suffixes when they begin with
    ``*``; empty means any. ``near`` limits the search to the innermost frames. A ``derived`` rule fits
    no frame: code that sees whole stacks gives it.
    """

    category: str
    why: str
    functions: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    near: bool = False
    derived: bool = False

    def fits(self, file: str, function: str) -> bool:
        """Whether one frame, under its comparable names, is what this rule looks for."""
        if self.derived or (self.functions and function not in self.functions):
            return False
        return not self.files or any(file.endswith(f[1:]) if f[0] == "*" else file.startswith(f) for f in self.files)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FSDP = ("torch/distributed/fsdp/", "torch/distributed/_composable/fsdp/")
_NEAR = 4
"""Python frames. ``__init__`` further out than this is a trainer's that runs everything, not a module's."""

RULES: tuple[Rule, ...] = (
    Rule("shard", "FSDP2 makes the local shard", _names("_init_sharded_param"), _FSDP),
    Rule("shard", "FSDP1 cuts the flat parameter", _names("shard _get_shard _get_shard_from_tensor"), _FSDP),
    Rule("shard", "thunder cuts the parameter", _names("_shard_tensor _shard_param")),
    Rule("shard", "thunder's FSDP transform", _names("transform_module"), ("*transforms/fsdp_v2.py",)),
    Rule("gradient", "FSDP reduces gradients into it", derived=True),
    Rule("communication", "FSDP reduces gradients", _names("foreach_reduce"), _FSDP),
    Rule("communication", "FSDP gathers", _names(
        "foreach_all_gather foreach_all_gather_copy_out alloc_all_gather_outputs init_all_gather_outputs "
        "unshard _unshard all_gather_flat_param _alloc_padded_unsharded_flat_param "
    ), _FSDP),
    Rule("communication", "a collective", frozenset(), (
        "torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py")),
    Rule("communication", "thunder's collective", _names(
        "_all_gather_prim_impl _all_reduce_prim_impl _reduce_scatter_prim_impl _broadcast_prim_impl")),
    Rule("communication", "DDP's buckets", frozenset(), ("torch/nn/parallel/distributed.py",), near=True),
    Rule("optimizer state", "an optimizer's first step", _names("_init_group init_state _init_state"), (
        "torch/optim/", "bitsandbytes/optim/", "apex/optimizers/", "transformer_engine/")),
    Rule("temporary", "inside an optimizer", frozenset(), (
        "torch/optim/adam", "torch/optim/sgd.py", "torch/optim/optimizer.py", "torch/optim/_", "torch/optim/r",
        "torch/optim/n", "bitsandbytes/optim/", "apex/optimizers/")),
    Rule("temporary", "clipping gradients", frozenset(), ("torch/nn/utils/clip_grad.py",)),
    Rule("activation", "recomputed in backward", _names("recompute_fn unpack_hook"), ("torch/utils/checkpoint.py",)),
    Rule("gradient", "inside backward", _names("_engine_run_backward")),
    Rule("gradient", "inside backward", _names("backward"), ("torch/_tensor.py", "torch/autograd/")),
    Rule("parameter", "a module moves its tensors", _names("to_empty _apply"), ("torch/nn/modules/module.py",)),
    Rule("parameter", "a module initialises", _names("reset_parameters _init_weights init_weights"), (), near=True),
    Rule("parameter", "a module's constructor", _names("__init__"), ("torch/nn/modules/",), near=True),
    Rule("parameter", "a parameter's constructor", _names("__new__ __init__ __deepcopy__ materialize"), (
        "torch/nn/parameter.py",), near=True),
    Rule("activation", "inside a module's forward", _names("_call_impl"), ("torch/nn/modules/module.py",)),
    Rule("activation", "a function of torch.nn", frozenset(), ("torch/nn/functional.py",)),
    Rule("activation", "inside forward", _names("forward")),
    # a KV cache is made in one too: not enough to call it a parameter, enough to look at it
    Rule("unknown", "a constructor", _names("__init__"), (), near=True),
)  # fmt: skip

_CODES = np.array([CATEGORIES.index(rule.category) for rule in RULES] + [0], np.int8)
_ANYWHERE = np.array([not rule.near for rule in RULES])
_REDUCES = next(i for i, rule in enumerate(RULES) if rule.functions == {"foreach_reduce"})
_REDUCED = next(i for i, rule in enumerate(RULES) if rule.derived)
CONSTRUCTOR = len(RULES) - 1
"""Index of the rule that knows no more than that some constructor made it."""
_TORCH = re.compile(
    r"(?:/|[A-Za-z]:/)(?:.*/)?(?P<inside>torch/(?:(?:autograd|distributed|nn|optim|utils|_[a-z]+)/.*|_[a-z]+\.py))",
    re.DOTALL,
)
"""A file of a torch that was built in its source tree, which no library's root tells."""
_MODULE_SCOPE = re.compile(r"FSDP::\w+ \((?P<module>[^)]+)\)")


def stack_rules(facts: Facts) -> Int64:
    """[S] index of the rule that decides each stack; ``len(RULES)`` where none does."""
    stacks, frames = facts.columns.stacks, facts.frames
    names = [(_torch_file(file), name) for file, name in frames.names]
    fits = np.array([[rule.fits(file, name) for rule in RULES] for file, name in names], bool)
    bits = fits.reshape(-1, len(RULES)) @ (1 << np.arange(len(RULES)))
    anywhere = int(_ANYWHERE @ (1 << np.arange(len(RULES))))
    python = np.array([is_python(file) for file, _ in frames.names], bool)
    found = np.zeros(len(stacks), np.int64)
    if len(stacks.frames):
        of_frame = bits[frames.of_frame][stacks.frames]
        lengths = np.diff(stacks.offsets)
        near = _depth(python[frames.of_frame][stacks.frames], stacks.offsets) <= _NEAR
        of_frame = np.where(near, of_frame, of_frame & anywhere)
        filled = np.flatnonzero(lengths)
        found[filled] = np.bitwise_or.reduceat(of_frame, stacks.offsets[filled])
    return _reduced(facts, _lowest_bit(found))


def _torch_file(file: str) -> str:
    """A comparable file name, that of torch's own files as in an installed torch."""
    match = _TORCH.fullmatch(file)
    return match["inside"] if match else file


def _reduced(facts: Facts, decided: Int64) -> Int64:
    """[S] the same, with what FSDP reduces gradients into told from what it reduces.

    ``foreach_reduce`` makes both, by one function (torch/distributed/fsdp, ``_fsdp_collectives.py``, 2.11):
    the output in the last line that allocates, since it needs the input's size. It lives on as the
    gradients of the shards, or is cast to their dtype. By lines and not by lifetimes, so that one stack
    is one category; where the recording holds only one of the two lines, nothing is told apart.
    """
    lines: dict[str, dict[int, int]] = {"allocate": {}, "foreach_reduce": {}, _CAST: {}}
    for stack in np.flatnonzero(decided == _REDUCES).tolist():
        inner, line = _in_reduce(facts, stack)
        if inner in lines:
            lines[inner][stack] = line
    # older versions have no allocate: the function calls torch itself
    made = lines["allocate"] or lines["foreach_reduce"]
    last = max(made.values(), default=0)
    output = [stack for stack, line in made.items() if line == last and min(made.values()) < last]
    found = decided.copy()
    found[[*output, *lines[_CAST]]] = _REDUCED
    return found


_CAST = "_to_dtype_if_needed"


def _in_reduce(facts: Facts, stack: int) -> tuple[str, int]:
    """The function that ``foreach_reduce`` calls, itself where it calls none in Python, and its line."""
    columns, inner = facts.columns, "foreach_reduce"
    for frame in columns.stacks.of(stack).tolist():
        file, name = facts.frames.names[int(facts.frames.of_frame[frame])]
        if name == "foreach_reduce":
            return inner, int(columns.frames.line[frame])
        inner = name if is_python(file) and name != "__torch_function__" else inner
    raise AssertionError("the rule found that frame in this stack")


def _depth(python: npt.NDArray[np.bool_], offsets: Int64) -> Int64:
    """[L] how many Python frames of its stack there are up to each frame, innermost first."""
    counted = np.zeros(len(python) + 1, np.int64)
    np.cumsum(python, out=counted[1:])
    outer: Int64 = counted[1:] - np.repeat(counted[offsets[:-1]], np.diff(offsets))
    return outer


def _lowest_bit(bits: Int64) -> Int64:
    lowest = bits & -bits
    # exact: a power of two below 2**53 is a whole number in float64
    return np.where(bits == 0, len(RULES), np.log2(np.maximum(lowest, 1)).astype(np.int64))


def find_categories(facts: Facts) -> Facts:
    """Pass: a category for every allocation that the record does not name."""
    stack = facts.replay.allocations.stack
    by_stack = np.append(_CODES[stack_rules(facts)], np.int8(0))
    guess = by_stack[stack]  # ABSENT is -1: the entry appended for it
    category = np.where(facts.evidence == INFERRED, guess, facts.category).astype(np.int8)
    return _annotate(replace(facts, category=category, stack_category=guess))


def _annotate(facts: Facts) -> Facts:
    """Gives communication, and what it makes of gradients, the module in whose scope it was made."""
    replay = facts.replay
    if not replay.has_times:
        return facts
    scopes, _ = find_scopes(facts.columns, replay.device, int(replay.time_us[0]), int(replay.time_us[-1]))
    windows: list[tuple[int, int, int]] = []
    owners = {text: i for i, text in enumerate(facts.owners)}
    for scope in scopes:
        # one that never ended would lend its name to all that comes after it
        if scope.ended and (match := _MODULE_SCOPE.fullmatch(scope.name)):
            first, stop = replay.window(scope.start_us, scope.stop_us)
            windows.append((first, stop, owners.setdefault(match["module"], len(owners))))
    # the inner has the last word: scopes come in order of start
    first_of, stop_of, owner_of = np.array(windows, np.int64).reshape(-1, 3).T
    module = painted(first_of, stop_of, owner_of, len(replay.time_us), 0)
    born = replay.allocations.alloc_event
    kinds = [CATEGORIES.index(name) for name in ("communication", "gradient")]
    wanted = np.isin(facts.category, kinds) & (facts.evidence == INFERRED) & (born >= 0)
    found = np.where(wanted, module[np.maximum(born, 0)], 0)
    return replace(
        facts,
        owners=tuple(owners),
        owner=np.where(found > 0, found, facts.owner).astype(np.int32),
        evidence=np.where(found > 0, ANNOTATED, facts.evidence).astype(np.int8),
    )
