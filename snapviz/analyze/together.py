"""Whether the ranks of a run belong together: files of two runs in one folder read as one otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapviz.schema import RankRecord, RunManifest

__all__ = ["apart"]


def apart(manifest: RunManifest | None, records: Sequence[RankRecord]) -> Iterator[str]:
    """What the records of a run say against each other and against the manifest, in words; nothing where they agree."""
    meant = manifest.world_size if manifest is not None else None
    for record in records:
        if record.world_size is not None and meant is not None and record.world_size != meant:
            said = f"the record of rank {record.rank} says that there were {record.world_size} ranks"
            yield f"{said}, and run.json {meant}"
    spans = [
        (min(phase.start_us for phase in record.phases), max(phase.stop_us for phase in record.phases), record.rank)
        for record in records
        if record.phases
    ]
    # ranks of one job train at the same time: the one that began last began before any was over
    if spans and max(spans)[0] > min(stop for _, stop, _ in spans):
        early = min(spans, key=lambda one: one[1])[2]
        yield f"rank {max(spans)[2]} was recorded when rank {early} was over: they may be of two different runs"
