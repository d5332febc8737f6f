"""What a path holds, for people. Pure: a finished ``InfoReport`` in, lines out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from snapviz.report.difftext import suspect_lines
from snapviz.report.heading import broken_lines, note_lines, told_once
from snapviz.report.keepers import kept_lines
from snapviz.report.layout import Column, Line, Span, clean, cut_left, line, pad, render_table, width_of, wrapped
from snapviz.report.words import (
    change,
    fold_names,
    frames_in_words,
    is_of_memory,
    number,
    plural,
    signed,
)
from snapviz.schema import Dangling, InfoReport, LiveRow, PhaseInfo, RankInfo
from snapviz.units import format_bytes, format_exact, format_us

__all__ = ["info_lines"]

_WIDE = 110
_PHASES = 60
"""Rows of a table of phases; JSON has all."""
_IGNORED = 6
_MEASURES = ("requested", "allocated", "active", "reserved")


def info_lines(report: InfoReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), ``top`` rows of what is live."""
    width = max(60, width)
    lines = _header(report, width)
    lines += broken_lines(report.broken, width)
    lines += note_lines(report.notes, width)
    if len(report.ranks) > 1:
        lines += _rank_table(report, width)
    several = len(report.ranks) > 1
    return lines + told_once(report.ranks, _likeness, lambda rank: _rank(rank, width, top, several))


def _likeness(rank: RankInfo) -> object:
    """What is told of a rank, without what always differs."""
    same = {"rank": 0, "device": 0, "source": "", "first_us": 0, "last_us": 0}
    same |= {"dangling": tuple(d.model_copy(update={"rank": 0, "allocation": 0}) for d in rank.dangling)}
    same |= {"suspects": tuple(s.model_copy(update={"rank": 0}) for s in rank.suspects)}
    return rank.model_copy(update=same).model_dump_json()


def _header(report: InfoReport, width: int) -> list[Line]:
    run = report.run
    facts = [report.kind, plural(len(run.ranks), "rank")]
    if run.world_size and run.world_size != len(run.ranks):
        facts[-1] += f" of {run.world_size}"
    facts += [f"torch {run.torch}"] * bool(run.torch) + [run.device or ""] * bool(run.device)
    facts += [f"commit {run.git.commit[:7]}{', dirty' if run.git.dirty else ''}"] if run.git else []
    # with a fake process group times say nothing, and a number alone would not say that
    for metric, value in run.metrics.items():
        unreal = " (not real)" if run.fake_process_group and not is_of_memory(metric) else ""
        facts.append(f"{metric} {number(value)}{unreal}")
    told = clean(" · ".join(facts))
    name = clean(run.name)
    if width_of(name) + width_of(told) + 3 <= width:
        return [line(Span(name, "strong"), "   ", Span(told, "faint"))]
    return [*wrapped(name, width, style="strong"), *wrapped(told, width, style="faint")]


def _rank_table(report: InfoReport, width: int) -> list[Line]:
    columns = [Column("allocated", number=False), *map(Column, ("peak", "end", "reserved peak", "exact"))]
    rows = [
        [
            Span(f"rank {rank.rank}"),
            Span(format_bytes(rank.peak.allocated_bytes)),
            Span(format_bytes(rank.end.allocated_bytes)),
            Span(format_bytes(rank.peak.reserved_bytes)),
            Span(("in part" if rank.truncated else "yes") if rank.exact else "no"),
        ]
        for rank in report.ranks
    ]
    return [line(), *render_table(columns, rows, width)]


def _rank(rank: RankInfo, width: int, top: int, several: bool) -> list[Line]:
    lines = [line()]
    lines += [line(Span(f"rank {rank.rank}", "strong"))] if several else []
    lines += wrapped(clean(" · ".join(_file(rank))), width)
    lines += wrapped(_trust(rank), width)
    for note in (*rank.notes, *rank.reading_notes):
        lines += wrapped(clean(note), width, "~ ", "  ")
    if rank.ignored:
        parts = [f"{what} ({count:,})" for what, count in list(rank.ignored.items())[:_IGNORED]]
        more = f" and {len(rank.ignored) - _IGNORED} more" if len(rank.ignored) > _IGNORED else ""
        lines += wrapped(f"~ not understood, and left out: {clean(', '.join(parts))}{more}", width, "", "  ")
    lines += _phase_lines(rank, width)
    lines += _device_lines(rank, width)
    lines += _live(rank, width, top)
    lines += _dangling(rank, width, top)
    if rank.suspects:
        title = "suspects of dangling (none is certain)"
        lines += [line(), *wrapped(title, width, style="strong"), *suspect_lines(rank.suspects, width)]
    return lines


def _file(rank: RankInfo) -> Iterator[str]:
    yield rank.source.rpartition("/")[2] or rank.source
    yield from _container(rank)
    yield f"device {rank.device}"
    yield plural(rank.events, "event")
    if rank.first_us is not None and rank.last_us is not None:
        yield f"over {format_us(rank.last_us - rank.first_us)}"
    yield plural(rank.allocations, "allocation")
    yield plural(rank.segments, "segment")


def _container(rank: RankInfo) -> Iterator[str]:
    known = rank.container
    protocol = f"protocol {known['protocol']}" if "protocol" in known else ""
    if told := ", ".join(part for part in (str(known.get("container", "")), protocol) if part):
        yield told
    if "shape" in known:
        yield str(known["shape"])


def _trust(rank: RankInfo) -> str:
    record = "with a rank record" if rank.recorded else "no rank record: owners are not known, categories are inferred"
    if rank.exact and not rank.events:
        return f"no events: what is allocated at the dump is exact, and no peak is known; {record}"
    if rank.exact and rank.truncated:
        return f"exact to the byte from the first event on, and what was before is not known; {record}"
    if rank.exact:
        return f"exact to the byte: nothing is estimated, and the file agrees with itself; {record}"
    if rank.consistent:
        return f"not exact, for the reasons below; {record}"
    return f"not exact: the file contradicts itself, as said below; {record}"


def _phase_lines(rank: RankInfo, width: int) -> list[Line]:
    lines: list[Line] = []
    for field in ("peak", "end"):
        # without an event there is no peak but what torch counted
        phases = [p for p in rank.phases if rank.events or p.counted or field == "end"]
        if not phases:
            continue
        columns = [Column(f"{field}, by phase", number=False), *(Column(measure) for measure in _MEASURES)]
        columns += [Column("allocated grew")] if field == "end" else []
        rows = [_phase_row(phase, field) for phase in phases[:_PHASES]]
        lines += [line(), *render_table(columns, rows, width)]
        if len(phases) > _PHASES:
            more = plural(len(phases) - _PHASES, "more phase")
            lines.append(line(Span(f"{more}: --format json has them", "faint")))
    return lines


def _device_lines(rank: RankInfo, width: int) -> list[Line]:
    """What the record says of the device beside the allocator."""
    lines: list[Line] = []
    if (out := rank.outside) is not None:
        told = f"outside the allocator: {format_bytes(out.first_bytes)} at the end of {clean(out.first_phase)}"
        if out.last_phase != out.first_phase:
            told += f", {format_bytes(out.last_bytes)} at the end of {clean(out.last_phase)}"
            told += f" ({signed(out.last_bytes - out.first_bytes)})"
        lines += wrapped(f"{told}; of the whole device: contexts, NCCL and other processes count", width, "", "  ")
    for what, field in (("alloc retries", "alloc_retries"), ("out of memory", "ooms")):
        known = [(phase.phase, getattr(phase, field)) for phase in rank.phases]
        if any(count is not None for _, count in known):
            parts = [f"{count:,} in {clean(phase)}" for phase, count in known if count]
            lines += wrapped(f"{what}: {', '.join(parts) or 'none'}", width, "", "  ", "warning" if parts else "")
    return [line(), *lines] if lines else []


def _phase_row(phase: PhaseInfo, field: str) -> list[Span]:
    values = getattr(phase, field)
    times = f" ×{phase.times}" if phase.times > 1 else ""
    row = [Span(clean(phase.phase) + times)]
    for measure in _MEASURES:
        least = "≥ " if field == "peak" and measure in phase.at_least else ""
        row.append(Span(least + format_bytes(getattr(values, f"{measure}_bytes"))))
    if field == "end":
        row += [change(phase.growth.allocated_bytes) if phase.growth else Span("not known", "faint")]
    return row


def _live(rank: RankInfo, width: int, top: int) -> list[Line]:
    if not rank.live_at_peak:
        return []
    where = f" (in {clean(rank.peak_phase)})" if rank.peak_phase not in (None, "run") else ""
    moment = "peak" if not rank.truncated else "recording's peak" if rank.events else "dump"
    title = f"live at the {moment}{where}: {format_exact(rank.peak.allocated_bytes)}"
    lines = [line(), *wrapped(title, width, style="strong")]
    lines += _by_category(rank, width)
    for row in rank.live_at_peak[:top]:
        lines += _live_row(row, width)
    rest = rank.live_at_peak[top:]
    if rest:
        size = format_bytes(sum(row.live_bytes for row in rest))
        lines.append(line(pad(size, 12, right=True), f"  in {plural(len(rest), 'more row')}"))
    return lines


def _by_category(rank: RankInfo, width: int) -> list[Line]:
    sums: dict[str, int] = {}
    for row in rank.live_at_peak:
        name = _purpose(row)
        sums[name] = sums.get(name, 0) + row.live_bytes
    ordered = sorted(sums.items(), key=lambda kind: (-kind[1], kind[0]))
    told = " · ".join(f"{name} {format_bytes(size)}" for name, size in ordered)
    return wrapped(told, width, "  ", "  ", "faint")


def _purpose(row: LiveRow) -> str:
    if row.dangling:
        return "dangling parameter"
    return "unknown purpose" if row.category == "unknown" else row.category


def _live_row(row: LiveRow, width: int) -> list[Line]:
    what = _purpose(row)
    parts = [plural(row.live_count, "block"), f"born {clean(row.birth_phase)}"]
    head = line(pad(format_bytes(row.live_bytes), 12, right=True), "  ", Span(what, "strong"))
    head.append(Span(f" {cut_left(clean(row.owner), 40)}" if row.owner else ""))
    if width >= _WIDE:
        head.append(Span(" " * max(0, 50 - sum(width_of(span.text) for span in head))))
    used = sum(width_of(span.text) for span in head)
    tail = f"  {' · '.join(parts)}"
    if width >= _WIDE:
        stack = frames_in_words(row.stack, None, width - used - width_of(tail) - 3)
        return [[*head, Span(tail, "faint"), Span(f"   {stack}", "faint")]]
    below = line(" " * 14, Span(frames_in_words(row.stack, None, width - 14), "faint"))
    return [[*head, Span(cut_left(tail, max(0, width - used)), "faint")], below]


def _dangling(rank: RankInfo, width: int, top: int) -> list[Line]:
    if not rank.dangling:
        told = "none" if rank.dangling_known else f"cannot be told: {clean(rank.dangling_why)}"
        return [line(), *wrapped(f"dangling: {told}", width)]
    total = sum(d.block_bytes for d in rank.dangling)
    title = f"dangling: {plural(len(rank.dangling), 'parameter')}, {format_exact(total)}"
    lines = [line(), *wrapped(title, width, style="strong")]
    groups: dict[tuple[str, str | None], list[Dangling]] = {}
    for one in rank.dangling:
        groups.setdefault((one.should_go_in, one.gone_in), []).append(one)
    for (should, gone), found in groups.items():
        some, used = _dangling_group(should, gone, found, width, top)
        lines, top = lines + some, top - used
    if rank.without is not None:
        what = "it" if len(rank.dangling) == 1 else "them"
        text = f"without {what} the peak would be {format_bytes(rank.without.peak_bytes)}"
        lines += wrapped(f"{text}, {format_bytes(rank.without.saved_bytes)} less.", width)
    return lines


def _dangling_group(
    should: str, gone: str | None, found: list[Dangling], width: int, top: int
) -> tuple[list[Line], int]:
    """At most ``top`` rows, the largest first, with a line for the others; and how many rows there are."""
    when = "live at the end" if gone is None else f"released late, in {gone}"
    lines = wrapped(clean(f"should have gone in {should}, {when}:"), width, "  ", "  ")
    together = kept_lines(found, width, 4)
    # what keeps all of them is told once, above them
    each = len(together) > 1 or len(found) == 1
    lines += [] if each else list(chain.from_iterable(together))
    folded = [(name, [found[i] for i in positions]) for name, positions in fold_names([d.name for d in found])]
    ordered = sorted(folded, key=lambda one: -sum(d.block_bytes for d in one[1]))
    shown, rest = ordered[:top], [d for _, some in ordered[top:] for d in some]
    for name, some in shown:
        size = format_bytes(sum(d.block_bytes for d in some))
        text = f"{clean(name)}  {plural(len(some), 'block')} · born {clean(some[0].birth_phase)}"
        lines.append(line(pad(size, 12, right=True), "  ", Span(cut_left(text, width - 14))))
        lines += chain.from_iterable(kept_lines(some, width, 14)) if each else []
    if rest:
        size = format_bytes(sum(d.block_bytes for d in rest))
        lines.append(line(pad(size, 12, right=True), f"  in {plural(len(rest), 'more parameter')}"))
    return lines, len(shown)
