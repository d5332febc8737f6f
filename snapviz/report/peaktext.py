"""What was live at a moment, for people: how much is explained, categories, modules, the largest, what a fix saves.

Pure: a finished ``PeakReport`` in, lines out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from snapviz.report.layout import Column, Line, Span, clean, cut_left, line, pad, render_table, width_of, wrapped
from snapviz.report.words import broken_in_words, frames_in_words, plural
from snapviz.schema import Known, LiveGroup, ModuleRow, PeakReport, PhaseWithout, RankPeak
from snapviz.units import format_bytes, format_exact

__all__ = ["known_in_words", "moment_in_words", "peak_lines"]

_NOTES = 6
_PHASES = 60
"""Rows of the table of phases, those that save most; JSON has all."""
_BAR = 12
"""Columns of the longest bar."""

_WIDE = 120
"""Columns from which a group's stack goes beside it instead of below."""

_ROOM = 14
"""Columns of an amount, and of what stands before a stack."""


def peak_lines(report: PeakReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), of the worst rank; the others are a table."""
    width = max(60, width)
    lines = _header(report, width)
    rank = next((one for one in report.ranks if one.rank == report.worst_rank), None)
    if rank is None:
        return lines
    lines += _title(report, rank, width)
    known = known_in_words(rank.known, rank.measures.allocated_bytes)
    lines += wrapped(known, width) if known else []
    lines += _categories(rank, width)
    lines += _modules(rank, width, top)
    lines += _groups(report, rank, width, top)
    lines += _without(report, rank, width)
    return lines + _ranks(report, width)


def _header(report: PeakReport, width: int) -> list[Line]:
    run = report.run
    world = f"{len(run.ranks)} of {run.world_size} ranks" if run.world_size else plural(len(run.ranks), "rank")
    facts = [world] + [f"torch {clean(run.torch or '')}"] * bool(run.torch)
    facts += [clean(run.device or "")] * bool(run.device)
    lines = [line(Span(clean(run.name), "strong"), "   ", Span(" · ".join(facts), "faint"))]
    for broken in report.broken:
        text = f"{broken_in_words(broken)} is not in these numbers: {broken.message}"
        lines += wrapped(clean(text), width, "! ", "  ", "warning")
    for number in report.missing:
        lines += wrapped(f"rank {number} has no such moment", width, "! ", "  ", "warning")
    shown = next((one.notes for one in report.ranks if one.rank == report.worst_rank), ())
    for note in (*report.notes, *shown)[:_NOTES]:
        lines += wrapped(clean(note), width, "~ ", "  ")
    more = len(report.notes) + len(shown) - _NOTES
    return lines + (
        wrapped(f"{plural(more, 'more note')} (--format json has all)", width, "~ ", "  ") if more > 0 else []
    )


def moment_in_words(report: PeakReport, rank: RankPeak) -> tuple[str, str]:
    """What is held when, and below it how that came about: the measures, and how far they can be trusted."""
    who = f", rank {rank.rank}" + (f" (the highest of {len(report.ranks)})" if len(report.ranks) > 1 else "")
    phase = rank.moment.phase
    where = f" ({clean(phase)})" if phase not in (None, "run") and report.at in ("peak", "end") else ""
    held = rank.measures
    text = f"{clean(report.title)}{where}{who}: {format_exact(held.allocated_bytes)} allocated"
    # the measure requested counts what is still to be freed; what is allocated was asked for by less
    asked = sum(one.requested_bytes for one in rank.categories)
    below = f"{format_bytes(held.allocated_bytes)} allocated for {format_bytes(asked)} asked for; "
    below += f"{format_bytes(held.active_bytes)} active, {format_bytes(held.reserved_bytes)} reserved"
    if not rank.moment.trust.whole:
        below += "; as far as it is recorded: the peak may have been higher"
    return text, below


def _title(report: PeakReport, rank: RankPeak, width: int) -> list[Line]:
    text, below = moment_in_words(report, rank)
    return [line(), *wrapped(text, width, style="strong"), *wrapped(below, width, "", "", "faint")]


def known_in_words(known: Known, total: int) -> str:
    """How much of what is held is explained, and by what; "" where nothing is held."""
    if total == 0:
        return ""
    parts = [
        (known.recorded_bytes, "recorded"),
        (known.annotated_bytes, "annotated"),
        (known.inferred_bytes, "inferred"),
    ]
    told = ", ".join(f"{_share(size, total)} {name}" for size, name in parts if size)
    text = f"explained: {_share(total - known.unknown_bytes, total)} has a category ({told or 'nothing'}), "
    text += f"{_share(known.owned_bytes, total)} an owner or a module"
    if known.unknown_bytes:
        text += f"; unknown: {format_exact(known.unknown_bytes)}"
    return text


def _share(part: int, total: int) -> str:
    """Percent, rounded down, and never to nothing."""
    if part in (0, total):
        return "100%" if part else "0%"
    tenths = part * 1000 // total
    return f"{tenths / 10:.1f}%" if tenths else "<0.1%"


def _bar(part: int, largest: int) -> str:
    eighths = max(1, part * _BAR * 8 // max(1, largest)) if part else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


# ------------------------------------------------------------------ tables


def _categories(rank: RankPeak, width: int) -> list[Line]:
    total = rank.measures.allocated_bytes
    columns = [Column("category", number=False), Column("bytes"), Column("share"), Column("blocks")]
    columns += [Column("evidence", number=False), Column("", number=False)]
    rows, largest = [], max((one.live_bytes for one in rank.categories), default=0)
    for one in rank.categories:
        name = "unknown purpose" if one.label == "unknown" else one.label
        rows.append([Span(name), Span(format_bytes(one.live_bytes)), Span(_share(one.live_bytes, total))])
        rows[-1] += [
            Span(f"{one.live_count:,}"),
            Span(one.evidence, "faint"),
            Span(_bar(one.live_bytes, largest), "less"),
        ]
    lines = [line(), *render_table(columns, rows, width)] if rows else []
    dangling = sum(one.dangling_bytes for one in rank.categories)
    if dangling:
        lines += wrapped(f"of these {format_exact(dangling)} dangle: snapviz dangling names them", width, style="more")
    return lines


def _modules(rank: RankPeak, width: int, top: int) -> list[Line]:
    """The tree of modules, its largest rows; what has no module is a row too."""
    rows = [row for row, below in pairwise((*rank.modules, None)) if row and not _only_holds(row, below)]
    if not any(row.path for row in rows):
        return []
    chosen = _largest(rows, max(top, 1))
    total = rank.measures.allocated_bytes
    columns = [Column("module", number=False), Column("bytes"), Column("share"), Column("largest part", number=False)]
    table = []
    above: list[str] = []
    for row in chosen:
        above = [path for path in above if row.path.startswith(f"{path}.")]
        table.append(
            [Span(_module(row, above)), Span(format_bytes(row.live_bytes)), Span(_share(row.live_bytes, total))]
        )
        above.append(row.path)
        table[-1].append(Span(_parts(row), "faint"))
    lines = [line(), *render_table(columns, table, width)]
    if len(chosen) < len(rows):
        lines.append(line(Span(f"{plural(len(rows) - len(chosen), 'smaller row')}: --top, --depth", "faint")))
    return lines


def _only_holds(row: ModuleRow, below: ModuleRow | None) -> bool:
    """Whether a module has nothing but the one below it."""
    return below is not None and below.depth > row.depth > 0 and below.live_bytes == row.live_bytes


def _module(row: ModuleRow, above: Sequence[str]) -> str:
    """Its path from the row above it that holds it, as far in as that is deep."""
    name = row.path[len(above[-1]) + 1 :] if above else row.path
    times = f" ×{row.modules}" if row.modules > 1 else ""
    return "  " * len(above) + (clean(name) if name else "(no module known)") + times


def _largest(rows: Sequence[ModuleRow], top: int) -> list[ModuleRow]:
    """The largest rows in their order: a row is never larger than the one above it, so that no parent is missing."""
    kept = sorted(range(len(rows)), key=lambda i: (-rows[i].live_bytes, rows[i].depth, i))[:top]
    return [rows[i] for i in sorted(kept)]


def _parts(row: ModuleRow) -> str:
    """``activation 62%, shard 20%``."""
    told = [f"{name} {_share(size, row.live_bytes)}" for name, size in list(row.categories.items())[:2]]
    if row.recomputed_bytes:
        told.append(f"recomputed {_share(row.recomputed_bytes, row.live_bytes)}")
    return ", ".join(told)


def _groups(report: PeakReport, rank: RankPeak, width: int, top: int) -> list[Line]:
    if report.by in ("category", "module"):
        return []
    title = {"line": "the largest", "owner": "by owner", "phase": "by phase of birth", "stack": "by stack"}[report.by]
    lines = [line(), line(Span(title, "strong"))]
    for one in rank.groups[:top]:
        lines += _group(one, report.by, width)
    rest = rank.groups[top:]
    if rest:
        size = format_bytes(sum(one.live_bytes for one in rest))
        lines.append(line(pad(size, 12, right=True), f"  in {plural(len(rest), 'more row')}"))
    return lines


def _group(one: LiveGroup, by: str, width: int) -> list[Line]:
    kind = "unknown purpose" if one.category == "unknown" else one.category or "several categories"
    what = "dangling parameter" if one.dangling_bytes and one.dangling_bytes == one.live_bytes else kind
    label = cut_left(clean(one.label), 44)
    named = {"phase": [Span(label, "strong")], "stack": [Span(what, "strong")]}.get(
        by, [Span(what, "strong"), Span(f" {label}" if label else "")]
    )
    first = [*line(pad(format_bytes(one.live_bytes), 12, right=True), "  "), *named]
    how = one.why if one.why and one.evidence != "recorded" else one.evidence
    tail = f"  {plural(one.live_count, 'block')} · {clean(how)}"
    used = sum(width_of(span.text) for span in first)
    if by in ("phase", "owner"):
        return [[*first, Span(cut_left(tail, max(0, width - used)), "faint")]]
    if width >= _WIDE:
        stack = frames_in_words(one.stack, None, max(20, width - used - width_of(tail) - 3))
        return [[*first, Span(tail, "faint"), Span(f"   {stack}", "faint")]]
    below = line(" " * _ROOM, Span(frames_in_words(one.stack, None, width - _ROOM), "faint"))
    if used + width_of(tail) > width:
        said = wrapped(tail.strip(), width - _ROOM, style="faint")
        return [first, *([Span(" " * _ROOM), *part] for part in said), below]
    return [[*first, Span(tail, "faint")], below]


# ------------------------------------------------------------------ what a fix would save


def _without(report: PeakReport, rank: RankPeak, width: int) -> list[Line]:
    if not report.without:
        return []
    what = " and ".join(clean(text) for text in report.without)
    removed = rank.removed_bytes or 0
    title = f"without {what}, and nothing else changed: {format_exact(removed)} less at this moment"
    lines = [line(), *wrapped(title, width, style="strong")]
    columns = [Column("phase", number=False), Column("peak"), Column("without"), Column("saved")]
    most = sorted(range(len(rank.without)), key=lambda i: (-rank.without[i].saved_bytes, i))[:_PHASES]
    lines += render_table(columns, [_saved(rank.without[i]) for i in sorted(most)], width)
    more = len(rank.without) - len(most)
    return lines + ([line(Span(f"{plural(more, 'more phase')}: --format json has them", "faint"))] if more else [])


def _saved(one: PhaseWithout) -> list[Span]:
    saved = Span(format_bytes(-one.saved_bytes, signed=True), "less" if one.saved_bytes else "faint")
    name = clean(one.phase) if one.phase else "the whole recording"
    return [Span(name), Span(format_bytes(one.peak_bytes)), Span(format_bytes(one.without_bytes)), saved]


def _ranks(report: PeakReport, width: int) -> list[Line]:
    if len(report.ranks) < 2:
        return []
    held = sorted(report.ranks, key=lambda one: (-one.measures.allocated_bytes, one.rank))
    if len({one.measures.allocated_bytes for one in held}) == 1:
        all_of = "both ranks hold" if len(held) == 2 else f"all {len(held)} ranks hold"
        return [line(), *wrapped(f"{all_of} as much then", width, style="faint")]
    told = ", ".join(f"rank {one.rank} {format_bytes(one.measures.allocated_bytes)}" for one in held[1:9])
    more = f" and {len(held) - 9} more" if len(held) > 9 else ""
    return [line(), *wrapped(f"the other ranks then: {told}{more}", width, "", "  ", "faint")]
