"""One row in full: who keeps it, what it would save, where it was made, its allocations, and the same row elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import html

from snapviz.analyze.facts import Facts
from snapviz.analyze.lives import Life, Saved, alike, lives_of, saved, sizes_of
from snapviz.app import controls
from snapviz.app.pages.compare_blocks import amount_of, spans_of
from snapviz.app.pages.compare_rows import Item, Listing
from snapviz.app.state import State
from snapviz.compare.holders import keepers_of
from snapviz.compare.rank import Int64
from snapviz.compare.rowkeys import row_keys
from snapviz.report.blocks import amount, change_of
from snapviz.report.diffsaid import full_names
from snapviz.report.difftables import short_names
from snapviz.report.keepers import Keepers
from snapviz.report.layout import clean, cut
from snapviz.report.reasons import category_in_words, evidence_in_words
from snapviz.report.words import block_counts, is_users_frame, plural
from snapviz.schema import Dangling, DiffReport, DiffRow, RankPoint
from snapviz.units import format_bytes, format_exact, format_us

__all__ = ["Side", "drawer", "title_of"]

_KEPT = 12
"""Dangling parameters whose holders are shown."""

_PATH = 200
"""Columns of a path that many have in common."""

_ALLOCATIONS = 60
"""Allocations of a side that are listed."""

_MEMBERS = 200
"""Rows that are told as one and listed."""

_SAVED = 12
"""Phases whose peak would be another, the most first."""

_RANKS = 64
"""Ranks that are listed."""


@dataclass(frozen=True)
class Side:
    """Base or head of the rank that is shown, and the row's allocations in it."""

    name: str
    facts: Facts
    chosen: Int64


def title_of(item: Item) -> str:
    """What the row is called."""
    what = category_in_words(item.step) or "several categories"
    return cut(clean(f"{what} {item.label}" if item.label and item.label != what else what), 200)


def drawer(
    report: DiffReport, listing: Listing, item: Item, sides: Sequence[Side], state: State, prefix: str
) -> list[Any]:
    """All that is known of an item; ``sides`` are base and head."""
    number = item.rank if item.rank is not None else listing.ranks[0].rank
    return [
        _summary(report, listing, item, number),
        _ways(item, number, listing, state, prefix),
        *_keepers(report, item, number),
        *_savings(report, item, sides[1]),
        *_members(report, item, state, prefix),
        *_ranks(report, listing, item),
        *_stack(report, item),
        *(part for side in sides for part in _allocations(side)),
    ]


def _summary(report: DiffReport, listing: Listing, item: Item, number: int) -> Any:
    base, head = item.sizes
    names = full_names(report)
    told = [block_counts(*item.counts), *([f"born in {item.birth}"] if item.birth else [])]
    told += [f"known {words}" for words in evidence_in_words(item.rows)]
    modules = {row.module for row in item.rows if row.module}
    told += [f"module {next(iter(modules))}"] if len(modules) == 1 else []
    told.append(f"{listing.point.title}, rank {number}")
    amounts = [change_of(item.delta, arrow=True)]
    return html.Div(
        [
            html.P([*spans_of(amounts), html.Span(f"  {format_exact(item.delta, signed=True)}", className="faint")]),
            html.P([*_of(names[0], base), " → ", *_of(names[1], head)]),
            html.P(spans_of(" · ".join(cut(clean(one), 200) for one in told)), className="faint"),
        ],
        className="compare-summary",
    )


def _of(name: str, size: int) -> list[Any]:
    return [html.Code(cut(name, 60)), " ", *spans_of([amount(size)])]


def _ways(item: Item, number: int, listing: Listing, state: State, prefix: str) -> Any:
    wanted = _searched(item)
    ways = [("timeline", "timeline"), ("what is live then", "live")]
    ways += [("what dangles", "dangling")] if item.dangling else []
    there = {"at": listing.point.at, "rank": number, "q": wanted}
    links = [controls.link(words, state.to(page, **there), prefix) for words, page in ways]
    return html.P([part for link in links for part in (link, " · ")][:-1], className="compare-ways")


def _searched(item: Item) -> str:
    """What a search finds it by, as it stands: its owner, else the innermost function of its stack."""
    owners = {row.owner for row in item.rows}
    if len(owners) == 1 and (owner := owners.pop()):
        return owner[:200]
    stack = item.rows[0].stack
    user = next((frame for frame in stack if is_users_frame(frame)), stack[0] if stack else "")
    return user.partition(" (")[0][:200] if len({row.stack for row in item.rows}) == 1 else ""


# ------------------------------------------------------------------ who keeps it


def _keepers(report: DiffReport, item: Item, number: int) -> list[Any]:
    known = Keepers(report.dangling, number)
    # of a category, stack or phase, what of it dangles
    found = known.of(item.rows)
    if not found and report.options.by is not None and any(row.head_dangling_bytes for row in item.rows):
        found = [one for row in item.rows for one in known.all_of(row)]
    if not found:
        dangles = any(row.dangling for row in item.rows)
        return [html.H3("Kept by"), html.P("Nobody was seen holding it.", className="faint")] if dangles else []
    if len(found) == 1:
        return [html.H3("Kept by"), *_dangling(found[0], False)]
    # what keeps all of them is told once, above them
    together = [_path(path, "") for path in keepers_of(found, _PATH)]
    more = len(found) - _KEPT
    each = [part for one in found[:_KEPT] for part in _dangling(one, True)]
    each += [html.P(f"and {plural(more, 'more parameter')}", className="faint")] if more > 0 else []
    return [html.H3("Kept by"), *together, html.Details([html.Summary("each by itself"), *each])]


def _dangling(one: Dangling, named: bool) -> list[Any]:
    about = [f"{'×'.join(map(str, one.shape))}" if one.shape else "", (one.dtype or "").removeprefix("torch.")]
    about += [format_bytes(one.block_bytes), f"born in {one.birth_phase}", f"should go in {one.should_go_in}"]
    about.append(f"went in {one.gone_in}" if one.gone_in else "live at the end")
    told = " · ".join(cut(clean(part), 120) for part in about if part)
    name = [html.Code(cut(clean(one.name), 200)), " "] if named else []
    kinds = (*one.holder_kinds, *[""] * len(one.holders))
    paths = [_path(path, kind) for path, kind in zip(one.holders, kinds, strict=False)]
    nobody = [html.P("Nobody was seen holding it.", className="faint")] if not paths else []
    return [html.P([*name, html.Span(told, className="faint")]), *paths, *nobody]


def _path(path: str, kind: str) -> Any:
    """A holder's path, the reference itself first, then what holds that."""
    hops = [html.Li(html.Code(cut(clean(hop), 300))) for hop in path.split(" ← ")[:40]]
    label = f"held by{f' a {kind}' if kind and kind != 'unexplained' else ''}"
    kinds = [html.Span(kind, className="compare-kind")] if kind else []
    return html.Div([*kinds, html.Ol(hops, className="compare-path", **{"aria-label": label})])


# ------------------------------------------------------------------ what it would save


def _savings(report: DiffReport, item: Item, head: Side) -> list[Any]:
    """The head without this and all that is like it."""
    if not len(head.chosen):
        return []
    facts = head.facts
    gone = alike(facts, head.chosen, report.options.by or "")
    if item.dangling:
        gone &= facts.dangling_since < len(facts.replay)
    found = saved(facts, gone, only_dangling=item.dangling)
    others = int(np.count_nonzero(gone)) - len(head.chosen)
    whole, phases = found[0], sorted(found[1:], key=lambda one: -one.saved_bytes)
    how = "taken out from where its release was due" if item.dangling else "taken out for as long as each was there"
    like = f", and {plural(others, 'other')} like it in the recording," if others else ","
    least = "" if not facts.truncated else ", as far as it is recorded"
    said = f"Without it{like} {how}, and nothing else changed{least}:"
    rows = [_saved_row("the run", whole), *(_saved_row(one.phase, one) for one in phases[:_SAVED])]
    heads = ["peak of", short_names(report)[1], "without", "saved"]
    more = len(phases) - _SAVED
    note = [html.P(f"and {plural(more, 'more phase')}", className="faint")] if more > 0 else []
    return [
        html.H3("What removing it would save"),
        html.P(said, className="faint"),
        controls.table("peaks without it", heads, rows, (1, 2, 3)),
        *note,
    ]


def _saved_row(name: str, one: Saved) -> list[Any]:
    cells = [spans_of([amount(size)]) for size in (one.peak_bytes, one.without_bytes)]
    return [html.Code(cut(clean(name), 80)), *cells, spans_of([change_of(-one.saved_bytes)])]


# ------------------------------------------------------------------ the same elsewhere


def _members(report: DiffReport, item: Item, state: State, prefix: str) -> list[Any]:
    if len(item.rows) < 2:
        return []
    rows = []
    for row, key in list(zip(item.rows, row_keys(item.rows), strict=True))[:_MEMBERS]:
        link = controls.link(html.Code(cut(clean(row.owner), 160)), state.with_(row=key), prefix)
        rows.append([link, *_three(row)])
    more = len(item.rows) - len(rows)
    note = [html.P(f"and {plural(more, 'more row')}", className="faint")] if more > 0 else []
    title = html.Summary(f"{plural(len(item.rows), 'row')} told as one")
    return [html.Details([title, controls.table("rows", ["name", *short_names(report), "Δ"], rows, (1, 2, 3)), *note])]


def _three(row: DiffRow) -> list[Any]:
    return [
        spans_of([amount(row.base_bytes)]),
        spans_of([amount(row.head_bytes)]),
        spans_of([change_of(row.delta_bytes)]),
    ]


def _ranks(report: DiffReport, listing: Listing, item: Item) -> list[Any]:
    """The same rows on every rank: what each holds of them."""
    known = [rank for rank in listing.point.ranks if rank.delta_bytes is not None]
    if len(known) < 2 or report.options.by == "rank":
        return []
    wanted = set(row_keys(item.rows))
    rows = [[f"rank {rank.rank}", *_on_rank(rank, wanted)] for rank in known[:_RANKS]]
    more = len(known) - _RANKS
    note = [html.P(f"and {plural(more, 'more rank')}", className="faint")] if more > 0 else []
    return [
        html.H3("On every rank"),
        controls.table("the same rows", ["", *short_names(report), "Δ"], rows, (1, 2, 3)),
        *note,
    ]


def _on_rank(rank: RankPoint, wanted: set[str]) -> list[Any]:
    rows = [row for row, key in zip(rank.rows, row_keys(rank.rows), strict=True) if key in wanted]
    if not rows:
        below = " or is below the threshold" if rank.folded is not None else ""
        return ["–", "–", html.Span(f"did not change{below}", className="faint")]
    base, head = sum(row.base_bytes for row in rows), sum(row.head_bytes for row in rows)
    return [spans_of([amount(base)]), spans_of([amount(head)]), spans_of([change_of(head - base)])]


# ------------------------------------------------------------------ where it was made


def _stack(report: DiffReport, item: Item) -> list[Any]:
    row = item.rows[0]
    if len({one.stack for one in item.rows}) > 1:
        return [html.H3("Made in"), html.P(f"{len({one.stack for one in item.rows}):,} places", className="faint")]
    if not row.stack:
        text = "No stack: another thread, or memory from before the recording." if item.counts != (0, 0) else ""
        return [html.H3("Made in"), html.P(text, className="faint")] if text else []
    none: Sequence[int | None] = [None] * len(row.stack)
    lines = [row.base_lines if row.base_lines is not None else none, row.head_lines if row.head_lines else none]
    frames = [_frame(frame, one, other) for frame, one, other in zip(row.stack, *lines, strict=True)]
    heads = ["frame, innermost first", *(f"line in {name}" for name in short_names(report))]
    return [html.H3("Made in"), controls.table("stack", heads, frames, (1, 2))]


def _frame(frame: str, base: int | None, head: int | None) -> list[Any]:
    users = is_users_frame(frame)
    moved = base is not None and head is not None and base != head
    cells = [_line(base), html.Strong(_line(head)) if moved else _line(head)]
    return [html.Code(clean(frame), className="" if users else "faint"), *cells]


def _line(number: int | None) -> str:
    return "–" if number is None or number < 0 else str(number)


# ------------------------------------------------------------------ its allocations


def _allocations(side: Side) -> Iterable[Any]:
    if not len(side.chosen):
        return []
    sizes = sizes_of(side.facts, side.chosen)
    told = ", ".join(f"{count:,} × {format_bytes(size)}" for size, count in sizes[:6])
    more = f" and {len(sizes) - 6:,} more sizes" if len(sizes) > 6 else ""
    lives = lives_of(side.facts, side.chosen, _ALLOCATIONS)
    left = len(side.chosen) - len(lives)
    heads = ["block", "asked for", "born", "in", "freed", "in"]
    named = len({life.owner for life in lives}) > 1
    heads = ["owner", *heads] if named else heads
    rows = [_life(life, named) for life in lives]
    note = [html.P(f"and {plural(left, 'smaller one')}", className="faint")] if left else []
    caption = f"{plural(len(side.chosen), 'allocation')} in {cut(clean(side.name), 60)}"
    table = controls.table(caption, heads, rows, (1, 2) if named else (0, 1))
    return [html.H3(caption), html.P(told + more, className="faint"), table, *note]


def _life(life: Life, named: bool) -> list[Any]:
    cells: list[Any] = [html.Code(cut(clean(life.owner), 120))] if named else []
    cells += [amount_of(format_bytes(size), size) for size in (life.block_bytes, life.requested_bytes)]
    cells += [_when(life.born_event, life.born_us, "before the recording"), html.Code(cut(clean(life.born_in), 80))]
    cells.append(_when(life.freed_event, life.freed_us, "never"))
    return [*cells, html.Code(cut(clean(life.freed_in), 80)) if life.freed_in else "–"]


def _when(event: int | None, time_us: int | None, else_: str) -> Any:
    if event is None:
        return html.Span(else_, className="faint")
    time = f"{format_us(time_us)}, " if time_us is not None else ""
    return f"{time}event {event:,}"
