"""What speed.py measured, as markdown: pure functions of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from processes import Measured

from snapviz.units import format_bytes

_NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """One thing that was measured, and what it is compared with."""

    what: str
    measured: Measured
    base: Measured | None = None


@dataclass(frozen=True)
class Target:
    """A number that has to be below its limit, or at least that."""

    words: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value < self.limit


@dataclass(frozen=True)
class Section:
    """One table: a heading, its rows, and the targets that are judged by them."""

    title: str
    rows: list[Row]
    targets: list[Target]


def report(on: dict[str, str | int], repeat: int, sections: Sequence[Section]) -> str:
    """All of it: the machine, a table a section, and the targets."""
    head = (
        f"snapviz {on['snapviz']} on {on['cpu']}, {on['cores']} cores, {format_bytes(int(on['memory_bytes']))} memory, "
        f"{on['system']}, Python {on['python']}, numpy {on['numpy']}, numba {on['numba']}. "
        f"Median of {repeat} runs, the fastest, and the least time of the processor."
    )
    tables = [f"**{section.title}**\n\n{_rows(section.rows)}" for section in sections]
    targets = [target for section in sections for target in section.targets]
    return "\n\n".join([head, *tables, f"**Targets**\n\n{_targets(targets)}"])


def _rows(rows: Sequence[Row]) -> str:
    compared = any(row.base for row in rows)
    measured = any(row.measured.private_bytes for row in rows)
    heads = ["", "time", "fastest", "processor"]
    heads += ["times faster"] if compared else []
    heads += ["peak memory"] if measured else []
    heads += ["share"] if compared else []
    lines = [_cells(row, compared, measured) for row in rows]
    return _table(heads, lines)


def _cells(row: Row, compared: bool, measured: bool) -> list[str]:
    ours, base = row.measured, row.base
    cells = [row.what, _time(ours.median_s) if ours.seconds else _NOTHING]
    cells += [_time(min(times)) if times else _NOTHING for times in (ours.seconds, ours.cpu_seconds)]
    if compared:
        cells.append(f"{base.median_s / ours.median_s:.1f}" if base and ours.seconds else _NOTHING)
    if measured:
        cells.append(format_bytes(ours.peak_bytes) if ours.private_bytes else _NOTHING)
    if compared:
        cells.append(f"{ours.peak_bytes / base.peak_bytes:.0%}" if base and ours.private_bytes else _NOTHING)
    return cells


def _targets(targets: Sequence[Target]) -> str:
    lines = [
        [
            target.words,
            f"{target.value:.2f}",
            f"{'at least' if target.at_least else 'below'} {target.limit:.3g}",
            "met" if target.met else "**missed**",
        ]
        for target in targets
    ]
    return _table(["", "measured", "target", ""], lines)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines))


def _time(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
