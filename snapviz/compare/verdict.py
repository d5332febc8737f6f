"""The verdict of a diff: what an engineer would say first, in one or two sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapviz.compare.cause import cause_of
from snapviz.schema import Dangling, MeasureName, Moment, Point, RankPoint
from snapviz.units import format_bytes

__all__ = [
    "Besides",
    "at_least",
    "figures",
    "grown",
    "is_cut",
    "judged_of",
    "measured",
    "ranks_in_words",
    "recorded_of",
    "told_apart",
    "verdict",
    "worst_of",
]


@dataclass(frozen=True)
class Besides:
    """What a verdict needs and no point says."""

    unread: int = 0
    # ranks of both runs that could not be read
    silent: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    # of base and of head: ranks whose file has no events
    rounding: frozenset[str] = frozenset()
    # points (their ``at``) where the bytes that were requested are the same on every rank that grew
    stateless: tuple[bool, bool] = (False, False)
    # of base and of head: whether its optimizers made no state where the other's did
    measure: MeasureName = "allocated"
    # whose bytes the points are


def measured(measure: MeasureName) -> str:
    """Whose bytes a sentence tells, where it is not the allocated ones that everybody means."""
    return "" if measure == "allocated" else f" in {measure} bytes"


def _only_sizes(rank: RankPoint) -> bool:
    """Whether what changed is how large blocks are, and not which there are."""
    return all(row.base_count == row.head_count for row in rank.rows)


def ranks_in_words(ranks: Sequence[int], of: int) -> str:
    """``both ranks``, ``all 8 ranks``, ``rank 3``, ``ranks 0, 3``; "" where there is only one."""
    if len(ranks) == of:
        return {1: "", 2: "both ranks"}.get(of, f"all {of} ranks")
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def told_apart(base: str, head: str) -> tuple[str, str]:
    """The names that sentences about two runs use: ``main (base)`` and ``main (head)`` where both have one."""
    return (f"{base} (base)", f"{head} (head)") if base == head else (base, head)


def verdict(base: str, head: str, points: Sequence[Point], dangling: Sequence[Dangling], besides: Besides) -> str:
    """The sentence. ``points`` are those that were asked for, the first decides what is said first."""
    compared = [point for point in points if point.ranks]
    if not compared:
        return f"{base} and {head} have no rank in common that could be read: nothing was compared."
    judged = {point.at: sure for point in compared if (sure := judged_of(point))}
    of = measured(besides.measure)
    moved = {point.at: words for point in compared if (words := _movement(point, judged.get(point.at, ()), of))}
    if not judged:
        text = f"{base} and {head} cannot be compared {_places(compared)}."
    elif not moved:
        text = _unmoved(base, head, [point for point in compared if point.at in judged], judged, of)
    else:
        first = next(point.at for point in compared if point.at in moved)
        worst = worst_of(judged[first])
        # rows explain what was replayed: where a counter is compared instead, they do not
        cause = cause_of(worst, dangling) if grown(worst) == worst.delta_bytes else ""
        text = f"{head} {_joined(list(moved.values()))}{f': {cause}' if cause else ''}."
    alike = [p for p in compared if p.at in moved and p.at in besides.rounding]
    alike = [p for p in alike if len(_replayed(judged[p.at])) == len(judged[p.at])]
    alike = [p for p in alike if all(_only_sizes(rank) for rank in judged[p.at])]
    if alike:
        text += f" The same bytes are requested {_places(alike)}: rounding and unsplit remainders only."
    text += "".join(
        f" The optimizer of {name} has made no state: it may hold parameters that the model does not run with."
        for name, none in zip((base, head), besides.stateless, strict=True)
        if none
    )
    text += "".join(_cut((base, head), point, besides) for point in compared)
    text += "".join(_recorded(head, point, dangling, of) for point in compared)
    if besides.unread:
        ranks = "1 rank" if besides.unread == 1 else f"{besides.unread:,} ranks"
        text += f" {ranks} could not be read and count{'s' if besides.unread == 1 else ''} for nothing here."
    return text


def figures(rank: RankPoint) -> tuple[int, int]:
    """Allocated bytes of base and head: by torch's counter where the history is cut, else by replay."""
    both = ((rank.base_moment, rank.base_total_bytes), (rank.head_moment, rank.head_total_bytes))
    base, head = (when.counted_bytes if when and when.counted_bytes is not None else total for when, total in both)
    assert base is not None
    assert head is not None
    return base, head


def grown(rank: RankPoint) -> int:
    """Head minus base, of ``figures``."""
    base, head = figures(rank)
    return head - base


def worst_of(ranks: Sequence[RankPoint]) -> RankPoint:
    """The rank with the largest growth, the lowest number where several have it."""
    return max(ranks, key=lambda rank: (grown(rank), -rank.rank))


def is_cut(when: Moment | None) -> bool:
    """Whether this side's peak is only that of what is left of the recording."""
    return when is not None and not when.trust.whole and not when.trust.counted


def at_least(rank: RankPoint) -> bool:
    """Whether one side is cut and the difference can only be larger: head's peak was higher still, or base's."""
    return is_cut(rank.base_moment) != is_cut(rank.head_moment) and (
        grown(rank) > 0 if is_cut(rank.head_moment) else grown(rank) < 0
    )


def judged_of(point: Point) -> tuple[RankPoint, ...]:
    """The ranks of which something can be said at a point."""
    return tuple(
        rank
        for rank in point.ranks
        if rank.comparable and (not (is_cut(rank.base_moment) or is_cut(rank.head_moment)) or at_least(rank))
    )


def recorded_of(point: Point) -> tuple[RankPoint, ...]:
    """The ranks whose peak is that of a recording only, on both sides: the two recordings can be compared, the
    runs cannot."""
    return tuple(
        rank
        for rank in point.ranks
        if rank.comparable
        and all(when is not None and is_cut(when) for when in (rank.base_moment, rank.head_moment))
        # before the first event nothing is recorded, and a file without events has nothing else
        and any(when is not None and when.event >= 0 for when in (rank.base_moment, rank.head_moment))
    )


def _recorded(head: str, point: Point, dangling: Sequence[Dangling], of: str) -> str:
    """What is said of two recordings that both began late, where none of a point's ranks can be judged."""
    ranks = recorded_of(point)
    if not ranks or judged_of(point):
        return ""
    worst = max(ranks, key=lambda rank: (rank.delta_bytes or 0, -rank.rank))
    delta = worst.delta_bytes or 0
    if not delta:
        return f" Of what is recorded, the highest is the same{of}."
    how = f"{format_bytes(abs(delta))} {'higher' if delta > 0 else 'lower'}"
    who = f" on rank {worst.rank}" if len(point.ranks) > 1 else ""
    cause = cause_of(worst, dangling)
    return f" Of what is recorded, the highest of {head} is {how}{of}{who}{f': {cause}' if cause else ''}."


def _cut(names: tuple[str, str], point: Point, besides: Besides) -> str:
    """What is said of a peak whose beginning is not in the recording, or of which there is no recording."""
    base = {rank.rank for rank in point.ranks if is_cut(rank.base_moment)}
    head = {rank.rank for rank in point.ranks if is_cut(rank.head_moment)}
    sides = list(zip(names, (base, head), besides.silent, strict=True))
    empty = [name for name, ranks, silent in sides if ranks & silent]
    late = [name for name, ranks, silent in sides if ranks - silent]
    if not empty and not late:
        return ""
    what = "peak" if point.at == "peak" else point.title.removeprefix("at the ")
    but = _not_compared(point)
    text = ""
    if late:
        gone = f" The {what} in {' and in '.join(late)} is that of the recording only, whose oldest events are gone"
        text += f"{gone}{'' if empty or not but else f', and {but}'}."
    if empty:
        has = "have" if len(empty) > 1 else "has"
        text += f" {' and '.join(empty)} {has} no events: only what was allocated at the dump"
        text += f"; the {what} is {but}." if but else "."
    return text


def _not_compared(point: Point) -> str:
    """``not compared``, with the ranks where it is only some; "" where all are."""
    sure = judged_of(point)
    left = [rank.rank for rank in point.ranks if rank not in sure]
    return f"not compared{f' on {ranks_in_words(left, len(point.ranks))}' if sure else ''}" if left else ""


def _replayed(ranks: Sequence[RankPoint]) -> list[RankPoint]:
    # a counter says how much there was, not of what
    return [rank for rank in ranks if grown(rank) == rank.delta_bytes]


def _unmoved(base: str, head: str, points: Sequence[Point], judged: dict[str, tuple[RankPoint, ...]], of: str) -> str:
    text = f"{head} holds as much as {base}{of}"
    replayed = [rank for some in judged.values() for rank in _replayed(some)]
    where = [ranks_in_words([rank.rank for rank in judged[point.at]], len(point.ranks)) for point in points]
    if len(set(where)) == 1:
        text += f"{f' on {where[0]}' if where[0] else ''} {_places(points)}"
    else:
        # a rank that is not compared at one point may be at another
        places = [f"{point.title}{f' on {ranks}' if ranks else ''}" for point, ranks in zip(points, where, strict=True)]
        text += f" {' and '.join(places)}"
    if not replayed:
        return f"{text}, by torch's counters."
    return text + (", in other allocations." if any(rank.rows for rank in replayed) else ", in the same allocations.")


def _places(points: Sequence[Point]) -> str:
    return " and ".join(point.title for point in points)


def _movement(point: Point, judged: Sequence[RankPoint], of: str) -> tuple[str, str, str] | None:
    """``ends``, ``4.00 MiB higher``, ``on both ranks``; none where no rank moved."""
    if all(grown(rank) == 0 for rank in judged):
        return None
    worst = worst_of(judged)
    delta = grown(worst)
    equal = [rank.rank for rank in judged if grown(rank) == delta]
    verb = {"end": "ends", "peak": "peaks"}.get(point.at, "is")
    least = "at least " if at_least(worst) else ""
    how = f"{least}{format_bytes(abs(delta))} {'higher' if delta > 0 else 'lower'}" if delta else "as high as before"
    how += of
    where = ranks_in_words(equal, len(point.ranks))
    if len(equal) < len(point.ranks):
        where = f"rank {worst.rank}, the worst of {len(point.ranks)}"
    where = f" on {where}" if where else ""
    if point.at not in ("end", "peak"):
        where = f" {point.title}{where}"
    return verb, how, where


def _joined(moved: Sequence[tuple[str, str, str]]) -> str:
    """``ends and peaks 4.00 MiB higher on both ranks``: what is the same is said once."""
    (verb, how, where), *others = moved
    if all(other[1:] == (how, where) for other in others):
        return f"{' and '.join([verb, *(other[0] for other in others)])} {how}{where}"
    if all(other[2] == where for other in others):
        return " and ".join(f"{one[0]} {one[1]}" for one in moved) + where
    return " and ".join("{} {}{}".format(*one) for one in moved)
