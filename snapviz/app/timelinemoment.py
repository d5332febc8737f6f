"""What there is at the timeline's cursors, and all that is known of the allocation that was picked."""

from __future__ import annotations

from typing import Any

from dash import html

from snapviz.analyze.facts import MEASURES, Facts
from snapviz.analyze.phases import phase_of
from snapviz.analyze.picking import Lifetime, lifetime
from snapviz.app.controls import link, notice
from snapviz.app.state import State
from snapviz.app.timelinesides import SIDES, Sides
from snapviz.app.timelinewords import bytes_cell, signed_bytes
from snapviz.replay.model import START
from snapviz.report.layout import clean, cut
from snapviz.units import format_bytes, format_us

__all__ = ["allocation_panel", "cursor_panel", "under_words"]

_LONGEST = 160
_MEASURES = (*MEASURES[1:], MEASURES[0])
"""What the curves show first."""


def cursor_panel(sides: Sides, state: State, prefix: str) -> Any:
    """Exact bytes of both at their cursors, and where to look further."""
    put = any(sides.chosen)
    there = {"bt": sides.events[0] if sides.chosen[0] else None, "ht": sides.events[1] if sides.chosen[1] else None}
    links = [
        link("what is live then", state.to("live", **there), prefix),
        link("its segments", state.to("segments", **there), prefix),
        link("what dangles", state.to("dangling"), prefix),
    ]
    return html.Div(
        [
            html.H2("At the cursors" if put else cut(f"{sides.when[0].upper()}{sides.when[1:]}", _LONGEST)),
            *_astray(sides),
            _measures(sides),
            html.P([part for one in links for part in (one, " · ")][:-1], className="timeline-links"),
        ]
    )


def _astray(sides: Sides) -> list[Any]:
    """The sides that the moment in words does not hold for."""
    told = zip(SIDES, sides.astray, sides.chosen, strict=True)
    return [notice(f"{side} has no such phase: this is its peak.") for side, lost, put in told if lost and not put]


def _measures(sides: Sides) -> Any:
    shown = [at for at in (0, 1) if sides.facts[at] is not None]
    both = len(shown) == 2
    head = [html.Td(), *(html.Th(_where(sides, at), scope="col") for at in shown)]
    head += [html.Th("Δ", scope="col", className="number")] if both else []
    values = {at: _held(sides, at) for at in shown}
    rows = []
    for name in values[shown[0]]:
        numbers = [
            html.Td([bytes_cell(values[at][name]), _exact(values[at][name])], className="number") for at in shown
        ]
        delta = [html.Td(signed_bytes(values[1][name] - values[0][name]), className="number")] if both else []
        rows.append(
            html.Tr([html.Th(name, scope="row", className="dangling" * (name == "dangling")), *numbers, *delta])
        )
    caption = html.Caption("bytes just after an event")
    return html.Table([caption, html.Thead(html.Tr(head)), html.Tbody(rows)], className="timeline-measures")


def _exact(count: int) -> Any:
    return html.Div(f"{count:,}", className="exact")


def _held(sides: Sides, at: int) -> dict[str, int]:
    facts, event = sides.facts[at], sides.events[at]
    assert facts is not None
    assert event is not None
    held = facts.replay.after(event)
    found = {measure: int(getattr(held, f"{measure}_bytes")) for measure in _MEASURES}
    table = facts.replay.allocations
    dangling = table.allocated_after(event) & (facts.dangling_since <= event)
    if any(one is not None and one.dangling for one in sides.facts):
        found["dangling"] = int(table.block_bytes[dangling].sum())
    return found


def _where(sides: Sides, at: int) -> list[Any]:
    """Which event of a side is meant, its time and phase, and buttons to the events beside it."""
    facts, event = sides.facts[at], sides.events[at]
    assert facts is not None
    assert event is not None
    buttons = [
        html.Button(
            sign,
            id={"type": "timeline-step", "side": at, "by": by},
            type="button",
            className="tool",
            title=f"{SIDES[at]}: {told}",
            **{"aria-label": f"{SIDES[at]}: {told}"},
        )
        for sign, by, told in (("‹", -1, "one event back"), ("›", 1, "one event on"))
    ]
    return [
        html.Div([html.Span(SIDES[at]), *buttons], className="timeline-side"),
        html.Div(_event_words(facts, event), className="faint"),
    ]


def _event_words(facts: Facts, event: int) -> str:
    if event == START:
        return "before the first event"
    time = f", {format_us(_since_start(facts, int(facts.replay.time_us[event])))}" if facts.replay.has_times else ""
    phase = phase_of(facts.phases, event) if facts.phases.source != "none" else None
    return f"event {event:,} of {len(facts.replay):,}{time}" + (f", {cut(clean(phase), 60)}" if phase else "")


def under_words(sides: Sides, found: tuple[int, int, int | None] | None) -> str:
    """What lies under the pointer, in a line."""
    if found is None:
        return ""
    at, event, allocation = found
    facts = sides.facts[at]
    assert facts is not None
    held = facts.replay.after(event).allocated_bytes
    told = f"{SIDES[at]}: {format_bytes(held)} allocated after {_event_words(facts, event)}"
    if allocation is None:
        return told
    one = lifetime(facts, allocation)
    name = cut(clean(one.name or one.module), 60)
    dangles = ", dangling" if one.dangling is not None and event >= one.dangling.since_event else ""
    where = "" if name or not one.stack else f", made in {cut(clean(one.stack[0]), 80)}"
    return f"{name or 'an allocation'}: {format_bytes(one.block_bytes)}, {one.category}{dangles}{where} · {told}"


def _since_start(facts: Facts, time_us: int) -> int:
    return time_us - int(facts.replay.rising_us[0])


# ------------------------------------------------------------------ an allocation


def allocation_panel(sides: Sides, state: State, chosen: tuple[int, int] | None, prefix: str) -> Any:
    """All that is known of the allocation that was picked; how to pick one where none is."""
    if chosen is None:
        return [] if state.view else html.P("No allocation is picked: click a band.", className="faint")
    at, allocation = chosen
    facts = sides.facts[at]
    assert facts is not None
    one = lifetime(facts, allocation)
    name = cut(clean(one.name), _LONGEST) or cut(clean(one.module), _LONGEST) or f"allocation {allocation:,}"
    return html.Article(
        [
            html.H2([f"{name} ", html.Span(f"in {SIDES[at]}", className="faint")]),
            *_dangling(one, state, prefix),
            html.Dl([part for term, told in _terms(facts, one) for part in (html.Dt(term), html.Dd(told))]),
            html.H3("Stack, innermost first"),
            html.Pre("\n".join(map(clean, one.stack)) or "no stack was recorded", tabIndex=0),
        ],
        className="timeline-allocation",
    )


def _terms(facts: Facts, one: Lifetime) -> list[tuple[str, Any]]:
    size = f"{format_bytes(one.block_bytes)} ({one.block_bytes:,} bytes) in its block"
    asked = f"{format_bytes(one.requested_bytes)} ({one.requested_bytes:,} bytes) asked for"
    size += ", which may be larger: its beginning is not in the recording" if one.estimated else ""
    kind = f"{one.category}, {one.evidence}" + (f": {clean(one.why)}" if one.why else "")
    terms = [("size", html.Span([size, html.Br(), asked])), ("category", kind)]
    if one.module:
        terms.append(("module", cut(clean(one.module), _LONGEST)))
    born = _moment(facts, one.born_event, one.born_us) if one.born_event is not None else "before the recording"
    terms.append(
        ("born", f"{born}, in {cut(clean(one.birth_phase), _LONGEST)}" if one.born_event is not None else born)
    )
    terms.append(
        (
            "freed",
            _moment(facts, one.freed_event, one.freed_us)
            if one.freed_event is not None
            else "never: it lives to the end",
        )
    )
    if one.born_us is not None and one.freed_us is not None:
        terms.append(("lived", format_us(one.freed_us - one.born_us)))
    if one.freed_event is not None and one.reusable_event != one.freed_event + 1:
        late = "not in the recording" if one.reusable_event is None else f"after event {one.reusable_event:,}"
        terms.append(("block free", late))
    if one.recomputed:
        terms.append(("recomputed", "made by a forward that ran again in backward"))
    if one.suspected:
        terms.append(("may dangle", "; ".join(map(clean, one.suspected))))
    return terms


def _moment(facts: Facts, event: int, time_us: int | None) -> str:
    time = "" if time_us is None else f", {format_us(_since_start(facts, time_us))} after the first"
    return f"event {event:,}{time}"


def _dangling(one: Lifetime, state: State, prefix: str) -> list[Any]:
    """That it should have been gone, and who holds it."""
    if one.dangling is None:
        return []
    told = one.dangling
    gone = f"it goes in {clean(told.gone_in)}" if told.gone_in else "it is live at the end"
    shape = f" {told.dtype or ''} {list(told.shape)}" if told.shape is not None else ""
    holders = [html.Li(html.Code(cut(clean(holder), 300))) for holder in told.holders]
    kept = [html.Div("Kept by:"), html.Ul(holders)] if holders else [html.Div("Nobody who holds it is known.")]
    return [
        notice(
            f"{cut(clean(told.name), _LONGEST)}{shape} should have gone in {clean(told.should_go_in)}; {gone}. ",
            *kept,
            link("who holds it, and what it costs", state.to("dangling", name=told.name), prefix),
            grave=True,
            title="Dangling.",
        )
    ]
