"""The upper half of Compare: the verdict with what to know before it, and what changed in which phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from dash import html

from snapviz.analyze.marks import PhaseWindow
from snapviz.analyze.sparks import Spark
from snapviz.app.pages.compare_blocks import blocks_of, spans_of
from snapviz.app.state import State
from snapviz.compare.verdict import told_apart
from snapviz.report import diffblocks, whyblocks
from snapviz.report.blocks import amount, change_of
from snapviz.report.deeplinks import Href, linked_verdict
from snapviz.report.difftables import short_names
from snapviz.report.environment import differences
from snapviz.report.layout import clean, cut
from snapviz.report.phaserows import Measure, mark_of, measures_of, phase_table
from snapviz.report.plots.colours import BASE, by_sign
from snapviz.report.plots.sparkline import sparkline
from snapviz.report.words import plural
from snapviz.schema import DiffReport, PhaseDelta, RankDelta, RankTrust
from snapviz.units import format_exact

__all__ = ["Drawings", "href_of", "named", "phases", "rank_of", "spark_image", "top"]

_NOTES = 6
"""Notes above the numbers; the others are folded away."""

_HOLDERS = 12
"""Holders of one parameter that are listed."""

_CHANGED, _SAME = 60, 60
"""Phases that are listed."""

_NAMED = 3
"""Differences around the runs that are named before they are opened."""


@dataclass(frozen=True)
class Drawings:
    """What is drawn of phases, and where each lies on the timeline."""

    base: Mapping[str, Spark] = field(default_factory=dict)  # phase → its shape, "" the whole recording
    head: Mapping[str, Spark] = field(default_factory=dict)
    windows: Mapping[str, PhaseWindow] = field(default_factory=dict)  # by phase
    steps: Mapping[str, str] = field(default_factory=dict)  # by phase: which it stands for, in words

    def data(self) -> list[Any]:
        """As JSON has it."""
        shapes = [{name: one.data() for name, one in side.items()} for side in (self.base, self.head)]
        return [*shapes, {name: astuple(one) for name, one in self.windows.items()}, dict(self.steps)]

    @classmethod
    def of(cls, data: Sequence[Any]) -> Drawings:
        """From ``data``."""
        base, head = ({name: Spark.of(one) for name, one in side.items()} for side in data[:2])
        return cls(base, head, {name: PhaseWindow(*one) for name, one in data[2].items()}, data[3])

    def window(self, phase: str) -> dict[str, str]:
        """What the timeline is asked for to show a phase."""
        found = self.windows.get(phase)
        if found is None:
            return {"align": phase}
        return {"align": found.align, "axis": found.kind, "x0": str(found.low), "x1": str(found.high)}


def href_of(state: State, prefix: str) -> Href:
    """Makes links that keep what the page shows, but for the drawer that is open, and lead to others as its own do."""
    here = state.with_(row=None)

    def href(shown: Mapping[str, str]) -> str:
        page = shown.get("page", here.page)
        changes = {key: value for key, value in shown.items() if key != "page"}
        return (here.with_(**changes) if page == here.page else here.to(page, **changes)).url(prefix)

    return href


def top(report: DiffReport, href: Href) -> list[Any]:
    """The verdict, and what has to be read before any number."""
    verdict = html.H1(spans_of(linked_verdict(report, href).text), id="verdict")
    said = [diffblocks.facts(report), *diffblocks.warnings(report, _NOTES), *diffblocks.every_note(report, _NOTES)]
    saves = html.Div(blocks_of(whyblocks.saving(report)), className="compare-saves")
    return [verdict, *_other_holders(report), saves, *blocks_of(said), *_unmatched(report), *_around(report)]


def _other_holders(report: DiffReport) -> list[Any]:
    """Who else holds the one parameter that the verdict is about; it names the holder that says most."""
    found = {one.name: one.holders for one in report.dangling if one.run == "head" and one.name in report.verdict}
    if len(found) != 1:
        return []
    name, holders = next(iter(found.items()))
    if len(holders) < 2:
        return []
    items = [html.Li(html.Code(cut(clean(holder), 300))) for holder in holders[:_HOLDERS]]
    summary = html.Summary(["… and ", plural(len(holders) - 1, "more holder"), " of ", html.Code(cut(clean(name), 80))])
    return [html.Details([summary, html.Ul(items)], className="compare-holders")]


def _unmatched(report: DiffReport) -> list[Any]:
    base, head = told_apart(report.base.name, report.head.name)
    sides = ((base, report.unmatched_base_ranks), (head, report.unmatched_head_ranks))
    told = [f"only in {clean(name)}: rank {', '.join(map(str, ranks[:32]))}" for name, ranks in sides if ranks]
    return [html.P("; ".join(told), className="faint")] if told else []


def _around(report: DiffReport) -> list[Any]:
    found = differences(report)
    if not found:
        return []
    named = [cut(clean(what), 48) for what, *_ in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    summary = html.Summary(["different around the runs: ", html.Span(", ".join(named) + more, className="faint")])
    return [html.Details([summary, *blocks_of(diffblocks.around(report))], className="compare-around")]


# ------------------------------------------------------------------ phases


@dataclass(frozen=True)
class _Look:
    """What every row of the table is made with."""

    state: State
    href: Href
    drawn: Drawings
    measures: Sequence[Measure]
    at: str
    # the point that is shown


def phases(report: DiffReport, state: State, href: Href, drawn: Drawings, at: str) -> list[Any]:
    """The table of phases of one rank, the run first, the changed ones, and folded away the others."""
    measures = measures_of(report)[:2]
    found = phase_table(report, measures, state.rank)
    look = _Look(state, href, drawn, measures, at)
    whole = next((rank for rank in report.ranks if rank.rank == rank_of(report, state)), None)
    # where nothing recorded a phase the whole recording is one, which is the first row already
    changed = [row for row in (found.changed if found else ()) if row.phase != "run"]
    rows = [_run_row(whole, look), *(_row(row, look) for row in changed[:_CHANGED])] if whole else []
    if not rows:
        which = "No rank" if state.rank is None else f"Rank {state.rank} is not compared: no such rank"
        return [html.P(f"{which} could be read in both runs.", className="faint")]
    who = found.who if found else ""
    parts = [_table(report, f"phases that changed{who}", rows), *_legend(changed)]
    if not changed and not (found and found.changed):
        parts.append(html.P(f"No phase changed{who}: neither its peak nor its end.", className="compare-same"))
    more = len(changed) - _CHANGED
    parts += [html.P(f"{plural(more, 'more phase')} changed: the JSON report has them", className="faint")] * (more > 0)
    if found and found.same:
        title = f"{plural(len(found.same), 'phase')} that did not change"
        same = _table(report, title, [_row(row, look) for row in found.same[:_SAME]])
        parts.append(html.Details([html.Summary(title), same]))
    return parts


def named(report: DiffReport, state: State) -> list[str]:
    """The phases whose shapes the table shows; "" is the whole recording."""
    found = phase_table(report, measures_of(report)[:2], state.rank)
    if found is None:
        return [""]
    return ["", *(row.phase for row in (*found.changed[:_CHANGED], *found.same[:_SAME]))]


def rank_of(report: DiffReport, state: State) -> int | None:
    """The rank whose phases are shown; none where none is compared."""
    if state.rank is not None:
        return state.rank if any(rank.rank == state.rank for rank in report.ranks) else None
    worst = next((point.worst_rank for point in report.points if point.worst_rank is not None), None)
    return worst if worst is not None else next((rank.rank for rank in report.ranks), None)


def _table(report: DiffReport, caption: str, rows: Sequence[Any]) -> Any:
    names = short_names(report)
    groups = [measure.heading for measure in measures_of(report)[:2]]
    above = [html.Td(), *(html.Th(text, colSpan=3, scope="colgroup") for text in groups), html.Td()]
    heads = [html.Th("phase", scope="col")]
    for _ in groups:
        heads += [*(html.Th(name, scope="col", className="number") for name in names)]
        heads.append(html.Th("Δ", scope="col", className="number"))
    heads.append(html.Td())
    table = html.Table(
        [
            html.Caption(caption, className="visually-hidden"),
            html.Thead([html.Tr(above, className="groups"), html.Tr(heads)]),
            html.Tbody(rows),
        ],
        className="compare-phases",
    )
    return html.Div(table, className="scroll", tabIndex=0, role="region", **{"aria-label": caption})


def _row(row: PhaseDelta, look: _Look) -> Any:
    point = f"phase:{row.phase}:peak"
    name = clean(row.phase)
    link = html.A(html.Code(cut(name, 80)), href=look.href({"at": point}), className="spa")
    steps = look.drawn.steps.get(row.phase, "")
    cells = [html.Th([link, html.Span(f" · {steps}", className="faint")] if steps else link, scope="row")]
    for measure in look.measures:
        shape = _shapes(row.phase, look) if measure.peak else (None, None)
        pair, marks, delta = measure.pair(row), measure.marks(row), measure.delta(row)
        cells += [_cell(*three) for three in zip(pair, marks, shape, strict=True)]
        cells.append(
            html.Td(spans_of([change_of(delta, arrow=True)]) if delta is not None else "–", className="number")
        )
    timeline = look.href({"page": "timeline", "at": point, **look.drawn.window(row.phase)})
    cells.append(html.Td(html.A("timeline", href=timeline, className="spa", **{"aria-label": f"timeline of {name}"})))
    return _tr(cells, look.at.removesuffix(":end").removesuffix(":peak") == f"phase:{row.phase}", row.comparable)


def _run_row(rank: RankDelta, look: _Look) -> Any:
    cells = [html.Th(html.A("the run", href=look.href({"at": "peak"}), className="spa"), scope="row")]
    for measure in look.measures:
        both = rank.peak if measure.peak else rank.end
        base, head = (int(getattr(side, measure.field)) for side in (both.base, both.head))
        marks = [_mark(side) if measure.peak else "" for side in (rank.base, rank.head)]
        shape = _shapes("", look) if measure.peak else (None, None)
        cells += [_cell(*three) for three in zip((base, head), marks, shape, strict=True)]
        # two recordings that begin late have highest values each, and no difference that means anything
        sure = not measure.peak or not (rank.base.truncated or rank.head.truncated)
        cells.append(html.Td(spans_of([change_of(head - base, arrow=True)]) if sure else "–", className="number"))
    timeline = look.href({"page": "timeline"})
    cells.append(html.Td(html.A("timeline", href=timeline, className="spa", **{"aria-label": "timeline of the run"})))
    return _tr(cells, look.at in ("peak", "end"), True)


def _mark(trust: RankTrust) -> str:
    return "≥ " if trust.truncated else "" if trust.exact else "~ "


def _tr(cells: Sequence[Any], here: bool, comparable: bool) -> Any:
    known: dict[str, Any] = {"aria-current": "true"} if here else {}
    return html.Tr(cells, className=f"{'here' * here}{'' if comparable else ' faint'}".strip(), **known)


def _cell(value: int | None, mark: str, shape: Any) -> Any:
    if value is None:
        return html.Td("–", className="number faint")
    return html.Td([*([shape] if shape is not None else []), *spans_of([amount(value, mark)])], className="number")


def _shapes(phase: str, look: _Look) -> tuple[Any, Any]:
    """The curves of a phase in both runs, on one scale."""
    both = [side.get(phase) for side in (look.drawn.base, look.drawn.head)]
    known = [one for one in both if one is not None]
    if not known:
        return None, None
    floor, ceiling = min(one.low_bytes for one in known), max(one.high_bytes for one in known)
    delta = known[-1].high_bytes - known[0].high_bytes
    colours = (BASE, by_sign(delta) if len(known) == 2 else BASE)
    images = [
        spark_image(one, floor, ceiling, colour) if one is not None else None
        for one, colour in zip(both, colours, strict=True)
    ]
    return images[0], images[1]


def spark_image(one: Spark, floor: int, ceiling: int, colour: str) -> Any:
    """A curve of a few pixels, with its exact lowest and highest in words."""
    told = f"lowest {format_exact(one.low_bytes)}, highest {format_exact(one.high_bytes)}, over {one.events:,} events"
    told += f" of {clean(one.phase)}" if one.phase else ""
    return html.Img(src=sparkline(one.low, one.high, floor, ceiling, colour), alt=told, title=told, className="spark")


def _legend(rows: Iterable[PhaseDelta]) -> list[Any]:
    told = list(rows)
    marks = {mark_of(trust) for row in told for trust in (row.base_trust, row.head_trust)}
    parts = ["≥ the recording does not have all of the phase"] * ("≥ " in marks) + ["~ not exact"] * ("~ " in marks)
    parts += ["grey: not compared, their sources differ"] * any(not row.comparable for row in told)
    return [html.P("; ".join(parts), className="faint")] if parts else []
