"""From the tensors back to what holds them, breadth first, a whole layer at a time.

A tensor and the plain containers around it are always climbed to the end: each of their owners is a holder.
An owner is climbed only until something leads from a name, of a running function or a module, down to it.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from snapviz.record.holders.clock import Clock
from snapviz.record.holders.edges import Hop, hops, style_of
from snapviz.record.holders.frames import Locals, generator_frame, is_ours
from snapviz.record.holders.index import Index
from snapviz.record.holders.safe import CONTAINERS, base_names, is_a, namespace_of

__all__ = ["Climb", "Global", "Link"]

_FEW = 96
"""Up to this many objects ``gc.get_referrers`` is faster: it compares each reference with each object."""

_BATCH = 128
"""Objects whose references are compared at once, otherwise."""

_WIDEST = 20_000
"""Objects in one layer."""

_MOST_LINKS = 64
"""Ways to one object that are kept."""

_ROUNDS = 5
"""Layers for each step of a path: an optimizer's state is four containers deep."""

_TRANSPARENT = (*CONTAINERS, types.CellType, types.TracebackType)


@dataclass(frozen=True, slots=True)
class Link:
    """One way in which one object holds another."""

    parent: int
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True, order=True)
class Global:
    """A name in a module."""

    module: str
    name: str
    file: str | None
    # its base name where the module is the program itself


class Climb:
    """Fills ``links`` and ``globals``, both by the id of what is held."""

    def __init__(self, index: Index, names: Locals, max_depth: int, clock: Clock, ignore: Collection[int]) -> None:
        self.links: dict[int, list[Link]] = defaultdict(list)
        self.globals: dict[int, list[Global]] = defaultdict(list)
        self.left_out: set[int] = set(names.ours)
        # what the recorder or the caller holds: nothing is to be said of that
        self.alive = index.alive
        self._index = index
        self._locals = names
        self._max_depth = max_depth
        self._clock = clock
        self._ignore = {*ignore, *names.copies}
        self._depth: dict[int, int] = {}
        self._zone: set[int] = set()
        self._settled: set[int] = set()
        self._modules = _namespaces()

    def run(self, start: Iterable[int]) -> None:
        """Climbs from these ids, all of them in ``alive``."""
        frontier = list(start)
        self._depth = dict.fromkeys(frontier, 0)
        self._zone = set(frontier)
        rounds = _ROUNDS * self._max_depth
        while frontier and not self._clock.late():
            if rounds == 0 or len(frontier) > _WIDEST:
                self._clock.cut = True
                return
            rounds -= 1
            frontier = self._layer(frontier)

    def is_transparent(self, one: int) -> bool:
        """Whether an object is folded into the text of a path."""
        obj = self.alive[one]
        return is_a(obj, _TRANSPARENT) or style_of(obj) == "list"

    def _layer(self, frontier: list[int]) -> list[int]:
        wanted = frozenset(frontier)
        above: dict[int, list[int]] = defaultdict(list)
        for child in frontier:
            for edge in self._index.hidden.get(child, ()):
                self._add(child, Link(edge.parent, (Hop(edge.kind),)), above)
        for parent in self._referrers(frontier):
            if self._clock.late():
                break
            if self._is_left_out(parent):
                self.left_out.update(wanted.intersection(map(id, gc.get_referents(parent))))
            else:
                self._link(parent, wanted, above)
        self._settle(frontier)
        return [parent for parent, below in above.items() if self._enter(parent, below)]

    def _link(self, parent: object, wanted: frozenset[int], above: dict[int, list[int]]) -> None:
        module = self._modules.get(id(parent)) or _as_namespace(parent)
        try:
            ways = hops(parent, wanted)
        except Exception:
            # an object that cannot even be looked at: nothing is known of what it holds
            self._clock.cut = True
            return
        for child, way in ways:
            if module is None:
                self.alive[id(parent)] = parent
                self._add(child, Link(id(parent), way), above)
            elif way[0].kind == "name":
                self.globals[child].append(Global(module[0], way[0].text, module[1]))

    def _add(self, child: int, link: Link, above: dict[int, list[int]]) -> None:
        if len(self.links[child]) >= _MOST_LINKS:
            self._clock.cut = True
        elif link.parent not in self._ignore:
            self.links[child].append(link)
            above[link.parent].append(child)

    def _settle(self, frontier: list[int]) -> None:
        """Marks what now hangs on a name: all that was climbed to get there."""
        stack = [one for one in frontier if one in self._locals.by_id or one in self.globals]
        below: dict[int, list[int]] = defaultdict(list)
        if stack:
            for child, links in self.links.items():
                for link in links:
                    below[link.parent].append(child)
        while stack:
            one = stack.pop()
            if one not in self._settled:
                self._settled.add(one)
                stack.extend(below.get(one, ()))

    def _enter(self, parent: int, below: list[int]) -> bool:
        """Whether to climb on from here."""
        in_zone = any(one in self._zone for one in below)
        if parent in self._depth or not (in_zone or any(one not in self._settled for one in below)):
            return False
        transparent = self.is_transparent(parent)
        self._depth[parent] = min(self._depth[one] for one in below) + (not transparent)
        if transparent and in_zone:
            self._zone.add(parent)
        elif parent in self._locals.by_id:
            self._settled.add(parent)
            return False
        if is_a(self.alive[parent], (type, types.FunctionType)):
            return False  # it says where it is by its own name
        self._clock.cut |= self._depth[parent] >= self._max_depth
        return self._depth[parent] < self._max_depth

    def _is_left_out(self, obj: object) -> bool:
        if id(obj) in self._ignore or any(name.startswith("snapviz.record.") for name in base_names(obj)):
            return True
        suspended = generator_frame(obj)
        frame = suspended[0] if suspended else obj
        return type(frame) is types.FrameType and is_ours(frame)

    def _referrers(self, frontier: list[int]) -> list[object]:
        children = tuple(self.alive[one] for one in frontier)
        found = gc.get_referrers(*children) if len(children) <= _FEW else self._scan(frozenset(frontier))
        return [one for one in found if one is not children and one is not self.alive]

    def _scan(self, wanted: frozenset[int]) -> list[object]:
        found: list[object] = []
        objects = gc.get_objects()
        for begin in range(0, len(objects), _BATCH):
            if begin % (64 * _BATCH) == 0 and self._clock.late():
                break
            batch = objects[begin : begin + _BATCH]
            if not wanted.isdisjoint(map(id, gc.get_referents(*batch))):
                found += [one for one in batch if not wanted.isdisjoint(map(id, gc.get_referents(one)))]
        return found


def _namespaces() -> dict[int, tuple[str, str | None]]:
    """The namespace of every module by its id: the module's name, and the program's file where it is that."""
    found: dict[int, tuple[str, str | None]] = {}
    for name, module in list(sys.modules.items()):
        if type(name) is str and is_a(module, (types.ModuleType,)):
            space = namespace_of(module)
            if space is not None:
                found.setdefault(id(space), (name, _program(name, space)))
    return found


def _as_namespace(obj: object) -> tuple[str, str | None] | None:
    """The same of a namespace that belongs to no imported module: what ``runpy`` or ``exec`` ran in."""
    if type(obj) is not dict:
        return None
    name = obj.get("__name__") if "__builtins__" in obj else None
    return (name, _program(name, obj)) if type(name) is str else None


def _program(name: str, space: dict[str, object]) -> str | None:
    if name != "__main__":
        return None
    file = space.get("__file__")
    return file.replace("\\", "/").rsplit("/", 1)[-1] if type(file) is str else "__main__"
