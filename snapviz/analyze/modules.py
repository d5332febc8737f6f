"""The module that each allocation belongs to: the one that was running, or the one that has what its name says.

Legend: A allocations, E events, W windows.

FSDP2 writes annotations with a module's path at the ends of its forward and its backward; a recorder's record has a
window for each forward. An allocation that a record names belongs to the module of its name, whenever it was made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import ANNOTATED, CATEGORIES, INFERRED, ROOT, Facts
from snapviz.analyze.module_windows import module_windows
from snapviz.analyze.owners import normal_owner
from snapviz.analyze.scopes import Scope, find_scopes
from snapviz.analyze.windows import painted

__all__ = ["find_modules", "module_of_name"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_SCOPE = re.compile(r"FSDP::(?P<what>\w+)(?: \((?P<module>[^)]*)\))?")
_BEGINS = {"pre_forward": "forward", "pre_backward": "backward"}
_ENDS = {
    "post_forward": "forward",
    "post_backward_accumulate": "backward",
    "post_backward_reshard": "backward",
    "post_backward_reduce": "backward",
    "post_backward": "backward",
    "root_post_backward_callback": "backward",
}
"""What FSDP2 calls the ends of a module's forward and backward: torch/distributed/fsdp/_fully_shard/_fsdp_state.py and
_fsdp_param_group.py, torch 2.4 to 2.13. The root's own have no path in older versions."""


_OVER = "root_post_backward_callback"
"""The last of a whole backward, in which FSDP2 ends every module that is not ended yet, called or not."""


@dataclass(frozen=True)
class _Window:
    """A stretch in which a module ran."""

    module: str
    start_us: int
    stop_us: int
    recomputed: bool = False


def find_modules(facts: Facts) -> Facts:
    """Pass: module and whether it was recomputed, of every allocation of which anything says it."""
    scopes: list[Scope] = []
    if facts.replay.has_times:
        # from the first on: a module may have begun before the events that are left. One that never ended would lend
        # its name to all that comes after it
        found, _ = find_scopes(facts.columns, facts.replay.device, 0, int(facts.replay.time_us[-1]))
        scopes = [scope for scope in found if scope.ended]
    facts = _annotate(facts, scopes)
    running, recomputed = _painted(facts, _forwards(scopes) + _recorded(facts))
    texts = {"": 0}
    made_in = np.array([texts.setdefault(name, len(texts)) for name in running.names], np.int32)[running.index]
    named = _of_owners(facts, texts)
    again = np.array([rule.id == "recomputed" for rule in facts.rules] + [False])[facts.rule]
    return replace(
        facts,
        module=np.where(named > 0, named, made_in).astype(np.int32),
        modules=tuple(texts),
        recomputed=(recomputed | again) & (facts.category == CATEGORIES.index("activation")),
    )


# ------------------------------------------------------------------ windows


def _forwards(scopes: Sequence[Scope]) -> list[_Window]:
    """Windows of forwards and backwards, from where a module's begins to where it ends."""
    windows: list[_Window] = []
    opened: dict[tuple[str, str], list[int]] = defaultdict(list)
    backwards: list[tuple[int, int]] = []
    over_us: int | None = None
    for scope in scopes:
        what, module = _told_by(scope.name)
        if over_us is not None and scope.start_us >= over_us:
            # a later backward ends, in the same callback, modules too that it never came to
            opened = defaultdict(list, {key: starts for key, starts in opened.items() if key[0] == "forward"})
            over_us = None
        if what == _OVER:
            over_us = scope.stop_us
        if kind := _BEGINS.get(what):
            opened[kind, module].append(scope.start_us)
        elif (kind := _ENDS.get(what)) and (starts := opened[kind, module]):
            if kind == "forward":
                windows.append(_Window(module, starts.pop(), scope.stop_us))
            else:
                # several scopes end one backward: each replaces the end before it
                windows.append(_Window(module, starts[-1], scope.stop_us))
                backwards.append((starts[-1], scope.stop_us))
    return _again(windows, backwards)


@lru_cache(maxsize=4096)
def _told_by(scope: str) -> tuple[str, str]:
    """What an annotation of FSDP2 says happens, and its module; nothing of another's."""
    match = _SCOPE.fullmatch(scope)
    return (match["what"], _joint_path(match["module"])) if match else ("", "")


def _again(windows: list[_Window], backwards: list[tuple[int, int]]) -> list[_Window]:
    """The same with forwards that began inside a backward marked: checkpointing runs them again."""
    if not backwards:
        return windows
    first, stop = np.array(sorted(backwards), np.int64).T
    latest = np.maximum.accumulate(stop)
    starts = np.array([one.start_us for one in windows], np.int64)
    place = np.searchsorted(first, starts, side="left") - 1
    inside = (place >= 0) & (latest[np.maximum(place, 0)] >= starts)
    return [replace(one, recomputed=bool(again)) for one, again in zip(windows, inside, strict=True)]


def _joint_path(text: str | None) -> str:
    """The module of an annotation: what all the paths in it share, the whole model where that is nothing."""
    paths = [path.strip().split(".") for path in text.split(",")] if text else []
    if not paths:
        return ROOT
    shared = [part[0] for part in takewhile(lambda part: len(set(part)) == 1, zip(*paths, strict=False))]
    return normal_owner(".".join(shared)) if shared else ROOT


def _recorded(facts: Facts) -> list[_Window]:
    """Windows that the record has: of every module, in the first steps."""
    found = module_windows(facts.record)
    if found is None:
        return []
    names = [normal_owner(name) or ROOT for name in found.names]
    columns = (found.name, found.start_us, found.stop_us, found.recomputed)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [_Window(names[name], start_us, stop_us, again) for name, start_us, stop_us, again in rows]


@dataclass(frozen=True)
class _Running:
    """What ran when each allocation was made."""

    names: tuple[str, ...]
    index: Int64  # [A] index into names


def _painted(facts: Facts, windows: Sequence[_Window]) -> tuple[_Running, npt.NDArray[np.bool_]]:
    """What ran as each allocation was made, the innermost; and [A] whether it ran again."""
    born = facts.replay.allocations.alloc_event
    if not windows:
        return _Running(("",), np.zeros(len(born), np.int64)), np.zeros(len(born), bool)
    names: dict[str, int] = {"": 0}
    # in order of start, the wider first: the inner has the last word
    ordered = sorted(windows, key=lambda one: (one.start_us, -one.stop_us))
    times = np.array([(one.start_us, one.stop_us) for one in ordered], np.int64)
    first, stop = facts.replay.windows(times[:, 0], times[:, 1])
    value = np.array([2 * names.setdefault(one.module, len(names)) + one.recomputed for one in ordered], np.int64)
    of_event = painted(first, stop, value, len(facts.replay.time_us), 0)
    found = np.where(born >= 0, of_event[np.maximum(born, 0)], 0).astype(np.int64)
    return _Running(tuple(names), found // 2), found % 2 == 1


# ------------------------------------------------------------------ names


def _of_owners(facts: Facts, texts: dict[str, int]) -> Int32:
    """[A] module of what an owner names, 0 where it names none."""
    kinds = np.isin(facts.category, [CATEGORIES.index(name) for name in _NAMED])
    state = facts.category == CATEGORIES.index("optimizer state")
    wanted = kinds & (facts.owner > 0)
    # what an annotation names is a module itself
    parts = np.where(facts.evidence == ANNOTATED, 0, np.where(state, 2, 1))
    out = np.zeros(len(facts.owner), np.int32)
    pairs, inverse = np.unique(3 * facts.owner[wanted].astype(np.int64) + parts[wanted], return_inverse=True)
    modules = [module_of_name(facts.owners[pair // 3], pair % 3) for pair in pairs.tolist()]
    found = np.array([texts.setdefault(module, len(texts)) for module in modules], np.int32)
    out[wanted] = found[inverse.reshape(-1)] if len(found) else 0
    return out


_NAMED = ("parameter", "shard", "gradient", "optimizer state", "buffer", "communication")
_SEVERAL = re.compile(r"(?P<stem>.*) \(\d+ tensors\)", re.DOTALL)
_AND_MORE = re.compile(r".* and \d+ more", re.DOTALL)


def module_of_name(name: str, parts: int) -> str:
    """The module that has a tensor of this name, which ends in so many parts of its own: 2 for ``w.exp_avg``.

    With 0 the name is that of a module, or of several.
    """
    if parts == 0:
        return _joint_path(name)
    if match := _SEVERAL.fullmatch(name):
        return normal_owner(match["stem"])
    if _AND_MORE.fullmatch(name) or ", " in name:
        return ROOT
    path = normal_owner(name).split(".")[:-parts]
    return ".".join(path) or ROOT


def _annotate(facts: Facts, scopes: Sequence[Scope]) -> Facts:
    """Gives communication, and what it makes of gradients, the module in whose scope it was made as its owner."""
    owners = {text: i for i, text in enumerate(facts.owners)}
    windows = [
        (scope.start_us, scope.stop_us, owners.setdefault(match["module"], len(owners)))
        for scope in scopes
        if (match := _SCOPE.fullmatch(scope.name)) and match["module"]
    ]
    if not windows:
        return facts
    # the inner has the last word: scopes come in order of start
    start_us, stop_us, owner = np.array(windows, np.int64).T
    module = painted(*facts.replay.windows(start_us, stop_us), owner, len(facts.replay.time_us), 0)
    born = facts.replay.allocations.alloc_event
    kinds = [CATEGORIES.index(name) for name in ("communication", "gradient")]
    wanted = np.isin(facts.category, kinds) & (facts.evidence == INFERRED) & (born >= 0) & (facts.owner == 0)
    found = np.where(wanted, module[np.maximum(born, 0)], 0)
    return replace(
        facts,
        owners=tuple(owners),
        owner=np.where(found > 0, found, facts.owner).astype(np.int32),
        evidence=np.where(found > 0, ANNOTATED, facts.evidence).astype(np.int8),
    )
