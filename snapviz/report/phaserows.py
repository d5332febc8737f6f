"""Which phases a diff shows, of which rank, and what may stand in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snapviz.schema import DiffReport, OutsideDelta, PhaseDelta, Trust

__all__ = ["Measure", "PhaseTable", "mark_of", "measures_of", "phase_table", "whose"]


@dataclass(frozen=True)
class Measure:
    """One group of columns: a peak or an end, of one measure."""

    heading: str
    field: str
    peak: bool

    def pair(self, row: PhaseDelta) -> tuple[int | None, int | None]:
        """(base, head); none where a side lacks the phase."""
        sides = (row.base_peak, row.head_peak) if self.peak else (row.base_end, row.head_end)
        base, head = (None if side is None else int(getattr(side, self.field)) for side in sides)
        return base, head

    def delta(self, row: PhaseDelta) -> int | None:
        """Head − base; none where that means nothing."""
        base, head = self.pair(row)
        return head - base if base is not None and head is not None and self.comparable(row) else None

    def comparable(self, row: PhaseDelta) -> bool:
        """Whether a difference means anything: the same stretch, and a peak that is all of it on both sides."""
        sides = (row.base_trust, row.head_trust)
        cut = self.peak and any(trust is not None and not (trust.whole or trust.counted) for trust in sides)
        return row.comparable and not cut

    def changed(self, row: PhaseDelta) -> bool:
        """Whether it belongs into a table of changes."""
        base, head = self.pair(row)
        return base != head or (self.peak and not self.comparable(row))

    def marks(self, row: PhaseDelta) -> tuple[str, str]:
        """What stands before the figures of base and of head."""
        return (mark_of(row.base_trust), mark_of(row.head_trust)) if self.peak else ("", "")


def measures_of(report: DiffReport) -> tuple[Measure, ...]:
    """Peak and end of what is compared, and the peak of what is reserved for it."""
    what = report.options.measure
    whose = "" if what == "allocated" else f"{what} "
    found = (Measure(f"{whose}peak", f"{what}_bytes", peak=True), Measure(f"{whose}end", f"{what}_bytes", peak=False))
    return found if what == "reserved" else (*found, Measure("reserved peak", "reserved_bytes", peak=True))


@dataclass(frozen=True)
class PhaseTable:
    """The phases of one rank."""

    rank: int
    who: str
    # `` (both ranks)``; "" where there is one
    changed: tuple[PhaseDelta, ...]
    # what a measure changed in
    same: tuple[PhaseDelta, ...]
    # the others


def mark_of(trust: Trust | None) -> str:
    """What stands before a peak that is not certain."""
    if trust is None or trust.counted:
        return ""
    return ("" if trust.exact else "~ ") if trust.whole else "≥ "


def phase_table(report: DiffReport, measures: Sequence[Measure], rank: int | None = None) -> PhaseTable | None:
    """The phases of ``rank``, else of the ranks that differ: all alike once, else the worst rank's. None
    without any phase, and for a rank that is not compared."""
    if not report.phases:
        return None
    ranks = list(dict.fromkeys(row.rank for row in report.phases))
    first = next((p.worst_rank for p in report.points if p.worst_rank in ranks), ranks[0])
    number = rank if rank is not None else first
    if number not in ranks:
        return None
    rows = [row for row in report.phases if row.rank == number]
    below, held = _below(rows), measures_of(report)[:2]
    parts: tuple[list[PhaseDelta], list[PhaseDelta]] = ([], [])
    for row in rows:
        if not row.spans or _adds(row, below.get(row.phase, ()), held):
            parts[any(measure.changed(row) for measure in measures)].append(row)
    return PhaseTable(number, whose(number, report.phases), tuple(parts[True]), tuple(parts[False]))


def _below(rows: Sequence[PhaseDelta]) -> dict[str, list[PhaseDelta]]:
    """Phase → all that lie in it."""
    found: dict[str, list[PhaseDelta]] = {}
    for row in rows:
        parts = row.phase.split("/")
        for depth in range(1, len(parts)):
            found.setdefault("/".join(parts[:depth]), []).append(row)
    return found


def _adds(row: PhaseDelta, below: Sequence[PhaseDelta], measures: Sequence[Measure]) -> bool:
    """The rule for what spans phases (``train`` above its steps), at every width the same: it is shown only
    where base or head held more, or ended with another amount, between its phases than in any of them."""
    return any(
        measure.pair(row)[side] not in [measure.pair(one)[side] for one in below]
        for measure in measures
        for side in (0, 1)
    )


def whose(rank: int, rows: Iterable[PhaseDelta | OutsideDelta]) -> str:
    """Of which ranks a table of one rank's rows is: of all where all have the same."""
    tables: dict[int, list[object]] = {}
    for row in rows:
        tables.setdefault(row.rank, []).append(row.model_copy(update={"rank": 0}))
    if len(tables) < 2:
        return ""
    if all(table == tables[rank] for table in tables.values()):
        return " (both ranks)" if len(tables) == 2 else f" (all {len(tables)} ranks)"
    return f" (rank {rank})"
