"""The verdict of a diff: what an engineer would say first, in one or two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.schema import BrokenRank, Dangling, Point, RankPoint
from snapviz.units import format_bytes

__all__ = ["ranks_in_words", "verdict"]

_NAMED = 2
"""Parameters that are named in the sentence; the report lists them all."""

_PLURALS = {
    "unknown": "memory of unknown purpose",
    "parameter": "parameters",
    "shard": "shards",
    "gradient": "gradients",
    "activation": "activations",
    "temporary": "temporaries",
    "buffer": "buffers",
}


def ranks_in_words(ranks: Sequence[int], of: int) -> str:
    """``both ranks``, ``all 8 ranks``, ``rank 3``, ``ranks 0, 3``; "" where there is only one."""
    if len(ranks) == of:
        return {1: "", 2: "both ranks"}.get(of, f"all {of} ranks")
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def verdict(
    base: str, head: str, points: Sequence[Point], dangling: Sequence[Dangling], broken: Sequence[BrokenRank]
) -> str:
    """The sentence. ``points`` are those that were asked for, the first decides what is said first."""
    compared = [point for point in points if point.ranks]
    if not compared:
        return f"{base} and {head} have no rank in common that could be read: nothing was compared."
    moved = {point.at: words for point in compared if (words := _movement(point))}
    if not moved:
        same = not any(rank.rows for point in compared for rank in point.ranks)
        count = len(compared[0].ranks)
        where = ranks_in_words([r.rank for r in compared[0].ranks], count)
        text = f"{head} holds as much as {base}{f' on {where}' if where else ''} {_places(compared)}"
        text += ", in the same allocations." if same else ", in other allocations."
    else:
        cause = _cause(next(point for point in compared if point.at in moved), dangling)
        text = f"{head} {_joined(list(moved.values()))}"
        text += f": {cause}." if cause else "."
    if broken:
        text += f" {len(broken)} rank{'s' if len(broken) > 1 else ''} could not be read and count for nothing here."
    return text


def _places(points: Sequence[Point]) -> str:
    return " and ".join(point.title for point in points)


def _movement(point: Point) -> tuple[str, str, str] | None:
    """``ends``, ``4.00 MiB higher``, ``on both ranks``; none where no rank moved."""
    if all(rank.delta_bytes == 0 for rank in point.ranks):
        return None
    worst = _worst(point)
    equal = [rank.rank for rank in point.ranks if rank.delta_bytes == worst.delta_bytes]
    verb = {"end": "ends", "peak": "peaks"}.get(point.at, "is")
    how = f"{format_bytes(abs(worst.delta_bytes))} {'higher' if worst.delta_bytes > 0 else 'lower'}"
    where = ranks_in_words(equal, len(point.ranks))
    if len(equal) < len(point.ranks):
        where = f"rank {worst.rank}, the worst of {len(point.ranks)}"
    where = f" on {where}" if where else ""
    if point.at not in ("end", "peak"):
        where = f" {point.title}{where}"
    return verb, how if worst.delta_bytes else "as high as before", where


def _joined(moved: Sequence[tuple[str, str, str]]) -> str:
    """``ends and peaks 4.00 MiB higher on both ranks``: what is the same is said once."""
    (verb, how, where), *others = moved
    if all(other[1:] == (how, where) for other in others):
        return f"{' and '.join([verb, *(other[0] for other in others)])} {how}{where}"
    if all(other[2] == where for other in others):
        return " and ".join(f"{one[0]} {one[1]}" for one in moved) + where
    return " and ".join("{} {}{}".format(*one) for one in moved)


def _cause(point: Point, dangling: Sequence[Dangling]) -> str:
    rank = _worst(point)
    if words := _left_behind(dangling, rank):
        return words
    kinds: dict[str, int] = {}
    for row in rank.rows:
        what = "dangling parameters" if row.dangling else row.category
        kinds[what] = kinds.get(what, 0) + row.delta_bytes
    alike = {kind: delta for kind, delta in kinds.items() if delta * rank.delta_bytes > 0}
    if not alike:
        return ""
    ordered = sorted(alike.items(), key=lambda kind: (-abs(kind[1]), kind[0]))
    return "mostly " * any(delta for kind, delta in kinds.items() if kind != ordered[0][0]) + _kind_words(*ordered[0])


def _kind_words(kind: str, delta: int) -> str:
    what = _PLURALS.get(kind, kind)
    return f"{format_bytes(abs(delta))} {'more' if delta > 0 else 'less'} {what}"


def _worst(point: Point) -> RankPoint:
    return next(rank for rank in point.ranks if rank.rank == point.worst_rank)


def _left_behind(dangling: Sequence[Dangling], rank: RankPoint) -> str:
    """``parameter p1 (1024×1024 float32, born in materialize) stays whole after shard``; where there is
    less in head, that it no longer does."""
    more = rank.delta_bytes > 0
    rows = {row.owner for row in rank.rows if row.dangling and (row.delta_bytes > 0) == more}
    side = "head" if more else "base"
    found = [d for d in dangling if d.run == side and d.rank == rank.rank and d.name in rows]
    if not found:
        return ""
    after = f"whole after {found[0].should_go_in}"
    if len(found) == 1:
        one = found[0]
        kept = f", kept by {one.holders[0]}" if one.holders and more else ""
        return f"parameter {one.name} ({_describe(one)}) {'stays' if more else 'no longer stays'} {after}{kept}"
    total = format_bytes(sum(d.block_bytes for d in found))
    names = ", ".join(d.name for d in found[:_NAMED])
    others = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{len(found)} parameters {'stay' if more else 'no longer stay'} {after} ({total}): {names}{others}"


def _describe(one: Dangling) -> str:
    """``1024×1024 float32, born in materialize``, as far as known."""
    parts = ["×".join(map(str, one.shape))] if one.shape else []
    parts += [one.dtype.removeprefix("torch.")] if one.dtype else []
    return ", ".join([" ".join(parts)] * bool(parts) + [f"born in {one.birth_phase}"])
