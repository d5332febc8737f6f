"""A miniature of torch's caching allocator that really allocates, and writes what torch would.

Best fit per stream and pool, segments of torch's sizes, splitting, merging, mapping and unmapping,
frees that stay pending. It knows nothing of how a replay works: it keeps linked blocks and its own
counters, and is what the replay is measured by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
SMALL = MIB
REGION = 1 << 40

Key = tuple[int, int, bool]  # stream, pool, small


@dataclass(eq=False)
class Block:
    address: int
    size: int
    key: Key
    state: str = "free"  # free, allocated, pending
    requested: int = 0
    prev: Block | None = None
    next: Block | None = None


@dataclass
class Counters:
    requested: int = 0
    allocated: int = 0
    active: int = 0
    reserved: int = 0

    def now(self) -> tuple[int, int, int, int]:
        return self.requested, self.allocated, self.active, self.reserved


@dataclass
class Miniature:
    expandable: bool = False
    max_split: int | None = None
    divisions: int = 0
    segment_gap: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    history: list[tuple[int, int, int, int]] = field(default_factory=list)
    born: list[tuple[int, int]] = field(default_factory=list)  # per alloc: address, block bytes
    live: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counters = Counters()
        self.heads: list[Block] = []  # the first block of each segment, or of each mapped range
        self.top = 0x7F00_0000_0000
        self.holes: list[tuple[int, int]] = []
        self.regions: dict[Key, int] = {}

    # what a program does

    def malloc(self, size: int, stream: int = 0, pool: int = 0) -> Block:
        rounded = self.round(size)
        key = (stream, pool, rounded <= SMALL)
        found = self.best_fit(key, rounded) or self.grow(key, rounded)
        remainder = found.size - rounded
        if self.should_split(key, rounded, remainder):
            rest = Block(found.address + rounded, remainder, key, prev=found, next=found.next)
            if found.next:
                found.next.prev = rest
            found.next, found.size = rest, rounded
        found.state, found.requested = "allocated", size
        self.live.append(found)
        self.counters.requested += size
        self.counters.allocated += found.size
        self.counters.active += found.size
        self.born.append((found.address, found.size))
        self.record("alloc", found.address, size, stream)
        return found

    def free(self, block: Block, later: bool = False) -> None:
        block.state = "pending"
        self.counters.allocated -= block.size
        self.record("free_requested", block.address, block.requested, block.key[0])
        if not later:
            self.complete(block)

    def complete(self, block: Block) -> None:
        self.live.remove(block)
        address, requested = block.address, block.requested
        self.counters.active -= block.size
        self.counters.requested -= requested
        block.state, block.requested = "free", 0
        for other in (block.prev, block.next):
            if other and other.state == "free":
                self.merge(block, other)
        self.record("free_completed", address, requested, block.key[0])

    def empty_cache(self) -> None:
        for head in list(self.heads):
            if self.expandable:
                for block in list(self.chain(head)):
                    self.unmap(block)
            elif head.state == "free" and head.next is None:
                self.heads.remove(head)
                self.holes.append((head.address, head.size))
                self.counters.reserved -= head.size
                self.record("segment_free", head.address, head.size, head.key[0])

    def checkpoint(self) -> None:
        self.record("snapshot", 0, self.counters.active, 0)

    # how

    def round(self, size: int) -> int:
        if self.divisions > 1 and size > 512 * self.divisions:
            if size & (size - 1) == 0:
                return size
            step = (1 << (size.bit_length() - 1)) // self.divisions
            return size // step * step + (step if size % step else 0)
        return max(512, -(-size // 512) * 512)

    def should_split(self, key: Key, rounded: int, remainder: int) -> bool:
        if key[2] or self.expandable:
            return remainder >= 512
        return (self.max_split is None or rounded < self.max_split) and remainder > SMALL

    def best_fit(self, key: Key, rounded: int) -> Block | None:
        fits = [
            b for h in self.heads for b in self.chain(h) if b.state == "free" and b.key == key and b.size >= rounded
        ]
        best = min(fits, key=lambda b: (b.size, b.address), default=None)
        if best and self.max_split and not key[2]:
            if rounded < self.max_split <= best.size:
                return None
            if rounded >= self.max_split and best.size >= rounded + 20 * MIB:
                return None
        return best

    def grow(self, key: Key, rounded: int) -> Block:
        if self.expandable:
            return self.map(key, rounded)
        size = 2 * MIB if key[2] else 20 * MIB if rounded < 10 * MIB else -(-rounded // (2 * MIB)) * 2 * MIB
        hole = next((h for h in self.holes if h[1] >= size), None)
        if hole:
            self.holes.remove(hole)
            address = hole[0]
            if hole[1] > size:
                self.holes.append((address + size, hole[1] - size))
        else:
            address, self.top = self.top, self.top + size + self.segment_gap
        block = Block(address, size, key)
        self.heads.append(block)
        self.counters.reserved += size
        self.record("segment_alloc", address, size, key[0])
        return block

    def map(self, key: Key, rounded: int) -> Block:
        granule = 2 * MIB if key[2] else 20 * MIB
        base = self.regions.setdefault(key, (len(self.regions) + 1) * REGION)
        ranges = sorted((h.address, self.stop(h), h) for h in self.heads if h.key == key)
        edges = [(base, None), *((stop, head) for _, stop, head in ranges)]
        starts = [start for start, _, _ in ranges] + [base + REGION]
        for edge, head in edges:
            last = self.last(head) if head else None
            have = last.size if last and last.state == "free" else 0
            need = -(-(rounded - have) // granule) * granule
            after = min(s for s in starts if s >= edge)
            if after - edge >= need and (edge != base or head is not None or after != base):
                break
        new = Block(edge, need, key)
        self.counters.reserved += need
        if last:
            last.next, new.prev = new, last
            if last.state == "free":
                self.merge(new, last)
        else:
            self.heads.append(new)
        follower = next((h for h in self.heads if h.key == key and h.address == edge + need and h is not new), None)
        if follower:
            self.heads.remove(follower)
            new.next, follower.prev = follower, new
            if follower.state == "free":
                self.merge(new, follower)
        self.record("segment_map", edge, need, key[0])
        return new

    def unmap(self, block: Block) -> None:
        granule = 2 * MIB if block.key[2] else 20 * MIB
        base = self.regions[block.key]
        start = base + -(-(block.address - base) // granule) * granule
        stop = base + (block.address + block.size - base) // granule * granule
        if block.state != "free" or start >= stop:
            return
        before, after = block.prev, block.next
        if start > block.address:
            left = Block(block.address, start - block.address, block.key, prev=before)
            if before:
                before.next = left
            else:
                self.heads[self.heads.index(block)] = left
        elif before:
            before.next = None
        else:
            self.heads.remove(block)
        end = block.address + block.size
        right = Block(stop, end - stop, block.key, next=after) if end > stop else after
        if right:
            right.prev = None
            if after and after is not right:
                after.prev = right
            self.heads.append(right)
        self.counters.reserved -= stop - start
        self.record("segment_unmap", start, stop - start, block.key[0])

    def merge(self, block: Block, other: Block) -> None:
        if other is block.prev:
            block.address, block.prev = other.address, other.prev
            if other.prev:
                other.prev.next = block
            else:
                self.heads[self.heads.index(other)] = block
        else:
            block.next = other.next
            if other.next:
                other.next.prev = block
        block.size += other.size

    def chain(self, head: Block) -> list[Block]:
        found, at = [], head
        while at:
            found.append(at)
            at = at.next  # type: ignore[assignment]
        return found

    def last(self, head: Block) -> Block:
        return self.chain(head)[-1]

    def stop(self, head: Block) -> int:
        return self.last(head).address + self.last(head).size

    def record(self, action: str, addr: int, size: int, stream: int) -> None:
        self.events.append(
            {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": len(self.events)}
        )
        self.history.append(self.counters.now())

    # what it writes

    def segments(self) -> list[dict[str, Any]]:
        names = {"free": "inactive", "allocated": "active_allocated", "pending": "active_pending_free"}
        found = []
        for head in self.heads:
            blocks = self.chain(head)
            active = [b for b in blocks if b.state != "free"]
            found.append(
                {
                    "device": 0,
                    "address": head.address,
                    "total_size": sum(b.size for b in blocks),
                    "allocated_size": sum(b.size for b in active if b.state == "allocated"),
                    "active_size": sum(b.size for b in active),
                    "requested_size": sum(b.requested for b in active),
                    "stream": head.key[0],
                    "segment_type": "small" if head.key[2] else "large",
                    "segment_pool_id": (head.key[1], 0),
                    "is_expandable": self.expandable,
                    "blocks": [
                        {"address": b.address, "size": b.size, "requested_size": b.requested, "state": names[b.state]}
                        for b in blocks
                    ],
                }
            )
        return found

    def settings(self) -> dict[str, Any]:
        return {
            "max_split_size": self.max_split or -1,
            "expandable_segments": self.expandable,
            "roundup_power2_divisions": {str(1 << i): self.divisions for i in range(16)} if self.divisions else {},
        }

    def snapshot(self, cut: int = 0) -> dict[str, Any]:
        """The snapshot, with the first ``cut`` events overwritten."""
        return {
            "segments": self.segments(),
            "device_traces": [self.events[cut:]],
            "allocator_settings": self.settings(),
        }
