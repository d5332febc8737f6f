"""One rank of both runs, as pages that show a single rank have it: which, its facts on each side, what to call them."""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.describe import fake_group_of
from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.moments import DEFAULT_POINTS, parse_at
from snapviz.analyze.run import RankFailure, Run
from snapviz.app.results import Results
from snapviz.app.state import State
from snapviz.compare.align import align_ranks
from snapviz.compare.verdict import told_apart
from snapviz.errors import RunError, SnapvizError
from snapviz.report.diffsaid import worst_rank
from snapviz.schema import DiffReport, MeasureName, Point

__all__ = [
    "Sides",
    "doubts_of",
    "names_of",
    "numbers_of",
    "rank_of",
    "rank_options",
    "shown_point",
    "sides_of",
    "whose",
]

_FAILURES, _NOTES = 5, 4
"""Lines that are said of each kind."""


@dataclass(frozen=True)
class Sides:
    """Base and head of one rank; none where a run is not chosen, or lacks the rank."""

    rank: int
    names: tuple[str, str]  # of the runs
    facts: tuple[Facts | None, Facts | None]
    notes: tuple[str, ...]  # why a side is not there

    @property
    def both(self) -> bool:
        """Whether there is something to compare."""
        return self.facts[0] is not None and self.facts[1] is not None

    @property
    def either(self) -> tuple[Facts, Facts]:
        """Both sides, one in place of another that is not there."""
        base, head = self.facts
        found = head if base is None else base
        assert found is not None
        return base or found, head or found


def sides_of(results: Results, state: State) -> Sides:
    """The rank that a state asks for, where it asks for none that of ``rank_of``. Raises ``SnapvizError``."""
    numbers = numbers_of(results, state)
    if not numbers:
        raise RunError("no rank of the runs that are chosen could be read")
    rank = rank_of(results, state)
    if rank not in numbers:
        known = ", ".join(map(str, numbers))
        raise RunError(f"no rank {rank} could be read in either run (there is: {known})")
    own = numbers[rank]
    ids = (state.base, state.head)
    facts = [None if number is None else results.facts(ids[at], number) for at, number in enumerate(own)]
    names = names_of(results, state)
    notes = tuple(
        f"{names[at]} has no rank {rank} that could be read: only {names[1 - at]} is shown"
        for at in (0, 1)
        if ids[at] and facts[at] is None
    )
    for at in (0, 1):
        run = results.run(ids[at]) if ids[at] else None
        notes += tuple(f"{names[at]}: {words}" for words in doubts_of(run, facts[at], rank))
    return Sides(rank, names, (facts[0], facts[1]), notes)


def doubts_of(run: Run | None, facts: Facts | None, rank: int) -> list[str]:
    """What is missing of a run, and what is not certain of its rank: to be read before any number."""
    if run is None:
        return []
    others = [one for one in run.failures if one.rank != rank]
    found = [f"{whose(one)} could not be read: {one.message}" for one in others[:_FAILURES]]
    found += [f"{len(others) - _FAILURES:,} more ranks could not be read"] if len(others) > _FAILURES else []
    notes = (fake_group_of(run), *(facts.notes[:_NOTES] if facts is not None else ()))
    return [*found, *dict.fromkeys(note for note in notes if note)]


def whose(failure: RankFailure) -> str:
    """What a rank that could not be read is called."""
    return f"rank {failure.rank}" if failure.rank is not None else failure.source or "some ranks"


def names_of(results: Results, state: State) -> tuple[str, str]:
    """What sentences call the runs; ``""`` for one that is not chosen."""
    base, head = (results.run(run_id).name if run_id else "" for run_id in (state.base, state.head))
    return told_apart(base, head)


def shown_point(report: DiffReport, at: str) -> Point | None:
    """The point that is asked for; else the peak of the run, and its end where that alone changed."""
    known = {point.at: point for point in report.points}
    if at:
        return known.get(parse_at(at).text)
    for name in DEFAULT_POINTS[::-1]:
        point = known.get(name)
        rank = worst_rank(point) if point is not None else None
        if rank is not None and (rank.rows or rank.folded):
            return point
    return known.get(DEFAULT_POINTS[1]) or next(iter(report.points), None)


def rank_of(results: Results, state: State) -> int:
    """The rank that every page shows: the one that is chosen.

    Else of two runs the one that grew most at the point of the first screen, or at the run's end or peak where the
    state names that, and of one run the one that peaks highest; else the first there is.
    """
    if state.rank is not None:
        numbers = numbers_of(results, state)
        # the lone rank of each run has one number, by whichever of the two it is asked for
        mine = (rank for rank, own in numbers.items() if state.rank in own)
        return state.rank if state.rank in numbers else next(mine, state.rank)
    return _chosen(results, state)[0]


def rank_options(results: Results, state: State) -> list[tuple[str, str]]:
    """The ranks that can be picked, of the control that every page of one rank has."""
    own, which = _chosen(results, state)
    return [("", f"{which}: {own}"), *((str(rank), str(rank)) for rank in numbers_of(results, state))]


def _chosen(results: Results, state: State) -> tuple[int, str]:
    """The rank that is shown where nobody picked one, and why that one."""
    numbers = numbers_of(results, state)
    if state.base and state.head:
        found, which = _worst(results, state), "largest difference"
    else:
        found, which = _highest(results, state), "highest peak"
    if found is None or found not in numbers:
        return min(numbers, default=0), "the first"
    return found, which


def _highest(results: Results, state: State) -> int | None:
    """Of the one run that is chosen; the lowest number among equals."""
    run_id = state.base or state.head
    if not run_id:
        return None
    alone = State(base=state.base, head=state.head)
    peaks = results.kept("peaks", alone, lambda: _peaks(results, run_id, state.measure), state.measure)
    return min(peaks, key=lambda one: (-one[1], one[0]), default=(None, 0))[0]


def _peaks(results: Results, run_id: str, measure: str) -> list[tuple[int, int]]:
    """Each rank that can be read, and the bytes of its peak."""
    found = []
    for rank in results.run(run_id).ranks:
        try:
            replay = results.facts(run_id, rank.rank).replay
        except SnapvizError:
            continue
        found.append((rank.rank, replay.peak(_measure(measure), 0, len(replay))[0]))
    return found


def _measure(text: str) -> MeasureName:
    return next((one for one in MEASURES if one == text), "allocated")


def _worst(results: Results, state: State) -> int | None:
    """None where nothing can be compared, which the first screen says."""
    try:
        # the plain report, which every page has: however rows are grouped, the worst rank is the same
        report = results.report(State(base=state.base, head=state.head))
    except SnapvizError:
        return None
    point = shown_point(report, state.at if state.at in DEFAULT_POINTS else "")
    found = worst_rank(point) if point is not None else None
    return found.rank if found is not None else None


def numbers_of(results: Results, state: State) -> dict[int, tuple[int | None, int | None]]:
    """Rank → its number in base and in head, ascending; none where a side lacks it."""
    return _numbers(*(results.run(run_id) if run_id else None for run_id in (state.base, state.head)))


def _numbers(base: Run | None, head: Run | None) -> dict[int, tuple[int | None, int | None]]:
    if base is not None and head is not None:
        aligned = align_ranks(base, head)
        found: dict[int, tuple[int | None, int | None]] = {n: (one.rank, other.rank) for n, one, other in aligned.pairs}
    else:
        found = {}
    used = [{numbers[side] for numbers in found.values()} for side in (0, 1)]
    for side, run in enumerate((base, head)):
        for rank in run.ranks if run is not None else ():
            if rank.rank not in used[side]:
                one, other = found.get(rank.rank, (None, None))
                found[rank.rank] = (rank.rank, other) if side == 0 else (one, rank.rank)
    return dict(sorted(found.items()))
