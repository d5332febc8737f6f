"""Whether a replay holds together, and what in it is not certain, in words for people.

Each check is a function ``(Case) -> Iterator[Finding]``; ``_CHECKS`` lists them all.

Legend: E events of the device, A allocations, G segments, L active blocks at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.replay import ledger
from snapviz.replay.attempt import Attempt
from snapviz.replay.final import Final, exact_sum, ranges
from snapviz.replay.model import START, Allocations, Finding, Measures, Severity
from snapviz.replay.rules import NPU_ALIGN, NPU_PAD, SMALL_SIZE
from snapviz.snapshot.columns import ACTIONS, Columns, Events

__all__ = ["Case", "differing_blocks", "findings"]

Int64 = npt.NDArray[np.int64]

_SNAPSHOT = ACTIONS.index("snapshot")
_UNKNOWN = 0

_ORDER: tuple[Severity, ...] = ("inconsistent", "estimate", "assumption", "information")


@dataclass(frozen=True)
class Case:
    """All that a check may look at."""

    columns: Columns
    device: int
    events: Events
    final: Final
    tried: Attempt
    allocations: Allocations

    @property
    def estimated_until(self) -> int:
        """As ``Replay.estimated_until``."""
        table = self.allocations
        return int(table.free_completed_event[table.estimated].max(initial=START))


def findings(case: Case) -> tuple[Finding, ...]:
    """What all checks found, the gravest first."""
    found = [finding for check in _CHECKS for finding in check(case)]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def differing_blocks(tried: Attempt, final: Final) -> tuple[int, int, int]:
    """Active blocks at the end by address: how many only the file has, only the replay has, and
    both have with another size or state."""
    events = len(tried.curves[0])
    live = tried.table[tried.table[:, ledger.FREE_COMPLETED] == events]
    _, ours, theirs = np.intersect1d(live[:, ledger.ADDRESS], final.address, return_indices=True)
    both = live[ours]
    other = both[:, ledger.BLOCK_BYTES] != final.block_bytes[theirs]
    other |= (both[:, ledger.FREE_REQUESTED] != events) != final.pending[theirs]
    return len(final.address) - len(theirs), len(live) - len(ours), int(other.sum())


def _n(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _where(event: int) -> str:
    return "before the recording" if event == START else f"first at event {event:,}"


def _ranges(case: Case) -> Iterator[Finding]:
    tried, final = case.tried, case.final
    if tried.refused:
        text = f"{_n(tried.refused, 'event')} with an address or size that cannot be were passed over"
        message = f"{text}, {_where(tried.first_refused)}."
        yield Finding("out-of-range", "inconsistent", tried.refused, message, event=tried.first_refused)
    if final.refused:
        what = _n(final.refused, "segment or active block", "segments or active blocks")
        message = f"{what} with an address or size that cannot be were left out."
        yield Finding("out-of-range-block", "inconsistent", final.refused, message)
    if final.capped_requests:
        count = final.capped_requests
        message = f"{_n(count, 'block')} at the end say that more was requested than their size; the size was taken."
        yield Finding("requested-over-size", "inconsistent", count, message)


_MISFITS: tuple[tuple[int, str, str, str], ...] = (
    (ledger.TOO_SMALL, "too-small", "allocation", "lie in a free block that is too small for them"),
    (ledger.INSIDE_FREE, "inside-free", "allocation", "begin inside a free block and not at its start"),
    (ledger.OUTSIDE_SEGMENTS, "outside-segments", "allocation", "lie outside every known segment"),
    (ledger.OVER_LIVE, "over-live", "allocation", "were still live where another allocation or a segment came to lie"),
    (ledger.NOT_LIVE, "not-live", "free", "are of addresses where nothing is live"),
    (ledger.OTHER_SIZE, "other-size", "free", "are of another size than was allocated there"),
    (ledger.SEGMENT_DIFFERS, "segment-differs", "segment event", "do not fit the memory that is there"),
    (ledger.TOO_LARGE, "too-large", "segment event", "would bring reserved out of any sane range and were passed over"),
)


def _misfits(case: Case) -> Iterator[Finding]:
    places = (ledger.MISFIT_COUNT, ledger.MISFIT_BYTES, ledger.MISFIT_EVENT)
    for kind, name, noun, text in _MISFITS:
        count, size, event = (int(case.tried.counts[place + kind]) for place in places)
        # without absorbed remainders blocks are cut out of free memory anywhere
        if count and (kind != ledger.INSIDE_FREE or case.tried.rules.absorb):
            message = f"{_n(count, noun)} ({size:,} bytes) {text}, {_where(event)}."
            yield Finding(name, "inconsistent", count, message, size, event)
    conflicts = case.tried.start.conflicts
    if conflicts:
        message = f"{_n(conflicts, 'allocation')} from before the recording lie over others and were left out."
        yield Finding("overlapping-start", "inconsistent", conflicts, message, event=START)


def _reserved(case: Case) -> Iterator[Finding]:
    start, curve = case.tried.start_totals[ledger.RESERVED], case.tried.curves[ledger.RESERVED]
    below = np.flatnonzero(curve < 0)
    if start < 0 or len(below):
        event = START if start < 0 else int(below[0])
        lowest = min(start, int(curve.min(initial=0)))
        what = f"Reserved memory falls below zero (to {lowest:,} bytes), {_where(event)}"
        message = f"{what}: segment events are missing."
        yield Finding("negative-reserved", "inconsistent", len(below) + (start < 0), message, lowest, event)


def _end(case: Case) -> Iterator[Finding]:
    final, tried = case.final, case.tried
    pairs = zip(tried.curves, tried.start_totals, strict=True)
    last = [int(curve[-1]) if len(curve) else start for curve, start in pairs]
    told = Measures(
        requested_bytes=exact_sum(final.requested_bytes),
        allocated_bytes=exact_sum(final.block_bytes[~final.pending]),
        active_bytes=exact_sum(final.block_bytes),
        reserved_bytes=final.reserved_bytes,
    )
    for ours, (name, theirs) in zip(last, vars(told).items(), strict=True):
        if ours != theirs and not (name == "requested_bytes" and final.unknown_requests):
            word, off = name.removesuffix("_bytes"), ours - theirs
            what = f"{word.capitalize()} memory ends at {ours:,} bytes in the replay and at {theirs:,} in the segments"
            yield Finding(f"end-{word}", "inconsistent", 1, f"{what}: {off:+,} bytes.", off, len(case.events) - 1)
    missing, extra, other = differing_blocks(tried, final)
    if missing or extra or other:
        parts = f"{missing:,} only in the segments, {extra:,} only in the replay, {other:,} with another size or state"
        message = f"{_n(missing + extra + other, 'active block')} at the end differ: {parts}."
        yield Finding("end-blocks", "inconsistent", missing + extra + other, message, event=len(case.events) - 1)


def _segments(case: Case) -> Iterator[Finding]:
    segments, blocks = case.columns.segments, case.columns.blocks
    chosen = np.flatnonzero(np.asarray(segments.device) == case.device)
    counts = np.diff(segments.block_offsets)[chosen]
    block = ranges(segments.block_offsets[:-1][chosen], counts)
    owner = np.repeat(np.arange(len(chosen)), counts)
    size, active = blocks.size[block], blocks.state[block] != 0

    def sums(values: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        total = np.zeros(len(chosen), np.int64)
        np.add.at(total, owner[mask], values[mask])
        return total

    everything = np.ones(len(block), bool)
    off = sums(size, everything) - segments.total_size[chosen]
    if off.any():
        count, total = int(np.count_nonzero(off)), exact_sum(off)
        message = f"{_n(count, 'segment')} whose blocks do not add up to their size: {total:+,} bytes in all."
        yield Finding("block-sums", "inconsistent", count, message, total)
    same = owner[1:] == owner[:-1]
    gaps = int(np.count_nonzero(same & (blocks.address[block][1:] != (blocks.address[block] + size)[:-1])))
    if gaps:
        message = f"{_n(gaps, 'place')} where blocks of a segment do not join."
        yield Finding("block-gaps", "inconsistent", gaps, message)
    own = {
        "allocated": (segments.allocated_size, sums(size, blocks.state[block] == 1)),
        "active": (segments.active_size, sums(size, active)),
        "requested": (segments.requested_size, sums(blocks.requested_size[block], active)),
    }
    for word, (told, summed) in own.items():
        if word == "requested" and case.final.unknown_requests:
            continue
        differs = (told[chosen] >= 0) & (told[chosen] != summed)
        if differs.any():
            off = (summed - told[chosen])[differs]
            what = f"{_n(len(off), 'segment')} whose {word}_size is not the sum of their blocks"
            total = exact_sum(off)
            yield Finding(f"segment-{word}", "inconsistent", len(off), f"{what}: {total:+,} bytes in all.", total)


def _checkpoints(case: Case) -> Iterator[Finding]:
    """``snapshot`` events carry the active bytes of their moment."""
    at = np.flatnonzero((case.events.action == _SNAPSHOT) & (case.events.size >= 0))
    off = case.tried.curves[ledger.ACTIVE][at] - case.events.size[at]
    wrong = np.flatnonzero(off)
    if len(wrong) == 0:
        return
    event, size = int(at[wrong[0]]), int(off[wrong[0]])
    guessed = bool((at[wrong] < case.estimated_until).all())
    severity: Severity = "estimate" if guessed else "inconsistent"
    ending = ", where sizes are estimates" if guessed else ""
    message = (
        f"{_n(len(wrong), 'snapshot event')} of {len(at):,} name other active bytes than the replay "
        f"({size:+,} bytes at event {event:,}){ending}."
    )
    yield Finding("checkpoint", severity, len(wrong), message, size, event)


def _times(case: Case) -> Iterator[Finding]:
    times = case.events.time_us
    back = np.flatnonzero((times[1:] < times[:-1]) & (times[1:] >= 0))
    if len(back):
        event = int(back[0]) + 1
        message = f"Time runs backwards {_n(len(back), 'time')}, {_where(event)}: the order of events may be scrambled."
        yield Finding("time-backwards", "inconsistent", len(back), message, event=event)


def _estimates(case: Case) -> Iterator[Finding]:
    table = case.allocations
    count = int(table.estimated.sum())
    if count:
        size, until = exact_sum(table.block_bytes[table.estimated]), case.estimated_until
        message = (
            f"{_n(count, 'block')} ({size:,} bytes) from before the recording, freed within it, may each be up to "
            f"1 MiB larger than taken here: until event {until:,} allocated and active may be up to "
            f"{count * SMALL_SIZE:,} bytes too low."
        )
        yield Finding("estimated-blocks", "estimate", count, message, size, until)
    if case.final.unknown_requests:
        count = case.final.unknown_requests
        message = f"{_n(count, 'block')} at the end do not say what was requested; their size was taken."
        yield Finding("unknown-requests", "estimate", count, message)
    unasked = case.tried.start.unasked
    if unasked:
        what = f"{_n(unasked, 'free')} completed without a free_requested event"
        message = f"{what}: memory counts as allocated until then."
        yield Finding("no-free-requested", "estimate", unasked, message)


def _rules(case: Case) -> Iterator[Finding]:
    rules = case.tried.rules
    if rules.pad:
        message = (
            f"Sizes follow torch_npu's rules ({NPU_PAD} bytes added to each request, larger ones aligned to "
            f"{NPU_ALIGN >> 10} KiB): they fit the file and PyTorch's own do not."
        )
        yield Finding("npu-rules", "assumption", 1, message)
    if not rules.absorb:
        message = (
            "Addresses contradict PyTorch's rules for splitting and merging blocks: each block was taken as its "
            "rounded request, which fits the file better."
        )
        yield Finding("no-split-rule", "estimate", 1, message)


def _history(case: Case) -> Iterator[Finding]:
    older = len(case.tried.start)
    if older and len(case.events):
        size = case.tried.start_totals[ledger.ACTIVE]
        message = f"{_n(older, 'block')} ({size:,} bytes) are older than the recording."
        yield Finding("older-blocks", "information", older, message, size, START)
    unknown = np.flatnonzero(case.events.action == _UNKNOWN)
    if len(unknown):
        message = f"{_n(len(unknown), 'event')} with an unknown action were passed over, {_where(int(unknown[0]))}."
        yield Finding("unknown-action", "information", len(unknown), message, event=int(unknown[0]))


_CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _ranges,
    _misfits,
    _reserved,
    _end,
    _segments,
    _checkpoints,
    _times,
    _estimates,
    _rules,
    _history,
)
