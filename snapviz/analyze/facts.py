"""What is known of one rank, and how the passes add to it.

Legend: E events, A allocations, P phases, S stacks.

A pass is a function ``Facts -> Facts``: it reads what passes before it found and returns a copy with
its own findings. Nothing is ever taken away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from snapviz.analyze.frames import FrameNames
from snapviz.analyze.rules import Rule, built_in_rules
from snapviz.replay.model import MEASURES, Replay
from snapviz.schema import HistoryRecord, RankRecord
from snapviz.snapshot.columns import ABSENT, Columns

__all__ = [
    "ANNOTATED",
    "BEFORE",
    "CATEGORIES",
    "EVIDENCE",
    "INFERRED",
    "MEASURES",
    "OUTSIDE",
    "RECORDED",
    "ROOT",
    "DanglingParameter",
    "Facts",
    "Pass",
    "Phases",
    "Suspicion",
    "begins_at_the_start",
    "event_at",
    "is_truncated",
    "start_facts",
]

Bool = npt.NDArray[np.bool_]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

CATEGORIES = (
    "unknown",
    "parameter",
    "shard",
    "gradient",
    "optimizer state",
    "activation",
    "communication",
    "temporary",
    "buffer",
    "workspace",
    "graph pool",
)
"""What an allocation is for, by code. ``parameter`` is a whole one: before sharding, or never sharded;
``workspace`` is a library's own (cuBLAS), ``graph pool`` what a CUDA graph keeps for its replays."""

RECORDED, ANNOTATED, INFERRED = 0, 1, 2
EVIDENCE: tuple[Literal["recorded", "annotated", "inferred"], ...] = ("recorded", "annotated", "inferred")
"""What owner and category rest on, by code, the strongest first."""

BEFORE = "before the recording"
"""Birth phase of an allocation that is older than the first event."""
OUTSIDE = "outside phases"
"""Birth phase of an allocation that was made between phases, before the first or after the last."""

ROOT = "(root)"
"""Module path of a whole model, whose own path is empty."""

_INNERMOST, _OUTERMOST = 150, 50
"""Frames of a stack that are shown: a recursion can have made it as long as the file."""


@dataclass(frozen=True)
class Phases:
    """P phases in order of their start. Values are bytes, [P, 4] int64 in the order of ``MEASURES``."""

    source: str  # "record", "annotations", "optimizer steps" or "none"
    names: tuple[str, ...]
    start_us: Int64  # [P]
    stop_us: Int64  # [P]
    first: Int64  # [P] first event
    stop: Int64  # [P] one past the last event
    start: Int64  # [P, 4] just before the first event
    peak: Int64  # [P, 4] highest, counting the value just before the first event
    end: Int64  # [P, 4] after the last event
    whole: Bool  # [P] all its events are there; else peak is that of those which are left
    exact: Bool  # [P] whole, and nothing in it is estimated or contradicted
    counted: Bool  # [P] not whole: peak and end are torch's counters, for the measures that it recorded
    least: Bool  # [P, 4] not whole and not counted: the peak may have been higher

    @property
    def growth(self) -> Int64:
        """[P, 4] end minus start."""
        return self.end - self.start

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class DanglingParameter:
    """One allocation of an original parameter that outlived the phase that should have freed it."""

    allocation: int
    name: str  # for people
    names: tuple[str, ...]  # all that share the allocation, sorted
    requested_bytes: int
    block_bytes: int
    since_event: int  # last event of the phase that should have released it, or that still used it
    should_go_in: str
    gone_in: str | None  # None: live at the end
    dtype: str | None
    shape: tuple[int, ...] | None
    holders: tuple[str, ...]
    holder_kinds: tuple[str, ...] = ()  # of each holder, "" where not said


@dataclass(frozen=True)
class Suspicion:
    """Allocations of one stack and size that may dangle, with all that speaks for it."""

    allocations: tuple[int, ...]
    requested_bytes: int
    block_bytes: int
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """One rank: its input first, then what the passes found."""

    rank: int
    columns: Columns
    replay: Replay
    record: RankRecord | None
    world_size: int | None
    frames: FrameNames
    rules: tuple[Rule, ...]  # M: what stacks are read by

    truncated: bool  # the events do not begin at the first allocation
    exact: bool  # from the first event on: nothing is estimated, assumed or contradicted
    phases: Phases
    birth: Int32  # [A] index into births
    births: tuple[str, ...]  # BEFORE, OUTSIDE, then the phases' names
    owner: Int32  # [A] index into owners
    owners: tuple[str, ...]  # "" first: not known
    category: Int8  # [A] index into CATEGORIES
    evidence: Int8  # [A] index into EVIDENCE
    stack_category: Int8  # [A] what the stack alone says: neither names nor what came before and after it
    module: Int32  # [A] index into modules: the module that was running, or that has what the owner names
    rule: Int32  # [A] index into rules of what decides its category where nobody names it; M where none does
    modules: tuple[str, ...]  # "" first: not known; ROOT is the whole model
    recomputed: Bool  # [A] made by a forward that ran again in backward
    recorded_shapes: dict[int, tuple[str | None, tuple[int, ...] | None]] = field(default_factory=dict)
    dangling_since: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))  # [A] event, E where never
    dangling: tuple[DanglingParameter, ...] = ()
    dangling_known: bool = False  # whether ``dangling`` is all that dangles
    dangling_why: str = "nobody looked"  # why that cannot be told, "" where it can
    suspects: tuple[Suspicion, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stack(self) -> Int32:
        """[A] stack ids, or ABSENT, that are the same wherever the program's own frames are: what to group by."""
        found: Int32 = np.append(self.frames.same, np.int32(ABSENT))[self.replay.allocations.stack]
        return found

    def noting_first(self, *notes: str) -> Facts:
        """The same with notes put before all others, each once."""
        return replace(self, notes=tuple(dict.fromkeys((*notes, *self.notes))))

    def noting(self, *notes: str) -> Facts:
        """The same with notes added, each once."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def stack_lines(self, stack: int) -> tuple[str, ...]:
        """A stack for people, innermost frame first, its middle left out where it is long."""
        frames = self.frames.of(stack)
        left_out = len(frames) - _INNERMOST - _OUTERMOST
        if left_out <= 0:
            return tuple(map(self.frames.text, frames.tolist()))
        inner, outer = frames[:_INNERMOST].tolist(), frames[-_OUTERMOST:].tolist()
        return (*map(self.frames.text, inner), f"… {left_out:,} frames …", *map(self.frames.text, outer))


Pass = Callable[[Facts], Facts]
"""The one signature of an analysis pass."""


def start_facts(
    rank: int,
    columns: Columns,
    replay: Replay,
    record: RankRecord | None = None,
    world_size: int | None = None,
    rules: tuple[Rule, ...] | None = None,
) -> Facts:
    """Facts before any pass has run: nothing known of any of the A allocations."""
    count = len(replay.allocations.address)
    nothing = np.zeros(0, np.int64)
    none = np.zeros((0, len(MEASURES)), np.int64)
    no = np.zeros(0, bool)
    return Facts(
        rank=rank,
        columns=columns,
        replay=replay,
        record=record,
        world_size=world_size or (record.world_size if record is not None else None),
        frames=FrameNames(columns),
        rules=(known := built_in_rules() if rules is None else rules),
        truncated=is_truncated(replay, record.history if record is not None else None),
        exact=replay.exact,
        phases=Phases("none", (), nothing, nothing, nothing, nothing, none, none, none, no, no, no, none > 0),
        birth=np.zeros(count, np.int32),
        births=(BEFORE, OUTSIDE),
        owner=np.zeros(count, np.int32),
        owners=("",),
        category=np.zeros(count, np.int8),
        evidence=np.full(count, INFERRED, np.int8),
        stack_category=np.zeros(count, np.int8),
        module=np.zeros(count, np.int32),
        rule=np.full(count, len(known), np.int32),
        modules=("",),
        recomputed=np.zeros(count, bool),
        dangling_since=np.full(count, len(replay.time_us), np.int64),
        notes=tuple(replay.notes),
    )


def begins_at_the_start(replay: Replay) -> bool:
    """Whether nothing is older than the first event: no allocation, and no segment that one had to have.

    A ring that was overwritten leaves no other trace in the file.
    """
    return replay.start.reserved_bytes == 0 and bool((replay.allocations.alloc_event >= 0).all())


def is_truncated(replay: Replay, history: HistoryRecord | None = None) -> bool:
    """Whether events before the first one may be missing.

    A full ring may have been overwritten: when all of it was freed and given back, only its length says so,
    and the recorder where it looked. One that says no is believed as long as the ring is not full.
    """
    if len(replay) == 0 or not begins_at_the_start(replay):
        return True
    if history is None:
        return False
    events = max(len(replay), history.events or 0)
    full = history.max_entries is not None and events >= history.max_entries
    return not history.first_allocation or bool(history.overflowed) or full


def event_at(replay: Replay, time_us: int) -> int:
    """The last event at or before a time; −1 before the first. The events must carry times."""
    if len(replay.time_us) == 0:
        return -1
    # window() decides what a time window holds, so that phases and boundaries can never disagree
    return int(replay.window(int(replay.time_us[0]), time_us)[1]) - 1
