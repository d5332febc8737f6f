"""Of a diff: whether the training steps made the difference, and the figures that trainers quote."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from snapviz.compare.verdict import grown, judged_of, ranks_in_words, worst_of
from snapviz.report.difftables import NOTHING, percent, short_names, times_are_real
from snapviz.report.layout import Column, Line, Span, clean, line, render_table, wrapped
from snapviz.report.words import number, signed
from snapviz.schema import Benchmark, BenchmarkSide, DiffReport, Point, RankPoint

__all__ = ["benchmark_lines", "origin_lines"]

_HUGE = 10**15

_GB = 10**9
"""Bytes of the unit that trainers quote memory in, where everything else here is IEC."""


# ------------------------------------------------------------------ before the first step, or from it on


def origin_lines(report: DiffReport, width: int) -> list[Line]:
    """For each point a sentence on how much was there before the first training step; one for points alike."""
    told: dict[tuple[str, str], list[Point]] = {}
    for point in report.points:
        if (found := _origin(point)) is not None:
            told.setdefault(found, []).append(point)
    lines: list[Line] = []
    for (words, who), points in told.items():
        where = " and ".join(clean(point.title) for point in points)
        if all(point.at in ("end", "peak") for point in points):
            where = " and ".join(f"at the {point.at}" for point in points) + " of the run"
        lines += wrapped(f"{where}{who}{words}", width)
    return [line(), *lines] if lines else []


def _origin(point: Point) -> tuple[str, str] | None:
    """The sentence and the ranks it is of; none where nothing changed, and where no record says it."""
    # a counter that stands in for a replay says how much, and not of what
    known = [r for r in judged_of(point) if r.before_training_bytes is not None and grown(r) == r.delta_bytes]
    if not known:
        return None
    worst = worst_of(known)
    words = _in_words(worst)
    alike = [r.rank for r in known if _parts(r) == _parts(worst)]
    who = ranks_in_words(alike if len(alike) == len(point.ranks) else [worst.rank], len(point.ranks))
    return (words, f" on {who}" if who else "") if words else None


def _parts(rank: RankPoint) -> tuple[int, int]:
    assert rank.before_training_bytes is not None
    assert rank.training_bytes is not None
    return rank.before_training_bytes, rank.training_bytes


def _in_words(rank: RankPoint) -> str:
    before, training = _parts(rank)
    if not before and not training:
        return ""
    if not training:
        return " all of the difference was there before the first step: it does not come from the training step."
    if not before:
        return " none of the difference was there before the first step: it comes from the training step."
    return f": {signed(before)} was there before the first step, {signed(training)} was allocated from that step on."


# ------------------------------------------------------------------ the figures that trainers quote


def benchmark_lines(report: DiffReport, width: int) -> list[Line]:
    """Tokens a second and memory as lightning-thunder's pull requests have them, where both runs know the first."""
    found = report.benchmark
    if found is None:
        return []
    names = short_names(report)
    real = times_are_real(report)
    rows = [_tokens("tokens/s", found.base.tokens_per_s, found.head.tokens_per_s, real)]
    each = found.base.tokens_per_s_per_gpu, found.head.tokens_per_s_per_gpu
    if each[0] is not None and each[1] is not None:
        rows.append(_tokens("tokens/s/GPU", each[0], each[1], real))
    rows.append(_memory(found))
    columns = [Column("", number=False), *(Column(name) for name in names), Column("")]
    lines = [line(), *render_table(columns, rows, width)]
    return lines + wrapped("; ".join(_legend(report, found)), width, "", "  ", "faint")


def _tokens(what: str, base: float, head: float, real: bool) -> list[Span]:
    return [Span(what), Span(_rate(base)), Span(_rate(head)), percent(base, head) if real else NOTHING]


def _rate(value: float) -> str:
    if abs(value) >= _HUGE:
        return number(value)
    # halves up, of the decimal number that was recorded: 85695.95 in binary lies below its half
    return f"{Decimal(str(value)).quantize(Decimal('0.1'), ROUND_HALF_UP):,}"


def _memory(found: Benchmark) -> list[Span]:
    sides = (found.base, found.head)
    cut = any(side.memory_at_least for side in sides)
    change = NOTHING if cut else percent(found.base.memory_bytes, found.head.memory_bytes)
    return [Span("Memory (GB)"), *(Span(_gigabytes(side)) for side in sides), change]


def _gigabytes(side: BenchmarkSide) -> str:
    # in integers, halves up: 42.06 has to be what torch's own counter divided by 1e9 is
    hundredths = (2 * side.memory_bytes * 100 + _GB) // (2 * _GB)
    return f"{'≥ ' * side.memory_at_least}{hundredths // 100:,}.{hundredths % 100:02}"


def _legend(report: DiffReport, found: Benchmark) -> Sequence[str]:
    parts = ["Memory: the peak in training, in decimal GB as in lightning-thunder's table"]
    parts += ["≥ the recording does not have all of it"] * (found.base.memory_at_least or found.head.memory_at_least)
    parts += ["tokens/s is not compared: times with a fake process group say nothing"] * (not times_are_real(report))
    return parts
