"""Judged budgets for people: a table of all of them, and for each that is hit a sentence and who owns the memory.

Pure: finished ``Budget`` documents and rows in, lines or text out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from snapviz.report.keepers import kept_lines
from snapviz.report.layout import Line, Span, clean, cut_left, line, pad, width_of, wrapped
from snapviz.report.words import broken_in_words, fold_names, frames_in_words, plural
from snapviz.schema import Budget, BudgetRank, CheckReport, Culprits, Dangling, LiveRow
from snapviz.units import format_bytes, format_exact

__all__ = ["budget_lines", "check_lines", "fault_lines", "figures_in_words", "not_judged_sentences", "sentences"]

_STYLES = {"hit": "more", "not judged": "warning", "within": "faint"}
_REASONS = 4
"""Reasons why ranks are not judged that are told of one budget; JSON has all."""
_NAMED = 8
"""Ranks that are named one by one."""


def budget_lines(budgets: Sequence[Budget], width: int) -> list[Line]:
    """Every budget and what became of it, those that are hit first; nothing where there is no budget."""
    if not budgets:
        return []
    counts = [(state, sum(one.state == state for one in budgets)) for state in _STYLES]
    told = " · ".join(f"{count} {state}" for state, count in counts if count)
    lines = [line(), line(Span("budgets", "strong"), "  ", told)]
    column = min(max(width_of(clean(one.spec)) for one in budgets), max(20, width // 3))
    for state in _STYLES:
        for one in budgets:
            if one.state == state:
                lines += _lines_of(one, width, column)
    return lines


def _lines_of(budget: Budget, width: int, column: int) -> list[Line]:
    spec = clean(budget.spec)
    state = Span(pad(budget.state, 12), _STYLES[budget.state])
    figures, indent = figures_in_words(budget), 2 + 12 + column + 2
    if width_of(spec) > column or indent > width // 2:
        below = wrapped(figures, width, " " * 14, " " * 14) if figures else []
        return [line("  ", state, Span(spec, "strong")), *below, *_reasons(budget, width)]
    first, *rest = wrapped(figures, width, " " * indent, " " * indent) or [line()]
    text = "".join(span.text for span in first).strip()
    return [line("  ", state, Span(pad(spec, column), "strong"), "  ", text), *rest, *_reasons(budget, width)]


def figures_in_words(budget: Budget) -> str:
    """The worst rank's figures and its limit: ``10.00 MiB → 14.00 MiB (+40.0%), limit 10.20 MiB (+3.80 MiB)``."""
    worst = _worst(budget)
    if worst is None or worst.head_bytes is None or worst.limit_bytes is None:
        return ""
    values = [format_bytes(worst.base_bytes)] if worst.base_bytes is not None else []
    values.append(f"{'≥ ' if worst.head_at_least else ''}{format_bytes(worst.head_bytes)}")
    where = f" on rank {worst.rank}" if len(budget.ranks) > 1 or worst.rank else ""
    text = f"{' → '.join(values)}{_percentage(worst)}{where}, limit {format_bytes(worst.limit_bytes)}"
    over = worst.over_bytes or 0
    text += f" ({format_bytes(over, signed=True)})" if over > 0 else ""
    return text + (", by inferred categories" if worst.inferred else "")


def _worst(budget: Budget) -> BudgetRank | None:
    return next((one for one in budget.ranks if one.rank == budget.worst_rank and one.state != "not judged"), None)


def _percentage(rank: BudgetRank) -> str:
    """Of a relative budget, how much more head has: what comes of nothing is infinitely more."""
    if rank.base_bytes is None or rank.head_bytes is None or rank.base_bytes == rank.head_bytes:
        return ""
    if rank.base_bytes == 0:
        return " (+∞%)"
    # in integers: thousandths would be lost in a float from 2^53 on
    tenths, more = divmod(abs(rank.head_bytes - rank.base_bytes) * 1000, rank.base_bytes)
    tenths += 2 * more >= rank.base_bytes
    sign = "+" if rank.head_bytes > rank.base_bytes else "-"
    return f" ({sign}{tenths // 10:,}.{tenths % 10}%)"


def _reasons(budget: Budget, width: int) -> list[Line]:
    """Why ranks are not judged, those with one reason together."""
    why: dict[str, list[BudgetRank]] = {}
    for one in budget.ranks:
        if one.state == "not judged":
            why.setdefault(one.why, []).append(one)
    if not budget.ranks:
        why = {"no rank could be read": []}
    lines: list[Line] = []
    but = "" if budget.state == "not judged" else "not judged: "
    for reason, ranks in list(why.items())[:_REASONS]:
        words = _ranks_in_words([one.rank for one in ranks], ": ")
        lines += wrapped(f"{words}{but}{clean(reason)}", width, " " * 14, " " * 16)
    if len(why) > _REASONS:
        lines.append(line(f"{' ' * 14}{plural(len(why) - _REASONS, 'more reason')} (--format json has all)"))
    return lines


def _ranks_in_words(ranks: Sequence[int | None], after: str = "") -> str:
    known = [str(rank) for rank in ranks if rank is not None]
    if not known:
        return ""
    more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
    return f"rank{'s' if len(known) > 1 else ''} {', '.join(known[:_NAMED])}{more}{after}"


# ------------------------------------------------------------------ sentences


def sentences(budget: Budget, every: bool = False, base: str = "the baseline") -> list[str]:
    """What is wrong with a budget, the worst rank's figures first; with ``every``, of every rank that hits it.

    Nothing where it is within its limit. ``base`` is what the run is called that it is compared with.
    """
    hit = sorted((one for one in budget.ranks if one.state == "hit"), key=lambda one: -(one.over_bytes or 0))
    told = [_sentence(budget, one, base) for one in (hit if every else hit[:1])]
    if rest := hit[len(told) :]:
        told[-1] += f"\n  also above the limit: {_ranks_in_words([one.rank for one in rest])}"
    return told + list(not_judged_sentences(budget))


def not_judged_sentences(budget: Budget) -> Iterator[str]:
    """Why it could not be judged, a sentence for each reason; nothing where it was."""
    why: dict[str, list[int | None]] = {}
    for one in budget.ranks:
        if one.state == "not judged":
            why.setdefault(one.why, []).append(one.rank)
    if not budget.ranks:
        why = {"no rank could be read": []}
    for reason, ranks in why.items():
        yield f"{clean(budget.spec)} cannot be judged: {_ranks_in_words(ranks, ': ')}{clean(reason)}"


def _sentence(budget: Budget, rank: BudgetRank, base: str = "the baseline") -> str:
    """``Phase 'train' peaked at 13.2 GiB on rank 3, limit 12.0 GiB (+1.2 GiB)``, and the same in bytes."""
    assert rank.head_bytes is not None
    assert rank.limit_bytes is not None
    short = _short(rank.head_bytes)
    count = f"at least {short}" if rank.head_at_least else short
    over = rank.head_bytes - rank.limit_bytes
    text = f"{_what(budget, count)} on rank {rank.rank}, limit {_short(rank.limit_bytes)}"
    text += f" ({format_bytes(over, signed=True, decimals=1)})"
    exact = f"{format_exact(rank.head_bytes)}, limit {format_exact(rank.limit_bytes)}"
    if rank.base_bytes is not None:
        exact += f": {format_exact(rank.base_bytes)} in {clean(base)}, and {_more(budget, rank)}"
    inferred = "; categories are inferred" if rank.inferred else ""
    return f"{text}\n  {exact}{inferred}"


def _short(count: int) -> str:
    return format_bytes(count, decimals=1)


def _more(budget: Budget, rank: BudgetRank) -> str:
    if not rank.base_bytes and budget.bound.endswith("%"):
        return "any percentage of nothing is nothing"
    more = budget.bound.removeprefix("+")
    return "no more" if more in ("0B", "0%") else f"{more} more"


def _what(budget: Budget, count: str) -> str:
    """The subject of the sentence and what it did."""
    if budget.figure == "dangling":
        return f"Dangling parameters hold {count}"
    if budget.figure == "growth":
        return f"Every step leaves {count}"
    which = "The run" if budget.phase is None else f"Phase '{clean(budget.phase)}'"
    if budget.category is not None:
        when = "at the peak" if budget.figure == "peak" else "at the end"
        return f"{which} held {count} of {budget.category} {when}"
    verb = "peaked" if budget.figure == "peak" else "ended"
    return f"{which} {verb} at {count}{'' if budget.measure == 'allocated' else f' {budget.measure}'}"


# ------------------------------------------------------------------ who owns it


def fault_lines(
    budget: Budget,
    culprits: Culprits | None,
    width: int = 100,
    top: int = 10,
    *,
    every: bool = False,
    base: str = "the baseline",
) -> list[Line]:
    """What is wrong with a budget (``sentences``), and who holds the memory: the ``top`` largest owners."""
    lines: list[Line] = []
    for text in chain.from_iterable(told.split("\n") for told in sentences(budget, every, base)):
        indent = " " * (len(text) - len(text.lstrip()))
        lines += wrapped(text.lstrip(), width, indent, f"{indent}  ")
    if culprits is None or budget.state != "hit":
        return lines
    if budget.figure == "dangling":
        return [*lines, *_dangling_lines(culprits.dangling, width, top)]
    what = {"peak": "live at that peak", "end": "live at that end"}.get(budget.figure, "left by the steps")
    title = f"{what}, rank {culprits.rank}: {format_exact(culprits.held_bytes)}"
    worst = _worst(budget)
    judged = worst.head_bytes if worst is not None and budget.measure == "allocated" else None
    if budget.figure in ("peak", "end") and budget.category is None and judged not in (None, culprits.held_bytes):
        title += ", as far as the recording has it"
    return [*lines, line(), *wrapped(title, width, style="strong"), *_owner_lines(culprits.live, width, top)]


def _owner_lines(rows: Sequence[LiveRow], width: int, top: int) -> list[Line]:
    """The ``top`` largest owners among what is live, and a line for the others; every byte is in one of them.

    Rows of one purpose whose owners differ in numbers alone are one; what has no owner is told by its stack.
    """
    shown = sorted(_folded(rows), key=lambda one: (-_size(one[1]), one[0]))
    lines = []
    for name, some in shown[:top]:
        what = "dangling parameter" if some[0].dangling else some[0].category
        what = "unknown purpose" if what == "unknown" else what
        count = plural(sum(row.live_count for row in some), "block")
        head = f"{pad(format_bytes(_size(some)), 12, right=True)}  {what}{f' {clean(name)}' if name else ''}"
        lines.append(line(cut_left(head, width) if width_of(head) > width else head))
        tail = f"  {count} · born {clean(some[0].birth_phase)}"
        if width_of(head) + width_of(tail) <= width:
            lines[-1].append(Span(tail, "faint"))
        if not name:
            lines.append(line(" " * 14, Span(frames_in_words(some[0].stack, None, width - 14), "faint")))
    if rest := [row for _, some in shown[top:] for row in some]:
        text = f"{pad(format_bytes(_size(rest)), 12, right=True)}  in {plural(len(shown) - top, 'more owner')}"
        lines.append(line(text))
    return lines


def _size(rows: Sequence[LiveRow]) -> int:
    return sum(row.live_bytes for row in rows)


def _folded(rows: Sequence[LiveRow]) -> Iterator[tuple[str, list[LiveRow]]]:
    groups: dict[tuple[bool, str, str], list[LiveRow]] = {}
    for row in rows:
        if row.owner:
            groups.setdefault((row.dangling, row.category, row.birth_phase), []).append(row)
        else:
            yield "", [row]
    for some in groups.values():
        for name, positions in fold_names([row.owner for row in some]):
            yield name, [some[i] for i in positions]


def _dangling_lines(found: Sequence[Dangling], width: int, top: int) -> list[Line]:
    """The ``top`` largest of what dangles, and who keeps it: once where one thing keeps all of it."""
    together = kept_lines(found, width, 14)
    folded = [(name, [found[i] for i in positions]) for name, positions in fold_names([one.name for one in found])]
    ordered = sorted(folded, key=lambda one: (-sum(d.block_bytes for d in one[1]), one[0]))
    lines: list[Line] = []
    for name, some in ordered[:top]:
        size = pad(format_bytes(sum(d.block_bytes for d in some)), 12, right=True)
        gone = some[0].gone_in
        when = "" if gone is None else f", released late in {clean(gone)}"
        text = f"{size}  {clean(name)}  {plural(len(some), 'block')} · due in {clean(some[0].should_go_in)}{when}"
        lines.append(line(cut_left(text, width) if width_of(text) > width else text))
        lines += chain.from_iterable(kept_lines(some, width, 14)) if len(together) > 1 else []
    if rest := [d for _, some in ordered[top:] for d in some]:
        size = pad(format_bytes(sum(d.block_bytes for d in rest)), 12, right=True)
        lines.append(line(f"{size}  in {plural(len(rest), 'more parameter')}"))
    return lines + (together[0] if len(together) == 1 else [])


# ------------------------------------------------------------------ snapviz check


def check_lines(report: CheckReport, width: int = 100, top: int = 10) -> list[Line]:
    """The report of ``snapviz check`` in lines of at most ``width`` columns (at least 60), ``top`` owners a budget."""
    width = max(60, width)
    name = clean(report.run.name)
    title = name if report.baseline is None else f"{clean(report.baseline.name)} → {name}"
    facts = [plural(len(report.run.ranks), "rank")]
    facts += [f"torch {clean(report.run.torch)}"] if report.run.torch else []
    facts += [clean(report.run.device)] if report.run.device else []
    lines = [line(Span(title, "strong"), "   ", Span(" · ".join(facts), "faint"))]
    for broken in report.broken:
        which = f"{broken_in_words(broken)} could not be read: " if broken.source else ""
        lines += wrapped(clean(f"{which}{broken.message}"), width, "! ", "  ", "warning")
    for note in report.notes:
        lines += wrapped(clean(note), width, "~ ", "  ")
    lines += budget_lines(report.budgets, width)
    base = report.baseline.name if report.baseline is not None else ""
    culprits = {one.spec: one for one in report.culprits}
    for budget in report.budgets:
        if budget.state == "hit":
            lines += [line(), *fault_lines(budget, culprits.get(budget.spec), width, top, base=base)]
    return lines
