"""The lower half of Compare: the steps from base to head, what adds up to the total, and the table of reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag
from dash import html

from snapviz.app import controls
from snapviz.app.pages.compare_blocks import amount_of, blocks_of, spans_of
from snapviz.app.pages.compare_rows import Item, Listing
from snapviz.app.sides import shown_point
from snapviz.app.state import State
from snapviz.report import diffblocks, whyblocks
from snapviz.report.blocks import change_of
from snapviz.report.deeplinks import Href
from snapviz.report.diffsaid import Told, full_names, told_points
from snapviz.report.difftables import short_names
from snapviz.report.layout import clean, cut
from snapviz.report.plots.waterfall import waterfall_figure
from snapviz.report.reasons import category_in_words
from snapviz.report.words import plural, signed
from snapviz.schema import DiffReport, Waterfall
from snapviz.units import format_bytes

__all__ = ["at_options", "besides", "grid", "rank_options", "same", "sums", "told_of", "why"]

_PHASES = 400
"""Phases among the points to choose from."""


def told_of(report: DiffReport, listing: Listing) -> Told:
    """The shown point in words, with others that have the same rows."""
    rank = listing.ranks[0]
    for told in told_points(report):
        if listing.point in told.points and told.rank.rank == rank.rank:
            return told
    return Told(report, (listing.point,), rank)


def why(report: DiffReport, listing: Listing, state: State, href: Href, beside: Any) -> list[Any]:
    """The title, what to know of the moments, the steps, and ``beside`` them the sums."""
    told = told_of(report, listing)
    title = html.H2(spans_of(told.title[0].upper() + told.title[1:]), id="why")
    steps = html.Div([_steps(report, listing, state), beside], className="compare-two")
    return [title, *blocks_of(whyblocks.hints(told)), steps, *_picked(state, href)]


def _picked(state: State, href: Href) -> list[Any]:
    if not state.name:
        return []
    what = html.Strong(cut(clean(category_in_words(state.name)), 80))
    link = html.A("show all", href=href({"name": ""}), className="spa")
    return [html.P(["The table below shows only ", what, ": ", link], className="compare-picked")]


def _steps(report: DiffReport, listing: Listing, state: State) -> Any:
    number = listing.ranks[0].rank
    found = next((one for one in report.waterfall if (one.at, one.rank) == (listing.point.at, number)), None)
    if found is None or not found.steps:
        return html.P("Without steps: what changed sums to nothing in every category.", className="faint")
    names = full_names(report)
    label = f"from {cut(names[0], 60)} to {cut(names[1], 60)} in steps, {clean(listing.point.title)}, rank {number}"
    known = {step.what for step in found.steps}
    figure = waterfall_figure(found, names, state.name if state.name in known else "")
    table = html.Div(blocks_of([whyblocks.waterfall_table(report, found, label)]))
    chart = controls.chart(
        "compare-waterfall", label, figure, table, height=figure["layout"]["height"], className="compare-steps"
    )
    return html.Div([chart, *_below(found, figure["layout"]["meta"]["begins_bytes"])])


def _below(found: Waterfall, begins: int) -> list[Any]:
    told = [f"the axis begins at {format_bytes(begins)}"] if begins else []
    told += [words] if (words := whyblocks.waterfall_words(found)) else []
    told.append(f"rank {found.rank}; click a step to see only its rows")
    return [html.P("; ".join(told), className="faint")]


def same(listing: Listing, href: Href) -> list[Any]:
    """What is said where a point has no row that changed."""
    rows = sum(one.unchanged.rows for one in listing.ranks)
    held = format_bytes(listing.total.head_bytes)
    where = clean(listing.point.title)
    said = f"{'All' if rows > 1 else 'Its'} {plural(rows, 'row')}, {held} in all, hold the same to the byte. "
    link = html.A("see what is held", href=href({"mode": "absolute"}), className="spa")
    title = html.H2(f"Nothing changed {where}", id="why")
    return [title, html.P([said, link] if rows else "Nothing is held then.", className="compare-same")]


# ------------------------------------------------------------------ the table


def sums(listing: Listing, shown: Sequence[Item], names: tuple[str, str]) -> Any:
    """What is listed and what is not, and that it adds up to the total."""
    found = listing.sums(shown)
    rows = []
    for one in found:
        cells = [html.Th(clean(one.what), scope="row")]
        cells += [
            html.Td(amount_of(format_bytes(size), size), className="number")
            for size in (one.base_bytes, one.head_bytes)
        ]
        cells += [html.Td(spans_of([change_of(one.delta)]), className="number")]
        cells += [html.Td(f"{one.delta:+,}" if one.delta else "0", className="number mono faint")]
        rows.append(html.Tr(cells, className="total" if one is found[-1] else ""))
    heads = [html.Th(text, scope="col", className="number") for text in (*names, "Δ", "Δ in bytes")]
    head = html.Tr([html.Td(), *heads])
    caption = html.Caption("what adds up to the total")
    table = html.Table([caption, html.Thead(head), html.Tbody(rows)], className="compare-sums")
    return html.Div(table, className="scroll", tabIndex=0, role="region", **{"aria-label": "what adds up to the total"})


def grid(grid_id: Any, report: DiffReport, lines: int) -> Any:
    """The table of reasons, whose rows are asked for as it is scrolled; ``lines`` are how many there are."""
    return dag.AgGrid(
        id=grid_id,
        columnDefs=_columns(report),
        defaultColDef={"resizable": True, "sortable": True, "suppressHeaderMenuButton": True, "filter": True},
        rowModelType="infinite",
        getRowId="params.data.key",
        dashGridOptions={
            "cacheBlockSize": 100,
            "maxBlocksInCache": 20,
            "rowHeight": 30,
            "headerHeight": 34,
            "floatingFiltersHeight": 34,
            "tooltipShowDelay": 300,
            "suppressCellFocus": False,
            "rowClassRules": {"compare-dangling": "params.data && params.data.dangling"},
            "ensureDomOrder": True,
            "animateRows": False,
        },
        className="compare-rows",
        style={"height": f"{min(620, 84 + 30 * max(3, lines))}px", "width": "100%"},
    )


def _columns(report: DiffReport) -> list[dict[str, Any]]:
    base, head = short_names(report)
    by, mode = report.options.by, report.options.mode
    name = {None: "owner", "rank": "rank"}.get(by, by)
    columns = [] if mode == "absolute" else [_number("delta", "Δ", 150, way=True)]
    columns += [_number("ratio", "head/base", 100, scale="×")] if mode == "ratio" else []
    columns += [_text("what", "what", 175)] if by not in ("stack", "phase", "rank", "category") else []
    columns += [_text("name", str(name), 260, flex=2)]
    columns += [
        _number("base", base, 115),
        _number("head", head, 115),
        _number("blocks", "allocations", 110, scale="Δ"),
    ]
    columns += [_text("birth", "born in", 140)] if by in (None, "stack", "owner", "module") else []
    columns += [_text("made", "made in", 300, flex=3, mono=True)] if by in (None, "stack", "owner") else []
    columns += [_text("besides", "besides", 220, flex=2)] if by is not None else []
    if mode == "absolute":
        columns.append(_number("delta", "Δ", 150, way=True))
    return columns


def _number(field: str, heading: str, width: int, way: bool = False, scale: str = "MiB") -> dict[str, Any]:
    column: dict[str, Any] = {
        "field": field,
        "headerName": heading,
        "width": width,
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "floatingFilter": True,
        "filterParams": {"filterPlaceholder": scale, "debounceMs": 400, "maxNumConditions": 2},
        "sortingOrder": ["desc", "asc", None],
    }
    if field in ("delta", "base", "head"):
        column["tooltipField"] = f"{field}_exact"
    if way:
        rules = {"more": "params.data && params.data.way > 0", "less": "params.data && params.data.way < 0"}
        column["cellClassRules"] = rules
    return column


def _text(field: str, heading: str, width: int, flex: int = 0, mono: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {
        "field": field,
        "headerName": heading,
        "filter": "agTextColumnFilter",
        "floatingFilter": True,
        "filterParams": {"filterOptions": ["contains", "notContains"], "debounceMs": 400, "maxNumConditions": 2},
        "tooltipField": field,
        "cellClass": "mono" if mono else "",
    }
    return column | ({"flex": flex, "minWidth": width} if flex else {"width": width})


# ------------------------------------------------------------------ what follows, and what can be chosen


def besides(report: DiffReport) -> list[Any]:
    """Where the difference comes from, other points, and what lies beside the allocator."""
    said = [*diffblocks.origin(report), *diffblocks.not_told(report)]
    more = [*diffblocks.beside(report), *diffblocks.ranks(report), *diffblocks.outside(report)]
    more += [*diffblocks.metrics(report), *diffblocks.runs(report)]
    parts = [html.Section([html.H2("What follows"), *blocks_of(said)])] if said else []
    return [*parts, html.Section([html.H2("Beside it"), *blocks_of(more)])] if more else parts


def at_options(report: DiffReport, state: State) -> list[dict[str, str]]:
    """The points that can be compared; "" is the one that the page chooses."""
    own = shown_point(report, "")
    known = dict.fromkeys(row.phase for row in report.phases)
    values = {"": f"the run's {own.at}" if own is not None else "the run's peak"}
    values |= {at: f"the run's {at}" for at in ("peak", "end") if own is None or own.at != at or state.at == at}
    for name in list(known)[:_PHASES]:
        values |= {f"phase:{name}:{which}": f"{cut(clean(name), 60)}: {which}" for which in ("peak", "end")}
    if state.at and state.at not in values:
        values[state.at] = cut(clean(state.at.removeprefix("phase:")), 70)
    return controls.data_of(values.items())


def rank_options(report: DiffReport, state: State) -> list[dict[str, str]]:
    """The ranks with what each moved by; "" is the worst."""
    point = shown_point(report, state.at)
    ranks = point.ranks if point is not None else ()
    worst = point.worst_rank if point is not None else None
    values = {"": f"worst: rank {worst}" if worst is not None else "worst"}
    for rank in ranks:
        delta = f"  {signed(rank.delta_bytes)}" if rank.delta_bytes is not None else "  not compared"
        values[str(rank.rank)] = f"rank {rank.rank}{delta}"
    if state.rank is not None:
        values.setdefault(str(state.rank), f"rank {state.rank}: not in both runs")
    return controls.data_of(values.items())
