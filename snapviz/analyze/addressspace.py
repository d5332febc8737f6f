"""The address space of one rank: prepared once, then any of its moments for little.

Legend: E events, N shown events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from snapviz.analyze.axis import Axis
from snapviz.analyze.bands import columns_of, extremes
from snapviz.analyze.facts import Facts
from snapviz.analyze.fragmentationparts import Pieces, pieces_of
from snapviz.analyze.fragmentationphases import curves_of, held_free, phases_of, streams_of
from snapviz.analyze.fragmentationpoints import Wanted, oom_events, resolve
from snapviz.analyze.marks import Span, phase_spans
from snapviz.analyze.stretches import Stretches
from snapviz.replay.freeblocks import FreeCurves
from snapviz.replay.model import START
from snapviz.replay.segments import SegmentHistory
from snapviz.schema import Moment, PhaseFragmentation

__all__ = ["AddressSpace", "FreeLayers"]

Int64 = npt.NDArray[np.int64]

_NARROW = 1 / 100
"""Part of a window that a phase must fill to be a band by itself."""


@dataclass(frozen=True, eq=False)
class FreeLayers:
    """Reserved memory after N events in order, ``START`` first: the five layers sum to it, to the byte."""

    event: Int64  # [N]
    allocated_bytes: Int64  # [N]
    pending_bytes: Int64  # [N] freed, held back for other streams
    held_bytes: Int64  # [N] free, held by what is live beside it; below 0 only where the file contradicts itself
    private_bytes: Int64  # [N] free and whole, of private pools
    whole_bytes: Int64  # [N] free, and could be given back
    reserved_bytes: Int64  # [N]
    largest_bytes: Int64  # [N] the largest free block for large requests, of the stream that has most


class AddressSpace:
    """One rank's segments over all its events."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.stretches = Stretches(facts)
        self.history = SegmentHistory(facts.replay, facts.columns)
        self.streams = streams_of(self.history)

    @cached_property
    def curves(self) -> FreeCurves:
        """Free memory over all events."""
        return curves_of(self.history, self.streams)

    @cached_property
    def held(self) -> Int64:
        """[1 + E] free bytes that could not be given back, before the first event and after each."""
        return held_free(self.facts, self.curves)

    @cached_property
    def phases(self) -> tuple[PhaseFragmentation, ...]:
        """The folded phases, in order of their start; none without an event."""
        return phases_of(self.facts, self.curves) if len(self.facts.replay) else ()

    @cached_property
    def side_streams(self) -> dict[int, int]:
        """Each stream but the default one → its place among them, from 1, in the order of their first segments."""
        before, born = self.history.at(START).stream, self.history.births().stream
        found = dict.fromkeys(np.concatenate([before, born]).tolist())
        return {stream: at for at, stream in enumerate((one for one in found if one > 0), 1)}

    @cached_property
    def ooms(self) -> Int64:
        """The events at which the allocator gave up."""
        return oom_events(self.facts)

    def when(self, wanted: Wanted) -> Moment | None:
        """When a moment is; none where the rank has none such."""
        return resolve(self.facts, self.stretches, wanted)

    def pieces(self, event: int) -> Pieces:
        """What lies where just after an event. Raises ``UsageError`` for an event the trace has not."""
        return pieces_of(self.history.at(event), self.facts.columns)

    def layers(self, most: int = 1_500, first: int = 0, stop: int | None = None) -> FreeLayers:
        """The layers of events ``first`` to ``stop`` and just before, at about ``most`` of them: of every stretch
        those at which allocated, reserved and held memory are lowest and highest."""
        replay = self.facts.replay
        stop = len(replay) if stop is None else min(stop, len(replay))
        first = max(0, min(first, stop))
        columns = columns_of(replay, first, stop, max(1, most // 6))
        watched = (replay.allocated_bytes, replay.reserved_bytes, self.held[1:])
        kept = [extremes(curve, columns) for curve in watched] + [np.array([first - 1, stop - 1], np.int64)]
        return self._layers(np.unique(np.concatenate(kept)))

    def _layers(self, event: Int64) -> FreeLayers:
        replay, curves = self.facts.replay, self.curves
        allocated, active, reserved = (
            np.append(np.int64(getattr(replay.start, f"{measure}_bytes")), replay.curve(measure))[event + 1]
            for measure in ("allocated", "active", "reserved")
        )
        largest = curves.largest_bytes[0] if len(curves.pools) else np.zeros(len(replay) + 1, np.int64)
        return FreeLayers(
            event=event,
            allocated_bytes=allocated,
            pending_bytes=active - allocated,
            held_bytes=self.held[event + 1],
            private_bytes=curves.private_bytes[event + 1],
            whole_bytes=curves.whole_bytes[event + 1],
            reserved_bytes=reserved,
            largest_bytes=largest[event + 1],
        )

    def bands(self, axis: Axis, low: float, high: float) -> tuple[Span, ...]:
        """The phases that a curve is drawn over in a window of an axis, as they were recorded: the innermost of two
        levels, so that they do not overlap; those too narrow to be told apart together with their neighbours."""
        spans = phase_spans(self.facts, axis, low, high, (high - low) * _NARROW)
        inner = [span for span in spans if span.level == 1]
        lows = np.array([span.low for span in inner])
        found: list[Span] = []
        for outer in (span for span in spans if span.level == 0):
            parts = inner[np.searchsorted(lows, outer.low) : np.searchsorted(lows, outer.high)]
            whole = outer.count == 1 and all(part.high <= outer.high for part in parts)
            found += parts if parts and whole else [outer]
        return tuple(found)
