"""Why one rank grew or shrank at a point, in words: the largest cause, and what dangles with its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.compare.holders import kept_by
from snapviz.schema import UNUSED, Dangling, RankPoint
from snapviz.units import format_bytes

__all__ = ["cause_of"]

_NAMED = 2
"""Parameters that are named in the sentence; the report lists them all."""

_PATH = 100
"""Columns of a holder's path in the sentence, which is one line of a report or two."""

_PLURALS = {
    "unknown": "memory of unknown purpose",
    "dangling": "dangling parameters",
    "parameter": "parameters",
    "shard": "shards",
    "gradient": "gradients",
    "activation": "activations",
    "temporary": "temporaries",
    "buffer": "buffers",
    UNUSED: "reserved memory in no block",
}


def cause_of(rank: RankPoint, dangling: Sequence[Dangling]) -> str:
    """The largest cause of what a rank grew or shrank by; "" where no row speaks for it.

    What dangles is named first only where it is the largest cause, or half of the difference; else after
    that, for it is a fault whatever it explains.
    """
    delta = rank.delta_bytes or 0
    kinds: dict[str, int] = {}
    for row in rank.rows:
        if not row.dangling:
            kinds[row.category] = kinds.get(row.category, 0) + row.delta_bytes
    alike = sorted((k for k in kinds.items() if k[1] * delta > 0), key=lambda k: (-abs(k[1]), k[0]))
    left, net = _left_behind(rank, dangling)
    largest = abs(alike[0][1]) if alike else 0
    if left and net * delta > 0 and (abs(net) >= largest or 2 * abs(net) >= abs(delta)):
        return left
    first = ""
    if alike:
        others = net or any(change for kind, change in kinds.items() if kind != alike[0][0])
        first = "mostly " * bool(others) + _kind_words(*alike[0]) + _guessed(rank, alike[0][0])
    return "; ".join(part for part in (first, f"also, {left}" if first and left else left) if part)


def _guessed(rank: RankPoint, kind: str) -> str:
    """That a category rests on stacks alone, where more than half of what changed in it does."""
    changed = [(row.evidence, abs(row.delta_bytes)) for row in rank.rows if row.category == kind and not row.dangling]
    inferred = sum(size for evidence, size in changed if evidence == "inferred")
    known = kind in ("unknown", UNUSED)
    return "" if known or 2 * inferred <= sum(size for _, size in changed) else " (inferred)"


def _kind_words(kind: str, delta: int) -> str:
    return f"{format_bytes(abs(delta))} {'more' if delta > 0 else 'less'} {_PLURALS.get(kind, kind)}"


def _left_behind(rank: RankPoint, dangling: Sequence[Dangling]) -> tuple[str, int]:
    """What dangles more, or less, than in base, in words and in bytes: by name, so that one whose
    constructor has moved counts for nothing."""
    by_name: dict[str, int] = {}
    for row in rank.rows:
        if row.dangling:
            by_name[row.owner] = by_name.get(row.owner, 0) + row.delta_bytes
    net = sum(by_name.values())
    more = net > 0
    names = {name: change for name, change in by_name.items() if change and (change > 0) == more}
    if not net or not names:
        return "", net
    side = "head" if more else "base"
    known: dict[str, Dangling] = {}
    for one in dangling:
        if one.run == side and one.rank == rank.rank and one.name in names:
            known.setdefault(one.name, one)
    # none is known of a side that cannot tell
    return (_in_words(list(known.values()), names, more) if known else _kind_words("dangling", net)), net


def _in_words(found: Sequence[Dangling], names: dict[str, int], more: bool) -> str:
    """``parameter p1 (4.00 MiB, 1024×1024 float32, born in materialize) stays whole after shard``; where
    there is less in head, that it no longer does."""
    after = f"whole after {found[0].should_go_in}"
    held = kept_by(found, _PATH) if more else ""
    kept = f", {held}" if held else ""
    if len(found) == 1:
        one = found[0]
        told = _describe(one, abs(names[one.name]))
        return f"parameter {one.name} ({told}) {'stays' if more else 'no longer stays'} {after}{kept}"
    total = format_bytes(sum(abs(names[one.name]) for one in found))
    shown = ", ".join(one.name for one in found[:_NAMED])
    others = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{len(found)} parameters {'stay' if more else 'no longer stay'} {after} ({total}): {shown}{others}{kept}"


def _describe(one: Dangling, size: int) -> str:
    """``4.00 MiB, 1024×1024 float32, born in materialize``, as far as known."""
    parts = ["×".join(map(str, one.shape))] if one.shape else []
    parts += [one.dtype.removeprefix("torch.")] if one.dtype else []
    return ", ".join([format_bytes(size)] + [" ".join(parts)] * bool(parts) + [f"born in {one.birth_phase}"])
