"""The documents of a finished recording, from what the recorder noted while it ran."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from snapviz.record.backend import HistorySettings
from snapviz.record.guard import guarded
from snapviz.record.phases import ClosedPhase
from snapviz.record.tensors import Row
from snapviz.record.windows import WindowLog
from snapviz.schema import (
    RANK_VERSION,
    RUN_VERSION,
    Boundary,
    GitState,
    HistoryRecord,
    HolderRecord,
    NameRecord,
    PhaseRecord,
    RankRecord,
    RunManifest,
    TorchCounters,
)

__all__ = ["Job", "NamedMoment", "Notes", "history_record", "manifest_of", "rank_record"]


@dataclass
class Job:
    """What is true of the whole run."""

    name: str
    command: tuple[str, ...]
    rank: int
    world_size: int
    created: str = field(default_factory=lambda: datetime.datetime.now().astimezone().isoformat(timespec="seconds"))
    git: GitState | None = None
    torch: str | None = None
    device_name: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    fake_process_group: bool | None = None


@dataclass(frozen=True)
class NamedMoment:
    """The names of one boundary."""

    time_us: int
    phase: str | None
    rows: tuple[Row, ...]
    complete: bool = True


@dataclass
class Notes:
    """What one rank noted."""

    phases: list[ClosedPhase] = field(default_factory=list)
    censuses: list[NamedMoment] = field(default_factory=list)
    holders: list[HolderRecord] = field(default_factory=list)
    windows: WindowLog | None = None


def manifest_of(job: Job, allocator_settings: dict[str, Any] | None = None) -> RunManifest:
    """``run.json``; before the end without the allocator's settings."""
    return RunManifest(
        schema_version=RUN_VERSION,
        name=_text(job.name),
        created=job.created,
        command=tuple(map(_text, job.command)),
        git=job.git,
        world_size=job.world_size,
        recorded_ranks=(job.rank,) if job.fake_process_group else None,
        torch=job.torch,
        device=job.device_name,
        allocator_settings=allocator_settings or {},
        packages=job.packages,
        settings={_text(key): _plain(value) for key, value in job.settings.items()},
        fake_process_group=job.fake_process_group,
        metrics=job.metrics,
    )


def rank_record(job: Job, device: int, history: HistoryRecord, notes: Notes) -> RankRecord:
    """``rankNNNNN.json``."""
    return RankRecord(
        schema_version=RANK_VERSION,
        rank=job.rank,
        world_size=job.world_size,
        device=device,
        device_name=job.device_name,
        torch=job.torch,
        history=history,
        phases=tuple(_phases(notes.phases)),
        boundaries=tuple(_boundary(census) for census in notes.censuses),
        holders=tuple(notes.holders),
        modules=guarded("modules", notes.windows.record) if notes.windows else None,
        metrics=job.metrics,
    )


def history_record(
    settings: HistorySettings, first_allocation: bool, traces: Sequence[Sequence[Any]], device: int
) -> HistoryRecord:
    """How it was recorded, and whether the ring was full in the end: torch itself says nothing of that."""
    events = len(traces[device]) if device < len(traces) else 0
    return HistoryRecord(
        first_allocation=first_allocation,
        max_entries=settings.max_entries,
        context=settings.context,
        stacks=settings.stacks,
        events=events,
        overflowed=events >= settings.max_entries,
    )


def _plain(value: Any, depth: int = 0) -> Any:
    """A setting as JSON can hold it: what is no number, text or list of such is its text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth < 4 and isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1) for one in value]
    if depth < 4 and isinstance(value, dict):
        return {_text(key): _plain(one, depth + 1) for key, one in value.items()}
    return _text(value)


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _phases(closed: Iterable[ClosedPhase]) -> Iterable[PhaseRecord]:
    # an outer phase ends after its inner ones, and begins before them
    for phase in sorted(closed, key=lambda phase: (phase.start_us, -phase.stop_us)):
        yield PhaseRecord(name=phase.name, start_us=phase.start_us, stop_us=phase.stop_us, counters=_counters(phase))


def _counters(phase: ClosedPhase) -> TorchCounters | None:
    end = phase.end
    if end is None:
        return None
    return TorchCounters(
        **{f"peak_{measure}_bytes": value for measure, value in phase.peak.items()},
        **{f"end_{measure}_bytes": value for measure, value in end.current.items()},
        alloc_retries=phase.alloc_retries,
        ooms=phase.ooms,
        device_free_bytes=end.free_bytes,
        device_total_bytes=end.total_bytes,
    )


def _boundary(census: NamedMoment) -> Boundary:
    names = (
        NameRecord(kind=r.kind, name=_text(r.name), address=r.address, nbytes=r.nbytes, dtype=r.dtype, shape=r.shape)
        for r in census.rows
    )
    return Boundary(
        time_us=census.time_us, phase=census.phase, names=tuple(names), complete=None if census.complete else False
    )
