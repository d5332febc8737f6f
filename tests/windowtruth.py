"""Holds the windows of modules against what was made in them: activations are those of their own module."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from snapviz.analyze.module_windows import module_windows
from snapviz.analyze.run import Rank

__all__ = ["BLOCKS", "kept_by_window", "misplaced", "outside_of_windows"]

Int64 = npt.NDArray[np.int64]

BLOCKS = '''
class Block(torch.nn.Module):
    """Notes what is saved for backward and was made in it: not its input, and no parameter."""

    def __init__(self, name, width):
        super().__init__()
        self.name, self.saved = name, []
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        others = {lies_at(x), *(lies_at(param) for param in self.parameters())}

        def pack(tensor):
            if lies_at(tensor) not in others:
                self.saved.append((self.name, lies_at(tensor)))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            return self.down(torch.nn.functional.gelu(self.up(x)))


def lies_at(tensor):
    return tensor.untyped_storage().data_ptr()


def model_of(count, width, name="model"):
    return torch.nn.Sequential(*(Block(f"{name}.{number}", width) for number in range(count)))
'''
"""A program's model: ``count`` blocks that are all alike."""


def _windows(rank: Rank, phase: str) -> list[tuple[str, Int64]]:
    """(path, allocations made) of each call in a phase that did not run again."""
    facts = rank.facts()
    found, index = module_windows(facts.record), facts.phases.names.index(phase)
    assert found is not None
    assert found.complete
    born = facts.replay.allocations.alloc_event
    time_us = np.where(born >= 0, facts.replay.time_us[np.maximum(born, 0)], -1)
    first_us, last_us = int(facts.phases.start_us[index]), int(facts.phases.stop_us[index])
    rows = zip(found.name.tolist(), found.start_us.tolist(), found.stop_us.tolist(), found.recomputed, strict=True)
    return [
        (found.names[name], np.flatnonzero((time_us >= start) & (time_us <= stop)))
        for name, start, stop, again in rows
        if not again and first_us <= start <= last_us
    ]


def misplaced(rank: Rank, phase: str, saved: Iterable[tuple[str, int]]) -> list[str]:
    """What was saved in a module's forward and lies in no allocation made in a window of that module."""
    table = rank.facts().replay.allocations
    made: dict[str, set[int]] = {}
    for path, allocations in _windows(rank, phase):
        made.setdefault(path, set()).update(table.address[allocations].tolist())
    return [f"{path}: {address:#x}" for path, address in saved if address not in made.get(path, ())]


def kept_by_window(rank: Rank, phase: str, paths: Iterable[str]) -> dict[str, int]:
    """Path → requested bytes that were made in its windows and outlive the phase."""
    facts = rank.facts()
    table, last = facts.replay.allocations, int(facts.phases.stop[facts.phases.names.index(phase)]) - 1
    kept = table.allocated_after(last)
    wanted, out = set(paths), dict[str, int]()
    for path, allocations in _windows(rank, phase):
        if path in wanted:
            out[path] = out.get(path, 0) + int(table.requested_bytes[allocations[kept[allocations]]].sum())
    return out


def outside_of_windows(rank: Rank, phase: str, paths: Iterable[str], frame: str) -> list[str]:
    """What has a frame in its stack, was made in the phase, and in no window of any of the paths."""
    facts = rank.facts()
    table, index = facts.replay.allocations, facts.phases.names.index(phase)
    wanted = set(paths)
    inside = {number for path, made in _windows(rank, phase) if path in wanted for number in made.tolist()}
    first, stop = int(facts.phases.first[index]), int(facts.phases.stop[index])
    born = np.flatnonzero((table.alloc_event >= first) & (table.alloc_event < stop)).tolist()
    return [
        f"{table.address[number]:#x}"
        for number in born
        if number not in inside and any(frame in line for line in facts.stack_lines(int(table.stack[number])))
    ]
