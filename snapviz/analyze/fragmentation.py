"""Why reserved memory is more than what is allocated, and why a request could not be served: one report of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapviz.analyze.addressspace import AddressSpace
from snapviz.analyze.describe import broken_ranks, fake_group_of, summary_of
from snapviz.analyze.each import each_rank
from snapviz.analyze.fragmentationoom import out_of_memory
from snapviz.analyze.fragmentationparts import (
    WHOLE,
    Pieces,
    cells_of,
    paged_bytes,
    pool_parts,
    reserved_parts,
)
from snapviz.analyze.fragmentationpins import pending_of, pins_of
from snapviz.analyze.fragmentationpoints import (
    DEFAULT_MOMENTS,
    FORMS,
    Wanted,
    device_free_at,
    oom_events,
    parse_wanted,
)
from snapviz.analyze.run import Rank, Run
from snapviz.errors import UsageError
from snapviz.replay.segments import FREE
from snapviz.schema import (
    FRAGMENTATION_VERSION,
    FragmentationPoint,
    FragmentationReport,
    FreeBlocks,
    Moment,
    RankFragmentation,
)
from snapviz.snapshot.columns import ABSENT

__all__ = ["DEFAULT_MOMENTS", "FORMS", "fragmentation", "fragmentation_at", "parse_wanted"]

_PHASES_NAMED = 60


def fragmentation(
    run: Run,
    at: Sequence[str] = DEFAULT_MOMENTS,
    rank: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> FragmentationReport:
    """The report of a run at some moments (``FORMS``).

    Raises ``UsageError`` for a moment that no rank has, ``RunError`` for a ``rank`` that could not be read.
    """
    wanted = [parse_wanted(text) for text in dict.fromkeys(at)]
    found, names = [], dict[str, None]()
    for one, facts in each_rank(run.ranks if rank is None else (run.rank(rank),), progress):
        known = AddressSpace(facts)
        names |= dict.fromkeys(known.stretches.folded)
        found.append(_rank(one, known, wanted))
    for one_wanted in wanted:
        if found and all(one_wanted.text in report.missing_points for report in found):
            raise UsageError(_nowhere(one_wanted, list(names), run))
    return FragmentationReport(
        schema_version=FRAGMENTATION_VERSION,
        run=summary_of(run),
        notes=(*([fake] if (fake := fake_group_of(run)) else []), *run.notes),
        broken=tuple(broken_ranks(run, None, rank)),
        ranks=tuple(sorted(found, key=_badness)),
    )


def _badness(rank: RankFragmentation) -> tuple[bool, int, int]:
    """The worst first: what ran out of memory, then by free memory that is held at the first moment."""
    parts = rank.points[0].parts if rank.points else None
    held = parts.mostly_free_bytes + parts.busy_bytes if parts is not None else 0
    return rank.ooms == 0, -held, rank.rank


def _nowhere(wanted: Wanted, names: list[str], run: Run) -> str:
    if wanted.oom is not None:
        counts = max((len(oom_events(rank.facts())) for rank in run.ranks), default=0)
        return f"--at {wanted.text}: " + (
            f"it ran out of memory {counts} times" if counts else "it never ran out of memory"
        )
    if wanted.event is not None:
        most = max((len(rank.facts().replay) for rank in run.ranks), default=0)
        return f"--at {wanted.text}: there are {most:,} events, numbered from 0"
    return f"--at {wanted.text}: no such phase (there is: {', '.join(names[:_PHASES_NAMED])})"


def _rank(rank: Rank, known: AddressSpace, wanted: Sequence[Wanted]) -> RankFragmentation:
    facts = known.facts
    moments = [(one, known.when(one)) for one in wanted]
    setting = rank.columns.settings.get("expandable_segments")
    return RankFragmentation(
        rank=rank.rank,
        device=rank.device,
        source=rank.source,
        exact=facts.exact,
        consistent=facts.replay.consistent,
        truncated=facts.truncated,
        notes=facts.notes,
        expandable_setting=bool(setting) if isinstance(setting, (bool, int)) else None,
        streams=known.streams,
        points=tuple(fragmentation_at(known, one, when) for one, when in moments if when is not None),
        missing_points=tuple(one.text for one, when in moments if when is None),
        phases=known.phases,
        ooms=len(known.ooms),
        out_of_memory=out_of_memory(facts, known.history),
    )


def fragmentation_at(known: AddressSpace, wanted: Wanted, when: Moment) -> FragmentationPoint:
    """How memory is cut up at one moment of one rank."""
    facts, table = known.facts, known.facts.replay.allocations
    pieces = known.pieces(when.event)
    pins = pins_of(facts, pieces)
    unnamed = pieces.table.pool == ABSENT
    device_free = device_free_at(facts, when.event)
    return FragmentationPoint(
        at=wanted.text,
        title=wanted.title,
        moment=when,
        estimated_blocks=int((table.estimated & table.active_after(when.event)).sum()),
        pool_assumed_bytes=int(pieces.table.size_bytes[unnamed].sum()),
        parts=reserved_parts(facts, pieces),
        pools=pool_parts(pieces, facts.columns),
        pending=pending_of(facts, pieces),
        pins=pins.rows,
        more_pins=pins.more,
        more_pins_bytes=pins.more_bytes,
        paged_bytes=paged_bytes(pieces),
        device_free_bytes=device_free,
        free_blocks=tuple(_free_blocks(pieces, stream, device_free) for stream in known.streams),
        cells=cells_of(pieces),
    )


def _free_blocks(pieces: Pieces, stream: int, device_free: int | None) -> FreeBlocks:
    table = pieces.table
    mine = (table.stream == stream) & ~table.small & ~pieces.private
    sizes = table.block_bytes[(table.block_state == FREE) & mine[table.segment_of_block]]
    largest = int(sizes.max(initial=0))
    whole = int(pieces.size_bytes[(pieces.kind == WHOLE) & ~pieces.private[pieces.segment]].sum())
    possible = max(largest, device_free + whole) if device_free is not None else None
    return FreeBlocks(
        stream=stream,
        free_bytes=int(sizes.sum()),
        largest_free_bytes=largest,
        largest_possible_bytes=possible,
    )
