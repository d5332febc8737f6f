"""The dangling page in pieces: the verdict of each run, the table, and all there is to say of what is picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from snapviz.analyze.advice import advice_for
from snapviz.analyze.outlived import holder_kinds
from snapviz.app import controls
from snapviz.app.amounts import amount, delta, exactly, frames
from snapviz.app.pages.dangling_graph import graph
from snapviz.app.pages.dangling_look import Look, Picked, Row, Side, peak_moves_to
from snapviz.app.pages.dangling_suspects import suspects
from snapviz.app.state import State
from snapviz.report.danglingtext import dangling_verdict
from snapviz.report.layout import clean, cut
from snapviz.report.words import broken_in_words, frames_in_words, plural, ranges
from snapviz.schema import Dangling, DanglingPhase, RankDangling, Without
from snapviz.units import format_bytes

__all__ = ["above", "below"]

_ROWS = 120
_PHASES = 40
_WHYS = 20
_NAMES = 60


# ------------------------------------------------------------------ the verdict


def above(look: Look, state: State, prefix: str) -> list[Any]:
    """A sentence for each run, head's first, and the figures."""
    said = [_sentence(side, heading=at == 0) for at, side in enumerate(look.sides[::-1])]
    notices = [controls.notice(text, grave=grave) for text, grave in _notices(look)]
    return [*said, *notices, _figures(look)]


def _sentence(side: Side, heading: bool) -> Any:
    words = [html.B(clean(side.name)), f": {clean(_verdict(side))}"]
    return html.H1(words) if heading else html.P(words)


def _verdict(side: Side) -> str:
    if side.not_sharded:
        return "nothing was sharded, so nothing can dangle."
    said, worst = dangling_verdict(side.report), side.worst
    if worst is None or worst.without is None:
        return said
    there = peak_moves_to(worst.peak_bytes, worst.without, worst.phases)
    then = f"would be {format_bytes(worst.without.peak_bytes)}"
    return said.replace(f"{then} instead of", f"{then}, then in {there}, instead of", 1) if there else said


def _notices(look: Look) -> list[tuple[str, bool]]:
    found = []
    for side in look.sides:
        name = clean(side.name)
        found += [
            (f"{name}: {broken_in_words(one)} could not be read: {clean(one.message)}", True)
            for one in side.report.broken
        ]
        # of all ranks the sentence says it already
        some = len(side.unknown) < len(side.report.ranks)
        for why in dict.fromkeys(one.dangling_why for one in side.unknown if some):
            ranks = ranges(sorted(one.rank for one in side.unknown if one.dangling_why == why))
            found.append((f"{name}, rank {ranks}: what dangles cannot be told: {clean(why)}.", False))
    if look.missing:
        found.append((f"“{cut(clean(look.missing), 120)}” does not dangle in either run.", False))
    return found


def _figures(look: Look) -> Any:
    rows = [cells for side in look.sides if (cells := _figures_of(side))]
    if not rows:
        return html.Div()
    heads = [
        "run",
        "parameters",
        "worst rank",
        "dangling there",
        "to the end",
        "on all ranks",
        "its peak",
        "without",
        "Δ",
    ]
    table = controls.table("what dangles, and the allocated peak without it", heads, rows, (1, 2, 3, 4, 5, 6, 7, 8))
    return html.Div(table, className="dangling-figures")


def _figures_of(side: Side) -> list[Any] | None:
    worst = side.worst
    if worst is None:
        return None
    known = bool(worst.dangling or worst.dangling_known or side.not_sharded)
    return [
        f"{side.key}: {clean(side.name)}",
        f"{len(worst.dangling):,}" if known else "not known",
        str(worst.rank),
        exactly(worst.dangling_bytes) if worst.dangling else amount(0),
        amount(worst.lasting_bytes),
        amount(side.total_bytes),
        amount(worst.peak_bytes),
        *_lower(worst, known),
    ]


def _lower(worst: RankDangling, known: bool) -> list[Any]:
    """The peak without what dangles, and the difference; neither where nobody can tell what does."""
    if worst.without is not None:
        return [exactly(worst.without.peak_bytes), delta(-worst.without.saved_bytes)]
    if not known:
        return ["not known", ""]
    return [amount(worst.peak_bytes), delta(0)]


# ------------------------------------------------------------------ the table and the rest


def below(look: Look, state: State, prefix: str) -> list[Any]:
    """What dangles, who holds what is picked or all of it, suspects, and what to do where nothing is known."""
    found: list[Any] = []
    if any(side.rows for side in look.sides):
        found.append(_table(look, state, prefix))
        if look.picked is not None:
            found.append(_picked(look.picked, state, prefix))
        else:
            found += [_whole(side) for side in look.sides[::-1] if side.rows]
    else:
        found.append(_nothing(look))
    return [*found, *(suspects(side) for side in look.sides[::-1] if side.suspects)]


def _nothing(look: Look) -> Any:
    """Nothing dangles, nothing could, or nobody can tell: three things."""
    unknown = [side for side in look.sides if side.unknown and not side.not_sharded]
    if unknown:
        said = [html.H2("What dangles cannot be told for all of it"), *_to_tell(unknown)]
    elif any(side.not_sharded for side in look.sides):
        said = [
            html.H2("Nothing was sharded, so nothing can dangle"),
            html.P(
                "Parameters dangle when they stay whole after sharding. The record has no phase named shard and names "
                "no shards. A program that shards in a way of its own says when:"
            ),
            html.Pre('with snapviz.phase("shard"):\n    ...'),
        ]
    else:
        said = [
            html.H2("Nothing dangles"),
            html.P("Every whole parameter was gone once it was sharded, on every rank that was read."),
        ]
    return html.Section(said, className="empty")


def _to_tell(unknown: Sequence[Side]) -> list[Any]:
    """What to do where nobody can tell: another thing of a run that is recorded already."""
    if all(side.report.run.recorded for side in unknown):
        whys = dict.fromkeys(one.dangling_why for side in unknown for one in side.unknown)
        return [html.P(f"There is a record, and it does not say it: {clean(why)}.") for why in list(whys)[:_WHYS]]
    return [
        html.P(
            "A snapshot alone does not say what the parameters were before sharding. Record with snapviz, which "
            "notes their names at every phase and looks for what holds them:"
        ),
        html.Pre("snapviz record -o runs/main --steps 5 -- train.py"),
    ]


def _table(look: Look, state: State, prefix: str) -> Any:
    rows = look.rows
    heads = [
        "parameter",
        "run",
        "ranks",
        "tensor",
        "each",
        "on one rank",
        "on all",
        "born in",
        "should go in",
        "went in",
    ]
    cells = [_cells(row, look, state, prefix) for row in rows[:_ROWS]]
    if rows[_ROWS:]:
        left = rows[_ROWS:]
        total = sum(row.total_bytes for row in left)
        rest = f"{plural(sum(len(row.each) for row in left), 'more parameter')}: search for them"
        cells.append([rest, "", "", "", "", "", amount(total), "", "", "", ""])
    searched = f" with “{cut(clean(look.q), 60)}” in them" if look.q else ""
    caption = f"{plural(sum(len(row.each) for row in rows), 'parameter')}{searched}; a name shows who holds it"
    table = controls.table(caption, [*heads, "kept by"], cells, (4, 5, 6))
    return html.Section([html.H2("What dangles"), table], className="dangling-table")


def _cells(row: Row, look: Look, state: State, prefix: str) -> list[Any]:
    one = row.each[0]
    here = look.picked is not None and look.picked.row == row
    many = f" ({len(row.each):,})" if len(row.each) > 1 else ""
    there = state.with_(name=None if here else row.label)
    link = controls.link(
        html.Code(cut(clean(row.label), 120)),
        there,
        prefix,
        className="here" if here else "",
        title="show all of them again" if here else "who holds it",
        **({"aria-current": "true"} if here else {}),
    )
    return [
        [link, many],
        row.side,
        row.where,
        _tensor(one),
        amount(row.block_bytes),
        amount(row.rank_bytes),
        amount(row.total_bytes),
        clean(one.birth_phase),
        clean(one.should_go_in),
        _went(one),
        _kept(row),
    ]


def _kept(row: Row) -> Any:
    if not row.kept:
        return html.Span("no holder is known", className="faint")
    more = row.more_holders
    said = [html.Span(f" and {plural(more, 'more holder')}", className="faint")] if more else []
    return html.Span([html.Code(clean(row.kept)), *said])


def _tensor(one: Dangling) -> str:
    sizes = "×".join(map(str, one.shape)) or "scalar" if one.shape is not None else ""
    return clean(f"{sizes} {(one.dtype or '').removeprefix('torch.')}".strip()) or "–"


def _went(one: Dangling) -> Any:
    if one.gone_in is None:
        return html.Span("live at the end", className="dangling to-the-end")
    return clean(one.gone_in)


# ------------------------------------------------------------------ all of a run


def _whole(side: Side) -> Any:
    """Who holds everything that dangles in a run, and its peaks without it."""
    worst = side.worst
    assert worst is not None
    where = f"rank {worst.rank}"
    return html.Section(
        [
            html.H2([f"Who holds it in {clean(side.name)}", html.Span(f" ({where})", className="faint")]),
            graph(worst.dangling),
            *_advice(worst.dangling),
            html.H3(f"Peaks without everything that dangles, {where}"),
            _phases(worst.phases, worst.peak_bytes, worst.without),
        ]
    )


def _advice(found: Sequence[Dangling]) -> list[Any]:
    kinds = [one for one in holder_kinds(found) if advice_for(one.kind)]
    items = [
        html.Li([html.B(one.kind.replace("_", " ")), f" ({plural(one.parameters, 'parameter')}): {one.advice}"])
        for one in kinds
    ]
    unheld = sum(not one.holders for one in found)
    if unheld:
        who = plural(unheld, "parameter")
        items.append(
            html.Li(f"Of {who} no holder is known: snapviz record looks for them when sharding is over; record again.")
        )
    return [html.H3("What to do"), html.Ul(items)] if items else []


def _phases(phases: Sequence[DanglingPhase], peak_bytes: int, without: Without | None) -> Any:
    changed = [one for one in phases if one.saved_bytes != 0]
    rows: list[list[Any]] = []
    if without is not None:
        then = peak_moves_to(peak_bytes, without, phases)
        there = [html.Span(f", then in {clean(then)}", className="faint")] if then else []
        run = [html.B("the run"), *there]
        rows.append([run, amount(peak_bytes), amount(without.peak_bytes), delta(-without.saved_bytes)])
    for one in changed[:_PHASES]:
        peak = [amount(one.peak_bytes), *([] if one.exact else [html.Span(" (not exact)", className="faint")])]
        if one.without_bytes is None or one.saved_bytes is None:
            rows.append([clean(one.phase), peak, "not known: its beginning is not in the recording", ""])
        else:
            rows.append([clean(one.phase), peak, amount(one.without_bytes), delta(-one.saved_bytes)])
    same = [clean(one.phase) for one in phases if one.saved_bytes == 0]
    more = [f", and {len(changed) - _PHASES:,} more"] if len(changed) > _PHASES else []
    told = f"The same without: {', '.join(same[:_PHASES])}{'…' if len(same) > _PHASES else ''}." if same else ""
    table = controls.table(
        "".join(["allocated peaks by phase", *more]), ["phase", "peak", "without", "Δ"], rows, (1, 2, 3)
    )
    none = [] if changed else [html.P("No phase would peak lower.")]
    return html.Div([*([table] if rows else []), *none, html.P(told, className="faint")])


# ------------------------------------------------------------------ what is picked


def _picked(picked: Picked, state: State, prefix: str) -> Any:
    row = picked.row
    one = row.each[0]
    saved = picked.without.saved_bytes
    then = peak_moves_to(picked.peak_bytes, picked.without, picked.phases)
    it = "it" if len(row.each) == 1 else "them"
    lower = (
        [
            "Without ",
            it,
            " the peak would be ",
            exactly(picked.without.peak_bytes),
            f", then in {clean(then)}," if then else "",
            " instead of ",
            exactly(picked.peak_bytes),
            ", ",
            delta(-saved),
        ]
        if saved
        else ["The peak, ", exactly(picked.peak_bytes), f", would be the same without {it}"]
    )
    return html.Section(
        [
            html.H2([html.Code(cut(clean(row.label), 160)), f" in {clean(picked.side.name)}"]),
            html.P([*lower, f", on rank {picked.rank}."]),
            html.P(_ways(picked, state, prefix), className="no-print"),
            _facts(row),
            html.H3("Who holds it"),
            graph(row.each),
            *_advice(row.each),
            html.H3("Where it was made"),
            html.P(html.Code(frames_in_words(one.stack, None, 120))) if one.stack else html.Span(),
            frames(one.stack),
            html.H3(f"Peaks without it, rank {picked.rank}"),
            _phases(picked.phases, picked.peak_bytes, picked.without),
        ],
        className="dangling-picked",
        id="picked",
    )


def _ways(picked: Picked, state: State, prefix: str) -> list[Any]:
    name = picked.row.each[0].name
    return [
        controls.link("when it lived, on the timeline", state.to("timeline", rank=picked.rank, q=name), prefix),
        " · ",
        controls.link(
            "what else is live at the peak",
            state.to("live", rank=picked.rank, by="category"),
            prefix,
        ),
        " · ",
        controls.link("all of them again", state.with_(name=None), prefix),
    ]


def _facts(row: Row) -> Any:
    one = row.each[0]
    facts: list[tuple[str, Any]] = [
        ("tensor", _tensor(one)),
        ("bytes", [exactly(one.block_bytes), f" each, {one.requested_bytes:,} asked for"]),
        ("ranks", f"{row.where}: {format_bytes(row.rank_bytes)} on each, {format_bytes(row.total_bytes)} together"),
        ("born in", clean(one.birth_phase)),
        ("should have gone in", clean(one.should_go_in)),
        ("went in", _went(one)),
    ]
    names = [name for each in row.each for name in each.names]
    if len(names) > 1:
        shown = [html.Code(clean(name)) for name in names[:_NAMES]]
        more = [f"and {len(names) - _NAMES:,} more"] if len(names) > _NAMES else []
        items = html.Ul([html.Li(part) for part in (*shown, *more)], className="names")
        facts.append(("names", html.Details([html.Summary(plural(len(names), "name")), items])))
    parts = [part for term, what in facts for part in (html.Dt(term), html.Dd(what))]
    return html.Dl(parts, className="facts")
