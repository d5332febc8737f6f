"""Looking at objects of others without running any code of theirs.

An object may lie about its ``__class__``, and its ``__getattr__``, ``__eq__`` or ``__hash__`` may raise, warn
or load half a library. So types come from ``type()``, comparisons are of identity, and attributes are read
through the descriptors of C, which no class can override.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

__all__ = [
    "CONTAINERS",
    "base_names",
    "class_of",
    "class_space",
    "is_a",
    "items_of",
    "key_text",
    "mro_of",
    "namespace_of",
    "slots_of",
    "type_name",
    "where",
]

_MRO = type.__dict__["__mro__"]
_SPACE = type.__dict__["__dict__"]
_NAME = type.__dict__["__name__"]
_QUALNAME = type.__dict__["__qualname__"]

CONTAINERS = (dict, list, tuple, set, frozenset, deque)
"""What is folded into the text of a path: ``[3]``, ``['key']``."""

_KEYS = (str, int, bool, float, bytes, types.NoneType)
_LONGEST_KEY = 60
"""Characters of a key in a path."""


def mro_of(cls: type) -> tuple[type, ...]:
    """The classes ``cls`` is made of, itself first."""
    return tuple(_MRO.__get__(cls))


def class_space(cls: type) -> Any:
    """The namespace of a class, a mapping proxy."""
    return _SPACE.__get__(cls)


def is_a(obj: object, kinds: tuple[type, ...]) -> bool:
    """``isinstance`` that asks neither the object nor a metaclass."""
    return any(base is kind for base in mro_of(type(obj)) for kind in kinds)


def type_name(obj: object) -> str:
    """The name of the object's class, without its module."""
    return str(_NAME.__get__(type(obj)))


def class_of(cls: type) -> str:
    """The qualified name of a class."""
    return str(_QUALNAME.__get__(cls))


def base_names(obj: object) -> Iterator[str]:
    """``module.name`` of every class the object is made of: known without importing that module."""
    for base in mro_of(type(obj)):
        module = class_space(base).get("__module__")
        if type(module) is str:
            yield f"{module}.{_QUALNAME.__get__(base)}"


def namespace_of(obj: object) -> dict[Any, Any] | None:
    """The object's ``__dict__``, none where it has none of the usual kind."""
    for base in mro_of(type(obj)):
        entry = class_space(base).get("__dict__")
        if entry is None:
            continue
        if type(entry) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return None
        try:
            space = entry.__get__(obj)
        except (AttributeError, TypeError):
            return None
        return space if is_a(space, (dict,)) else None
    return None


def slots_of(obj: object) -> Iterator[tuple[str, object]]:
    """Name and value of the object's slots, and of what a type written in C keeps as plain members."""
    for base in mro_of(type(obj)):
        for name, entry in tuple(class_space(base).items()):
            if type(entry) is not types.MemberDescriptorType or name == "__dict__":
                continue
            try:
                yield name, entry.__get__(obj)
            except (AttributeError, TypeError, ValueError):
                continue


def items_of(obj: object) -> list[tuple[Any, object]]:
    """Key and value of a container, index and value of a sequence; a set's keys are none.

    A list made at once: another thread may change the container while it is walked.
    """
    if is_a(obj, (dict,)):
        return list(dict.items(obj))  # type: ignore[arg-type]
    for kind in (list, tuple, deque):
        if is_a(obj, (kind,)):
            return list(enumerate(_iterate(kind, obj)))
    return [(None, each) for kind in (set, frozenset) if is_a(obj, (kind,)) for each in _iterate(kind, obj)]


def _iterate(kind: Any, obj: object) -> Iterator[object]:
    """Past what a subclass may make of ``__iter__``."""
    each: Iterator[object] = kind.__iter__(obj)
    return each


def key_text(key: object) -> str:
    """How a key stands in brackets: in full where that runs no foreign code, else ``…``."""
    if not any(type(key) is kind for kind in _KEYS):
        return "…"
    text = repr(key)
    return text if len(text) <= _LONGEST_KEY else text[:_LONGEST_KEY] + "…"


def where(file: str, line: int) -> str:
    """``train.py:41``: the file without its folders, as a person names it."""
    return f"{PurePath(file).name}:{line}"
