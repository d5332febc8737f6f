"""What keeps dangling parameters, in words: those that are kept alike are told once.

Seventy-five parameters in one list of an optimizer are one cause. Their paths differ in an index and in
the parameter's own name, so these are taken out of them, and paths that are then equal are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snapviz.schema import UNEXPLAINED, Dangling

__all__ = ["HeldAlike", "held_alike", "keepers_of", "kept_by", "short_path"]

_ARROW = " ← "
"""Between a reference and what holds it, innermost first."""

_KINDS = 2
"""Kinds of holders that a sentence tells."""

_NAMES = 8
"""Names of one allocation that are looked for in a path: thousands can share it."""

_NUMBER = re.compile(r"(?<=[\[.])\d{1,18}(?=[\].\s]|$)")
"""An index, or a part of a module's path: not the line of a file, nor a digit of a name."""

_GAP = "…"

Measure = Callable[[str], int]
"""Columns of a text."""


def kept_by(found: Sequence[Dangling], width: int, measure: Measure = len) -> str:
    """``kept by optimizer.param_groups[0]['params'][…] (75 of 75)``, or "" where no holder is known."""
    phrases = keepers_of(found, width, measure)
    return f"kept by {', '.join(phrases)}" if phrases else ""


def keepers_of(found: Sequence[Dangling], width: int, measure: Measure = len) -> list[str]:
    """A phrase for each kind of holder that is told, its path in at most ``width`` columns.

    The one that most of them have comes first, then what keeps most of the others; what the recorder
    could not explain comes last, and is called that.
    """
    paths = [_paths(one) for one in found]
    return [_phrase(paths, who, path, len(found), (width, measure)) for who, path in _cover(paths)]


@dataclass(frozen=True)
class HeldAlike:
    """Dangling parameters that are kept in one way."""

    path: str
    # what is the same in all their paths, … for what is not
    kind: str
    # of holder; "" where not said
    positions: tuple[int, ...]
    # of the parameters, among those given


def held_alike(found: Sequence[Dangling]) -> list[HeldAlike]:
    """Every way in which any of them is kept, the one that keeps most of them first, what is not explained last."""
    ways: dict[_Template, dict[int, str]] = {}
    kinds: dict[_Template, str] = {}
    for position, one in enumerate(found):
        of_path = dict(zip(one.holders, one.holder_kinds, strict=False))
        for template, path in _paths(one).items():
            ways.setdefault(template, {})[position] = path
            kinds.setdefault(template, UNEXPLAINED if template.startswith(UNEXPLAINED) else of_path.get(path, ""))
    alike = [HeldAlike(_common([*paths.values()]), kinds[template], tuple(paths)) for template, paths in ways.items()]
    return sorted(alike, key=lambda one: (one.kind == UNEXPLAINED, -len(one.positions)))


def short_path(path: str, width: int, measure: Measure = len) -> str:
    """A path in at most ``width`` columns: the innermost reference and the outermost name say most, so that
    what lies between goes first."""
    hops = path.split(_ARROW)
    for kept in range(len(hops) - 1, 0, -1):
        if measure(path) <= width:
            break
        # the last stays where there is more than one, and a gap that hides nothing is none
        path = _ARROW.join([*hops[: kept - 1], _GAP, hops[-1]]) if kept > 1 else _ARROW.join([hops[0], _GAP])
    return path if measure(path) <= width else _cut(path, width, measure)


def _cut(text: str, width: int, measure: Measure) -> str:
    """A name's middle goes: its beginning says whose it is, its end which."""
    head, tail = text, ""
    while measure(head) + measure(tail) > max(1, width) - 1 and (head or tail):
        half = (len(head) + len(tail) - 1) // 2
        rest = len(head) + len(tail) - 1 - half
        whole = head + tail
        head, tail = whole[:rest], whole[len(whole) - half :]
    return f"{head}{_GAP}{tail}"


# ------------------------------------------------------------------ folding

_Template = str
"""A path without what tells one parameter from another."""

_Paths = dict[_Template, str]
"""The holders of one parameter: template → path, in the recorder's order."""


def _paths(one: Dangling) -> _Paths:
    kinds = (*one.holder_kinds, *[""] * len(one.holders))
    found: _Paths = {}
    for path, kind in zip(one.holders, kinds, strict=False):
        text = path
        if kind == UNEXPLAINED and not path.startswith(UNEXPLAINED):
            text = f"{UNEXPLAINED}: {path}" if path else "unexplained references"
        found.setdefault(_template(text, one.names), text)
    return found


def _template(path: str, names: Sequence[str]) -> _Template:
    for name in sorted(names[:_NAMES], key=len, reverse=True):
        module, _, last = name.rpartition(".")
        for quote in "'\"":
            path = path.replace(f"{quote}{last}{quote}", f"{quote}{_GAP}{quote}")
        path = re.sub(rf"(?<!\w){re.escape(module)}(?!\w)", _GAP, path) if module else path
    return _NUMBER.sub(_GAP, path)


def _cover(paths: Sequence[_Paths]) -> list[tuple[list[int], _Template]]:
    """The fewest kinds of holders that keep the most: positions of those each keeps, and its template."""
    left = list(range(len(paths)))
    told: list[tuple[list[int], _Template]] = []
    while left and len(told) < _KINDS:
        sizes: dict[_Template, list[int]] = {}
        for position in left:
            for template in paths[position]:
                sizes.setdefault(template, []).append(position)
        if not sizes:
            break
        best = min(sizes, key=lambda one: (one.startswith(UNEXPLAINED), -len(sizes[one])))
        told.append((sizes[best], best))
        left = [position for position in left if position not in sizes[best]]
    return told


def _phrase(
    paths: Sequence[_Paths], who: Sequence[int], template: _Template, of: int, room: tuple[int, Measure]
) -> str:
    texts = [paths[position][template] for position in who]
    told = short_path(_common(texts), *room)
    return told if of == 1 else f"{told} ({len(who)} of {of})"


_TOKEN = re.compile(r"\d+|[^\W\d]\w*|\W")


def _common(texts: Sequence[str]) -> str:
    """One text for paths of one template: what is the same in all, and … for what is not."""
    if len(set(texts)) == 1:
        return texts[0]
    tokens = [_TOKEN.findall(text) for text in texts]
    if len({len(one) for one in tokens}) != 1:
        return _GAP.join(_ends(texts))
    parts = [column[0] if len(set(column)) == 1 else _GAP for column in zip(*tokens, strict=True)]
    return "".join(parts)


def _ends(texts: Sequence[str]) -> tuple[str, str]:
    """What texts of different form share at their beginning and at their end."""
    shortest = min(map(len, texts))
    first = texts[0]
    begin = next((i for i in range(shortest) if any(text[i] != first[i] for text in texts)), shortest)
    stop = next(
        (i for i in range(shortest - begin) if any(text[-1 - i] != first[-1 - i] for text in texts)), shortest - begin
    )
    return first[:begin], first[len(first) - stop :]
