"""From links to sentences: where a thing is, and where that is, until a name is reached."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass

from snapviz.record.holders.climb import Climb, Global
from snapviz.record.holders.edges import Hop, style_of
from snapviz.record.holders.frames import Local, Locals, generator_frame
from snapviz.record.holders.safe import class_of, is_a, type_name, where

__all__ = ["Path", "Paths"]

_MOST_PLACES = 64
"""Places of one object: a list that everything shares is in as many as share it."""

_ARROW = " ← "
_SAVED = {"saved": "saved tensors", "variable": "variable"}


@dataclass(frozen=True)
class _Place:
    """Somewhere a thing is: in something a person knows, and the hops from there."""

    owner: int | Local | Global
    # an object's id, or a name
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Path:
    """One holder in words."""

    kind: str
    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        """Innermost first."""
        return _ARROW.join(self.steps)


class Paths:
    """Writes paths from what a climb found."""

    def __init__(self, climb: Climb, names: Locals, max_depth: int) -> None:
        self._climb = climb
        self._locals = names
        self._max_depth = max_depth
        self._places: dict[int, list[_Place]] = {}
        self._open: set[int] = set()
        self._chains: dict[int, tuple[_Place, ...]] = {}

    def of(self, one: int, note: str | None) -> Iterator[Path]:
        """A path for every place an object is in, with a note on what it is."""
        for place in self._places_of(one):
            steps, kind = self._steps(place)
            if note is not None:
                steps = (f"{steps[0]}, {note}", *steps[1:])
            yield Path(kind, steps)

    def _steps(self, place: _Place) -> tuple[tuple[str, ...], str]:
        kind, first = self._words(place, alone=True)
        chain = self._chain(place.owner) if isinstance(place.owner, int) else ()
        rest = [self._words(each, alone=False)[1] for each in chain]
        name = _name_of(chain[0]) if chain else None
        if kind.startswith("optimizer") and name is not None and isinstance(place.owner, int):
            # as the names of parameters at a boundary are written
            first = name + first.removeprefix(type_name(self._climb.alive[place.owner]))
        return (first, *rest), kind

    def _places_of(self, one: int) -> list[_Place]:
        if one in self._places:
            return self._places[one]
        if one in self._open:
            return []  # a container that holds itself
        self._open.add(one)
        found = [_Place(name, ()) for name in sorted(self._locals.by_id.get(one, ()))]
        found += [_Place(name, ()) for name in sorted(self._climb.globals.get(one, ()), key=_by_name)]
        for link in self._climb.links.get(one, ()):
            found += self._through(link.parent, link.hops)
        self._open.discard(one)
        self._places[one] = list(dict.fromkeys(found))[:_MOST_PLACES]
        return self._places[one]

    def _through(self, parent: int, hops: tuple[Hop, ...]) -> list[_Place]:
        if hops[0].kind == "graph":
            return self._places_of(parent)
        if not self._climb.is_transparent(parent):
            return [_Place(parent, hops)]
        above = self._places_of(parent)
        # what nothing is known to hold is named itself, unless the way leads around in a circle
        if not above and parent not in self._open and parent not in self._climb.left_out:
            return [_Place(parent, hops)]
        return [_Place(place.owner, place.hops + hops) for place in above]

    def _chain(self, owner: int) -> tuple[_Place, ...]:
        """The shortest way from an owner to a name; the longest known where none is reached."""
        if owner not in self._chains:
            self._chains[owner] = self._search(owner)
        return self._chains[owner]

    def _search(self, owner: int) -> tuple[_Place, ...]:
        if self._is_root(owner):
            return ()
        layer: list[tuple[int, tuple[_Place, ...]]] = [(owner, ())]
        seen = {owner}
        ended: tuple[_Place, ...] | None = None
        best: tuple[_Place, ...] = ()
        for _ in range(self._max_depth):
            ways = [(*way, place) for one, way in layer for place in self._places_of(one)]
            ways.sort(key=self._rank)
            if not ways:
                break
            if not isinstance(ways[0][-1].owner, int):
                return ways[0]
            # a closure is an end as well, but says less than a name that is one step further
            ended = ended or next((way for way in ways if self._is_root(way[-1].owner)), None)
            layer = []
            for way in ways:
                end = way[-1].owner
                if isinstance(end, int) and end not in seen and not self._is_root(end):
                    seen.add(end)
                    layer.append((end, way))
            best = layer[0][1] if layer else best
        return ended or best

    def _rank(self, way: tuple[_Place, ...]) -> tuple[int, int, str]:
        end = way[-1].owner
        kind = 0 if isinstance(end, Local) else 1 if isinstance(end, Global) else 2
        order = end.order if isinstance(end, Local) else 0
        text = _ARROW.join(self._words(each, alone=False)[1] for each in way)
        return kind, order, text

    def _is_root(self, owner: int | Local | Global) -> bool:
        return not isinstance(owner, int) or is_a(self._climb.alive[owner], (type, types.FunctionType))

    def _words(self, place: _Place, alone: bool) -> tuple[str, str]:
        """Kind and text of one step."""
        owner, tail = place.owner, _tail(place.hops)
        if isinstance(owner, Local):
            if alone:
                return "frame", f"local '{owner.name}'{tail} in {owner.function} ({owner.where})"
            return "frame", f"{owner.name}{tail} ({owner.where})"
        if isinstance(owner, Global):
            if owner.file is not None:
                return "global", f"global {owner.name}{tail} in {owner.file}"
            return "global", f"{owner.module}.{owner.name}{tail}"
        return self._words_of_object(self._climb.alive[owner], place.hops, tail)

    def _words_of_object(self, obj: object, hops: tuple[Hop, ...], tail: str) -> tuple[str, str]:
        first = hops[0].kind
        if type(obj) is types.FunctionType:
            return _of_function(obj, hops, tail)
        if first == "local":
            return _of_call(obj, hops[0].text, _tail(hops[1:]))
        if is_a(obj, (type,)):
            return "class", f"class attribute {class_of(obj)}{tail}"  # type: ignore[arg-type]
        if first in ("saved", "variable"):
            return "autograd", f"{_SAVED[first]} of {type_name(obj)}{tail}"
        return self._words_of_owner(obj, tail)

    def _words_of_owner(self, obj: object, tail: str) -> tuple[str, str]:
        if type(obj) is types.MethodType:
            return "object", f"bound method {_function_name(obj)}"
        style = style_of(obj)
        if style == "list":
            return "module", f"{type_name(obj)}{tail}"
        if self._climb.is_transparent(id(obj)):
            return "container", f"a {type_name(obj)}{tail} that nothing in Python is seen to hold"
        is_state = style == "optimizer" and tail.startswith(".state")
        return "optimizer_state" if is_state else style, f"{type_name(obj)}{tail}"


def _by_name(name: Global) -> tuple[bool, str, str]:
    return name.file is None, name.module, name.name


def _name_of(place: _Place) -> str | None:
    """The variable that is the very thing, where it has a name of its own."""
    if place.hops or isinstance(place.owner, int) or place.owner.name == "self":
        return None
    return place.owner.name


def _function_name(method: types.MethodType) -> str:
    function = method.__func__
    return function.__qualname__ if type(function) is types.FunctionType else "…"


def _of_function(function: types.FunctionType, hops: tuple[Hop, ...], tail: str) -> tuple[str, str]:
    code = function.__code__
    place = f"{function.__qualname__} ({where(code.co_filename, code.co_firstlineno)})"
    first = hops[0]
    if first.kind not in ("closure", "default"):
        return "function", f"{function.__qualname__}{tail} ({where(code.co_filename, code.co_firstlineno)})"
    name, rest = (hops[1].text, hops[2:]) if len(hops) > 1 else ("…", ())
    if first.names and name.isdigit() and int(name) < len(first.names):
        name = first.names[int(name)]
    word = "closure variable" if first.kind == "closure" else "default argument"
    return first.kind, f"{word} '{name}'{_tail(rest)} of {place}"


def _of_call(obj: object, name: str, tail: str) -> tuple[str, str]:
    suspended = generator_frame(obj)
    frame, what = suspended or (obj, "")
    assert type(frame) is types.FrameType
    place = f"{frame.f_code.co_qualname} ({where(frame.f_code.co_filename, frame.f_lineno)})"
    if suspended:
        return "generator", f"local '{name}'{tail} in the suspended {what} {place}"
    return "frame", f"local '{name}'{tail} in the ended call of {place}"


def _tail(hops: tuple[Hop, ...]) -> str:
    """The hops as Python writes them: ``._parameters['p1']``, ``.layers[3]``, ``.state (a key)``."""
    text, space, drop = "", "", ""
    for hop in hops:
        if hop.kind == "space":
            space, drop = hop.text, ""
        elif hop.kind == "name" and space:
            # the dict of a module's children is not how anyone writes a child
            hidden = space != "object" and hop.text in (
                ("_modules", "_parameters") if space == "list" else ("_modules",)
            )
            drop = space if hidden else ""
            text += "" if hidden else f".{hop.text}"
            space = ""
        elif hop.kind == "name" and drop:
            text += f".{hop.text}" if drop == "module" else f"[{hop.text if hop.text.isdigit() else repr(hop.text)}]"
            drop = ""
        else:
            text += _piece(hop)
    return text


def _piece(hop: Hop) -> str:
    if hop.kind == "name":
        return f"[{hop.text[:60]!r}]"
    pieces = {"item": f"[{hop.text}]", "key": " (a key)", "inside": " (inside)", "grad": ".grad"}
    return pieces.get(hop.kind, "")
