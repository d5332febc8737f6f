"""What the reports of a diff say in sentences, whatever they are written in: of which points, ranks and sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapviz.compare.verdict import is_cut, judged_of, measured, recorded_of, told_apart, worst_of
from snapviz.report.layout import clean
from snapviz.report.words import broken_in_words, plural
from snapviz.schema import DiffReport, DiffRow, Point, RankPoint, RunSummary, Waterfall
from snapviz.units import format_bytes, format_exact

__all__ = [
    "Told",
    "broken_sentences",
    "full_names",
    "is_partial",
    "not_explained",
    "savings",
    "shared_facts",
    "told_before",
    "told_points",
    "worst_rank",
]


def full_names(report: DiffReport) -> tuple[str, str]:
    """The runs' names as sentences use them, told apart."""
    base, head = told_apart(report.base.name, report.head.name)
    return clean(base), clean(head)


def shared_facts(report: DiffReport) -> Iterator[str]:
    """What both runs have in common: ranks, torch, device; and the commit of each."""
    base, head = report.base, report.head
    compared = [rank.rank for rank in report.points[0].ranks] if report.points else []
    yield _ranks(compared, head.world_size if head.world_size == base.world_size else None)
    if head.torch and head.torch == base.torch:
        yield f"torch {clean(head.torch)}"
    if head.device and head.device == base.device:
        yield clean(head.device)
    for name, run in zip(full_names(report), (base, head), strict=True):
        if run.git is not None:
            yield f"{name} at {_commit(run)}"


def _ranks(compared: Sequence[int], world: int | None) -> str:
    if len(compared) == 1 and world and world > 1:
        return f"rank {compared[0]} of {world}"
    if world and 0 < len(compared) < world:
        return f"{len(compared)} of {world} ranks"
    return plural(len(compared), "rank")


def _commit(run: RunSummary) -> str:
    assert run.git is not None
    return f"{clean(run.git.commit[:7])}{', dirty' if run.git.dirty else ''}"


def broken_sentences(report: DiffReport) -> Iterator[str]:
    """Ranks that could not be read, and why."""
    base, head = full_names(report)
    for broken in report.broken:
        which = f"{broken_in_words(broken)} is not in these numbers: " if broken.source else ""
        yield f"{base if broken.run == 'base' else head}: {clean(f'{which}{broken.message}')}"


# ------------------------------------------------------------------ points


@dataclass(frozen=True)
class Told:
    """Points whose worst rank has the same rows, told once."""

    report: DiffReport
    points: tuple[Point, ...]
    rank: RankPoint

    @property
    def steps(self) -> Waterfall | None:
        """The way from base to head: of points that are told together, which have the same steps, the peak's."""
        at = max(self.points, key=lambda point: point.at == "peak").at
        return next((one for one in self.report.waterfall if (one.at, one.rank) == (at, self.rank.rank)), None)

    @property
    def title(self) -> str:
        """``why, at the end and at the peak of the run, both ranks: +4,194,304 bytes``."""
        options = self.report.options
        of = measured(options.measure)
        how = f", by {options.by}" * bool(options.by) + f",{of}" * bool(of)
        where = f"{clean(self._where())}{'' if options.by == 'rank' else self._who()}{how}"
        amount = "" if options.by == "rank" else f": {self._amount()}"
        return f"{'what is held' if options.mode == 'absolute' else 'why'}, {where}{amount}"

    @property
    def hints(self) -> tuple[str, ...]:
        """What to know before the rows: whose moments they are."""
        hints = []
        if len(self._phases()) == 2 and _share_phases(self.report, self.rank.rank):
            hints.append("these are two different moments: --at phase:NAME compares one phase")
        if not any(self.rank in judged_of(point) for point in self.points):
            hints.append(
                "both recordings begin in the middle: this compares what they hold, and either run may have peaked "
                "higher before; begin recording before the first allocation to compare the runs"
            )
        return tuple(hints)

    def _amount(self) -> str:
        if self.report.options.mode == "absolute":
            totals = (self.rank.base_total_bytes, self.rank.head_total_bytes)
            return " → ".join(format_exact(total or 0) for total in totals)
        return format_exact(self.rank.delta_bytes or 0, signed=True)

    def _where(self) -> str:
        titles = " and ".join(point.title for point in self.points)
        if all(point.at in ("end", "peak") for point in self.points):
            titles = " and ".join(f"at the {point.at}" for point in self.points) + " of the run"
        phases = self._phases()
        if phases and (self.points[0].at == "peak" or len(phases) == 2):
            titles += f" ({' → '.join(phases)})"
        partial = any(is_partial(point, self.rank.rank) for point in self.points)
        return titles + ", as far as it is recorded" * partial

    def _who(self) -> str:
        first = self.points[0]
        same = [r.rank for r in first.ranks if (r.rows, r.folded) == (self.rank.rows, self.rank.folded)]
        sure = judged_of(first) or recorded_of(first)
        if len(first.ranks) == 1:
            return ""
        if len(same) == len(first.ranks):
            return ", both ranks" if len(same) == 2 else f", all {len(same)} ranks"
        return f", rank {self.rank.rank}{f' (worst of {len(sure)})' if len(sure) > 1 else ''}"

    def _phases(self) -> list[str]:
        """The phases that base and head of the run's peak are in: one where it is the same, none where none is
        known."""
        rank = next((worst_rank(point) for point in self.points if point.at == "peak"), None)
        moments = [rank.base_moment, rank.head_moment] if rank is not None else []
        phases = [when.phase for when in moments if when is not None]
        if all(phase in (None, "run") for phase in phases):
            return []
        return list(dict.fromkeys("no phase" if phase in (None, "run") else phase for phase in phases))


def told_points(report: DiffReport) -> list[Told]:
    """The points at which there are rows, in their order; by rank each by itself."""
    groups: list[tuple[list[Point], RankPoint]] = []
    for point in report.points:
        rank = worst_rank(point)
        # in a table of ranks one that shrank is told where the worst did not change
        rows = point.ranks if report.options.by == "rank" else [rank]
        if rank is None or not any(one and (one.rows or one.folded) for one in rows):
            continue
        for some, one in groups if report.options.by != "rank" else ():
            if (one.rank, one.rows, one.folded) == (rank.rank, rank.rows, rank.folded):
                some.append(point)
                break
        else:
            groups.append(([point], rank))
    return [Told(report, tuple(points), rank) for points, rank in groups]


def told_before(told: Told, before: Sequence[Told]) -> tuple[frozenset[DiffRow], str]:
    """The rows of the same rank that were listed first, and where."""
    first = next((one for one in before if one.rank.rank == told.rank.rank), None)
    return (frozenset(), "") if first is None else (frozenset(first.rank.rows), clean(first.points[0].title))


def worst_rank(point: Point) -> RankPoint | None:
    """The worst rank of those that can be compared, where there is none of those whose recordings can."""
    sure = judged_of(point)
    if not sure:
        late = recorded_of(point)
        return max(late, key=lambda rank: (rank.delta_bytes or 0, -rank.rank)) if late else None
    return next((r for r in sure if r.rank == point.worst_rank), worst_of(sure))


def is_partial(point: Point, number: int) -> bool:
    """Whether a side of a rank's moment lost its beginning, counted by torch or not."""
    moments = (m for r in point.ranks if r.rank == number for m in (r.base_moment, r.head_moment))
    return any(moment is not None and not moment.trust.whole for moment in moments)


def _share_phases(report: DiffReport, number: int) -> bool:
    """Whether a rank has a phase that can be compared: names from different sources may be one moment."""
    rows = (row for row in report.phases if row.rank == number and row.comparable)
    return any(row.base_peak is not None and row.head_peak is not None for row in rows)


def not_explained(report: DiffReport) -> Iterator[tuple[str, bool]]:
    """A sentence for a point that is not compared, and for one without a change beside others that have one;
    and whether it is the first of these, which is worth more than a faint line."""
    others = bool(told_points(report))
    for point in report.points:
        sure, known = judged_of(point), [rank for rank in point.ranks if rank.delta_bytes is not None]
        if known and not sure and not recorded_of(point):
            yield f"{clean(point.title)}: not compared. {_remedy(report, known)}", True
        elif others and sure and not any(rank.rows or rank.folded or rank.delta_bytes for rank in sure):
            yield f"{clean(point.title.removeprefix('at the '))}: did not change", False


def _remedy(report: DiffReport, ranks: Sequence[RankPoint]) -> str:
    """Why nothing can be compared, and what would let it be."""
    cut = [[is_cut(when) for when in (rank.base_moment, rank.head_moment)] for rank in ranks]
    names = [name for side, name in enumerate(full_names(report)) if any(one[side] for one in cut)]
    if not names:
        return "Its phases come from another source on each side: record both runs alike."
    has = "have" if len(names) > 1 else "has"
    return f"{' and '.join(names)} {has} no recording of the start: begin recording before the first allocation."


# ------------------------------------------------------------------ what it would save


def savings(report: DiffReport) -> Iterator[str]:
    """Where head would peak had nothing dangled."""
    for point in report.points:
        rank = worst_rank(point)
        # where nothing changed there is nothing to save against base
        if rank is None or rank.base_total_bytes is None or is_partial(point, rank.rank):
            continue
        if (rank.rows or rank.folded) and rank.head_without is not None and rank.head_without.saved_bytes:
            yield _saving(report, point, rank.head_without.peak_bytes - rank.base_total_bytes, rank)


def _saving(report: DiffReport, point: Point, against: int, rank: RankPoint) -> str:
    assert rank.head_without is not None
    base, head = full_names(report)
    way = "above" if against > 0 else "below"
    than = f"the same as {base}" if against == 0 else f"{format_bytes(abs(against))} {way} {base}"
    peak = format_bytes(rank.head_without.peak_bytes)
    where = "" if point.at == "peak" else f" {clean(point.title)}"
    text = f"without what dangles, and nothing else changed, {head} would peak at {peak}"
    return f"{text}{'' if _may_make_more(report, rank) else f': {than}'}{where}."


def _may_make_more(report: DiffReport, rank: RankPoint) -> bool:
    """Whether base makes an optimizer's state and head none: what head saved it would need once it did.

    Rows that are grouped otherwise, or folded, do not tell.
    """
    if report.options.by is not None or rank.folded is not None:
        return True
    rows = [row for row in rank.rows if row.category == "optimizer state"]
    return bool(rows) and not any(row.head_count for row in rows)
