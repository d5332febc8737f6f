"""Reserved memory explained, for people. Pure: a finished ``FragmentationReport`` in, lines out."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.report.layout import Column, Line, Span, clean, cut_left, line, pad, render_table, width_of, wrapped
from snapviz.report.oomtext import oom_lines
from snapviz.report.pintext import pin_lines, pinner_words
from snapviz.report.words import broken_in_words, plural
from snapviz.schema import (
    FragmentationPoint,
    FragmentationReport,
    MemoryCell,
    OutOfMemory,
    PoolPart,
    RankFragmentation,
    ReservedParts,
)
from snapviz.units import format_bytes, format_exact

__all__ = ["doubts_in_words", "fragmentation_lines", "parts_in_words", "reserved_in_words"]

_NOTES = 6
_PHASES = 40
_ROOM = 12
"""Columns of an amount."""
_WIDE = 110
"""Columns from which tables have their full headings."""
_MUCH = 20
"""One in so many bytes of reserved memory is enough to speak of in the first sentence."""

_GLYPHS = "█▓▒░·"
_KINDS = ("allocated", "pending", "busy", "mostly_free", "whole")
_MEANING = ("live", "pending", "free, busy", "free, mostly free", "free, whole")

_PARTS = (
    ("requested_bytes", "requested by the program"),
    ("rounding_bytes", "rounding of its sizes"),
    ("unsplit_bytes", "remainders too small to be split off"),
    ("pending_bytes", "pending: freed, and held back for other streams"),
    ("busy_bytes", "free in {busy} of which at most half is free"),
    ("mostly_free_bytes", "free in {busy} of which more than half is free"),
    ("private_bytes", "free and whole, in private pools: theirs until they go"),
    ("whole_bytes", "free and whole: can be given back (empty_cache)"),
    ("unexplained_bytes", "unexplained: the file contradicts itself"),
)


def fragmentation_lines(report: FragmentationReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60): the worst rank, and a table of all."""
    width = max(60, width)
    lines = _header(report, width)
    for rank in report.ranks[:1]:
        lines += wrapped(clean(_verdict(rank)), width)
        lines += _notes(report, rank, width)
        lines += _rank(report, rank, width, top)
    return lines + _ranks(report, width)


def _header(report: FragmentationReport, width: int) -> list[Line]:
    run = report.run
    facts = [plural(len(run.ranks), "rank")]
    if run.world_size and run.world_size != len(run.ranks):
        facts = [f"{len(run.ranks)} of {run.world_size} ranks"]
    facts += [f"torch {run.torch}"] * bool(run.torch) + [run.device or ""] * bool(run.device)
    name, told = clean(run.name), clean(" · ".join(facts))
    if width_of(name) + width_of(told) + 3 <= width:
        lines = [line(Span(name, "strong"), "   ", Span(told, "faint"))]
    else:
        lines = [*wrapped(name, width, style="strong"), *wrapped(told, width, style="faint")]
    for broken in report.broken:
        text = f"{broken_in_words(broken)} is not in these numbers: {broken.message}"
        lines += wrapped(clean(text), width, "! ", "  ", "warning")
    return lines


def _verdict(rank: RankFragmentation) -> str:
    """What matters most, in a sentence or three."""
    told = []
    if rank.ooms:
        last = rank.out_of_memory[-1]
        times = plural(rank.ooms, "time")
        told.append(f"It ran out of memory {times}, last for {format_bytes(last.asked_bytes)}{_limit(last)}.")
    if rank.points:
        told.append(reserved_in_words(rank.points[0]))
    # phases nest: the outermost of the run is the one that grew most
    grew = max(rank.phases, key=lambda one: one.grown_bytes, default=None)
    if grew is not None and grew.grown_beside_free_bytes * _MUCH > grew.grown_bytes:
        of = f"{format_bytes(grew.grown_beside_free_bytes)} of {format_bytes(grew.grown_bytes)}"
        where = "" if grew.phase == "run" else f" in {grew.phase}"
        told.append(f"{of} that large segments grew by{where} came while as much was free, in pieces that did not fit.")
    return " ".join(told)


def _limit(one: OutOfMemory) -> str:
    return " (which a limit on the process refused)" if one.why == "limit" else ""


def reserved_in_words(point: FragmentationPoint) -> str:
    """A moment in a sentence or two: how much of what is reserved cannot be used."""
    parts, when = point.parts, f"{point.title[:1].upper()}{point.title[1:]}"
    total, held = parts.reserved_bytes, parts.busy_bytes + parts.mostly_free_bytes
    if total == 0:
        return f"{when} nothing is reserved."
    share = f"{_share(held, total) or '0%'} of reserved memory ({format_bytes(held)})"
    words = [f"{when} {share} is free and cannot be given back"]
    words += [f"{format_bytes(parts.whole_bytes)} can"] * (parts.whole_bytes * _MUCH > total)
    words += [f"{format_bytes(parts.pending_bytes)} is pending"] * (parts.pending_bytes * _MUCH > total)
    words += [f"{format_bytes(parts.private_bytes)} is kept by private pools"] * (parts.private_bytes * _MUCH > total)
    text = ", ".join(words) + "."
    if point.paged_bytes * _MUCH > total:
        size = format_bytes(point.paged_bytes)
        text += f" With expandable_segments at most {size} of that could be used again."
    return text


def _notes(report: FragmentationReport, rank: RankFragmentation, width: int) -> list[Line]:
    notes = (*report.notes, *rank.notes)
    lines = [one for note in notes[:_NOTES] for one in wrapped(clean(note), width, "~ ", "  ")]
    if len(notes) > _NOTES:
        lines += wrapped(f"{plural(len(notes) - _NOTES, 'more note')} (--format json has all)", width, "~ ", "  ")
    return [line(), *lines] if lines else []


def _rank(report: FragmentationReport, rank: RankFragmentation, width: int, top: int) -> list[Line]:
    lines: list[Line] = []
    for text in rank.missing_points:
        lines += wrapped(clean(f"rank {rank.rank} has no moment {text}"), width, "! ", "  ", "warning")
    who = f", rank {rank.rank}" + (f" (the worst of {len(report.ranks)})" if len(report.ranks) > 1 else "")
    told: dict[int, str] = {}
    for point in rank.points:
        same = told.setdefault(point.moment.event, point.title)
        if same != point.title:
            lines += [line(), *wrapped(clean(f"{point.title}{who}: as {same}"), width, style="strong")]
            continue
        lines += _point(rank, point, who, width, top)
    lines += _phases(rank, width)
    return lines + oom_lines(rank, width, top)


# ------------------------------------------------------------------ one moment


def _point(rank: RankFragmentation, point: FragmentationPoint, who: str, width: int, top: int) -> list[Line]:
    phase = point.moment.phase
    where = f" ({clean(phase)})" if phase not in (None, "run") and not point.at.startswith("phase:") else ""
    parts = point.parts
    title = f"{clean(point.title)}{where}{who}: {format_exact(parts.reserved_bytes)} reserved"
    lines = [line(), *wrapped(title, width, style="strong")]
    lines += _doubts(rank, point, width)
    if parts.reserved_bytes == 0 and parts.allocated_bytes == 0:
        return lines
    lines += _parts(point, width)
    lines += _picture(point.cells, width)
    lines += _pools(point.pools, width, top)
    lines += _largest(point, width)
    lines += _pending(point, width, top)
    return lines + pin_lines(point, width, top)


def _doubts(rank: RankFragmentation, point: FragmentationPoint, width: int) -> list[Line]:
    return [one for text in doubts_in_words(rank.consistent, point) for one in wrapped(text, width, "~ ", "  ")]


def doubts_in_words(consistent: bool, point: FragmentationPoint, measure: str = "reserved") -> list[str]:
    """What the numbers of a moment, a peak of ``measure``, cannot say, to stand above them."""
    told = []
    if not point.moment.trust.whole:
        told.append(f"as far as it is recorded: the {measure} peak may have been higher")
    if count := point.estimated_blocks:
        larger = f"{plural(count, 'block')} from before the recording may each be up to 1 MiB larger than taken here"
        told.append(f"{larger}, and free memory smaller by as much")
    if not consistent:
        told.append("the file contradicts itself: segments and blocks may not have been as shown")
    if point.pool_assumed_bytes:
        size = format_bytes(point.pool_assumed_bytes)
        told.append(f"{size} lie in segments whose pool nothing tells: taken for the default pool")
    return told


def parts_in_words(point: FragmentationPoint) -> list[tuple[str, int, str, str]]:
    """Reserved memory explained: field, bytes, percent and words of each part that there is; they sum to it."""
    expands = any(pool.expandable for pool in point.pools)
    fixed = any(not pool.expandable for pool in point.pools)
    busy = "pages" if expands and not fixed else "segments or pages" if expands else "segments"
    sizes = [(field, getattr(point.parts, field), words.format(busy=busy)) for field, words in _PARTS]
    return [(field, size, _share(size, point.parts.reserved_bytes), words) for field, size, words in sizes if size]


def _parts(point: FragmentationPoint, width: int) -> list[Line]:
    parts = point.parts
    free = parts.reserved_bytes - parts.allocated_bytes
    lines = wrapped(f"{format_bytes(parts.allocated_bytes)} allocated, {format_exact(free)} more reserved:", width)
    for field, size, share, words in parts_in_words(point):
        style = "warning" if field == "unexplained_bytes" else ""
        text = cut_left(words, width - _ROOM - 8)
        lines.append(
            line(pad(format_bytes(size), _ROOM, right=True), pad(share, 6, right=True), "  ", Span(text, style))
        )
    return lines


def _share(part: int, total: int) -> str:
    """Percent, never rounded up to all nor down to nothing."""
    if total <= 0 or part <= 0 or part == total:
        return "100%" if part == total > 0 else ""
    return f"{min(part * 1000 // total, 999) / 10:.1f}%" if part * 1000 >= total else "<0.1%"


def _picture(cells: Sequence[MemoryCell], width: int) -> list[Line]:
    """Segments side by side by address: each column the kind that most of it is."""
    if not cells:
        return []
    columns = len(cells) if width >= len(cells) + 2 else len(cells) // 2
    each = len(cells) // columns
    if columns + 2 > width:
        return []
    shares = [
        [sum(getattr(c, f"{kind}_bytes") for c in cells[i * each : (i + 1) * each]) for kind in _KINDS]
        for i in range(columns)
    ]
    drawn = "".join(_GLYPHS[max(range(len(_KINDS)), key=share.__getitem__)] for share in shares)
    total = sum(map(sum, shares))
    used = [i for i in range(len(_KINDS)) if any(share[i] for share in shares)]
    legend = "  ".join(f"{_GLYPHS[i]} {_MEANING[i]}" for i in used)
    about = f"by address, a column is {format_bytes(total // columns)}, drawn as most of it is: {legend}"
    return [line(), line(f"│{drawn}│"), *wrapped(about, width, style="faint")]


def _pools(pools: Sequence[PoolPart], width: int, top: int) -> list[Line]:
    wide = width >= _WIDE
    fields = ("reserved", "allocated", "pending", "busy", "mostly_free", "whole", "largest_free")
    # a column that is nothing in all rows says nothing
    kept = [f for i, f in enumerate(fields) if i < 2 or any(getattr(one, f"{f}_bytes") for one in pools)]
    if not wide and len(kept) == len(fields):
        kept.remove("largest_free")
    short = {"mostly_free": "mostly", "largest_free": "largest"}
    names = [f.replace("_", " ") if wide else short.get(f, f) for f in kept]
    expands = {one.expandable for one in pools}
    head = "expandable segments" if expands == {True} else "segments"
    streams = len({one.stream for one in pools}) > 1
    head += " (@stream)" if streams else ""
    rows = []
    for one in pools[: max(top, 1)]:
        cells = [getattr(one, f"{field}_bytes") for field in kept]
        name = _pool_words(one, streams, len(expands) > 1)
        rows.append([Span(name), *(Span(format_bytes(size) if wide else _short(size)) for size in cells)])
    lines = [line(), *render_table([Column(head, number=False), *map(Column, names)], rows, width)]
    if len(pools) > len(rows):
        rest = sum(one.reserved_bytes for one in pools[len(rows) :])
        lines += wrapped(
            f"and {plural(len(pools) - len(rows), 'more row')} with {format_bytes(rest)}", width, style="faint"
        )
    return lines


def _short(size: int) -> str:
    """Three digits, where room is short: ``75.3 MiB``."""
    number, _, unit = format_bytes(size).partition(" ")
    whole, _, part = number.partition(".")
    kept = part[: max(0, 3 - len(whole))]
    return f"{whole}{'.' * bool(kept)}{kept} {unit}"


def _pool_words(one: PoolPart, streams: bool, kinds: bool) -> str:
    name = f"{one.segments:,} {one.size_class}"
    name += " expandable" if one.expandable and kinds else ""
    name += "" if one.pool == "default" else f" {one.pool.replace(', ', ',').replace(' pool', '')}"
    if streams and one.stream != 0:
        name += f" @{'?' if one.stream is None else f'{one.stream:x}'}"
    return clean(name)


def _largest(point: FragmentationPoint, width: int) -> list[Line]:
    told = []
    for one in point.free_blocks:
        if one.free_bytes:
            stream = f"@{one.stream:x} " if one.stream else ""
            told.append(f"{stream}{format_bytes(one.largest_free_bytes)} of {format_bytes(one.free_bytes)} free")
    text = f"largest free block for large requests: {', '.join(told) or 'none'}"
    most = point.free_blocks[0].largest_possible_bytes if point.free_blocks else None
    if most is not None and point.device_free_bytes is not None:
        text += f"; the device has {format_bytes(point.device_free_bytes)} free, so with all given back a request "
        text += f"could have {format_bytes(most)} at most"
    return [line(), *wrapped(text, width, "", "  ")] if point.free_blocks else []


def _pending(point: FragmentationPoint, width: int, top: int) -> list[Line]:
    lines: list[Line] = []
    for one in point.pending[:top]:
        stream = "of a stream that nothing names" if one.stream is None else f"of stream {one.stream:x}"
        text = f"pending: {format_bytes(one.pending_bytes)} in {plural(one.blocks, 'block')} {stream}, held back until "
        lines += wrapped(f"{text}another stream is done with them; mostly {pinner_words(one.largest)}", width, "", "  ")
    return [line(), *lines] if lines else []


# ------------------------------------------------------------------ phases and ranks


def _phases(rank: RankFragmentation, width: int) -> list[Line]:
    if not rank.phases:
        return []
    columns = [Column("over the events, by phase", number=False)]
    columns += [Column("reserved peak"), Column("held free, most"), Column("largest free, least"), Column("grew")]
    columns += [Column("grew with room")]
    heads = ("by phase", "reserved", "held free", "largest free", "grew", "with room")
    columns = columns if width >= _WIDE else [Column(heads[0], number=False), *(Column(h) for h in heads[1:])]
    rows = []
    for one in rank.phases[:_PHASES]:
        times = f" ×{one.times}" if one.times > 1 else ""
        sizes = (one.reserved_peak_bytes, one.held_free_bytes, one.lowest_largest_bytes)
        rows.append(
            [Span(("" if one.whole else "≥ ") + clean(one.phase) + times), *(Span(format_bytes(s)) for s in sizes)]
        )
        rows[-1] += [Span(format_bytes(s)) for s in (one.grown_bytes, one.grown_beside_free_bytes)]
    lines = [line(), *render_table(columns, rows, width)]
    if len(rank.phases) > _PHASES:
        more = plural(len(rank.phases) - _PHASES, "more phase")
        lines.append(line(Span(f"{more}: --format json has them", "faint")))
    words = (
        "held free: the most that was free at once and could not be given back; largest free: how small the largest "
        "free block for large requests got; grew: what came in large segments, and with room: of it for requests "
        "for which as much was free, in pieces that did not fit"
    )
    return lines + wrapped(words, width, style="faint")


def _ranks(report: FragmentationReport, width: int) -> list[Line]:
    if len(report.ranks) < 2:
        return []
    heads = ("reserved", "allocated", "held free", "whole", "out of memory")
    columns = [Column("rank", number=False), *map(Column, heads)]
    first = next((point for rank in report.ranks for point in rank.points), None)
    rows = []
    for rank in report.ranks:
        parts = next((one.parts for one in rank.points if first is not None and one.at == first.at), None)
        cells = _rank_cells(parts) if parts is not None else ["–"] * 4
        rows.append([Span(f"rank {rank.rank}"), *map(Span, cells), Span(f"{rank.ooms:,}" if rank.ooms else "no")])
    title = f", {first.title}" if first is not None else ""
    lines = [line(), *wrapped(clean(f"all ranks, the worst first{title}:"), width)]
    lines += render_table(columns, rows, width)
    return [*lines, *wrapped("--rank N tells of any of them", width, style="faint")]


def _rank_cells(parts: ReservedParts) -> list[str]:
    held = parts.busy_bytes + parts.mostly_free_bytes
    sizes = (parts.reserved_bytes, parts.allocated_bytes, held, parts.whole_bytes + parts.private_bytes)
    return [format_bytes(size) for size in sizes]
