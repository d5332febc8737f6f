"""What the steps of a run leave behind, for people. Pure: a finished ``LeaksReport`` in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapviz.report.heading import UNREAD, broken_lines, note_lines, run_lines, told_once
from snapviz.report.layout import Column, Line, Span, clean, cut, line, pad, render_table, width_of, wrapped
from snapviz.report.words import change, fold_names, frames_in_words, plural, signed
from snapviz.schema import GrowingGroup, LeaksReport, RankLeaks, StepGrowth
from snapviz.units import format_bytes, format_exact

__all__ = ["leaks_lines"]

_FIRST_STEPS, _LAST_STEPS = 4, 8
"""Rows of the table of steps where there are more than both and one: JSON has all."""
_INDENT = 14
_TOLD = 60
"""Columns of a stack within a sentence."""
_NO_STEPS = (
    "Record it with 'snapviz record', name them yourself with snapviz.phase('train/step0') and so on, or where "
    "torch's own recording has to do, run them under torch.profiler or record_function('ProfilerStep#0')."
)


def leaks_lines(report: LeaksReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report in lines of at most ``width`` columns (at least 60), ``top`` rows of what grows."""
    width = max(60, width)
    lines = run_lines(report.run, width)
    several = len(report.ranks) > 1
    if report.ranks:
        lines += _verdict(report, width)
    lines += broken_lines(report.broken, width)
    lines += note_lines(report.notes, width)
    if several:
        lines += _rank_table(report.ranks, width)
    return lines + told_once(report.ranks, _likeness, lambda rank: _rank(rank, report, width, top, several))


def _likeness(rank: RankLeaks) -> object:
    return rank.model_copy(update={"rank": 0, "full": None}).model_dump_json()


# ------------------------------------------------------------------ the verdict


def _verdict(report: LeaksReport, width: int) -> list[Line]:
    """What is said first: of the worst rank, and of all where all say the same."""
    ranks = report.ranks
    said = [_said(rank, report) for rank in ranks[:_COMPARED]]
    every = "both ranks" if len(ranks) == 2 else f"all {len(ranks):,} ranks"
    if len(ranks) == 1:
        text = said[0]
    elif len(set(said)) == 1 and len(said) == len(ranks):
        text = f"on {every}: {said[0]}"
    elif all(rank.status == "no leak" for rank in ranks):
        text = f"no leak on {every}: nothing that a step makes stays step after step."
    else:
        text = f"on rank {ranks[0].rank}, the worst of {len(ranks)}: {said[0]}"
    return wrapped(clean(f"{text}{UNREAD if report.broken else ''}"), width)


_COMPARED = 64
"""Ranks whose verdicts are compared word by word."""


def _said(rank: RankLeaks, report: LeaksReport) -> str:
    words: dict[str, Callable[[], str]] = {
        "no steps": lambda: f"it has no steps, so that growth from step to step cannot be told. {_NO_STEPS}",
        "no events": lambda: "it has no events, so that nothing is known of any step.",
        "too few steps": lambda: _too_few(rank, report),
        "leak": lambda: _leak(rank),
        "may leak": lambda: f"this may be a leak: {_leak(rank)}",
        "rises": lambda: _rises(rank),
        "no leak": lambda: _no_leak(rank),
    }
    return words[rank.status]()


def _too_few(rank: RankLeaks, report: LeaksReport) -> str:
    return (
        f"{plural(len(rank.steps), 'step')} cannot tell what grows from step to step: a leak shows from 3 on, and is "
        f"certain from {report.times + 1} on (snapviz record --steps {report.times + 1})."
    )


def _leak(rank: RankLeaks) -> str:
    grow = [one for one in rank.groups if one.way != "stopped"]
    first = grow[0]
    even = {share.kept_bytes for one in grow for share in one.steps}
    what = f"{_counted(first)}, {frames_in_words(first.stack, None, _TOLD).removesuffix(' ← …')}"
    if len(grow) > 1:
        text = (
            f"steps leave {format_bytes(rank.rate_bytes)} behind on average, in {len(grow)} stacks. The largest: {what}"
        )
    elif len(even) > 1:
        text = f"{_which(first.every)} leaves about {format_bytes(first.step_bytes)} behind: {what}"
    else:
        exact = format_exact(first.step_bytes)
        text = f"{_which(first.every)} leaves {format_bytes(first.step_bytes)} behind ({exact}): {what}"
    return f"{text}. {_seen(first, rank)}"


def _which(every: int | None) -> str:
    if every is None:
        return "now and then a step"
    return {1: "each step", 2: "every 2nd step", 3: "every 3rd step"}.get(every, f"every {every}th step")


def _counted(group: GrowingGroup) -> str:
    """``1 block of activation``, ``2 blocks of shard layers.0-7.w``."""
    category = group.categories[0] if group.categories else "unknown"
    what = "" if category == "unknown" else f" of {category}"
    return f"{plural(group.step_count, 'block')}{what}{_owned(group)}"


def _owned(group: GrowingGroup) -> str:
    names = [name for name, _ in fold_names(group.owners)]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f" {names[0]}{more}" if names else ""


def _seen(group: GrowingGroup, rank: RankLeaks) -> str:
    count = len(group.steps)
    where = _span(group)
    if group.every != 1:
        return f"It is seen in {count} steps, {where}."
    rest = "the last one" if group.last_judged == rank.steps[-2].step else "those after it"
    return f"It is seen in {where}; {rest} cannot show it."


def _span(group: GrowingGroup) -> str:
    """``step0 to step4``, ``step0 and step1``."""
    both = "and" if len(group.steps) == 2 and group.every == 1 else "to"
    return f"{_short(group.since)} {both} {_short(group.until)}"


def _rises(rank: RankLeaks) -> str:
    assert rank.median_delta_bytes is not None
    return (
        f"the ends of steps rise, by {format_bytes(rank.median_delta_bytes)} a step in the median, and yet nothing "
        "that a step makes stays for good: what is live at their ends is made anew, and larger. Growing inputs do this."
    )


def _no_leak(rank: RankLeaks) -> str:
    judged = rank.steps[:-1]
    last = judged[-1].end_bytes
    alike = next((i for i, one in reversed(list(enumerate(judged))) if one.end_bytes != last), -1) + 1
    equal = judged[alike:]
    if len(equal) > 1:
        both = "and" if len(equal) == 2 else "to"
        text = f"no growth: the ends of {_short(equal[0].step)} {both} {_short(equal[-1].step)} are equal"
        text = f"{text} ({format_bytes(last)}), and nothing that a step makes stays step after step."
        return f"{text}{_stopped(rank)}{_last(rank)}"
    ends = [one.end_bytes for one in judged]
    spread = format_bytes(max(ends) - min(ends))
    return (
        f"no leak: nothing that a step makes stays step after step. The ends of {_short(judged[0].step)} to "
        f"{_short(judged[-1].step)} differ by up to {spread}.{_stopped(rank)}{_last(rank)}"
    )


def _stopped(rank: RankLeaks) -> str:
    """What grew for a while, as caches do."""
    count = sum(one.way == "stopped" for one in rank.groups)
    return f" {'One stack' if count == 1 else f'{count} stacks'} grew and stopped." if count else ""


def _last(rank: RankLeaks) -> str:
    """Where the last step ends higher: nothing comes after it that would tell whether that stays."""
    last = rank.steps[-1]
    if last.delta_bytes is None or last.delta_bytes <= 0:
        return ""
    higher = format_bytes(last.delta_bytes)
    return f" {_short(last.step)}, the last, ends {higher} higher: whether that would stay cannot be told."


def _short(step: str) -> str:
    """The last part of a step's name, and the part before it where that is numbered too."""
    parts = step.split("/")
    numbered = len(parts) > 1 and parts[-2][-1:].isdigit()
    return "/".join(parts[-2:]) if numbered else parts[-1]


# ------------------------------------------------------------------ the ranks


def _rank_table(ranks: Sequence[RankLeaks], width: int) -> list[Line]:
    columns = [Column("growth", number=False), *map(Column, ("left a step", "ends, median", "verdict"))]
    rows = []
    for one in ranks[:_TABLE]:
        median = one.median_delta_bytes
        rows.append(
            [
                Span(f"rank {one.rank}"),
                Span(format_bytes(one.rate_bytes) if one.rate_bytes else "0"),
                change(median) if median is not None else Span("–", "faint"),
                Span(one.status, "more" if one.status in ("leak", "may leak") else ""),
            ]
        )
    lines = [line(), *render_table(columns, rows, width)]
    if len(ranks) > _TABLE:
        more = plural(len(ranks) - _TABLE, "more rank")
        lines.append(line(Span(f"{more}, each with no more: --format json has them", "faint")))
    return lines


_TABLE = 16
"""Ranks in the table, the worst first."""


def _rank(rank: RankLeaks, report: LeaksReport, width: int, top: int, several: bool) -> list[Line]:
    lines = [line(), line(Span(f"rank {rank.rank}", "strong"))] if several else []
    lines += note_lines(rank.notes, width)
    if rank.steps:
        lines += _step_table(rank, report, width)
    lines += _group_lines(rank, width, top)
    return lines + _full_lines(rank, width)


def _step_table(rank: RankLeaks, report: LeaksReport, width: int) -> list[Line]:
    later = "1 step" if report.after == 1 else f"{report.after} steps"
    columns = [Column("step", number=False), *map(Column, ("end", "Δ", f"left {later} later", "at the end"))]
    grows = any(one.growing_bytes for one in rank.steps)
    columns += [Column("that grows")] if grows else []
    steps = rank.steps
    left_out = len(steps) - _FIRST_STEPS - _LAST_STEPS
    shown = [*steps[:_FIRST_STEPS], *steps[-_LAST_STEPS:]] if left_out > 1 else steps
    rows = [_step_row(one, grows) for one in shown]
    if left_out > 1:
        rows.insert(_FIRST_STEPS, [Span(f"… {left_out:,} steps …", "faint"), *[Span("")] * (len(columns) - 1)])
    title = "memory that each step made, and that is still there"
    lines = [line(), *wrapped(title, width, style="strong"), *render_table(columns, rows, width)]
    # the last ends where its recording does
    return [
        *lines,
        *wrapped("the last step ends where its recording does: its end is not compared.", width, style="faint"),
    ]


def _step_row(one: StepGrowth, grows: bool) -> list[Span]:
    least = "" if one.whole else "≥ "
    row = [
        Span(clean(_short(one.step))),
        Span(f"{'' if one.exact else '~ '}{format_bytes(one.end_bytes)}"),
        Span("–", "faint") if one.delta_bytes is None else change(one.delta_bytes),
        Span("–", "faint") if one.left_after_bytes is None else Span(least + _bytes(one.left_after_bytes)),
        Span(least + _bytes(one.left_bytes)),
    ]
    return row + ([Span(_bytes(one.growing_bytes), "more" if one.growing_bytes else "faint")] if grows else [])


def _bytes(count: int) -> str:
    return format_bytes(count) if count else "0"


# ------------------------------------------------------------------ what grows

_TITLES = {
    "grows": "what grows",
    "may grow": "what may grow: in every step that could show it, and there are too few to be sure",
    "stopped": "what grew and stopped",
}


def _group_lines(rank: RankLeaks, width: int, top: int) -> list[Line]:
    lines: list[Line] = []
    for way, title in _TITLES.items():
        some = [one for one in rank.groups if one.way == way]
        if not some:
            continue
        lines += [line(), *wrapped(title, width, style="strong")]
        for one in some[:top]:
            lines += _one_group(one, width)
        if rest := some[top:]:
            size = format_bytes(sum(one.kept_bytes for one in rest))
            lines.append(line(pad(size, 12, right=True), f"  in {plural(len(rest), 'more stack')}"))
    return lines


def _one_group(one: GrowingGroup, width: int) -> list[Line]:
    even = len({share.kept_bytes for share in one.steps}) == 1
    what = _purpose(one)
    each = f"{'' if even else 'about '}{format_bytes(one.step_bytes)} a time"
    parts = [each, plural(one.kept_count, "block"), *_when(one)]
    parts += [f"born {clean(one.birth_phases[0])}"] if one.birth_phases else []
    parts += [f"module {clean(one.modules[0])}"] if one.modules else []
    parts += [{"inferred": "by its stack", "annotated": "by annotations"}.get(one.evidence, "")] if what else []
    head = [Span(pad(signed(one.kept_bytes), 12, right=True), "more" if one.way != "stopped" else ""), Span("  ")]
    name = cut(clean(f"{what}{_owned(one)}".strip() or "unknown purpose"), width - _INDENT)
    tail = " · ".join(part for part in parts if part)
    lines = [[*head, Span(name, "strong")]]
    if _INDENT + width_of(name) + 2 + width_of(tail) <= width:
        lines = [[*lines[0], Span(f"  {tail}", "faint")]]
    else:
        lines += [[Span(" " * _INDENT), *part] for part in wrapped(tail, width - _INDENT, style="faint")]
    stack = frames_in_words(one.stack, None, width - _INDENT)
    return [*lines, line(" " * _INDENT, Span(stack, "faint"))]


def _purpose(one: GrowingGroup) -> str:
    category = one.categories[0] if one.categories else "unknown"
    return "" if category == "unknown" else category


def _when(one: GrowingGroup) -> list[str]:
    steps = clean(_span(one))
    if one.every == 1:
        return [f"each of {steps}"]
    often = f"every {one.every} steps" if one.every else f"{len(one.steps)} steps"
    return [f"{often} from {steps}"]


def _full_lines(rank: RankLeaks, width: int) -> list[Line]:
    full = rank.full
    if full is None:
        return []
    text = (
        f"inferred: at this rate the device would be full after {plural(full.more_steps, 'more step')}, from the end "
        f"of {clean(full.phase)} on, where {format_bytes(full.free_bytes)} of it were free"
    )
    if full.cached_bytes:
        text += f" and {format_bytes(full.cached_bytes)} reserved and not used at the peak"
    return [line(), *wrapped(f"{text}.", width)]
