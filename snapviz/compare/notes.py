"""What a reader has to know before the numbers: caveats, which clear exactness, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapviz.analyze.describe import fake_group_of
from snapviz.analyze.facts import Facts
from snapviz.analyze.moments import At
from snapviz.analyze.run import Run
from snapviz.analyze.trust import find_trust
from snapviz.compare.align import Ranks
from snapviz.compare.ends import ends_with_training
from snapviz.compare.masks import Masks
from snapviz.compare.outside import want_of_memory
from snapviz.compare.rank import RankDiff

__all__ = ["caveats_of", "notes_of"]


def caveats_of(base: Run, head: Run, compared: Sequence[RankDiff], points: Sequence[At]) -> tuple[str, ...]:
    """Why numbers are not exact, or not to be compared; each once."""
    said = _Said(base, head, len(compared))
    for c in compared:
        for side, facts in enumerate((c.base, c.head)):
            for note in facts.notes[: _caveats(facts)]:
                said.add(note, side, c.number)
    caveats = [*_fake_groups(base, head), *said.lines()]
    for c in compared:
        caveats += _ends(c, base.name, head.name)
        caveats += _sources(c, base.name, head.name)
        caveats += _untold_dangling(c, base.name, head.name)
        for at in points:
            caveats += [
                f"{run.name} has no phase {at.phase}: nothing is compared there"
                for run, when in zip((base, head), c.moments(at), strict=True)
                if when is None
            ]
    return tuple(dict.fromkeys(caveats))


def notes_of(base: Run, head: Run, ranks: Ranks, compared: Sequence[RankDiff]) -> tuple[str, ...]:
    """What else is inferred or left out; each once."""
    notes = list(ranks.notes)
    for run, only, other in ((base, ranks.only_base, head), (head, ranks.only_head, base)):
        if only:
            which = f"rank{'s' if len(only) > 1 else ''} {', '.join(map(str, only))}"
            notes.append(f"{which} of {run.name}: not in {other.name}, so not compared")
    notes += [f"{run.name}: {note}" for run in (base, head) for note in run.notes]
    for c in compared:
        notes += _names(c, base.name, head.name)
    notes += _masked(compared)
    said = _Said(base, head, len(compared))
    short = _Said(base, head, len(compared))
    for c in compared:
        for side, facts in enumerate((c.base, c.head)):
            for note in want_of_memory(facts):
                short.add(note, side, c.number)
            for note in (*facts.notes[_caveats(facts) :], *_reading(facts)):
                said.add(note, side, c.number)
    # a run that was short of memory is no measure of what it needs: before what is only inferred
    return tuple(dict.fromkeys((*short.lines(), *notes, *said.lines())))


def _masked(compared: Sequence[RankDiff]) -> Iterator[str]:
    """What each mask matched: one that matches nothing is a slip of the pen."""
    for expression in compared[0].view.masks.expressions if compared else ():
        one = Masks((expression,))
        frames = list(dict.fromkeys(text for c in compared for text in c.stacks.masked_by(one)))
        names = {name for c in compared for facts in (c.base, c.head) for name in (*facts.owners, *facts.modules)}
        parts = [f"{len(frames):,} {'frame' if len(frames) == 1 else 'frames'} ({_some(frames)})"] * bool(frames)
        named = sorted(name for name in names if one.name(name) != name)
        parts += [f"a part of {len(named):,} {'name' if len(named) == 1 else 'names'} ({_some(named)})"] * bool(named)
        yield f"--mask '{expression.pattern}' matches {' and '.join(parts) or 'no frame and no part of a name'}"


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_TOLD]) + (", …" if len(texts) > _TOLD else "")


_TOLD = 2
"""Frames and names that a note tells."""


def _fake_groups(base: Run, head: Run) -> Iterator[str]:
    told = {run.name: fake_group_of(run) for run in (base, head)}
    if len(set(told.values())) == 1 and told[base.name]:
        yield f"both runs were {told[base.name]}"
        return
    yield from (f"{name} was {words}" for name, words in told.items() if words)


class _Said:
    """What is said of several ranks, said once: ``main rank 0``, ``main`` for every rank, ``both runs``."""

    def __init__(self, base: Run, head: Run, ranks: int) -> None:
        self._names, self._ranks = (base.name, head.name), ranks
        self._where: dict[str, dict[int, list[int]]] = {}

    def add(self, note: str, side: int, rank: int) -> None:
        self._where.setdefault(note, {}).setdefault(side, []).append(rank)

    def lines(self) -> Iterator[str]:
        for note, sides in self._where.items():
            yield f"{self._who(sides)}: {note}"

    def _who(self, sides: dict[int, list[int]]) -> str:
        if len(sides) == 2 and all(len(numbers) == self._ranks for numbers in sides.values()):
            return "both runs"
        return " and ".join(
            self._names[side] + ("" if len(numbers) == self._ranks else f" rank {', '.join(map(str, numbers))}")
            for side, numbers in sides.items()
        )


def _caveats(facts: Facts) -> int:
    """How many of a rank's notes clear exactness: those stand before all others."""
    firm = {*facts.replay.notes, *find_trust(replace(facts, notes=())).notes}
    return max((i + 1 for i, note in enumerate(facts.notes) if note in firm), default=0)


def _reading(facts: Facts) -> Iterator[str]:
    """What reading the file left out."""
    yield from facts.columns.facts.get("notes", ())
    if ignored := facts.columns.ignored:
        kinds = "; ".join(f"{what} ({count:,})" for what, count in ignored.items())
        yield f"not understood and left out: {kinds}"


def _ends(c: RankDiff, base: str, head: str) -> Iterator[str]:
    """Where a record tells when training was over, and the other side is a bare snapshot of the whole program."""
    if (side := ends_with_training(c.base, c.head)) is not None:
        name, other = (base, head) if side == "base" else (head, base)
        yield (
            f"{name} ends with its training, and {other}, which has no record, where its file does: their ends are "
            "two different moments, and are not compared; where a run directory holds that file, give the directory"
        )


def _sources(c: RankDiff, base: str, head: str) -> Iterator[str]:
    if not c.basis.births:
        yield (
            f"phases come from {c.base.phases.source} in {base} and from {c.head.phases.source} in {head}: "
            "they are not compared, and rows are not told apart by phase of birth"
        )


def _untold_dangling(c: RankDiff, base: str, head: str) -> Iterator[str]:
    """Where one side can tell what dangles and the other cannot; without any record there are suspects."""
    if c.base.dangling_known != c.head.dangling_known:
        name, facts = (base, c.base) if not c.base.dangling_known else (head, c.head)
        yield f"what dangles in {name} cannot be told: {facts.dangling_why}"


def _names(c: RankDiff, base: str, head: str) -> Iterator[str]:
    if not c.basis.names:
        lacking, facts = (base, c.base) if c.names[1] else (head, c.head)
        named = facts.record is not None and any(boundary.names for boundary in facts.record.boundaries)
        why = "a record, but no name in it fits an allocation" if named else "no record of names"
        yield f"{lacking} has {why}: both are compared by what their stacks say, without owners"
