"""Columns to the exact state of one device over time.

PyTorch's rules come first. Where a file contradicts them, the rules of allocators that write the
same format are tried, and the ones whose end state is the file's are taken and named.

Legend: E events of the device, A allocations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snapviz.errors import UsageError
from snapviz.replay.final import Final, final_state
from snapviz.replay.model import Allocations, Measures, Replay
from snapviz.replay.rules import SMALL_SIZE, Rules, rules_from_settings
from snapviz.snapshot.columns import ABSENT, Columns, Events

if TYPE_CHECKING:
    from snapviz.replay.attempt import Attempt

__all__ = ["replay_device"]

Progress = Callable[[str], None]

_TOLERATED = 0.01
"""Share of allocs inside free blocks beyond which torch's split rule is given up for a file, its
end state being equal either way. Threads racing the snapshot put a few of them into real files."""


def replay_device(columns: Columns, device: int, progress: Progress | None = None) -> Replay:
    """Replays one device's trace.

    ``progress`` is called with a few words before each step. Time and memory are near linear in the
    events and blocks, whatever they hold. Raises ``UsageError`` for a device the snapshot has not.
    """
    if device not in columns.devices and device not in columns.trace_device:
        names = ", ".join(map(str, columns.devices)) or "none"
        raise UsageError(f"the snapshot has no device {device} (it has: {names})")
    say = progress or (lambda _: None)
    say("preparing")
    # numba takes a while to import and not everyone who imports this floor replays
    from snapviz.replay import check

    final = final_state(columns, device)
    events = _contiguous(columns.trace(device))
    chosen = _best(events, final, rules_from_settings(columns.settings), say)
    say("checking")
    allocations = _table(chosen, events, final)
    start, curves = Measures(*chosen.start_totals), chosen.curves
    findings = check.findings(check.Case(columns, device, events, final, chosen, allocations))
    severities = {finding.severity for finding in findings}
    return Replay(
        device=device,
        time_us=events.time_us,
        requested_bytes=curves[0],
        allocated_bytes=curves[1],
        active_bytes=curves[2],
        reserved_bytes=curves[3],
        start=start,
        exact=not severities & {"inconsistent", "estimate"},
        notes=tuple(finding.message for finding in findings if finding.severity != "information"),
        findings=findings,
        consistent="inconsistent" not in severities,
        allocations=allocations,
    )


def _contiguous(events: Events) -> Events:
    """The events as the kernels take them: in native byte order, without strides."""
    return Events(
        **{name: np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for name, array in events.arrays()}
    )


def _best(events: Events, final: Final, rules: Rules, say: Progress) -> Attempt:
    """The replay under the rules that fit the file best: torch's unless others fit better."""
    from snapviz.replay.attempt import attempt

    first, *others = _candidates(final, rules)
    say("replaying")
    best = attempt(events, final, first)
    for alternative in others:
        if _fits(best, final):
            break
        say("replaying with other rules")
        tried = attempt(events, final, alternative)
        if _better(tried, best, final):
            best = tried
    return best


def _candidates(final: Final, rules: Rules) -> list[Rules]:
    """The rules to try, the likeliest first: going by the sizes of the active blocks at the end."""
    npu = rules.as_npu()
    torch_fits, npu_fits = _legal(final, rules), _legal(final, npu)
    if npu_fits > torch_fits:
        return [npu, rules, npu.without_remainders()]
    return [rules, *([npu] if npu_fits == torch_fits else []), rules.without_remainders()]


def _legal(final: Final, rules: Rules) -> int:
    """How many active blocks at the end have a size that the rules can give their request."""
    left = final.block_bytes - rules.rounded(final.requested_bytes)
    small = rules.rounded(final.requested_bytes) <= SMALL_SIZE
    return int(((left == 0) | (~small & (left > 0) & (left <= SMALL_SIZE))).sum())


def _fits(tried: Attempt, final: Final) -> bool:
    return _misplaced(tried) == 0 and _differing(tried, final) == 0


def _better(tried: Attempt, best: Attempt, final: Final) -> bool:
    """Whether a replay's end is nearer to the file's; at equal ends, whether its blocks fit better."""
    ours, theirs = _differing(tried, final), _differing(best, final)
    # another vendor's allocator is believed only where it explains everything
    if tried.rules.pad and not best.rules.pad:
        return _fits(tried, final)
    if ours != theirs:
        return ours < theirs
    spared = _misplaced(best) - _misplaced(tried)
    return spared > (0 if tried.rules.absorb else _TOLERATED * len(tried.table))


def _misplaced(tried: Attempt) -> int:
    """Allocs whose place the rules cannot explain."""
    from snapviz.replay import ledger

    # without absorbed remainders blocks are cut out of free memory anywhere
    inside = tried.misfits(ledger.INSIDE_FREE) if tried.rules.absorb else 0
    return inside + tried.misfits(ledger.TOO_SMALL, ledger.OVER_LIVE)


def _differing(tried: Attempt, final: Final) -> int:
    """Blocks that are active at the end in one of replay and file only, or with another size."""
    from snapviz.replay.check import differing_blocks

    return sum(differing_blocks(tried, final))


def _table(tried: Attempt, events: Events, final: Final) -> Allocations:
    """The allocation table, with what the events (or the file's blocks) say of each."""
    from snapviz.replay import ledger

    table, start = tried.table, tried.start
    born = table[len(start) :, ledger.ALLOC_EVENT]
    address = table[:, ledger.ADDRESS].copy()
    pool = np.concatenate([start.pool, events.pool[born]])
    unknown = pool == ABSENT
    pool[unknown] = final.pool_of(address[unknown])
    return Allocations(
        address=address,
        alloc_event=table[:, ledger.ALLOC_EVENT].copy(),
        free_requested_event=table[:, ledger.FREE_REQUESTED].copy(),
        free_completed_event=table[:, ledger.FREE_COMPLETED].copy(),
        requested_bytes=table[:, ledger.REQUESTED_BYTES].copy(),
        block_bytes=table[:, ledger.BLOCK_BYTES].copy(),
        stack=np.concatenate([start.stack, events.stack[born]]),
        stream=np.concatenate([start.stream, events.stream[born]]),
        pool=pool,
        estimated=table[:, ledger.ESTIMATED] != 0,
    )
