"""Who holds what dangles, as a small graph: from a name in the program, hop by hop, to the tensors.

The recorder writes a path innermost first, ``Model._parameters['p1'] ← ThunderModule._model ← model (train.py:47)``:
``model`` is a ``ThunderModule``, whose ``_model`` is a ``Model``, whose ``_parameters['p1']`` is the tensor. Paths that
begin with the same hops share their nodes, and parameters that are held alike are one leaf with a count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from snapviz.compare.holders import HeldAlike, held_alike
from snapviz.report.layout import clean
from snapviz.schema import UNEXPLAINED, Dangling

__all__ = ["HolderGraph", "HolderNode", "Hop", "holder_graph", "hops_of"]

_ARROW = " ← "

_PLACE = re.compile(r" \(([^()]{1,300}:[0-9]{1,9})\)$")
"""Where in the program, at the end of a step."""

_NAMED = re.compile(
    r"(?P<word>local|closure variable|default argument) '(?P<name>[^']{0,200})'(?P<tail>.{0,400}?)"
    r" (?P<of>(?:in|of) .{1,400})"
)
_GLOBAL = re.compile(r"global (?P<name>\w{1,200})(?P<tail>.{0,400}?)(?P<of> in .{1,400})?")
_OBJECT = re.compile(r"(?P<name>(?:[^.\[( ]{0,200}\.<locals>\.){0,20}[^.\[( ]{1,200})(?P<tail>[.\[].{0,900})")
_WORDS = ("class attribute ", "saved tensors of ", "variable of ")

_MOST_WAYS = 24
"""Branches of a graph: more are counted."""

_MOST_HOPS = 40


@dataclass(frozen=True)
class Hop:
    """One step of a path: something that holds, and where in it what it holds is."""

    what: str  # ``ThunderModule``, ``local 'model'``, ``global KEPT``
    where: str  # ``train.py:47``, ``in main (train.py:47)``; "" where not said
    edge: str  # ``._model``, ``['lm_head']``; "" where what it holds is all of it


@dataclass
class HolderNode:
    """A hop that paths share, or the tensors at their end."""

    what: str
    where: str
    edge: str  # from its parent to it; "" at a root
    kind: str  # of holder: module, optimizer, frame, …; "" where not said
    parameters: int = 0  # dangling parameters that are held through it
    block_bytes: int = 0  # of these, on one rank
    names: tuple[str, ...] = ()  # of a leaf: those parameters
    children: list[HolderNode] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether it stands for tensors."""
        return bool(self.names)


@dataclass(frozen=True)
class HolderGraph:
    """Roots first, each with what it leads to; the one that keeps most parameters first."""

    roots: tuple[HolderNode, ...]
    ways: int  # ways in which a parameter is held that are drawn
    more: int  # those that are not
    unheld: tuple[str, ...]  # parameters of which no holder is known


def holder_graph(found: Sequence[Dangling]) -> HolderGraph:
    """The graph of dangling parameters, each given once (of one rank)."""
    ways = held_alike(found)
    top = HolderNode("", "", "", "")
    for way in ways[:_MOST_WAYS]:
        _add(top, way, found)
    _weigh(top, found)
    unheld = tuple(one.name for one in found if not one.holders)
    return HolderGraph(tuple(top.children), min(len(ways), _MOST_WAYS), max(0, len(ways) - _MOST_WAYS), unheld)


def hops_of(path: str, kind: str = "") -> list[Hop]:
    """The hops of a path, from the root on."""
    if kind == UNEXPLAINED:
        return [Hop(clean(path), "", "")]
    steps = [_hop(clean(step)) for step in path.split(_ARROW)[:_MOST_HOPS]][::-1]
    # an optimizer's path begins with the variable that it is in
    if len(steps) > 1 and not steps[0].edge and steps[0].what == steps[1].what:
        steps = [Hop(steps[1].what, steps[0].where, steps[1].edge), *steps[2:]]
    return steps


def _hop(step: str) -> Hop:
    if match := _NAMED.fullmatch(step):
        return Hop(f"{match['word']} '{match['name']}'", match["of"], match["tail"])
    if step.startswith("global ") and (match := _GLOBAL.fullmatch(step)):
        return Hop(f"global {match['name']}", (match["of"] or "").strip(), match["tail"])
    place = _PLACE.search(step)
    where = place[1] if place else ""
    rest = step[: place.start()] if place else step
    word = next((one for one in _WORDS if rest.startswith(one)), "")
    if match := _OBJECT.fullmatch(rest[len(word) :]):
        return Hop(word + match["name"], where, match["tail"])
    return Hop(rest, where, "")


def _add(top: HolderNode, way: HeldAlike, found: Sequence[Dangling]) -> None:
    node, edge = top, ""
    for hop in hops_of(way.path, way.kind):
        node = _child(node, HolderNode(hop.what, hop.where, edge, way.kind))
        edge = hop.edge or "is"
    names = tuple(found[position].name for position in way.positions)
    node.children.append(HolderNode("", "", edge, way.kind, names=names))


def _child(node: HolderNode, wanted: HolderNode) -> HolderNode:
    for child in node.children:
        if not child.is_leaf and (child.what, child.where, child.edge) == (wanted.what, wanted.where, wanted.edge):
            return child
    node.children.append(wanted)
    return wanted


def _weigh(top: HolderNode, found: Sequence[Dangling]) -> None:
    """Counts what is held through each node: a parameter once, in however many ways."""
    sizes: dict[str, int] = {}
    for one in found:
        sizes[one.name] = sizes.get(one.name, 0) + one.block_bytes
    order = [top]
    for node in order:
        order += node.children
    held: dict[int, set[str]] = {}
    for node in reversed(order):
        mine = set(node.names).union(*(held[id(child)] for child in node.children))
        held[id(node)] = mine
        node.parameters, node.block_bytes = len(mine), sum(sizes[name] for name in mine)
        node.children.sort(key=lambda child: (child.kind == UNEXPLAINED, -child.parameters))
