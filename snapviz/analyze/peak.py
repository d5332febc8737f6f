"""What is live at a moment, in groups that sum to it, and what every phase would peak at without some of it.

Legend: L live allocations, g groups, E events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.describe import broken_ranks, fake_group_of, measures, summary_of
from snapviz.analyze.each import each_rank
from snapviz.analyze.facts import ANNOTATED, CATEGORIES, EVIDENCE, MEASURES, RECORDED, Facts
from snapviz.analyze.groups import group_keys, sums
from snapviz.analyze.moduleview import module_rows
from snapviz.analyze.moments import At, moment, parse_at
from snapviz.analyze.phases import folded_births
from snapviz.analyze.run import Rank, Run
from snapviz.analyze.select import Remaining, Selector, parse_selector
from snapviz.analyze.stretches import Stretches
from snapviz.errors import UsageError
from snapviz.schema import PEAK_VERSION, Known, LiveGroup, PeakReport, PhaseWithout, RankPeak

__all__ = ["GROUPINGS", "Ask", "live_groups", "peak"]

Int64 = npt.NDArray[np.int64]

GROUPINGS = ("line", "category", "owner", "module", "phase", "stack")
"""What ``by`` takes. ``line`` tells apart owner, category, birth phase and stack, as ``snapviz info`` does."""

_PHASES_NAMED = 60


@dataclass(frozen=True)
class Ask:
    """What is asked of a run: a moment, and how what is live then is told."""

    at: str = "peak"  # end, peak or phase:NAME[:peak|:end]
    by: str = "line"  # one of GROUPINGS
    without: tuple[str, ...] = ()  # selectors (analyze.select.FORMS) of what is taken out, all of them together
    fold_layers: bool = True  # modules that differ in a number are one row
    depth: int | None = None  # parts of a module's path that are told apart


def peak(
    run: Run,
    ask: Ask = Ask(),
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> PeakReport:
    """The report of a run at a moment.

    Raises ``UsageError`` for what names nothing, ``RunError`` for a rank that could not be read.
    """
    if ask.by not in GROUPINGS:
        raise UsageError(f"--by {ask.by}: use one of {', '.join(GROUPINGS)}")
    point, selectors = parse_at(ask.at), [parse_selector(text) for text in ask.without]
    found, missing, names = [], [], dict[str, None]()
    for one, facts in each_rank(run.ranks if rank is None else (run.rank(rank),), progress):
        stretches = Stretches(facts)
        names |= dict.fromkeys(stretches.folded)
        report = _rank_peak(one, stretches, ask, point, selectors)
        found += [report] if report else []
        missing += [] if report else [one.rank]
    if not found and missing and point.phase is not None:
        told = ", ".join(list(names)[:_PHASES_NAMED])
        raise UsageError(f"--at {ask.at}: no such phase (there is: {told})")
    return PeakReport(
        schema_version=PEAK_VERSION,
        run=summary_of(run),
        at=point.text,
        title=point.title,
        by=ask.by,
        without=tuple(ask.without),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None, rank)),
        ranks=tuple(found),
        missing=tuple(missing),
        worst_rank=max(found, key=lambda one: (one.measures.allocated_bytes, -one.rank)).rank if found else None,
    )


def _rank_peak(rank: Rank, stretches: Stretches, ask: Ask, at: At, selectors: Sequence[Selector]) -> RankPeak | None:
    facts = rank.facts()
    when = moment(facts, stretches, at)
    if when is None:
        return None
    live = np.flatnonzero(facts.replay.allocations.allocated_after(when.event))
    since = _since(facts, selectors)
    held = facts.replay.after(when.event)
    return RankPeak(
        rank=rank.rank,
        source=rank.source,
        notes=(*facts.notes, *_picks_nothing(facts, selectors)),
        moment=when,
        measures=measures(getattr(held, f"{measure}_bytes") for measure in MEASURES),
        known=_known(facts, live),
        categories=live_groups(facts, when.event, "category"),
        modules=module_rows(facts, live, ask.fold_layers, ask.depth),
        groups=live_groups(facts, when.event, ask.by),
        removed_bytes=_sum(facts, live[since[live] <= when.event]) if selectors else None,
        without=_without(facts, stretches, since) if selectors else (),
    )


def _picks_nothing(facts: Facts, selectors: Sequence[Selector]) -> list[str]:
    empty = [one.text for one in selectors if not one.mask(facts).any()]
    return [f"--without {text}: nothing on this rank is that" for text in empty]


def _sum(facts: Facts, chosen: Int64) -> int:
    return int(facts.replay.allocations.block_bytes[chosen].sum())


def _known(facts: Facts, live: Int64) -> Known:
    unknown = facts.category[live] == CATEGORIES.index("unknown")
    evidence = facts.evidence[live]
    return Known(
        unknown_bytes=_sum(facts, live[unknown]),
        recorded_bytes=_sum(facts, live[(evidence == RECORDED) & ~unknown]),
        annotated_bytes=_sum(facts, live[(evidence == ANNOTATED) & ~unknown]),
        inferred_bytes=_sum(facts, live[(evidence > ANNOTATED) & ~unknown]),
        owned_bytes=_sum(facts, live[(facts.owner[live] > 0) | (facts.module[live] > 0)]),
    )


# ------------------------------------------------------------------ groups


def live_groups(facts: Facts, event: int, by: str) -> tuple[LiveGroup, ...]:
    """What is live after an event in groups of one of ``GROUPINGS``, the largest first: they sum to all of it."""
    table = facts.replay.allocations
    live = np.flatnonzero(table.allocated_after(event))
    if len(live) == 0:
        return ()
    dangles = facts.dangling_since[live] <= event
    labels, columns = _keys(facts, live, dangles, by)
    group, count = group_keys(columns)
    total, number = sums(group, table.block_bytes[live], count)
    requested, _ = sums(group, table.requested_bytes[live], count)
    dangling, _ = sums(group, np.where(dangles, table.block_bytes[live], 0), count)
    weakest = np.zeros(count, np.int64)
    np.maximum.at(weakest, group, facts.evidence[live])
    categories, rules = _only(group, count, facts.category[live]), _only(group, count, _rules(facts, live))
    # the largest of each group, the first of them where several are
    order = np.lexsort((-table.block_bytes[live], group))
    largest = order[np.searchsorted(group[order], np.arange(count))]
    found = [
        LiveGroup(
            label=labels(int(largest[g])),
            category=CATEGORIES[categories[g]] if categories[g] >= 0 else "",
            evidence=EVIDENCE[int(weakest[g])],
            why=facts.rules[rules[g]].why if 0 <= rules[g] < len(facts.rules) else "",
            dangling_bytes=int(dangling[g]),
            live_bytes=int(total[g]),
            requested_bytes=int(requested[g]),
            live_count=int(number[g]),
            stack=facts.stack_lines(int(table.stack[live[largest[g]]])),
        )
        for g in np.lexsort((live[largest], -total)).tolist()
    ]
    return tuple(found)


def _keys(
    facts: Facts, live: Int64, dangles: npt.NDArray[np.bool_], by: str
) -> tuple[Callable[[int], str], list[npt.NDArray[np.integer]]]:
    """What a group is called, by the position of one of its members, and the columns of its key."""
    stack = facts.stack[live] + 1  # ABSENT is -1, and keys count from 0
    if by == "category":
        labels = [CATEGORIES[code] for code in facts.category[live]]
        return labels.__getitem__, [facts.category[live]]
    if by == "owner":
        return (lambda i: facts.owners[int(facts.owner[live[i]])]), [facts.owner[live], facts.category[live]]
    if by == "module":
        return (lambda i: facts.modules[int(facts.module[live[i]])]), [facts.module[live]]
    names, first = folded_births(facts)
    birth = first[facts.birth[live]]
    if by == "phase":
        return (lambda i: names[int(facts.birth[live[i]])]), [birth]
    if by == "stack":
        return (lambda i: ""), [stack]
    key: list[npt.NDArray[np.integer]] = [
        facts.owner[live],
        facts.category[live],
        birth,
        dangles.astype(np.int8),
        stack,
    ]
    return (lambda i: facts.owners[int(facts.owner[live[i]])]), key


def _rules(facts: Facts, live: Int64) -> Int64:
    """[L] the rule that decides each, M where a name or nothing does."""
    return np.where(facts.evidence[live] == RECORDED, len(facts.rules), facts.rule[live]).astype(np.int64)


def _only(group: Int64, count: int, value: npt.NDArray[np.integer]) -> list[int]:
    """[g] the one value of a group's members, -1 where there are several."""
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(lowest, group, value)
    np.maximum.at(highest, group, value)
    found: list[int] = np.where(lowest == highest, highest, -1).tolist()
    return found


# ------------------------------------------------------------------ without


def _since(facts: Facts, selectors: Sequence[Selector]) -> Int64:
    """[A] the event after which each is taken out by any of the selectors."""
    since = np.full(len(facts.replay.allocations), len(facts.replay), np.int64)
    for selector in selectors:
        since = np.minimum(since, selector.since(facts))
    return since


def _without(facts: Facts, stretches: Stretches, since: Int64) -> tuple[PhaseWithout, ...]:
    remaining, replay = Remaining(facts, since), facts.replay
    rows = [("", [(0, len(replay))])]
    rows += [(name, [(one.first, one.stop) for one in some]) for name, some in stretches.folded.items()]
    found = []
    for name, windows in rows:
        before, after = max(replay.peak("allocated", a, b)[0] for a, b in windows), remaining.peak(windows)
        found.append(PhaseWithout(phase=name, peak_bytes=before, without_bytes=after, saved_bytes=before - after))
    return tuple(found)
