"""The report of ``snapviz fragmentation``: why reserved memory is more than allocated memory, and why a request
could not be served.

Free memory is of four kinds. *Whole* is what can be given back to the device: a segment in which nothing is
live, or in a segment that expands a page in which nothing is; in a private pool only once nothing uses that
pool. The rest is held by what is live beside it, in segments (or pages) of which more than half is free
(*mostly free*), or at most half is (*busy*).
"""

from __future__ import annotations

from typing import Literal

from snapviz.schema.base import Model
from snapviz.schema.diff import BrokenRank, Moment, RunSummary

__all__ = [
    "FRAGMENTATION_VERSION",
    "Advice",
    "FragmentationPoint",
    "FragmentationReport",
    "FreeBlocks",
    "MemoryCell",
    "OutOfMemory",
    "PendingFree",
    "PhaseFragmentation",
    "Pin",
    "Pinner",
    "PoolPart",
    "RankFragmentation",
    "ReservedParts",
]

FRAGMENTATION_VERSION = 1


class ReservedParts(Model):
    """Reserved memory at one moment. All parts but the first two fields sum to ``reserved_bytes``."""

    reserved_bytes: int
    # torch.cuda.memory_reserved
    allocated_bytes: int
    # torch.cuda.memory_allocated: requested, rounding and unsplit
    requested_bytes: int
    # what the program asked for, of what is allocated
    rounding_bytes: int
    # added to it: to a multiple of 512 bytes, or as roundup_power2_divisions says
    unsplit_bytes: int
    # remainders of blocks that were too small to become blocks of their own
    pending_bytes: int
    # freed, and not usable again before another stream is done with it
    whole_bytes: int
    # free, and could be given back
    private_bytes: int
    # free and whole, in private pools of CUDA graphs and MemPools
    mostly_free_bytes: int
    # free, held by the little that is live in the same segment or page
    busy_bytes: int
    # free, in segments or pages of which at most half is free
    unexplained_bytes: int
    # 0, unless the file contradicts itself


class PoolPart(Model):
    """Segments of one pool, size class, stream and kind. All of them sum to what lies in segments."""

    pool: str
    # default, graph pool (4, 0), memory pool (0, 4)
    private: bool
    # of a CUDA graph or a MemPool
    size_class: Literal["small", "large"]
    # small serves requests up to 1 MiB
    stream: int | None
    # none where nothing says it
    expandable: bool
    # whether the segments expand
    segments: int
    # how many
    reserved_bytes: int
    # their size
    allocated_bytes: int
    # of it, blocks in use
    pending_bytes: int
    # of it, as in ReservedParts
    whole_bytes: int
    # of it, free and whole, private or not
    mostly_free_bytes: int
    # of it, as in ReservedParts
    busy_bytes: int
    # of it, as in ReservedParts
    largest_free_bytes: int
    # the largest free block


class Pinner(Model):
    """Blocks of one owner, category, phase of birth and stack that hold free memory."""

    owner: str
    # "" where not known
    category: str
    # one of analyze.facts.CATEGORIES
    module: str
    # the module that was running; "" where not known
    birth_phase: str
    # folded
    evidence: Literal["recorded", "annotated", "inferred"]
    # the weakest of what owner and category rest on
    why: str
    # what the category was taken from where nobody named it; "" where somebody did
    pending: bool
    # freed, and held back for another stream
    blocks: int
    # how many
    block_bytes: int
    # their size
    stack: tuple[str, ...]
    # "function (file:line)", innermost first


class PendingFree(Model):
    """What is freed and held back for other streams, by the stream that it was made on."""

    stream: int | None
    # none where nothing says it
    blocks: int
    # how many
    pending_bytes: int
    # their size
    largest: Pinner
    # the largest of them, by what they are


class Pin(Model):
    """Mostly free segments (or pages of segments that expand) that are held by the same kind of blocks."""

    pieces: int
    # segments or pages
    expandable: bool
    # pages, and not segments
    pool: str
    # as in PoolPart
    size_class: Literal["small", "large"]
    # as in PoolPart
    piece_bytes: int
    # their size
    freed_bytes: int
    # free in them: what could be given back with the blocks gone, or used for a larger request
    pinned_bytes: int
    # the blocks that hold them; a block counts whole where it reaches into a page
    pinned_blocks: int
    # how many
    pinners: tuple[Pinner, ...]
    # the largest first; at most 8


class FreeBlocks(Model):
    """What large requests of one stream can be served from, in the default pool."""

    stream: int
    # a handle; 0 is the default stream
    free_bytes: int
    # all free blocks of it
    largest_free_bytes: int
    # the largest of them: no larger request fits without more memory from the device
    largest_possible_bytes: int | None
    # the largest request that can be served once all that is whole is given back, bounded by what the device
    # has free; none where that is not known


class MemoryCell(Model):
    """One of equal shares of all segments, side by side by address. The fields sum to the share."""

    allocated_bytes: int
    # in use
    pending_bytes: int
    # freed, held back
    busy_bytes: int
    # free, as in ReservedParts
    mostly_free_bytes: int
    # free, as in ReservedParts
    whole_bytes: int
    # free and whole, private or not


class FragmentationPoint(Model):
    """One moment of one rank."""

    at: str
    # as --at takes it
    title: str
    # in words
    moment: Moment
    # when it is, and how far it is known
    estimated_blocks: int
    # blocks that may each be up to 1 MiB larger than taken here, and free memory smaller by as much
    pool_assumed_bytes: int
    # of segments whose pool nothing tells: taken for the default one
    parts: ReservedParts
    # reserved memory, explained
    pools: tuple[PoolPart, ...]
    # the largest first
    pending: tuple[PendingFree, ...]
    # the largest first, at most 100 streams
    pins: tuple[Pin, ...]
    # what pins mostly free memory: the least that is pinned for what it would free first, rows that would free
    # less than a hundredth of it after all others
    more_pins: int
    # mostly free segments and pages that are in no row
    more_pins_bytes: int
    # free in them
    paged_bytes: int
    # of what is free and held in segments that do not expand, what lies in stretches of a page or more: the most
    # that could be given back or used anywhere if they expanded
    device_free_bytes: int | None
    # free on the device then; none where nothing says it
    free_blocks: tuple[FreeBlocks, ...]
    # by stream, the stream with most reserved memory first
    cells: tuple[MemoryCell, ...]
    # a picture, by address; empty where nothing is reserved


class PhaseFragmentation(Model):
    """One folded phase: the least of the largest free block, and the most of what is free and cannot be used."""

    phase: str
    # folded
    times: int
    # phases of that name
    whole: bool
    # no event of any of them is missing
    reserved_peak_bytes: int
    # highest in any of them
    held_free_bytes: int
    # the most at any one event that was free and could not be given back
    held_free_event: int
    # where that was first
    lowest_largest_bytes: int
    # the least that the largest free block was, of the first of the streams in ``streams``
    grown_bytes: int
    # by how much the large segments of those streams grew
    grown_beside_free_bytes: int
    # of it, for requests for which as much was free, in pieces that were too small


class Advice(Model):
    """Something that could help. ``bytes`` is the most that it can bring."""

    kind: Literal[
        "limit", "expandable_segments", "unsplit_large", "fewer_sizes", "pending", "other_pools", "outside", "less"
    ]
    # limit: a limit on the process refused it, such as set_per_process_memory_fraction; expandable_segments: free
    # memory in pieces; unsplit_large: max_split_size_mb, large segments held by little; fewer_sizes: requests of many
    # sizes; pending: blocks held back for other streams; other_pools: free memory of other streams and private
    # pools; outside: memory outside the allocator; less: nothing but less memory in use
    bytes: int
    # at most


class OutOfMemory(Model):
    """One time at which the allocator gave up."""

    number: int
    # from 1, of this rank
    moment: Moment
    # the state in which it gave up
    asked_bytes: int
    # the request, rounded
    stream: int | None
    # none where nothing says it
    size_class: Literal["small", "large"]
    # by its size
    stack: tuple[str, ...]
    # of the request, innermost first
    allocated_bytes: int
    # in use then
    reserved_bytes: int
    # held by the allocator then
    free_bytes: int
    # free in reserved memory, in all pools
    free_in_pool_bytes: int
    # free where this request is served from: the default pool, its stream and size class
    largest_free_bytes: int
    # the largest block of that
    pending_bytes: int
    # freed, held back for other streams
    private_bytes: int
    # free in private pools, of all kinds
    given_back_bytes: int
    # what the allocator gave back to the device just before it gave up
    device_free_bytes: int | None
    # free on the device; none where the event does not say it
    outside_bytes: int | None
    # held on the device outside this allocator: contexts, NCCL, other processes; none where not known
    missing_bytes: int | None
    # how much more the device would have had to have free; none where it had enough, or is not known
    why: Literal["limit", "fragmented", "full", "unknown"]
    # limit: the device had enough; fragmented: with what was free in this pool it had enough; full: not even so
    advice: tuple[Advice, ...]
    # what could help, the most first
    pins: tuple[Pin, ...]
    # what pins mostly free memory then; at most 3


class RankFragmentation(Model):
    """One rank."""

    rank: int
    # global rank, or the device's number where nothing says it
    device: int
    # slot of device_traces
    source: str
    # file name
    exact: bool
    # whether every number is certain to the byte, from the first event on
    consistent: bool
    # whether the file agrees with itself
    truncated: bool
    # events before the first one may be missing: a peak is that of the recording
    notes: tuple[str, ...]
    # why not, and all else worth knowing
    expandable_setting: bool | None
    # expandable_segments of the allocator's settings; none where they do not say it
    streams: tuple[int, ...]
    # streams whose large segments of the default pool are followed: those with most memory
    points: tuple[FragmentationPoint, ...]
    # as asked for; a point that the rank has not is left out
    missing_points: tuple[str, ...]
    # those that it has not
    phases: tuple[PhaseFragmentation, ...]
    # in order of their start
    ooms: int
    # times the allocator gave up
    out_of_memory: tuple[OutOfMemory, ...]
    # the last of them, at most 8


class FragmentationReport(Model):
    """What a path holds, by how its memory is cut up."""

    schema_version: int
    # whole number, FRAGMENTATION_VERSION when written by this version
    run: RunSummary
    # in short
    notes: tuple[str, ...]
    # of the run; those of a rank are with it
    broken: tuple[BrokenRank, ...]
    # any makes the exit code 2
    ranks: tuple[RankFragmentation, ...]
    # the worst first: those that ran out of memory, then by free memory that is held, at the first point
