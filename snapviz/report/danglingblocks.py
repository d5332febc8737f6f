"""What dangles in both runs of a diff, and in bare files what may, as blocks: equal ones are one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapviz.compare.holders import keepers_of
from snapviz.report.blocks import Block, Details, Folded, Inline, Paragraph, Table, amount, code, prose
from snapviz.report.diffsaid import full_names
from snapviz.report.difftables import short_names
from snapviz.report.layout import Column, Span, clean
from snapviz.report.whyblocks import NOTHING
from snapviz.report.words import fold_names, frames_in_words, plural
from snapviz.schema import Dangling, DiffReport, Suspect
from snapviz.units import format_bytes

__all__ = ["Alike", "alike_of", "dangling_alike", "dangling_table", "dangling_title", "suspect_table"]

_SHORT = 90
"""Columns of a stack in a cell."""

_FRAMES = 60
"""Frames of a stack that a page has; JSON has all."""

_PATH = 200
"""Columns of a holder's path."""


@dataclass(frozen=True)
class Alike:
    """Dangling parameters of one size, kind, phase and fate whose names differ only in numbers."""

    label: str
    ranks: tuple[int, ...]
    # each has all of them
    each: tuple[Dangling, ...]
    # of the first of ranks

    @property
    def made_in(self) -> Folded:
        """Where the first of them was made."""
        return _stack(self.each[0].stack)


def dangling_alike(report: DiffReport) -> list[Alike]:
    """All of both runs, in the report's order."""
    return alike_of(report.dangling)


def alike_of(dangling: Sequence[Dangling]) -> list[Alike]:
    """These, in their order, those that are alike as one."""
    kinds: dict[tuple[object, ...], dict[int, list[Dangling]]] = {}
    for one in dangling:
        ranks = kinds.setdefault(_kind(one), {})
        ranks.setdefault(one.rank, []).append(one)
    found: dict[tuple[object, ...], Alike] = {}
    for kind, ranks in kinds.items():
        for rank, some in ranks.items():
            for alike in _folded(rank, some):
                key = (*kind, tuple(one.name for one in alike.each), *keepers_of(alike.each, _PATH))
                known = found.get(key)
                found[key] = alike if known is None else Alike(known.label, (*known.ranks, rank), known.each)
    return list(found.values())


def _kind(one: Dangling) -> tuple[object, ...]:
    return one.run, one.block_bytes, one.dtype, one.shape, one.birth_phase, one.should_go_in, one.gone_in


def _folded(rank: int, some: Sequence[Dangling]) -> Iterator[Alike]:
    for label, positions in fold_names([one.name for one in some]):
        yield Alike(label, (rank,), tuple(some[i] for i in positions))


def _stack(stack: Sequence[str]) -> Folded:
    more = len(stack) - _FRAMES
    frames = [*map(clean, stack[:_FRAMES]), *([f"… {more:,} more frames …"] if more > 0 else [])]
    return Folded(frames_in_words(stack, None, _SHORT), "code", tuple(frames))


def dangling_title(report: DiffReport) -> str:
    """``what dangles: 2 parameters in pr (8.00 MiB)``, of all ranks together."""
    parts = []
    for side, name in zip(("base", "head"), full_names(report), strict=True):
        if some := [one for one in report.dangling if one.run == side]:
            total = format_bytes(sum(one.block_bytes for one in some))
            parts.append(f"{plural(len(some), 'parameter')} in {name} ({total})")
    several = " on all ranks together" if len({one.rank for one in report.dangling}) > 1 else ""
    return f"what dangles: {' and '.join(parts)}{several}"


def dangling_table(report: DiffReport, most: int) -> list[Block]:
    """Every parameter that outlived its phase, of both runs."""
    found = dangling_alike(report)
    if not found:
        return []
    headings = ("run", "ranks", "parameter", "each", "born in", "should go in", "went in", "kept by", "made in")
    columns = tuple(Column(heading, number=heading == "each") for heading in headings)
    rows = tuple(_cells(report, one) for one in found[:most])
    return [Table(dangling_title(report), columns, rows, _more(len(found) - len(rows)))]


def _more(count: int) -> Inline:
    return prose(f"{count:,} more are in the JSON report") if count else ()


def _cells(report: DiffReport, found: Alike) -> tuple[Inline, ...]:
    one = found.each[0]
    shape = "×".join(map(str, one.shape)) if one.shape else ""
    kind = " ".join(part for part in ((one.dtype or "").removeprefix("torch."), shape) if part)
    kept = keepers_of(found.each, _PATH)
    times = [Span(f" ({len(found.each)})")] if len(found.each) > 1 else []
    return (
        [code(short_names(report)[one.run == "head"])],
        [Span(", ".join(map(str, found.ranks)))],
        [code(found.label), *times, *([Span(" "), *prose(kind)] if kind else [])],
        [amount(one.block_bytes)],
        [code(one.birth_phase)],
        [code(one.should_go_in)],
        [code(one.gone_in)] if one.gone_in is not None else [Span("still there")],
        [span for place, text in enumerate(kept) for span in ([Span("; ")] if place else []) + prose(text)] or NOTHING,
        [found.made_in],
    )


# ------------------------------------------------------------------ what may


def suspect_table(report: DiffReport, most: int) -> list[Block]:
    """What may dangle in bare files. Never certain."""
    if not report.suspects:
        return []
    headings = ("run", "rank", "size", "blocks", "evidence", "made in")
    columns = tuple(Column(heading, number=heading in ("rank", "size", "blocks")) for heading in headings)
    rows = tuple(_suspect_cells(report, one) for one in report.suspects[:most])
    table = Table("suspects, none certain", columns, rows, _more(len(report.suspects) - len(rows)))
    told = Paragraph([Span("no record says what they are: none is certain")])
    return [Details([Span(f"{plural(len(report.suspects), 'kind')} of suspects in both runs")], (told, table))]


def _suspect_cells(report: DiffReport, one: Suspect) -> tuple[Inline, ...]:
    return (
        [code(short_names(report)[one.run == "head"])],
        [Span(str(one.rank))],
        [amount(one.block_bytes)],
        [Span(f"{one.count:,}")],
        prose("; ".join(one.evidence)),
        [_stack(one.stack)],
    )
