"""The live page in pieces: what is read before the picture, the way to the branch, and what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from snapviz.analyze.stretches import Stretches
from snapviz.app import controls
from snapviz.app.amounts import exactly, frames
from snapviz.app.pages.live_columns import columns_of
from snapviz.app.pages.live_look import RECORDED, Look, When
from snapviz.app.state import State
from snapviz.compare.keys import has_names
from snapviz.compare.livetree import DANGLES, Part, Where
from snapviz.report.layout import clean, cut
from snapviz.report.plots.icicle import ALONE, VIEWS, Cell, category_colour
from snapviz.report.reasons import category_in_words
from snapviz.report.words import fold_names, frames_in_words, plural
from snapviz.units import format_bytes, format_us

__all__ = ["above", "as_table", "at_options", "below", "trail"]

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
        return [f"{clean(who)} holds ", html.B(_held(found)), f" {found.words}{look.recorded}, {rank}."]
    words = base.words if base.words == head.words else f"{base.words} in {names[0]}, {head.words} in {names[1]}"
    words += look.recorded
    moved = head.total_bytes - base.total_bytes
    if not moved:
        same = "group by group" if look.same else "but not in the same places"
        return [
            f"{clean(names[0])} and {clean(names[1])} hold the same, ",
            html.B(_held(head)),
            f", {same}, {words}, {rank}.",
        ]
    more = html.B(
        f"{format_bytes(abs(moved))} {'more' if moved > 0 else 'less'}", className="more" if moved > 0 else "less"
    )
    amounts = f"{_held(head)} against {_held(base)}"
    return [f"{clean(names[1])} holds ", more, f" than {clean(names[0])} {words}, {rank}: {amounts}."]


def _held(when: When) -> str:
    return f"{when.mark}{format_bytes(when.total_bytes)}"


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
            run = clean(who) if look.alone is not None else f"{key}: {clean(who)}"
            rows.append([run, where, html.Span([when.mark, exactly(when.total_bytes)])])
    free = [_clear(state, prefix)] if state.bt is not None or state.ht is not None else []
    caption = f"{state.measure} bytes{look.recorded}"
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
        _table(look, state, prefix),
        *_inside(look, state, prefix),
        *_where_from(look),
    ]


def _legend(look: Look) -> Any:
    if not look.cells[0].width_bytes:
        same = look.alone is None and look.drawn == "changes" and any(when and when.total_bytes for when in look.when)
        return controls.notice(
            "Nothing changed here: both runs hold the same in every group." if same else "Nothing is held."
        )
    signs: list[Any] = []
    if look.drawn in ("difference", "changes"):
        signs = [
            html.Span("▲ orange", className="more"),
            " head has more, ",
            html.Span("▼ blue", className="less"),
            " it has less, grey is the same; the stronger, the more of a cell has changed. ",
        ]
    else:
        signs = ["Its colour is the category of most of it: ", *_categories(look), ". "]
    frames = "Outermost frames are on top; frames that all share are one cell. " if look.by == "stack" else ""
    widths = VIEWS[look.drawn] if look.alone is None else ALONE
    return html.P([widths, " ", *signs, frames, "Click a cell to look into it."], className="faint live-legend")


def _categories(look: Look) -> list[Any]:
    """The colours of the picture, as they first come in it."""
    found: list[Any] = []
    for group in dict.fromkeys(cell.group for cell in look.cells if cell.group and cell.width_bytes):
        swatch = html.Span(className="swatch", style={"background": category_colour(group)})
        found += [*([", "] if found else []), swatch, f" {category_in_words(group)}"]
    return found


def _found(look: Look) -> list[Any]:
    if not look.q:
        return []
    if not look.steps_found:
        return [controls.notice(f"Nothing here has “{cut(clean(look.q), 80)}” in its name.")]
    drawn = sum(look.hits or ())
    names, cells = plural(len(look.steps_found), "name"), plural(drawn, "cell")
    words = f"“{cut(clean(look.q), 80)}” is in {names}, {cells} of this picture: "
    told = columns_of(look).words(look.live.weights_with(look.steps_found))
    return [html.P([words, *told, " in all."], className="live-found")]


def _table(look: Look, state: State, prefix: str) -> Any:
    """The parts of the branch that fills the picture."""
    root = _branching(look)
    node = look.tree.nodes[root]
    rows = [(look.cells[at], at) for at in look.tree.children()[root] if any(look.tree.nodes[at].weights[:4])]
    rows.sort(key=lambda row: (row[0].hidden > 0, *_by(look, row[0])))
    columns = columns_of(look)
    cells = [[_part(look, cell, at, state, prefix), *columns.of(_weights(look, at))] for cell, at in rows[:_ROWS]]
    if rows[_ROWS:]:
        rest = np.sum([look.tree.nodes[at].weights for _, at in rows[_ROWS:]], axis=0)
        cells.append([f"{plural(len(rows) - _ROWS, 'more part')}", *columns.of(rest)])
    if rows and any(node.own[:4]):
        cells.append(["what ends here, and has no parts", *columns.of(node.own)])
    whole = (node.weights == look.live.paths.sums(look.way[0])).all()
    cells.append([html.B("together"), *columns.of(node.weights, bool(whole))])
    heading = cut(look.cells[root].label.removesuffix(RECORDED), 90)
    table = controls.table(f"parts of {heading}{look.recorded}", ["part", *columns.heads], cells, columns.numbers())
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


def _part(look: Look, cell: Cell, at: int, state: State, prefix: str) -> Any:
    node = look.tree.nodes[at]
    if node.branch is None:
        return cell.label
    return controls.link(
        cut(cell.label, 90),
        state.with_(zoom=look.place(at)),
        prefix,
        className="here" if node.branch == look.chosen else "",
        title=cut(" → ".join(map(clean, look.live.label(node.branch)[-8:])), 600),
    )


def _weights(look: Look, at: int) -> list[int]:
    found: list[int] = look.tree.nodes[at].weights.tolist()
    return found


# ------------------------------------------------------------------ what is in a branch


def _inside(look: Look, state: State, prefix: str) -> list[Any]:
    """What the branch that is looked at is made of."""
    parts, more = look.live.parts(look.chosen, _PARTS)
    columns, rows = columns_of(look), []
    for one in parts:
        style = "dangling" if one.category == DANGLES else ""
        values = (one.base_bytes, one.head_bytes, one.base_count, one.head_count)
        category = html.Span(one.category, className=style)
        rows.append([category, _owner(one, state, prefix), clean(one.birth) or "–", *columns.of(values)])
    heads = ["category", "owner", "born in", *columns.heads]
    some = f": {len(parts):,} of {len(parts) + more:,} rows" if more else ""
    table = controls.table(f"{_title(look)}{look.recorded}{some}", heads, rows, columns.numbers(3))
    return [html.Section([html.H2("What it is"), table], className="live-inside")]


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
    return [
        html.H2(["Where ", html.Code(_title(look)), " was allocated"]),
        html.P([*columns_of(look).words(look.live.paths.sums(look.chosen)), "."]),
        *[_stack(look, one, at == 0) for at, one in enumerate(stacks)],
        *([html.P(f"and {plural(more, 'more stack')}", className="faint")] if more else []),
        *([] if stacks else [html.P("No allocation is in it.", className="faint")]),
    ]


def _stack(look: Look, one: Where, opened: bool) -> Any:
    values = (one.base_bytes, one.head_bytes, one.base_count, one.head_count)
    told = frames_in_words(one.frames, one.head_lines or one.base_lines, 90)
    words = [*columns_of(look).short(values), html.Code(told)]
    if one.base_frames:
        shown = [
            html.P("The same by its name, and made on another way. In head:", className="faint"),
            frames(_lines(one.frames, one.head_lines)),
            html.P("in base:", className="faint"),
            frames(_lines(one.base_frames, one.base_lines)),
        ]
    else:
        shown = [frames(_lines(one.frames, one.base_lines, one.head_lines))]
    return html.Details([html.Summary(words), *shown], open=opened, className="live-stack")


def _lines(texts: Sequence[str], *sides: Sequence[int] | None) -> list[str]:
    """Frames with their lines; of a frame that moved, in base and in head."""
    found = []
    for at, text in enumerate(texts):
        lines = [None if side is None else side[at] for side in sides]
        known = list(dict.fromkeys(str(line) for line in lines if line is not None and line >= 0))
        place = f":{' → '.join(known)}" if known else ""
        found.append(f"{text[:-1]}{place})" if text.endswith(")") else text)
    return found


def as_table(look: Look) -> Any:
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
    columns, rows = columns_of(look), []
    for at in order[:_CELLS]:
        label = html.Span(cut(look.cells[at].label, 90), style={"paddingLeft": f"{min(depth[at], 24)}em"})
        rows.append([label, *columns.of(_weights(look, at))])
    more = f", the first {_CELLS} of {len(order):,}" if len(order) > _CELLS else ""
    caption = f"the cells of the picture{look.recorded}{more}"
    return controls.table(caption, ["cell", *columns.heads], rows, columns.numbers())
