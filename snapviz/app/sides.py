"""One rank of both runs, as pages that show a single rank have it: which, its facts on each side, what to call them."""

from __future__ import annotations

from dataclasses import dataclass

from snapviz.analyze.facts import Facts
from snapviz.analyze.moments import DEFAULT_POINTS
from snapviz.analyze.run import Run
from snapviz.app.results import Results
from snapviz.app.state import State
from snapviz.compare.align import align_ranks
from snapviz.compare.verdict import told_apart
from snapviz.errors import RunError

__all__ = ["Sides", "names_of", "sides_of", "worst_rank"]


@dataclass(frozen=True)
class Sides:
    """Base and head of one rank; none where a run is not chosen, or lacks the rank."""

    rank: int
    ranks: tuple[int, ...]  # those that can be shown
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
    """The rank that a state asks for, the worst or the first where it asks for none. Raises ``SnapvizError``."""
    runs = [results.run(run_id) if run_id else None for run_id in (state.base, state.head)]
    numbers = _numbers(*runs)
    if not numbers:
        raise RunError("no rank of the runs that are chosen could be read")
    rank = state.rank if state.rank is not None else worst_rank(results, state)
    if rank is None or (rank not in numbers and state.rank is None):
        rank = next(iter(numbers))
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
    return Sides(rank, tuple(numbers), names, (facts[0], facts[1]), notes)


def names_of(results: Results, state: State) -> tuple[str, str]:
    """What sentences call the runs; ``""`` for one that is not chosen."""
    base, head = (results.run(run_id).name if run_id else "" for run_id in (state.base, state.head))
    return told_apart(base, head)


def worst_rank(results: Results, state: State) -> int | None:
    """The rank whose memory grew most at the peak, or at the end where that is the state's moment; none where nothing
    is compared."""
    if not (state.base and state.head):
        return None
    # the plain report, which every page has: however rows are grouped, the worst rank is the same
    report = results.report(State(base=state.base, head=state.head))
    points = {point.at: point for point in report.points}
    point = points.get(state.at) or points.get(DEFAULT_POINTS[1])
    return point.worst_rank if point is not None else None


def _numbers(base: Run | None, head: Run | None) -> dict[int, tuple[int | None, int | None]]:
    """Rank → its number in base and in head, ascending."""
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
