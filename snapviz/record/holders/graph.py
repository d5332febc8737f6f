"""What autograd keeps: a bounded walk through the graphs that hang on the tensors of Python.

A saved tensor may have hooks that unpack it: they copy it back to the device, or compute a checkpoint anew.
They must not run, so only what lies there packed is read (``SavedTensor.data``, torch 2.7 and later); with
an older torch what autograd saved stays unexplained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from types import GetSetDescriptorType
from typing import Any

from snapviz.record.holders.clock import Clock
from snapviz.record.holders.index import Edge, Index, Reader, add_tensor
from snapviz.record.holders.safe import class_space, mro_of

__all__ = ["walk_graphs"]

_MOST_NODES = 200_000
_SLOTS = ("_raw_saved", "next_functions", "variable")


def walk_graphs(index: Index, reader: Reader, known: Iterable[int], clock: Clock) -> bool:
    """Adds what every node saved, and says whether that was all. ``known`` are ids that functions name.

    Graphs are entered first from what has a name: of two tensors that reach a node, that one says more.
    """
    walk = _Walk(index, reader, clock)
    named = set(known)
    roots = sorted(index.tensors, key=lambda one: one not in named)
    for part in (roots[: (cut := len(named & index.tensors))], roots[cut:]):
        walk.enter(part)
        walk.run()
    walk.queue.extend(index.alive[one] for one in index.nodes)
    walk.run()
    return walk.whole


class _Walk:
    """Breadth first, so that a node's root is the nearest."""

    def __init__(self, index: Index, reader: Reader, clock: Clock) -> None:
        self.queue: deque[Any] = deque()
        self.whole = True
        self._index = index
        self._reader = reader
        self._clock = clock
        self._roots: dict[int, int] = {}
        self._done: set[int] = set()
        self._slots: dict[int, dict[str, Any]] = {}

    def enter(self, tensors: Iterable[int]) -> None:
        for one in tensors:
            node = self._reader.history(self._index.alive[one])
            if node is not None:
                self._root(node, one)

    def run(self) -> None:
        while self.queue:
            node = self.queue.popleft()
            if id(node) in self._done:
                continue
            if len(self._done) >= _MOST_NODES or (len(self._done) % 64 == 0 and self._clock.late()):
                self._clock.cut, self.whole = True, False
                self.queue.clear()
                return
            self._done.add(id(node))
            self._visit(node)

    def _root(self, node: Any, root: int | None) -> None:
        if id(node) in self._done or id(node) in self._roots:
            return
        self._index.alive[id(node)] = node
        if root is not None:
            self._roots[id(node)] = root
            self._index.hidden[id(node)].append(Edge(root, "graph"))
        self.queue.append(node)

    def _visit(self, node: Any) -> None:
        self._index.alive[id(node)] = node
        for name, slot in self._slots_of(type(node)).items():
            try:
                self._keep(node, name, slot.__get__(node))
            except Exception:
                continue

    def _slots_of(self, cls: type) -> dict[str, Any]:
        """What the node's class reads in C: a ``torch.autograd.Function`` of a user may override the names."""
        if id(cls) not in self._slots:
            spaces = [class_space(base) for base in reversed(mro_of(cls))]
            found = {name: entry for space in spaces for name, entry in tuple(space.items()) if _is_slot(name, entry)}
            self._slots[id(cls)] = dict(sorted(found.items()))
        return self._slots[id(cls)]

    def _keep(self, node: Any, name: str, value: Any) -> None:
        if name == "next_functions":
            for one, _ in value:
                if one is not None:
                    self._root(one, self._roots.get(id(node)))
            return
        if name == "variable":
            self._edge(node, value, "variable", counts=True)
            return
        for saved in value if type(value) in (tuple, list) else (value,):
            # without this attribute nothing says whether a hook would run
            if "unpack_hook" in class_space(type(saved)):
                self._edge(node, saved.data, "saved", counts=saved.unpack_hook is None)

    def _edge(self, node: Any, value: Any, kind: str, counts: bool) -> None:
        if value is None:
            return
        self._index.alive[id(value)] = value
        self._index.hidden[id(value)].append(Edge(id(node), kind))
        if self._reader.kind_of(type(value)) == "tensor":
            self._index.counted[id(value)] += counts
            add_tensor(self._index, self._reader, value)


def _is_slot(name: object, entry: object) -> bool:
    return type(entry) is GetSetDescriptorType and type(name) is str and name.startswith(_SLOTS)
