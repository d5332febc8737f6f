"""Facts and runs in the words of the reports: what ``info`` and ``diff`` both say.

Legend: P phases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from snapviz.analyze.facts import Facts
from snapviz.analyze.run import Run
from snapviz.analyze.select import Remaining
from snapviz.schema import BrokenRank, Dangling, MeasureBytes, RunSummary, Suspect, Without
from snapviz.schema.base import comparable

__all__ = [
    "allocator_settings",
    "broken_ranks",
    "dangling_of",
    "fake_group_of",
    "known",
    "measures",
    "summary_of",
    "suspects_of",
    "without_dangling",
]

Side = Literal["base", "head"] | None


def measures(values: Iterable[int]) -> MeasureBytes:
    """Four values in the order of ``MEASURES``."""
    requested, allocated, active, reserved = (int(value) for value in values)
    return MeasureBytes(
        requested_bytes=requested, allocated_bytes=allocated, active_bytes=active, reserved_bytes=reserved
    )


def dangling_of(facts: Facts, side: Side, rank: int) -> list[Dangling]:
    """The dangling parameters of a rank, the largest first."""
    return [
        Dangling(
            run=side,
            rank=rank,
            name=one.name,
            names=one.names,
            allocation=one.allocation,
            requested_bytes=one.requested_bytes,
            block_bytes=one.block_bytes,
            birth_phase=facts.births[int(facts.birth[one.allocation])],
            should_go_in=one.should_go_in,
            gone_in=one.gone_in,
            dtype=one.dtype,
            shape=one.shape,
            stack=facts.stack_lines(int(facts.replay.allocations.stack[one.allocation])),
            holders=one.holders,
            holder_kinds=one.holder_kinds,
        )
        for one in facts.dangling
    ]


def suspects_of(facts: Facts, side: Side, rank: int) -> list[Suspect]:
    """The suspects of a rank, the largest first."""
    return [
        Suspect(
            run=side,
            rank=rank,
            count=len(one.allocations),
            requested_bytes=one.requested_bytes,
            block_bytes=one.block_bytes,
            birth_phase=facts.births[int(facts.birth[one.allocations[0]])],
            evidence=one.evidence,
            stack=facts.stack_lines(int(facts.replay.allocations.stack[one.allocations[0]])),
        )
        for one in facts.suspects
    ]


def without_dangling(facts: Facts, phases: npt.NDArray[np.int64] | None, peak_bytes: int) -> Without | None:
    """The allocated peak of these phases (none: of all) had nothing dangled; none where nothing does."""
    if not facts.dangling:
        return None
    windows = [(0, len(facts.replay))]
    if phases is not None:
        windows = [(int(facts.phases.first[i]), int(facts.phases.stop[i])) for i in phases]
    peak = Remaining(facts, facts.dangling_since).peak(windows)
    return Without(peak_bytes=peak, saved_bytes=peak_bytes - peak)


def broken_ranks(run: Run, side: Side, only: int | None = None) -> list[BrokenRank]:
    """The ranks of a run that could not be read; where one rank is asked for, the others are no part of the answer."""
    failures = run.failures if only is None else [one for one in run.failures if one.rank == only]
    return [BrokenRank(run=side, rank=f.rank, source=f.source, message=f.message) for f in failures]


def summary_of(run: Run) -> RunSummary:
    """A run in short."""
    manifest = run.manifest
    return RunSummary(
        name=run.name,
        ranks=tuple(rank.rank for rank in run.ranks),
        world_size=run.world_size,
        torch=known(run, "torch"),
        device=known(run, "device"),
        git=manifest.git if manifest else None,
        settings=allocator_settings(run),
        recorded=run.recorded,
        fake_process_group=manifest.fake_process_group if manifest else None,
        metrics=dict(manifest.metrics) if manifest else {},
    )


def fake_group_of(run: Run) -> str:
    """That torch's fake process group stood in for the other ranks, in words that a run's name begins; or ""."""
    if run.manifest is None or not run.manifest.fake_process_group:
        return ""
    of = f" of {run.world_size}" if run.world_size else ""
    numbers = [str(rank.rank) for rank in run.ranks]
    who = f"rank {numbers[0]}{of} on one GPU" if len(numbers) == 1 else f"{len(numbers)} ranks{of}, each by itself"
    return (
        f"recorded with torch's fake process group ({who}): communication did nothing, its own memory is "
        "missing, and times say nothing"
    )


def known(run: Run, what: Literal["torch", "device"]) -> str | None:
    """torch's version or the device's name, from the manifest, else from the first record that has it."""
    value: str | None = getattr(run.manifest, what) if run.manifest else None
    if value is not None:
        return value
    attribute = {"torch": "torch", "device": "device_name"}[what]
    return next((v for r in run.ranks if r.record and (v := getattr(r.record, attribute)) is not None), None)


def allocator_settings(run: Run) -> dict[str, JsonValue]:
    """From the manifest, else from the first snapshot."""
    if run.manifest and run.manifest.allocator_settings:
        return dict(run.manifest.allocator_settings)
    return comparable(run.ranks[0].columns.settings) if run.ranks else {}
