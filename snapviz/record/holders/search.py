"""Who keeps a parameter's storage: the search, and what it returns."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from snapviz.record.holders.climb import Climb
from snapviz.record.holders.clock import Clock
from snapviz.record.holders.counts import Counts, sentence
from snapviz.record.holders.frames import read_frames
from snapviz.record.holders.graph import walk_graphs
from snapviz.record.holders.index import Index, Reader, build_index
from snapviz.record.holders.paths import Path, Paths
from snapviz.schema import UNEXPLAINED

__all__ = ["Found", "Holder", "Target", "find_holders"]


@dataclass(frozen=True)
class Target:
    """A storage that should have been released."""

    name: str
    # the parameter's name, as in HolderRecord.parameter
    address: int
    # data pointer of the storage
    nbytes: int
    # bytes of the storage: another that came to lie at the same address is told by its size


@dataclass(frozen=True)
class Holder:
    """A reference that keeps a storage."""

    parameter: str
    # Target.name
    path: str
    # innermost first: Model._parameters['p1'] ← ThunderModule._model ← m (train.py:31)
    kind: str
    # of the innermost step: module, optimizer, optimizer_state, object, tensor, frame, generator, closure,
    # default, function, class, global, autograd, container; unexplained: counted and not found


@dataclass(frozen=True)
class Found:
    """What a search found."""

    holders: tuple[Holder, ...]
    # in the order of the targets; of each the shortest path first, what is unexplained last
    searched_us: int
    # microseconds it took
    complete: bool
    # false when the deadline or a bound cut the search: there may be more


def find_holders(
    targets: Sequence[Target],
    *,
    device_type: str = "cuda",
    deadline_s: float = 5.0,
    max_depth: int = 8,
    max_paths: int = 8,
    ignore: Collection[int] = (),
) -> Found:
    """The Python references that keep the storages of ``targets``.

    ``max_depth`` bounds the steps of a path, ``max_paths`` the holders told of one parameter. ``ignore`` are
    ids of objects that are no holders and are not searched, such as the caller's own lists. A storage that
    no tensor of Python has gives nothing: an address alone does not tell what was freed from what only C++
    keeps. Allocates nothing on the device, runs no code of the objects it meets, raises nothing for them.
    """
    clock = Clock(deadline_s)
    wanted = {each.address: each.nbytes for each in targets if each.nbytes > 0}
    if "torch" not in sys.modules or not wanted or clock.late():
        return Found((), clock.elapsed_us(), not clock.cut)
    import torch

    with _collector_off(), torch._C.DisableTorchFunction():
        search = _Search(wanted, device_type, max_depth, clock, frozenset(ignore))
        holders = [each for target in targets for each in search.of(target, max_paths)]
        del search
    return Found(tuple(holders), clock.elapsed_us(), not clock.cut)


@contextmanager
def _collector_off() -> Iterator[None]:
    """A collection in between would run finalizers, and look at the millions of references held here."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _telling(path: Path) -> tuple[bool, int, str]:
    """The order in which paths are told: ``functools.wraps`` leaves a module's dicts with a function, of which
    nobody would say that it holds a parameter, as long as the module itself is there to be named."""
    return path.kind == "function", len(path.steps), path.text


class _Search:
    """One search. Holds what it looks at, and is dropped at its end."""

    def __init__(
        self, wanted: dict[int, int], device_type: str, max_depth: int, clock: Clock, ignore: Collection[int]
    ) -> None:
        # objects in the permanent generation are shown to nobody
        clock.cut |= gc.get_freeze_count() > 0
        self._clock = clock
        names = read_frames(clock, ignore)
        reader = Reader(wanted, device_type)
        self._index = build_index(reader, names.values, clock, ignore)
        names.values.clear()
        self._whole = walk_graphs(self._index, reader, names.by_id, clock)
        self._views = {one for group in self._index.groups.values() for one in _views(self._index, reader, group)}
        self._counts = Counts()
        self._hidden = self._count_hidden()
        self._climb = climb = Climb(self._index, names, max_depth, clock, ignore)
        lists = (*self._index.groups.values(), *self._index.storages.values())
        climb.run(dict.fromkeys(one for each in lists for one in each))
        self._paths = Paths(climb, names, max_depth)

    def _count_hidden(self) -> dict[int, int]:
        if not self._counts.reliable or not self._whole or self._clock.late():
            return {}
        return {address: self._counts.hidden(self._index, address) for address in list(self._index.groups)}

    def of(self, target: Target, max_paths: int) -> Iterator[Holder]:
        """The holders of one target, what is unexplained last."""
        found = sorted(set(self._all_paths(target.address)), key=_telling)
        self._clock.cut |= len(found) > max_paths
        for path in found[:max_paths]:
            yield Holder(target.name, path.text, path.kind)
        rest = self._unexplained(target.address, bool(found))
        if rest is not None:
            yield Holder(target.name, rest, UNEXPLAINED)

    def _all_paths(self, address: int) -> Iterator[Path]:
        for one in self._index.groups.get(address, ()):
            yield from self._paths.of(one, "a view of it" if one in self._views else None)
        for one in self._index.storages.get(address, ()):
            yield from self._paths.of(one, "its storage")

    def _unexplained(self, address: int, any_holder: bool) -> str | None:
        # what a search that ran out of time has not met yet is no mystery
        if address not in self._index.groups or self._clock.late():
            return None
        met = any(one in self._climb.links or one in self._climb.left_out for one in self._index.groups[address])
        if any_holder or met:
            return sentence(self._hidden.get(address), 0, any_holder=True)
        return sentence(self._hidden.get(address), self._counts.in_python(self._index, address), any_holder=False)


def _views(index: Index, reader: Reader, group: list[int]) -> list[int]:
    """Which tensors of one storage are made from another of them."""
    parameters = [one for one in group if reader.is_parameter(index.alive[one])]
    if parameters:
        return [one for one in group if one not in parameters]
    return [one for one in group if reader.is_part(index.alive[one])]
