"""Phases of a bare file, from the scopes torch annotated it with.

Legend: N annotations, P scopes.

Annotations carry no thread and no nesting: START and END are paired by name, innermost first, a
START that never ends lasts until the recording does, an END that never began is left out, and what
lies inside what follows from the times. Facts: torch/profiler, ``ProfilerStep#N``;
torch/optim/optimizer.py, ``Optimizer.step#NAME.step`` (2.11).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from snapviz.snapshot.columns import ABSENT, Columns

__all__ = ["Scope", "find_scopes", "left_out", "phase_scopes", "step_scopes"]

_START, _END = 0, 1

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
)
"""Scopes that libraries open by the thousand: each is a moment, not a stretch a person would name."""

_TOO_OFTEN = 32
"""A name that occurs more often than this in a step on average is a moment too. Eight microbatches
of forward and backward are phases; a scope per layer of a 70B model is not."""

_PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)")
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#.*")


@dataclass(frozen=True)
class Scope:
    """One annotated stretch; ``name`` as torch wrote it, or a phase's name once it has become one."""

    name: str
    start_us: int
    stop_us: int


def find_scopes(columns: Columns, device: int, first_us: int, last_us: int) -> tuple[list[Scope], int]:
    """Scopes of one device in order of start, the outer first, and how many annotations had no partner.

    Those that ended before ``first_us`` are left out.
    """
    table = columns.annotations
    opened: dict[int, list[int]] = defaultdict(list)
    scopes: list[Scope] = []
    unpaired = 0
    for name, stage, where, time in zip(
        table.name.tolist(), table.stage.tolist(), table.device.tolist(), table.time_us.tolist(), strict=True
    ):
        if where not in (device, ABSENT) or time == ABSENT:
            continue
        if stage == _START:
            opened[name].append(time)
        elif stage == _END and opened[name]:
            scopes.append(Scope(columns.strings.text(name), opened[name].pop(), time))
        else:
            unpaired += 1
    for name, starts in opened.items():
        unpaired += len(starts)
        scopes += [Scope(columns.strings.text(name), start, max(start, last_us)) for start in starts]
    seen = [scope for scope in scopes if scope.stop_us >= first_us]
    return sorted(seen, key=lambda s: (s.start_us, -s.stop_us)), unpaired


def left_out(scopes: list[Scope]) -> set[str]:
    """Names that are moments rather than phases: of libraries, or too many to a step."""
    counts = Counter(s.name for s in scopes)
    steps = max(1, sum(1 for s in scopes if _PROFILER_STEP.fullmatch(s.name)))
    steps = max(steps, sum(n for name, n in counts.items() if name.startswith("Optimizer.step#")))
    return {
        name
        for name, n in counts.items()
        if name.startswith(_NOT_PHASES) or (n > _TOO_OFTEN * steps and not _OPTIMIZER.fullmatch(name))
    }


def step_scopes(scopes: list[Scope], first_us: int, from_start: bool) -> tuple[list[Scope], str]:
    """The steps among the scopes, and what they were taken from: "annotations" or "optimizer steps".

    Without the profiler's own, a step is taken to run from the end of one ``Optimizer.step`` to the
    end of the next; the first then holds all that came before it. Where the recording does not begin at
    the run's ``from_start``, none of them is the first step: they are numbered from 1.
    """
    marked = [s for s in scopes if _PROFILER_STEP.fullmatch(s.name)]
    if marked:
        return [Scope(f"train/step{s.name.rpartition('#')[2]}", s.start_us, s.stop_us) for s in marked], "annotations"
    optimizer = [s for s in scopes if s.name.startswith("Optimizer.step#")]
    if not optimizer:
        return [], "annotations"
    ends = sorted(s.stop_us for s in optimizer)
    # a microsecond later, so that an event on the boundary belongs to one step only
    starts = [min(first_us, *(s.start_us for s in optimizer)), *(end + 1 for end in ends)]
    number = 0 if from_start else 1
    pairs = enumerate(zip(starts, ends, strict=False), number)
    return [Scope(f"train/step{i}", start, end) for i, (start, end) in pairs], "optimizer steps"


def phase_scopes(scopes: list[Scope], steps: list[Scope]) -> list[Scope]:
    """Steps and user scopes under their phase names: each scope inside the innermost that holds it."""
    out = left_out(scopes)
    kept = [s for s in scopes if s.name not in out and not _PROFILER_STEP.fullmatch(s.name)]
    # at equal times a step holds the scope, not the other way round
    entries = [(s.start_us, -s.stop_us, 0, s) for s in steps] + [(s.start_us, -s.stop_us, 1, s) for s in kept]
    named: list[Scope] = []
    holders: list[Scope] = []
    for _, _, own, scope in sorted(entries, key=lambda entry: entry[:3]):
        while holders and not (holders[-1].start_us <= scope.start_us and scope.stop_us <= holders[-1].stop_us):
            holders.pop()
        prefix = f"{holders[-1].name}/" if own and holders else ""
        phase = Scope(prefix + _component(scope.name), scope.start_us, scope.stop_us) if own else scope
        named.append(phase)
        holders.append(phase)
    return named


def _component(name: str) -> str:
    """A scope's name as one part of a phase's: no ``/``, and nothing behind ``#``."""
    if match := _OPTIMIZER.fullmatch(name):
        return "optimizer" if match[1] == "step" else "zero_grad"
    head = name.partition("#")[0].strip() or name
    return head.replace("/", "|")
