"""What a stack alone cannot tell: rules that look at the lines of a function, at lifetimes, sizes and threads.

Legend: A allocations, E events, S stacks. ``rule`` is [A] the index of the rule that decides each allocation,
``len(rules)`` where none does. Each step here has the signature ``(Facts, rule) -> rule``, is listed in ``STEPS``, and
changes only what the rule of its id decided, or nothing did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.frames import is_python
from snapviz.analyze.groups import group_keys
from snapviz.analyze.rules import decided_inside, index_of
from snapviz.snapshot.columns import ABSENT

__all__ = ["STEPS", "WORKSPACE_BYTES", "Step", "by_history", "refine"]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

Step = Callable[[Facts, Int64], Int64]

WORKSPACE_BYTES = (8_519_680, 33_554_432)
"""What cuBLAS asks for by default, before compute capability 9.0 and from it on: ``parseChosenWorkspaceSize`` in
aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.4 to 2.11."""


def refine(facts: Facts, rule: Int64) -> Int64:
    """[A] the rules after every step."""
    for step in STEPS:
        rule = step(facts, rule)
    return rule


def by_history(facts: Facts, rule: Int64) -> Bool:
    """[A] whether a rule decides each that needs to have seen more than a stack: a recording that begins later may not
    have."""
    codes = np.array([one.id in _HISTORIES for one in facts.rules] + [False])
    found: Bool = codes[rule]
    return found


_HISTORIES = ("workspace", "engine", "optimizer-state", "fsdp2-moved-buffers", "graph-pool")


# ------------------------------------------------------------------ by the line of a function


def _called_inside(facts: Facts, rule: Int64) -> Int64:
    """What a forward or a backward makes that something else calls: of the two the inner one decides.

    An optimizer's step calls the closure it is given (Lightning gives one in every step), and checkpointing with
    reentrance calls backward once it has run forward again.
    """
    out = rule
    for outer, one in enumerate(facts.rules):
        stacks = _decided(facts, rule, outer) if one.id in _CALLERS else []
        inner = decided_inside(facts.rules, facts.columns, facts.frames, stacks, outer) if stacks else []
        for index in set(inner) - {len(facts.rules)}:
            if facts.rules[index].category in _CALLERS[one.id]:
                of = [stack for stack, found in zip(stacks, inner, strict=True) if found == index]
                out = np.where(np.isin(facts.replay.allocations.stack, of), index, out)
    return out


_CALLERS = {"optimizer": ("activation", "gradient"), "recomputed": ("gradient",)}
"""Rules of what calls others → the categories of what it calls."""


def _fsdp2_reduced(facts: Facts, rule: Int64) -> Int64:
    """What FSDP2 reduces gradients into, told from what it reduces.

    ``foreach_reduce`` makes both, by one function: the output in the last line that allocates, since it needs the
    input's size. It lives on as the gradients of the shards, or is cast to their dtype. By lines and not by
    lifetimes, so that one stack is one category; where the recording holds only one of the two lines, nothing is
    told apart.
    """
    lines: dict[str, dict[int, int]] = {"allocate": {}, "foreach_reduce": {}, _CAST: {}}
    for stack in _stacks_of(facts, rule, "fsdp2-reduces"):
        inner, line = _line_in(facts, stack, "foreach_reduce")
        if inner in lines:
            lines[inner][stack] = line
    # older versions have no allocate: the function calls torch itself
    made = lines["allocate"] or lines["foreach_reduce"]
    last = max(made.values(), default=0)
    output = [stack for stack, line in made.items() if line == last and min(made.values()) < last]
    return _give(facts, rule, [*output, *lines[_CAST]], "fsdp2-reduced")


_CAST = "_to_dtype_if_needed"


def _fsdp1_padded(facts: Facts, rule: Int64) -> Int64:
    """What FSDP1 pads to reduce it: its function makes the output last, and the input only where it has to pad."""
    found = {s: _line_in(facts, s, "_get_reduce_scatter_tensors")[1] for s in _stacks_of(facts, rule, "fsdp1-reduced")}
    last = max(found.values(), default=0)
    return _give(facts, rule, [stack for stack, line in found.items() if line < last], "fsdp1-padded")


def _moved_buffers(facts: Facts, rule: Int64) -> Int64:
    """Buffers that a module moves: ``Module._apply`` moves parameters, then their gradients, then buffers.

    Of two lines the later moves buffers, unless it moves just what the first did: then those are gradients, which
    are as large. Of three lines the last moves buffers.
    """
    lines: dict[int, list[int]] = defaultdict(list)
    for stack in _stacks_of(facts, rule, "moves"):
        lines[_line_in(facts, stack, "_apply")[1]].append(stack)
    if len(lines) < 2:
        return rule
    first, last = lines[min(lines)], lines[max(lines)]
    if len(lines) == 2 and _sizes(facts, first) == _sizes(facts, last):
        return rule
    return _give(facts, rule, last, "moved-buffers")


def _sizes(facts: Facts, stacks: list[int]) -> Counter[int]:
    table = facts.replay.allocations
    return Counter(table.requested_bytes[np.isin(table.stack, stacks)].tolist())


def _stacks_of(facts: Facts, rule: Int64, wanted: str) -> list[int]:
    """The stacks of allocations that a rule decides."""
    return _decided(facts, rule, index_of(facts.rules, wanted))


def _decided(facts: Facts, rule: Int64, index: int) -> list[int]:
    stack = facts.replay.allocations.stack[rule == index]
    return [one for one in np.unique(stack).tolist() if one != ABSENT]


def _line_in(facts: Facts, stack: int, function: str) -> tuple[str, int]:
    """What a function calls in Python, itself where nothing, and its line: of the innermost call of it."""
    columns, inner = facts.columns, function
    for frame in columns.stacks.of(stack).tolist():
        file, name = facts.frames.names[int(facts.frames.of_frame[frame])]
        if name == function:
            return inner, int(columns.frames.line[frame])
        inner = name if is_python(file) and name != "__torch_function__" else inner
    return inner, 0


def _give(facts: Facts, rule: Int64, stacks: list[int], to: str) -> Int64:
    """The same with all allocations of some stacks given to a rule."""
    if not stacks:
        return rule
    return np.where(np.isin(facts.replay.allocations.stack, stacks), index_of(facts.rules, to), rule)


# ------------------------------------------------------------------ by order and lifetime


def _fsdp2_moved_buffers(facts: Facts, rule: Int64) -> Int64:
    """Buffers among what FSDP2 moves to the device: it moves all parameters of a call and then all buffers, in one
    line, and then makes a shard of each parameter, which is never larger than what it is cut from."""
    moves, makes = index_of(facts.rules, "fsdp2-moves"), index_of(facts.rules, "fsdp2-shards")
    members = np.flatnonzero((rule == moves) | (rule == makes))
    moved, requested = rule[members] == moves, facts.replay.allocations.requested_bytes
    out = rule.copy()
    # runs of equal kind: what one call moved, and the shards it then made
    edges = np.flatnonzero(np.diff(moved.astype(np.int8))) + 1
    runs = np.split(members, edges) if len(members) else []
    # a call that moves buffers alone makes no shard; the very last may not have come to it
    runs += [members[:0]] if len(members) and members[-1] + 1 < len(rule) else []
    for run, shards in pairwise(runs):
        if rule[run[0]] == moves:
            both = min(len(run), len(shards))
            cut = requested[shards[:both]] <= requested[run[:both]]
            # argmin: the first that is not cut from what was moved
            params = both if cut.all() else int(np.argmin(cut))
            out[run[params:]] = index_of(facts.rules, "fsdp2-moved-buffers")
    return out


def _optimizer_state(facts: Facts, rule: Int64) -> Int64:
    """What an optimizer's step makes and the next forward still finds: its state, whatever the optimizer is called."""
    made = np.flatnonzero(rule == index_of(facts.rules, "optimizer"))
    if len(made) == 0:
        return rule
    table = facts.replay.allocations
    forwards = np.sort(table.alloc_event[_is(facts, rule, "activation")])
    if len(forwards) == 0:
        return rule
    place = np.searchsorted(forwards, table.alloc_event[made], side="right")
    following = np.append(forwards, np.iinfo(np.int64).max)[place]
    out = rule.copy()
    out[made[table.free_requested_event[made] > following]] = index_of(facts.rules, "optimizer-state")
    return out


def _engine(facts: Facts, rule: Int64) -> Int64:
    """What autograd's own thread makes: no Python frame, in a recording that has them, once a forward has begun."""
    table = facts.replay.allocations
    has = _has_frames(facts)
    seen = table.alloc_event >= 0
    forward = _is(facts, rule, "activation")
    if not forward.any() or 2 * int(has[seen].sum()) < int(seen.sum()) * _SHARE or not _has_backward(facts, rule):
        return rule
    first = int(table.alloc_event[forward].min())
    engine = (rule == len(facts.rules)) & ~has & (table.alloc_event > first)
    return np.where(engine, index_of(facts.rules, "engine"), rule)


_SHARE = 0.2
"""Twice the least share of allocations with Python frames, for a recording to count as one that takes them: backward
of a large step makes more without than forward makes with."""


def _has_backward(facts: Facts, rule: Int64) -> bool:
    """Whether anything says that gradients are made at all: inference has threads of its own."""
    if (_is(facts, rule, "gradient") | _is(facts, rule, "optimizer state")).any() or (
        rule == index_of(facts.rules, "optimizer")
    ).any():
        return True
    if any(part == "backward" for name in facts.phases.names for part in name.split("/")):
        return True
    names = np.unique(facts.columns.annotations.name).tolist()
    return any(facts.columns.strings.text(name, _SIGN).startswith(_SIGNS) for name in names)


_SIGNS = ("Optimizer.step", "Optimizer.zero_grad", "FSDP::pre_backward", "FSDP::post_backward")
_SIGN = 40
"""Bytes of an annotation's name that are looked at."""


def _workspace(facts: Facts, rule: Int64) -> Int64:
    """cuBLAS's workspaces: of its size, one for a thread and a stream, and never freed.

    With a stack: made right behind a result, by a line that makes that result again and the workspace never. In
    autograd's thread: still there in a later forward, which a gradient of that size seldom is. The size of older
    devices is enough, since nothing else has it.
    """
    table = facts.replay.allocations
    stays = table.free_requested_event >= len(facts.replay)
    fits = np.isin(table.requested_bytes, WORKSPACE_BYTES) & stays
    if not fits.any():
        return rule
    forward = _is(facts, rule, "activation")
    made = (
        fits
        & (rule == index_of(facts.rules, "engine"))
        & (table.alloc_event < table.alloc_event[forward].max(initial=-1))
    )
    made |= fits & forward & _behind_a_result(facts, fits)
    made &= _alone(facts, fits)
    own = (table.requested_bytes == WORKSPACE_BYTES[0]) & (forward | (rule == len(facts.rules)))
    return np.where(made | (fits & own), index_of(facts.rules, "workspace"), rule)


def _alone(facts: Facts, fits: Bool) -> Bool:
    """[A] whether each is the only one of its stack, stream and pool that fits."""
    table, found = facts.replay.allocations, np.zeros(len(fits), bool)
    chosen = np.flatnonzero(fits)
    columns = (facts.stack, _small(table.stream), table.pool)
    group, count = group_keys([column[chosen] + 1 for column in columns])
    found[chosen] = np.bincount(group, minlength=count)[group] == 1
    return found


def _behind_a_result(facts: Facts, fits: Bool) -> Bool:
    """[A] whether the allocation before it is of the same line and another size, which that line makes again."""
    stack, requested = facts.stack, facts.replay.allocations.requested_bytes
    near = np.flatnonzero(np.isin(stack, stack[fits]))
    size = np.unique(requested[near], return_inverse=True)[1].reshape(-1)
    group, count = group_keys([stack[near] + 1, size])
    times = np.zeros(len(stack), np.int64)
    times[near] = np.bincount(group, minlength=count)[group]
    before = np.maximum(np.arange(len(stack)) - 1, 0)
    found: Bool = (stack[before] == stack) & (stack != ABSENT) & (requested[before] != requested) & (times[before] > 1)
    return found


def _small(stream: Int64) -> Int64:
    """Streams from -1 on: their numbers can be addresses."""
    lowest = int(stream.min(initial=0))
    return stream - lowest - 1


def _graph_pool(facts: Facts, rule: Int64) -> Int64:
    """What nothing else is known of, in a private pool."""
    pools = facts.columns.pools
    private = np.append((pools != 0).any(axis=1), False) if len(pools) else np.zeros(1, bool)
    inside = private[facts.replay.allocations.pool] & (rule == len(facts.rules))
    return np.where(inside, index_of(facts.rules, "graph-pool"), rule)


def _is(facts: Facts, rule: Int64, category: str) -> Bool:
    """[A] what some rule of a category decides."""
    codes = np.array([one.category == category for one in facts.rules] + [False])
    found: Bool = codes[rule]
    return found


def _has_frames(facts: Facts) -> Bool:
    """[A] whether a Python frame is in its stack."""
    stacks, names = facts.columns.stacks, facts.frames
    python = np.array([is_python(file) for file, _ in names.names], bool)
    has = np.zeros(len(stacks) + 1, bool)
    if len(stacks.frames):
        filled = np.flatnonzero(np.diff(stacks.offsets))
        has[filled] = np.logical_or.reduceat(python[names.of_frame][stacks.frames], stacks.offsets[filled])
    # ABSENT is -1: the entry behind them all
    found: Bool = has[facts.replay.allocations.stack]
    return found


STEPS: tuple[Step, ...] = (
    _called_inside,
    _fsdp2_reduced,
    _fsdp1_padded,
    _moved_buffers,
    _fsdp2_moved_buffers,
    _optimizer_state,
    _engine,
    _workspace,
    _graph_pool,
)
