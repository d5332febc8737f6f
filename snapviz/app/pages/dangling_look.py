"""What the dangling page shows, in finished numbers: of each run what dangles, folded, and what is picked of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from snapviz.analyze.outlived import dangling, without_only
from snapviz.app.recent import Recent
from snapviz.app.results import Results
from snapviz.app.sides import names_of
from snapviz.app.state import State
from snapviz.compare.holders import held_alike, keepers_of, kept_by
from snapviz.report.danglingblocks import Alike, alike_of
from snapviz.report.words import ranges
from snapviz.schema import Dangling, DanglingPhase, DanglingReport, RankDangling, Suspect, Without

__all__ = ["Look", "Looks", "Picked", "Row", "Side", "peak_moves_to"]

_KEPT = 6
"""Reports that a worker keeps."""

_PATH = 90
"""Columns of a holder's path in a table."""

_NOT_SHARDED = "the record has no phase shard and names no shards"
"""What a rank's record says where nothing in it was sharded."""


@dataclass(frozen=True)
class Row:
    """Parameters that are alike, or one by itself."""

    side: Literal["base", "head"]
    label: str
    ranks: tuple[int, ...]
    each: tuple[Dangling, ...]  # of the first of the ranks

    @property
    def block_bytes(self) -> int:
        """Of one of them, on one rank: all have the same."""
        return self.each[0].block_bytes

    @property
    def rank_bytes(self) -> int:
        """Of all of them, on one rank."""
        return self.block_bytes * len(self.each)

    @property
    def total_bytes(self) -> int:
        """On all ranks."""
        return self.rank_bytes * len(self.ranks)

    @property
    def where(self) -> str:
        """Its ranks, in short."""
        return ranges(self.ranks)

    @property
    def kept(self) -> str:
        """What keeps it, in short; "" where nobody knows."""
        every = f" ({len(self.each)} of {len(self.each)})"
        return kept_by(self.each, _PATH).removeprefix("kept by ").removesuffix(every)

    @property
    def more_holders(self) -> int:
        """Ways in which it is held that ``kept`` does not tell."""
        return max(0, len(held_alike(self.each)) - len(keepers_of(self.each, _PATH)))

    def is_called(self, name: str) -> bool:
        """Whether a name is its label, or any of its parameters'."""
        return name == self.label or any(name == one.name or name in one.names for one in self.each)

    def has(self, text: str) -> bool:
        """Whether a text is in any of its names, or in a path that keeps it."""
        wanted = text.casefold()
        texts = (self.label, *(part for one in self.each for part in (*one.names, *one.holders)))
        return any(wanted in one.casefold() for one in texts)


@dataclass(frozen=True)
class Side:
    """One run."""

    key: Literal["base", "head"]
    name: str
    report: DanglingReport
    rows: tuple[Row, ...]  # the largest first

    @property
    def worst(self) -> RankDangling | None:
        """The rank with the most dangling bytes; none where none could be read."""
        return self.report.ranks[0] if self.report.ranks else None

    @property
    def total_bytes(self) -> int:
        """Of all ranks."""
        return sum(one.dangling_bytes for one in self.report.ranks)

    @property
    def unknown(self) -> list[RankDangling]:
        """Ranks of which it cannot be told."""
        return [one for one in self.report.ranks if not one.dangling_known]

    @property
    def not_sharded(self) -> bool:
        """Whether every rank's record says that nothing was sharded, and nothing looks as if it had been."""
        ranks = self.report.ranks
        return bool(ranks) and all(one.dangling_why == _NOT_SHARDED and not one.suspects for one in ranks)

    @property
    def suspects(self) -> list[Suspect]:
        """Of all ranks."""
        return [one for rank in self.report.ranks for one in rank.suspects]


@dataclass(frozen=True)
class Picked:
    """A row, and what memory would be without it on one rank."""

    row: Row
    side: Side
    rank: int
    peak_bytes: int
    without: Without
    phases: tuple[DanglingPhase, ...]


@dataclass(frozen=True)
class Look:
    """Both runs, those that are chosen."""

    sides: tuple[Side, ...]  # base first
    ranks: tuple[int, ...]  # that can be picked
    picked: Picked | None
    q: str
    missing: str  # a name that is picked and does not dangle; "" where it does

    @property
    def rows(self) -> list[Row]:
        """Of both, head's first: it is what is judged."""
        return [row for side in self.sides[::-1] for row in side.rows if not self.q or row.has(self.q)]


def peak_moves_to(peak_bytes: int, without: Without, phases: Sequence[DanglingPhase]) -> str:
    """The phase in which the peak is without what dangles, where that is another one than with it; else ""."""
    # of phases that lie in each other the innermost
    inner = sorted(phases, key=lambda one: -one.phase.count("/"))
    now = next((one.phase for one in inner if one.peak_bytes == peak_bytes), "")
    then = next((one.phase for one in inner if one.without_bytes == without.peak_bytes), "")
    return then if without.saved_bytes and then != now else ""


class Looks:
    """What was looked at last. Safe to share between threads."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._reports: Recent[str, DanglingReport] = Recent(_KEPT)

    def of(self, state: State) -> Look:
        """What a state asks for. Raises ``SnapvizError``."""
        names = names_of(self._results, state)
        sides = []
        ranks: set[int] = set()
        for key, run_id, name in (("base", state.base, names[0]), ("head", state.head, names[1])):
            if run_id:
                report = self._report(run_id)
                ranks |= {one.rank for one in report.ranks}
                sides.append(_side(key, name, report, state))  # type: ignore[arg-type]
        look = Look(tuple(sides), tuple(sorted(ranks)), None, state.q, "")
        picked = self._picked(look, state) if state.name else None
        missing = state.name if state.name and picked is None else ""
        return Look(look.sides, look.ranks, picked, state.q, missing)

    def _report(self, run_id: str) -> DanglingReport:
        state = State(base=run_id)
        key = self._results.key("dangling", state)
        known = self._reports.get(key)
        if known is not None:
            return known
        found = self._results.kept("dangling", state, lambda: self._made(run_id).model_dump(mode="json"))
        return self._reports.put(key, DanglingReport.model_validate_json(json.dumps(found)))

    def _made(self, run_id: str) -> DanglingReport:
        """Rank by rank, so that no more facts stay in memory than there is room for."""
        run = self._results.run(run_id)
        found = []
        for rank in run.ranks:
            self._results.facts(run_id, rank.rank)
            found.append(dangling(run, rank.rank))
        whole = sorted(
            (one for report in found for one in report.ranks), key=lambda one: (-one.dangling_bytes, one.rank)
        )
        nothing = dangling(type(run)(run.name, run.path, run.manifest, (), run.failures, run.notes))
        summary = found[0].run if found else nothing.run
        return nothing.model_copy(update={"run": summary, "ranks": tuple(whole)})

    def _picked(self, look: Look, state: State) -> Picked | None:
        rows = [row for side in look.sides[::-1] for row in side.rows if row.is_called(state.name)]
        # of a row and a parameter in it the parameter, where each has its own row
        row = min(rows, key=lambda one: len(one.each), default=None)
        if row is None:
            return None
        side = next(one for one in look.sides if one.key == row.side)
        rank = row.ranks[0]
        if len(row.each) > 1 and state.name != row.label:
            row = Row(
                row.side, state.name, row.ranks, tuple(one for one in row.each if state.name in (one.name, *one.names))
            )
        facts = self._results.facts(state.base if row.side == "base" else state.head, rank)
        peak = facts.replay.peak("allocated", 0, len(facts.replay))[0]
        without, phases = without_only(facts, [one.allocation for one in row.each])
        return Picked(row, side, rank, peak, without, phases)


def _side(key: Literal["base", "head"], name: str, report: DanglingReport, state: State) -> Side:
    ranks = [one for one in report.ranks if state.rank is None or one.rank == state.rank]
    shown = report.model_copy(update={"ranks": tuple(ranks)})
    # ranks in order, so that a row is told by its first
    found = alike_of([d for rank in sorted(ranks, key=lambda one: one.rank) for d in rank.dangling])
    rows = [row for one in found for row in _rows(key, one, state.show == "each")]
    rows.sort(key=lambda row: (-row.total_bytes, row.label))
    return Side(key, name, shown, tuple(rows))


def _rows(key: Literal["base", "head"], alike: Alike, each: bool) -> Sequence[Row]:
    if not each:
        return [Row(key, alike.label, alike.ranks, alike.each)]
    return [Row(key, one.name, alike.ranks, (one,)) for one in alike.each]
