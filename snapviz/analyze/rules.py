"""The rules that tell from a stack what an allocation is for: read from ``rules.toml``, and from a user's file.

Legend: S stacks, L frames of all stacks, K distinct (file, function) pairs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.analyze.frames import FrameNames, is_python
from snapviz.errors import UsageError
from snapviz.snapshot.columns import Columns

__all__ = ["BUILT_IN", "Rule", "built_in_rules", "decided_by_stack", "decided_inside", "index_of", "read_rules"]

Int64 = npt.NDArray[np.int64]

BUILT_IN = Path(__file__).with_name("rules.toml")
"""The rules that come with snapviz: the table to read, and the form of a user's."""

_NEAR = 4
"""Python frames. ``__init__`` further out than this is a trainer's that runs everything, not a module's."""

_MOST = 10_000
"""Rules of a file."""
_LARGEST = 4 << 20
"""Bytes of a file of rules."""

_TORCH = re.compile(
    r"(?:/|[A-Za-z]:/)(?:.*/)?(?P<inside>torch/(?:(?:autograd|distributed|nn|optim|utils|_[a-z]+)/.*|_[a-z]+\.py))",
    re.DOTALL,
)
"""A file of a torch that was built in its source tree, which no library's root tells."""

_RECORDER = re.compile(r"(?:^|/)snapviz/record/")
"""What snapviz puts around functions stands in the stacks below them, and is no one's purpose."""


@dataclass(frozen=True)
class Rule:
    """One entry of ``rules.toml``, whose head says what each key means."""

    category: str
    why: str
    functions: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    near: bool = False
    owner: str = ""
    source: str = ""
    id: str = ""
    derived: bool = False

    def fits(self, file: str, function: str) -> bool:
        """Whether one frame, under its comparable names, is what this rule looks for."""
        if self.derived:
            return False
        if self.symbols:
            return not is_python(file) and any(symbol in function for symbol in self.symbols)
        if self.functions and function not in self.functions:
            return False
        return not self.files or any(file.endswith(f[1:]) if f[0] == "*" else file.startswith(f) for f in self.files)


@cache
def built_in_rules() -> tuple[Rule, ...]:
    """The rules of ``BUILT_IN``."""
    from snapviz.analyze.facts import CATEGORIES

    return _parsed(BUILT_IN.read_text(encoding="utf-8"), BUILT_IN.name, CATEGORIES)


def read_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """A user's rules, tried before the built-in ones, which follow them.

    Raises ``UsageError`` with the file, the rule's number, and what is wrong with it.
    """
    from snapviz.analyze.facts import CATEGORIES

    try:
        # a device could be read without end
        if Path(path).exists() and not Path(path).is_file():
            raise UsageError(f"{path}: rules cannot be read: not a regular file")
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        # some editors begin a file with a mark of their own
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{path}: rules cannot be read: {why}") from None
    if len(content) > _LARGEST:
        raise UsageError(f"{path}: more than {_LARGEST >> 20} MiB, which no file of rules has")
    own = _parsed(text, str(path), CATEGORIES)
    if derived := next((rule for rule in own if rule.derived or rule.id), None):
        raise UsageError(f"{path}: id and derived are for snapviz's own rules ({derived.why!r} has one)")
    return (*own, *built_in_rules())


def index_of(rules: Sequence[Rule], wanted: str) -> int:
    """Where the built-in rule of an id is; the first of several."""
    return next(i for i, rule in enumerate(rules) if rule.id == wanted)


def _parsed(text: str, where: str, categories: Sequence[str]) -> tuple[Rule, ...]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a TOMLDecodeError is a ValueError, an endless integer only that
        raise UsageError(f"{where}: not TOML: {error}") from None
    entries = document.get("rule", [])
    if document.keys() - {"rule"} or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise UsageError(f"{where}: rules are tables [[rule]], and there is nothing else in the file")
    if len(entries) > _MOST:
        raise UsageError(f"{where}: {len(entries):,} rules, more than {_MOST:,}")
    return tuple(_rule(entry, f"{where}: rule {number}", categories) for number, entry in enumerate(entries, 1))


def _rule(entry: dict[str, Any], where: str, categories: Sequence[str]) -> Rule:
    kinds = {one.name: one.type for one in fields(Rule)}
    if unknown := entry.keys() - kinds.keys():
        raise UsageError(f"{where}: no such key: {', '.join(sorted(unknown))} (there is: {', '.join(kinds)})")
    for key in ("category", "why"):
        if not entry.get(key):
            raise UsageError(f"{where}: {key} is missing")
    if entry["category"] not in categories:
        raise UsageError(f"{where}: no category {entry['category']!r} (there is: {', '.join(categories)})")
    for key, value in entry.items():
        _check(key, value, str(kinds[key]), where)
    looks = [key for key in ("functions", "files", "symbols") if entry.get(key)]
    if not looks and not entry.get("derived"):
        raise UsageError(f"{where}: it looks for nothing: give functions, files or symbols")
    lists = {"functions": frozenset(entry.get("functions", ())), "files": tuple(entry.get("files", ()))}
    return Rule(**{**entry, **lists, "symbols": tuple(entry.get("symbols", ()))})


def _check(key: str, value: object, kind: str, where: str) -> None:
    """Raises ``UsageError`` where a value is not what its key takes."""
    if kind == "bool" and not isinstance(value, bool):
        raise UsageError(f"{where}: {key} is true or false")
    if kind == "str" and not isinstance(value, str):
        raise UsageError(f"{where}: {key} is text")
    several = kind.startswith(("frozenset", "tuple"))
    if several and not (isinstance(value, list) and all(isinstance(one, str) and one for one in value)):
        raise UsageError(f"{where}: {key} is a list of texts, none of them empty")


def decided_by_stack(rules: Sequence[Rule], columns: Columns, frames: FrameNames) -> Int64:
    """[S] index of the first rule that fits a frame of each stack; ``len(rules)`` where none does."""
    stacks = columns.stacks
    anywhere, near = _by_name(rules, frames)
    found = np.full(len(stacks), len(rules), np.int64)
    if len(stacks.frames) == 0:
        return found
    python = np.array([is_python(file) for file, _ in frames.names], bool)
    name = frames.of_frame[stacks.frames]
    close = _depth(python[name], stacks.offsets) <= _NEAR
    of_frame = np.minimum(anywhere[name], np.where(close, near[name], len(rules)))
    filled = np.flatnonzero(np.diff(stacks.offsets))
    found[filled] = np.minimum.reduceat(of_frame, stacks.offsets[filled])
    return found


def decided_inside(
    rules: Sequence[Rule], columns: Columns, frames: FrameNames, stacks: Sequence[int], outer: int
) -> list[int]:
    """For each of some stacks the first rule that fits a frame further in than all that rule ``outer`` decides."""
    anywhere, _ = _by_name(rules, frames)
    found = []
    for stack in stacks:
        decided = anywhere[frames.of_frame[columns.stacks.of(stack)]]
        inside = int(np.argmax(decided == outer)) if (decided == outer).any() else 0
        found.append(int(decided[:inside].min(initial=len(rules))))
    return found


def _by_name(rules: Sequence[Rule], frames: FrameNames) -> tuple[Int64, Int64]:
    """[K] the first rule that fits each pair wherever it is, and [K] the first of those that look near by."""
    anywhere = np.full(len(frames.names), len(rules), np.int64)
    near = anywhere.copy()
    for i, (file, function) in enumerate(frames.names):
        if _RECORDER.search(file):
            continue
        inside = _torch_file(file)
        for index, rule in enumerate(rules):
            if rule.fits(inside, function):
                out = near if rule.near else anywhere
                out[i] = min(int(out[i]), index)
                if not rule.near:
                    break
    return anywhere, near


def _torch_file(file: str) -> str:
    """A comparable file name, that of torch's own files as in an installed torch."""
    match = _TORCH.fullmatch(file)
    return match["inside"] if match else file


def _depth(python: npt.NDArray[np.bool_], offsets: Int64) -> Int64:
    """[L] how many Python frames of its stack there are up to each frame, innermost first."""
    counted = np.zeros(len(python) + 1, np.int64)
    np.cumsum(python, out=counted[1:])
    outer: Int64 = counted[1:] - np.repeat(counted[offsets[:-1]], np.diff(offsets))
    return outer
