"""Holds a recorded run against what torch itself counted, and its names against what lives in the replay."""

from __future__ import annotations

import sys
from pathlib import Path

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.names import known_boundaries, lying_in
from snapviz.analyze.run import Rank, load_run
from snapviz.errors import RunError
from snapviz.schema import RankRecord

__all__ = ["misnamed", "off_counters", "summary"]


def _of(rank: Rank) -> tuple[Facts, RankRecord]:
    assert rank.record is not None
    return rank.facts(), rank.record


def off_counters(rank: Rank) -> list[str]:
    """Every figure of every phase in which replay and torch's counters are not equal."""
    facts, record = _of(rank)
    wrong = []
    if not record.phases:  # nothing was counted: the whole recording is one phase
        return []
    assert len(facts.phases.names) == len(record.phases)
    for index, phase in enumerate(record.phases):
        assert phase.counters is not None
        for column, measure in enumerate(MEASURES):
            for what, replayed in (("peak", facts.phases.peak), ("end", facts.phases.end)):
                counted = getattr(phase.counters, f"{what}_{measure}_bytes")
                if counted is not None and counted != replayed[index, column]:
                    wrong.append(f"{phase.name} {what} {measure}: {replayed[index, column]:,}, torch {counted:,}")
    return wrong


def misnamed(rank: Rank) -> list[str]:
    """Every recorded name that lies in no allocation that is live then, or sticks out of it."""
    facts, _ = _of(rank)
    table = facts.replay.allocations
    wrong = []
    for boundary in known_boundaries(facts):
        for name, allocation in lying_in(facts, boundary):
            if allocation < 0:
                wrong.append(f"{boundary.phase}: {name.kind} {name.name} at {name.address:#x} lies in nothing")
            elif name.address + name.nbytes > table.address[allocation] + table.block_bytes[allocation]:
                wrong.append(f"{boundary.phase}: {name.kind} {name.name} is larger than what it lies in")
    return wrong


def summary(path: Path) -> list[str]:
    """One line a rank, and what is wrong with it below."""
    try:
        run = load_run(path, cache=False)
    except RunError as error:
        return [str(error)]
    lines = [f"{path}: {failure.source}: {failure.message}" for failure in run.failures]
    for rank in run.ranks:
        facts, record = _of(rank)
        names = sum(len(boundary.names) for boundary in record.boundaries)
        off, wrong = off_counters(rank), misnamed(rank)
        lines.append(
            f"{path} rank {rank.rank}: {len(facts.replay):,} events, {len(record.phases)} phases, {len(off)} off; "
            f"{names:,} names at {len(record.boundaries)} boundaries, {len(wrong)} wrong; exact {facts.replay.exact}; "
            f"dangling {len(facts.dangling)} ({sum(d.block_bytes for d in facts.dangling):,} bytes); "
            f"{len(record.holders)} holders; peak {int(facts.replay.allocated_bytes.max()):,}, "
            f"end {int(facts.replay.allocated_bytes[-1]):,}"
        )
        lines += [f"    {text}" for text in (*off[:10], *wrong[:10], *facts.notes[:5])]
        lines += [f"    {holder.parameter}: {holder.path} [{holder.kind}]" for holder in record.holders[:4]]
        lines += ["    phases: " + ", ".join(dict.fromkeys(phase.name for phase in record.phases))[:600]]
    return lines


if __name__ == "__main__":
    for root in sys.argv[1:]:
        for manifest in sorted(Path(root).rglob("run.json")):
            sys.stdout.write("\n".join(summary(manifest.parent)) + "\n")
