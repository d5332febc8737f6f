"""One run by itself, where no other is chosen: its peaks by phase, and what is live at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.marks import phase_window
from snapviz.analyze.peak import Ask, peak
from snapviz.analyze.phases import end_of_run
from snapviz.analyze.run import Run
from snapviz.analyze.sparks import Spark, spark_of, sparks
from snapviz.analyze.stretches import Stretch, Stretches
from snapviz.app import controls
from snapviz.app.pages.compare_blocks import spans_of
from snapviz.app.pages.compare_top import spark_image
from snapviz.app.state import State
from snapviz.errors import UsageError
from snapviz.report.blocks import amount
from snapviz.report.deeplinks import Href
from snapviz.report.layout import clean, cut, cut_left
from snapviz.report.peaktext import known_in_words, moment_in_words
from snapviz.report.phaserows import mark_of
from snapviz.report.plots.colours import BASE
from snapviz.report.reasons import category_in_words
from snapviz.report.words import broken_in_words, frames_in_words, plural
from snapviz.schema import LiveGroup, PeakReport, RankPeak, Trust

__all__ = ["ask_of", "at_choices", "rank_choices", "single", "usage_of"]

_PHASES, _GROUPS, _NOTES = 60, 60, 8

_MOST_PHASES = 5_000
"""Phases of a rank from which on their windows would take longer to find than the page to draw."""

_GROUPINGS = {"": "line", "rank": "line"}
"""What a state groups by that a moment of one run has under another name."""


def ask_of(run: Run, state: State) -> PeakReport:
    """What is live in a run at the state's moment, on its rank or on all. Raises ``SnapvizError``."""
    return peak(run, Ask(at=state.at or "peak", by=_GROUPINGS.get(state.by, state.by)), state.rank)


def single(report: PeakReport, facts: Facts, href: Href) -> tuple[list[Any], list[Any]]:
    """The page of one run, above and below its controls; ``facts`` are of the rank that is shown."""
    rank = next(one for one in report.ranks if one.rank == facts.rank)
    said, below = moment_in_words(report, rank)
    known = known_in_words(rank.known, rank.measures.allocated_bytes)
    text = f"{clean(report.run.name)}: {said}"
    above = [
        html.H1(spans_of(text), id="verdict"),
        html.P(below, className="faint"),
        *_warnings(report, rank),
        html.P([*([known, ". "] if known else []), "Choose a second run above to compare it."], className="faint"),
        html.Section([html.H2("Phases"), *_phases(facts, href, report.at)]),
    ]
    largest = [html.Section([html.H2(_TITLES[report.by]), *_groups(report, rank, href)])]
    categories = html.Section([html.H2("What is live then, by category"), _categories(rank)])
    return above, [categories, *(largest if report.by != "category" else []), *_ranks(report, href)]


_TITLES = {
    "line": "The largest",
    "owner": "By owner",
    "phase": "By phase of birth",
    "stack": "By stack",
    "module": "By module",
    "category": "By category",
}


def _warnings(report: PeakReport, rank: RankPeak) -> list[Any]:
    grave = [
        f"{broken_in_words(one)} is not in these numbers: {one.message}" if one.source else one.message
        for one in report.broken
    ]
    grave += [f"rank {number} has no such moment" for number in report.missing[:_NOTES]]
    notes = [*report.notes, *rank.notes]
    more = len(notes) - _NOTES
    told = [*notes[:_NOTES], *([f"and {plural(more, 'more note')}"] if more > 0 else [])]
    lists = [(some, is_grave) for some, is_grave in ((grave, True), (told, False)) if some]
    return [
        controls.notice(html.Ul([html.Li(spans_of(clean(text))) for text in some]), grave=is_grave)
        for some, is_grave in lists
    ]


# ------------------------------------------------------------------ phases


def _phases(facts: Facts, href: Href, at: str) -> list[Any]:
    found = Stretches(facts).folded
    names = sorted(found, key=lambda name: min(one.first for one in found[name]))
    shapes = {"": spark_of(facts.replay, 0, len(facts.replay))} | dict(sparks(facts, names[:_PHASES]))
    rows = [_run_row(facts, shapes[""], href, at)]
    rows += [_phase_row(name, found[name], shapes, href, at, _window(facts, name)) for name in names[:_PHASES]]
    heads = ["phase", "allocated", "peak", "end", "reserved peak", ""]
    head = html.Tr(
        [html.Th(text, scope="col", className="number" if 1 < i < 5 else "") for i, text in enumerate(heads)]
    )
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="compare-phases")
    more = len(names) - _PHASES
    note = [html.P(f"and {plural(more, 'more phase')}", className="faint")] if more > 0 else []
    return [
        html.Div(table, className="scroll", tabIndex=0, role="region", **{"aria-label": "phases of the run"}),
        *note,
    ]


def _run_row(facts: Facts, shape: Spark, href: Href, at: str) -> Any:
    replay = facts.replay
    peaks = [replay.peak(measure, 0, len(replay))[0] for measure in ("allocated", "reserved")]
    mark = "≥ " if facts.truncated else "" if facts.exact else "~ "
    sizes = (peaks[0], replay.after(end_of_run(facts)).allocated_bytes, peaks[1])
    links = ("the run", href({"at": "peak"}), href({"page": "timeline"}))
    return _tr(links, shape, sizes, mark, at in ("peak", "end"))


def _window(facts: Facts, name: str) -> dict[str, str]:
    """What the timeline is asked for to show a phase."""
    found = phase_window((facts,), name) if len(facts.phases) <= _MOST_PHASES else None
    if found is None:
        return {"align": name}
    return {"align": found.align, "axis": found.kind, "x0": str(found.low), "x1": str(found.high)}


def _phase_row(
    name: str, some: Sequence[Stretch], shapes: Mapping[str, Spark], href: Href, at: str, window: Mapping[str, str]
) -> Any:
    allocated, reserved = MEASURES.index("allocated"), MEASURES.index("reserved")
    last = max(some, key=lambda one: one.stop)
    peaks = [max(int(one.peak[column]) for one in some) for column in (allocated, reserved)]
    point = f"phase:{name}:peak"
    links = (cut(clean(name), 80), href({"at": point}), href({"page": "timeline", "at": point, **window}))
    sizes = (peaks[0], last.end_allocated, peaks[1])
    here = at.removesuffix(":end").removesuffix(":peak") == f"phase:{name}"
    return _tr(links, shapes.get(name), sizes, mark_of(_least_of([one.trust for one in some])), here)


def _least_of(trusts: Sequence[Trust]) -> Trust:
    return min(trusts, key=lambda one: (one.whole or one.counted, one.exact))


def _tr(links: tuple[str, str, str], shape: Spark | None, sizes: Sequence[int], mark: str, here: bool) -> Any:
    name, point, timeline = links
    cells = [html.Th(html.A(html.Code(name), href=point, className="spa"), scope="row")]
    image = [spark_image(shape, shape.low_bytes, shape.high_bytes, BASE)] if shape is not None else []
    cells.append(html.Td(image))
    cells += [
        html.Td(spans_of([amount(size, one)]), className="number")
        for size, one in zip(sizes, (mark, "", mark), strict=True)
    ]
    cells.append(html.Td(html.A("timeline", href=timeline, className="spa", **{"aria-label": f"timeline of {name}"})))
    return html.Tr(cells, className="here" * here)


# ------------------------------------------------------------------ what is live


def _categories(rank: RankPeak) -> Any:
    rows = [_category_cells(one, rank) for one in rank.categories]
    heads = ["category", "bytes", "share", "allocations", "known how", "of it dangling"]
    return controls.table("what is live, by category", heads, rows, (1, 2, 3, 5))


def _category_cells(one: LiveGroup, rank: RankPeak) -> list[Any]:
    dangling = spans_of([amount(one.dangling_bytes)]) if one.dangling_bytes else ""
    cells = [category_in_words(one.label), spans_of([amount(one.live_bytes)]), _share(one, rank)]
    return [*cells, f"{one.live_count:,}", one.evidence, dangling]


def _share(one: LiveGroup, rank: RankPeak) -> Any:
    total = max(1, rank.measures.allocated_bytes)
    tenths = one.live_bytes * 1000 // total
    words = "<0.1%" if one.live_bytes and not tenths else f"{tenths / 10:.1f}%"
    bar = html.Span(style={"width": f"{tenths / 10:.1f}%"})
    return html.Span([html.Span(bar, className="compare-bar", **{"aria-hidden": "true"}), words])


def _groups(report: PeakReport, rank: RankPeak, href: Href) -> list[Any]:
    groups = rank.groups[:_GROUPS]
    rows = [_group_cells(one) for one in groups]
    rest = rank.groups[_GROUPS:]
    if rest:
        size = sum(one.live_bytes for one in rest)
        count = sum(one.live_count for one in rest)
        rows.append([f"in {plural(len(rest), 'more row')}", "", spans_of([amount(size)]), f"{count:,}", ""])
    total = sum(one.live_bytes for one in rank.groups)
    rows.append(
        [html.Strong("total"), "", spans_of([amount(total)]), f"{sum(o.live_count for o in rank.groups):,}", ""]
    )
    heads = ["what", report.by if report.by != "line" else "name", "bytes", "allocations", "made in"]
    live = html.A("all of it, as an icicle", href=href({"page": "live", "at": report.at}), className="spa")
    return [controls.table("what is live", heads, rows, (2, 3)), html.P(live)]


def _group_cells(one: LiveGroup) -> list[Any]:
    dangles = bool(one.dangling_bytes) and one.dangling_bytes == one.live_bytes
    what = html.Span("dangling parameter", className="dangling") if dangles else category_in_words(one.category)
    label = html.Code(cut_left(clean(one.label), 90)) if one.label else ""
    stack = html.Code(frames_in_words(one.stack, None, 90)) if one.stack else ""
    return [what or "several", label, spans_of([amount(one.live_bytes)]), f"{one.live_count:,}", stack]


def _ranks(report: PeakReport, href: Href) -> list[Any]:
    if len(report.ranks) < 2:
        return []
    held = sorted(report.ranks, key=lambda one: (-one.measures.allocated_bytes, one.rank))[:64]
    rows = [
        [
            html.A(f"rank {one.rank}", href=href({"rank": str(one.rank)}), className="spa"),
            clean(one.moment.phase or "–"),
        ]
        + [spans_of([amount(size)]) for size in (one.measures.allocated_bytes, one.measures.reserved_bytes)]
        for one in held
    ]
    table = controls.table("every rank then", ["rank", "in", "allocated", "reserved"], rows, (2, 3))
    return [html.Section([html.H2("Every rank"), table])]


# ------------------------------------------------------------------ what can be chosen


def at_choices(facts: Facts, state: State) -> list[dict[str, str]]:
    """The moments of one run."""
    values = {"": "the run's peak", "end": "the run's end"}
    for name in list(Stretches(facts).folded)[:400]:
        values |= {f"phase:{name}:{which}": f"{cut(clean(name), 60)}: {which}" for which in ("peak", "end")}
    if state.at:
        values.setdefault(state.at, cut(clean(state.at), 70))
    return controls.data_of(values.items())


def rank_choices(ranks: Sequence[int], state: State) -> list[dict[str, str]]:
    """The ranks of one run; "" is the one that holds most."""
    values = {"": "highest"} | {str(rank): f"rank {rank}" for rank in ranks}
    if state.rank is not None:
        values.setdefault(str(state.rank), f"rank {state.rank}")
    return controls.data_of(values.items())


def usage_of(found: PeakReport) -> None:
    """Raises ``UsageError`` where no rank has the moment."""
    if not found.ranks:
        raise UsageError(f"{found.run.name}: no rank that could be read has this moment")
