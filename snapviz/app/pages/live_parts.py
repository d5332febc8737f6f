"""The live page in pieces: what is read before the picture, the way to the branch, and what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from dash import html

from snapviz.analyze.stretches import Stretches
from snapviz.app import controls
from snapviz.app.amounts import amount, counts, delta, exactly, frames
from snapviz.app.pages.live_look import Look, When
from snapviz.app.state import State
from snapviz.compare.keys import has_names
from snapviz.compare.livetree import DANGLES, Part, Where
from snapviz.report.layout import clean, cut
from snapviz.report.plots.icicle import VIEWS, Cell
from snapviz.report.words import fold_names, frames_in_words, plural
from snapviz.units import format_bytes, format_us

__all__ = ["above", "at_options", "below", "trail"]

_PHASES = 150
"""Phases of the picker."""
_ROWS = 40
"""Rows of the table of parts."""
_CELLS = 120
"""Rows of the table that stands for the picture."""
_STACKS, _PARTS = 8, 20


# ------------------------------------------------------------------ before the picture


def above(look: Look, state: State, prefix: str) -> list[Any]:
    """The sentence, what it rests on, and both moments."""
    said = (*look.sides.notes, *look.missing, *_unsure(look))
    return [html.H1(_sentence(look)), *map(controls.notice, map(clean, said)), _moments(look, state, prefix)]


def _sentence(look: Look) -> list[Any]:
    base, head = look.when
    names, rank = look.sides.names, f"on rank {look.sides.rank}"
    if base is None or head is None:
        found, who = (head, names[1]) if base is None else (base, names[0])
        if found is None:
            return ["Neither run has this moment."]
        return [f"{clean(who)} holds ", html.B(format_bytes(found.total_bytes)), f" {found.words}, {rank}."]
    words = base.words if base.words == head.words else f"{base.words} in {names[0]}, {head.words} in {names[1]}"
    moved = head.total_bytes - base.total_bytes
    if not moved:
        same = "group by group" if look.same else "but not in the same places"
        return [
            f"{clean(names[0])} and {clean(names[1])} hold the same, ",
            html.B(format_bytes(head.total_bytes)),
            f", {same}, {words}, {rank}.",
        ]
    more = html.B(
        f"{format_bytes(abs(moved))} {'more' if moved > 0 else 'less'}", className="more" if moved > 0 else "less"
    )
    amounts = f"{format_bytes(head.total_bytes)} against {format_bytes(base.total_bytes)}"
    return [f"{clean(names[1])} holds ", more, f" than {clean(names[0])} {words}, {rank}: {amounts}."]


def _unsure(look: Look) -> list[str]:
    said = [
        f"{clean(who)}: {when.unsure}"
        for who, when in zip(look.sides.names, look.when, strict=True)
        if when and when.unsure
    ]
    if look.by == "category":
        said += [
            f"{clean(who)}: no record names what is held: categories are inferred from stacks"
            for who, facts in zip(look.sides.names, look.sides.facts, strict=True)
            if facts is not None and not has_names(facts)
        ]
    if look.lost:
        said.append("The group in the address is not there at this moment: what it would lie in is shown.")
    return said


def _moments(look: Look, state: State, prefix: str) -> Any:
    rows = []
    for key, cursor, who, when in zip(("base", "head"), ("bt", "ht"), look.sides.names, look.when, strict=True):
        if when is not None:
            there = state.to("timeline", **{cursor: when.event})
            where = controls.link(_where(when), there, prefix, title="this moment on the timeline")
            rows.append([f"{key}: {clean(who)}", where, exactly(when.total_bytes)])
    free = [_clear(state, prefix)] if state.bt is not None or state.ht is not None else []
    caption = f"{state.measure} bytes"
    return html.Div([controls.table(caption, ["run", "when", "held"], rows, (2,)), *free], className="live-moments")


def _clear(state: State, prefix: str) -> Any:
    return controls.link("leave the cursors: the moment picked below", state.with_(bt=None, ht=None), prefix)


def _where(when: When) -> str:
    if when.event < 0:
        return "before the first event"
    parts = [f"event {when.event:,} of {when.events:,}"]
    parts += [f"{format_us(when.since_us)} after the first"] if when.since_us is not None else []
    parts += [f"in {cut(clean(when.phase), 80)}" if when.phase else "outside phases"]
    return ", ".join(parts)


def at_options(look: Look) -> list[tuple[str, str]]:
    """The moments that can be picked."""
    names: dict[str, None] = {}
    for facts in look.sides.facts:
        if facts is not None:
            names |= dict.fromkeys(list(Stretches(facts).folded)[:_PHASES])
    phases = [
        (f"phase:{phase}:{which}", f"{which} of {cut(clean(phase), 80)}")
        for phase in list(names)[:_PHASES]
        for which in ("peak", "end")
    ]
    return [("", "peak of the run"), ("end", "end of the run"), *phases]


# ------------------------------------------------------------------ the way to a branch


def trail(look: Look, state: State, prefix: str) -> Any:
    """The branches from the root to the one that is looked at, each a link."""
    items = []
    for depth, branch in enumerate(look.way):
        text = f"all of rank {look.sides.rank}" if depth == 0 else cut(look.label(branch), 60)
        if depth == len(look.way) - 1:
            items.append(html.Li(html.Span(text, **{"aria-current": "location"})))
        else:
            to = state.with_(zoom=look.tokens(None, look.way[: depth + 1]))
            items.append(html.Li(controls.link(text, to, prefix)))
    return html.Ol(items)


# ------------------------------------------------------------------ below the picture


def below(look: Look, state: State, prefix: str) -> list[Any]:
    """What the picture means, what was found in it, its parts, and what is in the branch."""
    return [
        _legend(look),
        *_found(look),
        _as_table(look),
        _table(look, state, prefix),
        *_inside(look, state, prefix),
        *_where_from(look),
    ]


def _legend(look: Look) -> Any:
    if not look.cells[0].width_bytes:
        nothing = (
            "Nothing changed here: both runs hold the same in every group." if look.sides.both else "Nothing is held."
        )
        return (
            controls.notice(nothing)
            if look.drawn == "changes" or not look.same
            else controls.notice("Nothing is held.")
        )
    signs = []
    if look.drawn in ("difference", "changes"):
        signs = [
            html.Span("▲ orange", className="more"),
            " head has more, ",
            html.Span("▼ blue", className="less"),
            " it has less, grey is the same; the stronger, the more of a cell has changed. ",
        ]
    frames = "Outermost frames are on top; frames that all share are one cell. " if look.by == "stack" else ""
    return html.P(
        [VIEWS[look.drawn], " ", *signs, frames, "Click a cell to look into it."], className="faint live-legend"
    )


def _found(look: Look) -> list[Any]:
    if not look.q:
        return []
    if not look.steps_found:
        return [controls.notice(f"Nothing here has “{cut(clean(look.q), 80)}” in its name.")]
    base, head, base_count, head_count = look.live.weights_with(look.steps_found)[:4].tolist()
    drawn = sum(look.hits or ())
    words = [
        f"“{cut(clean(look.q), 80)}” is in {plural(len(look.steps_found), 'name')}, {plural(drawn, 'cell')} of this "
    ]
    words += ["picture: base ", exactly(base), ", head ", exactly(head), ", ", delta(head - base)]
    words += [f", {_allocations(base_count, head_count)} in all."]
    return [html.P(words, className="live-found")]


def _table(look: Look, state: State, prefix: str) -> Any:
    """The parts of the branch that fills the picture."""
    root = _branching(look)
    node = look.tree.nodes[root]
    rows = [(look.cells[at], at) for at in look.tree.children()[root] if any(look.tree.nodes[at].weights[:4])]
    rows.sort(key=lambda row: (row[0].hidden > 0, *_by(look, row[0])))
    cells = [_row(look, cell, at, state, prefix) for cell, at in rows[:_ROWS]]
    if rows[_ROWS:]:
        rest = np.sum([look.tree.nodes[at].weights for _, at in rows[_ROWS:]], axis=0)
        cells.append([f"{plural(len(rows) - _ROWS, 'more part')}", *_amounts(rest)])
    if rows and any(node.own[:4]):
        cells.append(["what ends here, and has no parts", *_amounts(node.own)])
    cells.append([html.B("together"), *_amounts(node.weights)])
    heading = look.cells[root].label
    table = controls.table(
        f"parts of {cut(heading, 90)}", ["part", "base", "head", "Δ", "allocations"], cells, (1, 2, 3, 4)
    )
    return html.Section([html.H2("Its parts"), table], className="live-parts")


def _branching(look: Look) -> int:
    """The first cell from the top that has more than one part: above it there is nothing to choose."""
    children = look.tree.children()
    at = 0
    while len(children[at]) == 1 and children[children[at][0]] and not any(look.tree.nodes[at].own):
        at = children[at][0]
    return at


def _by(look: Look, cell: Cell) -> tuple[int, int]:
    if look.drawn == "base":
        return -cell.base_bytes, 0
    if look.drawn == "head":
        return -cell.head_bytes, 0
    return -abs(cell.delta_bytes), -max(cell.base_bytes, cell.head_bytes)


def _row(look: Look, cell: Cell, at: int, state: State, prefix: str) -> list[Any]:
    node = look.tree.nodes[at]
    first: Any = cell.label
    if node.branch is not None:
        here = node.branch == look.chosen
        first = controls.link(
            cut(cell.label, 90),
            state.with_(zoom=look.place(at)),
            prefix,
            className="here" if here else "",
            title=cut(" → ".join(map(clean, look.live.label(node.branch)[-8:])), 600),
        )
    return [first, *_amounts(node.weights)]


def _amounts(weights: Iterable[int]) -> list[Any]:
    """Cells of a row."""
    base, head, base_count, head_count = map(int, islice(weights, 4))
    return [amount(base), amount(head), delta(head - base), counts(base_count, head_count)]


def _allocations(base: int, head: int) -> str:
    return f"{counts(base, head)} allocation{'' if head == 1 else 's'}"


# ------------------------------------------------------------------ what is in a branch


def _inside(look: Look, state: State, prefix: str) -> list[Any]:
    """What the branch that is looked at is made of."""
    parts, more = look.live.parts(look.chosen, _PARTS)
    rows = []
    for one in parts:
        style = "dangling" if one.category == DANGLES else ""
        values = (one.base_bytes, one.head_bytes, one.base_count, one.head_count)
        category = html.Span(one.category, className=style)
        rows.append([category, _owner(one, state, prefix), clean(one.birth) or "–", *_amounts(values)])
    heads = ["category", "owner", "born in", "base", "head", "Δ", "allocations"]
    caption = f"in {_title(look)}" + (f", and {more:,} more" if more else "")
    return [
        html.Section(
            [html.H2("What it is"), controls.table(caption, heads, rows, (3, 4, 5, 6))], className="live-inside"
        )
    ]


def _owner(one: Part, state: State, prefix: str) -> Any:
    """The owners on one line; of one that dangles the way to what holds it, of others to when they lived."""
    if not one.owners[0]:
        return "–"
    text = " ".join(label for label, _ in fold_names(one.owners))
    many = f" ({len(one.owners):,})" if len(one.owners) > 1 else ""
    if one.category == DANGLES:
        there, title = state.to("dangling", name=one.owners[0]), "who holds it"
    else:
        there = state.to("timeline", q=one.owners[0])
        title = "find it on the timeline"
    return [controls.link(html.Code(cut(clean(text), 120)), there, prefix, title=title), many]


def _title(look: Look) -> str:
    return f"all of rank {look.sides.rank}" if len(look.way) == 1 else cut(look.label(look.chosen), 120)


def _where_from(look: Look) -> list[Any]:
    """The stacks of the branch that is looked at."""
    stacks, more = look.live.stacks(look.chosen, _STACKS)
    base, head, base_count, head_count = look.live.paths.sums(look.chosen)[:4].tolist()
    return [
        html.H2(["Where ", html.Code(_title(look)), " was allocated"]),
        html.P(
            [
                "base ",
                exactly(base),
                ", head ",
                exactly(head),
                ", ",
                delta(head - base),
                f", {_allocations(base_count, head_count)}.",
            ]
        ),
        *[_stack(one, at == 0) for at, one in enumerate(stacks)],
        *([html.P(f"and {plural(more, 'more stack')}", className="faint")] if more else []),
        *([] if stacks else [html.P("No allocation is in it.", className="faint")]),
    ]


def _stack(one: Where, opened: bool) -> Any:
    values = (one.base_bytes, one.head_bytes, one.base_count, one.head_count)
    base, head = format_bytes(values[0]), format_bytes(values[1])
    told = frames_in_words(one.frames, one.head_lines or one.base_lines, 90)
    words = [
        delta(values[1] - values[0]),
        html.Span(f" {base} → {head}, {_allocations(*values[2:])}: ", className="faint"),
        html.Code(told),
    ]
    return html.Details([html.Summary(words), frames(_lines(one))], open=opened, className="live-stack")


def _lines(one: Where) -> list[str]:
    """Frames with their lines; of a frame that moved, in base and in head."""
    found = []
    for at, text in enumerate(one.frames):
        lines = [None if side is None else side[at] for side in (one.base_lines, one.head_lines)]
        known = list(dict.fromkeys(str(line) for line in lines if line is not None and line >= 0))
        place = f":{' → '.join(known)}" if known else ""
        found.append(f"{text[:-1]}{place})" if text.endswith(")") else text)
    return found


def _as_table(look: Look) -> Any:
    """The cells of the picture, in the order of the tree."""
    depth = {-1: -1}
    order: list[int] = []
    children = look.tree.children()
    todo = [0]
    while todo:
        at = todo.pop()
        depth[at] = depth[look.cells[at].parent] + 1
        order.append(at)
        todo += [child for child in reversed(children[at]) if look.cells[child].width_bytes]
    rows = []
    for at in order[:_CELLS]:
        cell = look.cells[at]
        label = html.Span(cut(cell.label, 90), style={"paddingLeft": f"{min(depth[at], 24)}em"})
        rows.append([label, *_amounts(look.tree.nodes[at].weights)])
    more = f", the first {_CELLS} of {len(order):,}" if len(order) > _CELLS else ""
    table = controls.table(
        f"the cells of the picture{more}", ["cell", "base", "head", "Δ", "allocations"], rows, (1, 2, 3, 4)
    )
    return html.Details([html.Summary("the picture as a table"), table], className="chart-table")
