"""What both records know of the device beside the allocator: memory outside it, and want of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapviz.analyze.device import DeviceCounts, folded_device
from snapviz.analyze.facts import Facts
from snapviz.compare.rank import RankDiff
from snapviz.schema import OutsideDelta

__all__ = ["outside_of", "want_of_memory"]


def outside_of(compared: Sequence[RankDiff]) -> tuple[OutsideDelta, ...]:
    """Every rank and phase where both sides know what is held outside the allocator."""
    return tuple(row for c in compared for row in _of_rank(c))


def _of_rank(c: RankDiff) -> Iterator[OutsideDelta]:
    base, head = folded_device(c.base), folded_device(c.head)
    for phase in head:
        before = base.get(phase, DeviceCounts()).outside_bytes
        after = head[phase].outside_bytes
        if before is not None and after is not None:
            yield OutsideDelta(
                rank=c.number, phase=phase, base_bytes=before, head_bytes=after, delta_bytes=after - before
            )


def want_of_memory(facts: Facts) -> Iterator[str]:
    """That the allocator retried or ran out of memory, a sentence each."""
    found = folded_device(facts)
    for what, field in (
        ("flushed its cache for want of memory", "alloc_retries"),
        ("ran out of memory", "ooms"),
    ):
        told = [(phase, getattr(counts, field)) for phase, counts in found.items()]
        if parts := [f"{_times(count)} in {phase}" for phase, count in told if count]:
            yield f"the allocator {what}: {', '.join(parts)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
