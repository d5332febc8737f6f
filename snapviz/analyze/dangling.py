"""Original parameters that are live after the phase that should have released them.

Legend: A allocations, E events.

Only a rank record can say so: it names the full parameters before sharding, and the phases that shard
them. Where several do (a layer each), a parameter is due at the end of the one that made its shard.
Without a record there are suspects (``suspects.py``), never these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import OUTSIDE, DanglingParameter, Facts, event_at
from snapviz.analyze.names import joint_name, known_boundaries, lying_in, named_boundaries
from snapviz.analyze.phases import phase_of
from snapviz.replay.model import START
from snapviz.schema import SHARD, UNEXPLAINED, NameRecord, is_place

__all__ = ["find_dangling"]

Int64 = npt.NDArray[np.int64]

_MOST_HOLDERS = 50
"""Told of one parameter: each of a thousand that share a name would repeat them all."""

_LONGEST_PATH = 1_000
"""Characters of a holder's path, for the same reason."""


@dataclass(frozen=True)
class _Release:
    """When an original parameter should be gone: after this event, for the reason in words."""

    event: int
    start_us: int
    phase: str


@dataclass
class _Named:
    """One original allocation: its names before sharding, when it should go, and what names it later."""

    names: list[NameRecord]
    release: _Release
    used_until: int = START  # last event at which a boundary calls it a parameter that is in use
    unused_at: int = START  # last event at which a boundary has names, it is live, and none is that
    view: str | None = None  # name of a shard that is a view of it
    optimizer: bool = False  # whether an optimizer was seen to have it after its release


def find_dangling(facts: Facts) -> Facts:
    """Pass: dangling parameters of a rank with a record, the largest first; or why they cannot be told."""
    originals, why = _originals(facts)
    if why:
        return replace(facts, dangling_why=why)
    facts = replace(facts, dangling_known=True, dangling_why="")
    _look_later(facts, originals)
    keepers = _keepers(facts)
    found = []
    for allocation, named in originals.items():
        since = max(named.release.event, named.used_until)
        live = int(facts.replay.allocations.free_requested_event[allocation]) > since
        # what the last boundary at which it lives still calls a parameter is the one in use
        if live and not named.used_until > named.unused_at:
            found.append(_describe(facts, allocation, named, since, keepers))
    found.sort(key=lambda d: (-d.block_bytes, d.name))
    dangling_since = facts.dangling_since.copy()
    dangling_since[[d.allocation for d in found]] = [d.since_event for d in found]
    return replace(facts, dangling=tuple(found), dangling_since=dangling_since)


# ------------------------------------------------------------------ the originals


def _originals(facts: Facts) -> tuple[dict[int, _Named], str]:
    """Allocation → what is known of it before sharding; or in words why nothing can be told."""
    if facts.record is None:
        return {}, "no record says what the parameters were before sharding"
    if not facts.replay.has_times:
        return {}, "the events carry no times, so that names of the record belong to no moment"
    releases = _releases(facts)
    if not releases:
        lost = any(phase.name.rpartition("/")[2] == SHARD for phase in facts.record.phases)
        return {}, (
            "the phase shard lies before the first event that is left"
            if lost
            else "the record has no phase shard and names no shards"
        )
    own = _own_releases(facts, releases)
    found: dict[int, _Named] = {}
    for boundary in known_boundaries(facts):
        for name, allocation in lying_in(facts, boundary):
            release = own.get(name.name, releases[-1])
            if name.kind == "parameter" and boundary.time_us <= release.start_us and allocation >= 0:
                found.setdefault(allocation, _Named([], release)).names.append(name)
    for allocation, name in _stale(facts, releases[-1]):
        found.setdefault(allocation, _Named([name], own.get(name.name, releases[-1]))).optimizer = True
    return found, "" if found else _why_none(facts, releases[-1])


def _stale(facts: Facts, release: _Release) -> list[tuple[int, NameRecord]]:
    """Allocation and name of each parameter that an optimizer still had after sharding and the module had not.

    Of a model that came to the device only as it was sharded, no boundary before that could name the originals.
    """
    found = []
    for boundary in known_boundaries(facts):
        if event_at(facts.replay, boundary.time_us) < release.event or boundary.complete is False:
            continue
        lying = lying_in(facts, boundary)
        run_with = {name.name: allocation for name, allocation in lying if name.kind in ("parameter", "shard")}
        # FSDP1 has an optimizer's parameters lie in what it gathered, for a while
        gathered = {allocation for name, allocation in lying if name.kind == "unsharded"}
        out = {*run_with.values(), *gathered, -1}
        found += [
            (allocation, name)
            for name, allocation in lying
            if name.kind == "optimizer_param"
            and allocation not in out
            # by a name that only a module gives: a master copy has none
            and (name.name in run_with or not is_place(name.name))
        ]
    return found


def _why_none(facts: Facts, release: _Release) -> str:
    assert facts.record is not None
    before = [b for b in facts.record.boundaries if b.time_us <= release.start_us]
    if not any(name.kind == "parameter" for boundary in before for name in boundary.names):
        return "the record names no parameters before sharding"
    if len(known_boundaries(facts)) < len(named_boundaries(facts)):
        return "the names from before sharding are older than the first event that is left"
    return "the parameters named before sharding lie in no allocation that was live then"


def _releases(facts: Facts) -> list[_Release]:
    """The phases that shard, in order; without one, the first moment at which a shard is named."""
    phases = facts.phases
    found = [
        _Release(int(phases.stop[index]) - 1, int(phases.start_us[index]), name)
        for index, name in enumerate(phases.names)
        if name.rpartition("/")[2] == SHARD
    ]
    if found:
        return sorted(found, key=lambda release: release.event)
    for boundary in known_boundaries(facts):
        if any(name.kind == "shard" for name in boundary.names):
            where = boundary.phase or "the first boundary with shards"
            return [_Release(event_at(facts.replay, boundary.time_us), boundary.time_us - 1, where)]
    return []


def _own_releases(facts: Facts, releases: list[_Release]) -> dict[str, _Release]:
    """Parameter's name → the sharding phase in which its shard was made, where that is known."""
    born = facts.replay.allocations.alloc_event
    own: dict[str, _Release] = {}
    begun = [(event_at(facts.replay, release.start_us - 1), release) for release in releases]
    for boundary in known_boundaries(facts) if len(releases) > 1 else ():
        for name, allocation in lying_in(facts, boundary):
            if name.kind == "shard" and allocation >= 0 and name.name not in own:
                event = int(born[allocation])
                made_in = next((release for start, release in begun if start < event <= release.event), None)
                own |= {name.name: made_in} if made_in else {}
    return own


# ------------------------------------------------------------------ what is said of them later


def _look_later(facts: Facts, originals: dict[int, _Named]) -> None:
    """Notes of each original which boundaries after its release still use it."""
    freed = facts.replay.allocations.free_requested_event
    for boundary in known_boundaries(facts):
        if boundary.complete is False:
            continue
        event = event_at(facts.replay, boundary.time_us)
        lying: dict[int, list[NameRecord]] = defaultdict(list)
        for name, allocation in lying_in(facts, boundary):
            lying[allocation].append(name)
        if not any(name.kind in ("parameter", "shard") for name in boundary.names):
            continue
        for allocation, named in originals.items():
            if event < named.release.event or int(freed[allocation]) <= event:
                continue
            shards = [name for name in lying[allocation] if name.kind == "shard"]
            used = any(name.kind == "parameter" for name in lying[allocation])
            if used or any(_is_all_of(facts, shard, named.names) for shard in shards):
                named.used_until = event
            else:
                named.unused_at = event
                named.view = shards[0].name if shards else None


def _is_all_of(facts: Facts, shard: NameRecord, originals: list[NameRecord]) -> bool:
    """Whether a shard in an original's own storage is the whole of it, and not a view that keeps it."""
    whole = max(name.nbytes for name in originals)
    for original in originals:
        if shard.shape is not None and original.shape is not None and shard.dtype == original.dtype:
            return math.prod(shard.shape) >= math.prod(original.shape)
    # nbytes is the storage's, a view's too: where a parameter is cut it says nothing
    return shard.nbytes >= whole and facts.world_size in (None, 1)


_Keeper = tuple[str, str]
"""Path and kind of a holder."""


def _keepers(facts: Facts) -> dict[str, list[_Keeper]]:
    """Parameter's name → what the recorder found to keep it, the first few; what it could not explain last."""
    assert facts.record is not None
    found: dict[str, list[_Keeper]] = defaultdict(list)
    for holder in sorted(facts.record.holders, key=lambda one: one.kind == UNEXPLAINED):
        if len(found[holder.parameter]) < _MOST_HOLDERS:
            cut = len(holder.path) > _LONGEST_PATH
            found[holder.parameter].append((holder.path[:_LONGEST_PATH] + "…" * cut, holder.kind or ""))
    return found


def _holders(named: _Named, texts: list[str], keepers: dict[str, list[_Keeper]]) -> list[_Keeper]:
    """Of an allocation, whatever its names: a shard that lies in it, then what the recorder found, each once.

    What it did not look for, the names can tell: that an optimizer still had it.
    """
    view = [(f"shard {named.view}, which is a view of it", "view")] if named.view is not None else []
    found = [keeper for text in texts for keeper in keepers.get(text, ())]
    if named.optimizer and not found:
        found.append(("param_groups of an optimizer", "optimizer"))
    ordered = sorted(dict.fromkeys(found), key=lambda keeper: keeper[1] == UNEXPLAINED)
    return [*view, *ordered][:_MOST_HOLDERS]


def _describe(
    facts: Facts, allocation: int, named: _Named, since: int, keepers: dict[str, list[_Keeper]]
) -> DanglingParameter:
    table = facts.replay.allocations
    texts = sorted({name.name for name in named.names})
    dtype, shape = _written(facts, allocation, named.names)
    holders = _holders(named, texts, keepers)
    return DanglingParameter(
        allocation=allocation,
        name=texts[0] if len(texts) == 1 else joint_name(texts),
        names=tuple(texts),
        requested_bytes=int(table.requested_bytes[allocation]),
        block_bytes=int(table.block_bytes[allocation]),
        since_event=since,
        should_go_in=named.release.phase,
        gone_in=_gone_in(facts, int(table.free_requested_event[allocation]), named.release.phase),
        dtype=dtype,
        shape=shape if len(texts) == 1 else None,
        holders=tuple(path for path, _ in holders),
        holder_kinds=tuple(kind for _, kind in holders),
    )


def _written(facts: Facts, allocation: int, names: list[NameRecord]) -> tuple[str | None, tuple[int, ...] | None]:
    """dtype and shape as recorded before sharding, else as any boundary has them."""
    dtype, shape = facts.recorded_shapes.get(allocation, (None, None))
    dtype = next((name.dtype for name in names if name.dtype is not None), dtype)
    return dtype, next((name.shape for name in names if name.shape is not None), shape)


def _gone_in(facts: Facts, freed: int, should_go_in: str) -> str | None:
    """The phase in which it went; none where it never did, or only once the last phase was over.

    A program that ends lets go of everything: that is no release.
    """
    if freed >= len(facts.replay.time_us) or freed >= int(facts.phases.stop.max(initial=0)):
        return None
    phase = phase_of(facts.phases, freed) or OUTSIDE
    # two phases may bear one name
    return f"a later {phase}" if phase == should_go_in else phase
