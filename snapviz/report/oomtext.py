"""Why requests could not be served, as lines of a report."""

from __future__ import annotations

from snapviz.report.layout import Line, Span, clean, line, pad, wrapped
from snapviz.report.pintext import pins_in_lines
from snapviz.report.words import frames_in_words, plural
from snapviz.schema import Advice, OutOfMemory, RankFragmentation
from snapviz.units import format_bytes, format_exact

__all__ = ["oom_lines"]

_ROOM = 12

_HELP = {
    "expandable_segments": "expandable_segments:True: so much is free in this pool in pieces of whole pages",
    "unsplit_large": "max_split_size_mb, or whatever pins it elsewhere: so much lies in mostly free segments",
    "fewer_sizes": "fewer different sizes (batches of one size, roundup_power2_divisions): so much is free, in pieces",
    "pending": "letting other streams be done sooner, or no record_stream: so much is freed and held back",
    "other_pools": "other pools: so much is free for other streams, for the other size class or in private pools",
    "outside": "less outside the allocator: so much is held by contexts, NCCL and other processes",
}


def oom_lines(rank: RankFragmentation, width: int, top: int) -> list[Line]:
    """Every time that is told, the last one in full. Nothing where memory never ran out."""
    if not rank.out_of_memory:
        return []
    lines = [line(), *wrapped(f"out of memory: {plural(rank.ooms, 'time')}", width, style="strong")]
    earlier, last = rank.out_of_memory[:-1], rank.out_of_memory[-1]
    for one in earlier:
        lines += wrapped(
            f"{_name(one)}: {_asked(one)}; {_short_reason(one)} (--at oom:{one.number})", width, "  ", "    "
        )
    return lines + _told(one=last, width=width, top=top)


def _name(one: OutOfMemory) -> str:
    where = f" ({clean(one.moment.phase)})" if one.moment.phase not in (None, "run") else ""
    return f"({one.number}){where} event {one.moment.event:,}"


def _asked(one: OutOfMemory) -> str:
    stream = f" on stream {one.stream:x}" if one.stream else ""
    return f"{format_bytes(one.asked_bytes)} asked for{stream}"


def _short_reason(one: OutOfMemory) -> str:
    if one.missing_bytes is not None:
        return f"{format_bytes(one.missing_bytes)} missing on the device"
    return "a limit on the process" if one.why == "limit" else "what the device had is not known"


def _told(one: OutOfMemory, width: int, top: int) -> list[Line]:
    lines = [
        *wrapped(f"{_name(one)}: {_asked(one)}, {format_exact(one.asked_bytes)} with rounding", width, "  ", "    ")
    ]
    lines.append(line("    ", Span(frames_in_words(one.stack, None, width - 4), "faint")))
    for text in (_no_block(one), _no_memory(one), _held(one)):
        lines += wrapped(text, width, "  ", "    ")
    for advice in one.advice[:top]:
        lines += _advice(advice, width)
    if one.pins and one.why != "limit":
        lines += wrapped("what pins most of what is mostly free:", width, "  ", "    ")
        lines += pins_in_lines(one.pins[:top], width)
    return lines


def _no_block(one: OutOfMemory) -> str:
    free = f"{format_bytes(one.free_in_pool_bytes)} free for {one.size_class} requests of its stream"
    if one.free_in_pool_bytes == 0:
        return f"no free block: nothing is free for {one.size_class} requests of its stream"
    return f"no free block that is large enough: the largest is {format_bytes(one.largest_free_bytes)}, of {free}"


def _no_memory(one: OutOfMemory) -> str:
    gave = f"{format_bytes(one.given_back_bytes)} had been given back to it" if one.given_back_bytes else ""
    if one.device_free_bytes is None:
        return "what the device had free is not recorded, so why there was no more to have cannot be told"
    has = f"the device, {gave}, had" if gave else "the device had"
    has += f" {format_bytes(one.device_free_bytes)} free"
    if one.missing_bytes is None:
        limit = "a limit on the process, such as set_per_process_memory_fraction"
        return f"{has}, which is enough: what refused it was most likely {limit}"
    if one.why == "fragmented":
        return f"{has}, {format_bytes(one.missing_bytes)} too little; with what is free in pieces it had enough"
    return (
        f"{has}, {format_bytes(one.missing_bytes)} too little, and what is free in pieces would not have made up for it"
    )


def _held(one: OutOfMemory) -> str:
    parts = [f"{format_bytes(one.allocated_bytes)} allocated of {format_bytes(one.reserved_bytes)} reserved"]
    parts += [f"{format_bytes(one.free_bytes)} free in it"]
    parts += [f"{format_bytes(one.pending_bytes)} pending"] if one.pending_bytes else []
    parts += [f"{format_bytes(one.private_bytes)} free in private pools"] if one.private_bytes else []
    if one.outside_bytes is not None:
        parts.append(f"{format_bytes(one.outside_bytes)} of the device held outside the allocator")
    return ", ".join(parts)


def _advice(advice: Advice, width: int) -> list[Line]:
    if advice.kind == "limit":
        return []
    if advice.kind == "less":
        text = "nothing of this by itself would have been enough: less memory in use, or a smaller request, would"
        return wrapped(text, width, "  ", "    ")
    rows = wrapped(_HELP[advice.kind], width - _ROOM - 2, "", "  ")
    starts = [pad(f"≤ {format_bytes(advice.bytes)}", _ROOM, right=True) + "  ", *[" " * (_ROOM + 2)] * (len(rows) - 1)]
    return [[Span(start), *row] for start, row in zip(starts, rows, strict=True)]
