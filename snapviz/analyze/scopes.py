"""Phases of a bare file, from the scopes torch annotated it with.

Legend: N annotations, P scopes.

Annotations carry no thread and no nesting: START and END are paired by name, innermost first, a
START that never ends lasts until the recording does, an END that never began is left out, and what
lies inside what follows from the times. A file can hold anything under these keys: names are cut, times
clamped, and what is nested too deep is no phase. Facts: torch/profiler, ``ProfilerStep#N``;
torch/optim/optimizer.py, ``Optimizer.step#NAME.step`` (2.11).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from snapviz.snapshot.columns import ABSENT, Columns

__all__ = ["DEEPEST", "Scope", "find_scopes", "left_out", "phase_scopes", "step_scopes"]

_START, _END = 0, 1

DEEPEST = 8
"""Parts of a phase's name below its step. What a person opens nests less; what never ends nests without end."""

_LONGEST_NAME = 200
"""Bytes of a scope's name that are kept: many scopes can share one string of a megabyte."""

_LONGEST_PHASE = 500
"""Characters of a phase's name, all its parts together."""

_LATEST_US = 1 << 62
"""Times beyond it are held at it, so that a microsecond more still fits int64; 2**62 µs are 146,000 years."""

_NOT_PHASES = (
    "FSDP::",
    "nccl:",
    "gloo:",
    "mpi:",
    "ucc:",
    "c10d::",
    "aten::",
    "autograd::",
    "## Call CompiledFxGraph",
    "Torch-Compiled Region",
    "TorchDynamo Cache Lookup",
    "Pregraph bytecode",
    "FullyShardedDataParallel.",
)
"""Scopes that libraries open by the thousand: each is a moment, not a stretch a person would name.
Only names decide: a count could let a scope through in one of two runs and not in the other."""

_PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)")
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#.*")


@dataclass(frozen=True)
class Scope:
    """One annotated stretch; ``name`` as torch wrote it, or a phase's name once it has become one."""

    name: str
    start_us: int
    stop_us: int
    ended: bool = True  # else stop_us is the recording's


def find_scopes(columns: Columns, device: int, first_us: int, last_us: int) -> tuple[list[Scope], int]:
    """Scopes of one device in order of start, the outer first, and how many annotations had no partner.

    Those that ended before ``first_us`` are left out.
    """
    table = columns.annotations
    last_us = min(last_us, _LATEST_US)
    names = {name: columns.strings.text(name, _LONGEST_NAME) for name in np.unique(table.name).tolist()}
    opened: dict[int, list[int]] = defaultdict(list)
    scopes: list[Scope] = []
    unpaired = 0
    for name, stage, where, time in zip(
        table.name.tolist(), table.stage.tolist(), table.device.tolist(), table.time_us.tolist(), strict=True
    ):
        # ABSENT is -1, and no time is before 1970
        if where not in (device, ABSENT) or time < 0:
            continue
        at = min(time, _LATEST_US)
        if stage == _START:
            opened[name].append(at)
        elif stage == _END and opened[name]:
            start = opened[name].pop()
            scopes.append(Scope(names[name], start, max(start, at)))
        else:
            unpaired += 1
    for name, starts in opened.items():
        unpaired += len(starts)
        scopes += [Scope(names[name], start, max(start, last_us), False) for start in starts]
    seen = [scope for scope in scopes if scope.stop_us >= first_us]
    return sorted(seen, key=lambda s: (s.start_us, -s.stop_us)), unpaired


def left_out(scopes: list[Scope]) -> set[str]:
    """Names that are moments rather than phases."""
    return {scope.name for scope in scopes if scope.name.startswith(_NOT_PHASES)}


def step_scopes(scopes: list[Scope], first_us: int, from_start: bool) -> tuple[list[Scope], str]:
    """The steps among the scopes, and what they were taken from: "annotations" or "optimizer steps".

    Without the profiler's own, a step is taken to run from the end of one group of ``Optimizer.step``
    to the end of the next; the first then holds all that came before it. Where the recording does not
    begin at the run's ``from_start``, none of them is the first step: they are numbered from 1, and
    those that ended before ``first_us`` are left out.
    """
    oldest = 0 if from_start else first_us
    marked = [s for s in scopes if _PROFILER_STEP.fullmatch(s.name) and s.stop_us >= oldest]
    if marked:
        return [Scope(f"train/step{s.name.rpartition('#')[2]}", s.start_us, s.stop_us) for s in marked], "annotations"
    optimizer = [s for s in scopes if s.name.startswith("Optimizer.step#")]
    if not optimizer:
        return [], "annotations"
    # all of them, so that a recording that begins between two of a group is cut as the whole is
    ends = [end for end in _group_ends(optimizer) if end >= oldest]
    # a microsecond later, so that an event on the boundary belongs to one step only
    seen = [s.start_us for s in optimizer if s.stop_us >= oldest]
    starts = [min(first_us, *seen), *(end + 1 for end in ends)]
    number = 0 if from_start else 1
    pairs = enumerate(zip(starts, ends, strict=False), number)
    return [Scope(f"train/step{i}", start, end) for i, (start, end) in pairs], "optimizer steps"


def _group_ends(optimizer: list[Scope]) -> list[int]:
    """Where each step's last optimizer ends: a step may have several (Muon and AdamW), each once."""
    ends: list[int] = []
    names: set[str] = set()
    for scope in sorted(optimizer, key=lambda s: s.stop_us):
        if ends and scope.name not in names:
            ends[-1] = scope.stop_us
        else:
            ends.append(scope.stop_us)
            names.clear()
        names.add(scope.name)
    return ends


def phase_scopes(scopes: list[Scope], steps: list[Scope]) -> tuple[list[Scope], int]:
    """Steps and user scopes under their phase names: each scope inside the innermost that holds it.

    Also how many scopes are left out, because they lie more than ``DEEPEST`` deep or their name would
    grow too long.
    """
    out = left_out(scopes)
    kept = [s for s in scopes if s.name not in out and not _PROFILER_STEP.fullmatch(s.name)]
    # at equal times a step holds the scope, not the other way round
    entries = [(s.start_us, -s.stop_us, 0, s) for s in steps] + [(s.start_us, -s.stop_us, 1, s) for s in kept]
    named: list[Scope] = []
    # each with its depth: a step begins its name anew, wherever it lies
    holders: list[tuple[Scope, int]] = []
    deeper = 0
    for _, _, own, scope in sorted(entries, key=lambda entry: entry[:3]):
        while holders and not _holds(holders[-1][0], scope):
            holders.pop()
        holder, depth = holders[-1] if own and holders else (None, 0)
        name = scope.name if not own else (f"{holder.name}/" if holder else "") + _component(scope.name)
        if depth >= DEEPEST or len(name) > _LONGEST_PHASE:
            deeper += 1
            continue
        phase = Scope(name, scope.start_us, scope.stop_us)
        named.append(phase)
        # a step is the level above the first
        holders.append((phase, depth + 1 if own else 0))
    return named, deeper


def _holds(outer: Scope, inner: Scope) -> bool:
    return outer.start_us <= inner.start_us and inner.stop_us <= outer.stop_us


def _component(name: str) -> str:
    """A scope's name as one part of a phase's: no ``/``, and nothing behind ``#``."""
    if match := _OPTIMIZER.fullmatch(name):
        return "optimizer" if match[1] == "step" else "zero_grad"
    head = name.partition("#")[0].strip() or name
    return head.replace("/", "|")
