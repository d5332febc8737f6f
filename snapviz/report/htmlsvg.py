"""The drawings of a page: bars, the way from base to head, curves over time. SVG as text, in the page's colours.

Colours are classes of the page's style sheet: ``base`` grey, ``more`` orange, ``less`` blue, ``same``. Lengths
are units of each drawing's own box; ``_n`` writes them with one decimal.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapviz.analyze.timeline import Curve, Timeline, thinned
from snapviz.report.layout import clean, cut, cut_left
from snapviz.report.reasons import category_in_words
from snapviz.schema import Waterfall
from snapviz.units import format_bytes

__all__ = ["bars", "curves", "waterfall"]

_LABEL = 40
"""Characters of a name in a drawing, which is cut from its left: runs mostly differ in their ends."""


def bars(base: int | None, head: int | None, top: int) -> str:
    """Two bars, base's above head's, against the longest of the table. What they show stands beside them."""
    style = _way((head or 0) - (base or 0))
    parts = [
        f'<rect class="{name}" x="0" y="{y}" width="{_n(120 * value / top)}" height="6"/>'
        for value, name, y in ((base, "base", 2), (head, style, 10))
        if value and top
    ]
    return f'<svg class="bars" viewBox="0 0 120 18" width="120" height="18" aria-hidden="true">{"".join(parts)}</svg>'


def _way(delta: int) -> str:
    return "more" if delta > 0 else "less" if delta < 0 else "same"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# ------------------------------------------------------------------ from base to head

_WIDTH, _ROW, _BAR = 400, 38, 14


@dataclass(frozen=True)
class _Scale:
    """Bytes on the axis of a drawing, which need not begin at 0."""

    low: int
    high: int

    def x(self, count: int) -> float:
        return _WIDTH * (count - self.low) / max(1, self.high - self.low)


def waterfall(found: Waterfall, names: tuple[str, str]) -> tuple[str, int]:
    """The drawing, and the bytes that its axis begins at: not 0 where the steps would be too short to see."""
    levels = [found.from_bytes, found.to_bytes, *(step.to_bytes for step in found.steps)]
    low, high = min(levels), max(levels)
    scale = _Scale(max(0, low - (high - low) // 4) if low > 4 * (high - low) else 0, high)
    rows = [(names[0], format_bytes(found.from_bytes), scale.low, found.from_bytes, "base")]
    for step in found.steps:
        amount = format_bytes(step.delta_bytes, signed=True)
        rows.append(
            (category_in_words(step.what), _arrow(step.delta_bytes) + amount, step.from_bytes, step.to_bytes, "")
        )
    rows.append((names[1], format_bytes(found.to_bytes), scale.low, found.to_bytes, "base"))
    height = _ROW * len(rows)
    drawn = "".join(part for place, row in enumerate(rows) for part in _step(place, row, scale, len(rows)))
    label = html.escape(f"from {names[0]} to {names[1]}: " + ", ".join(f"{what} {amount}" for what, amount, *_ in rows))
    return (
        f'<svg class="waterfall" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{drawn}</svg>',
        scale.low,
    )


def _arrow(delta: int) -> str:
    return "▲ " if delta > 0 else "▼ "


def _step(place: int, row: tuple[str, str, int, int, str], scale: _Scale, of: int) -> Iterator[str]:
    what, amount, begin, end, style = row
    style = style or _way(end - begin)
    y = place * _ROW
    left, right = sorted((scale.x(begin), scale.x(end)))
    yield f'<text x="0" y="{y + 13}">{html.escape(cut_left(clean(what), _LABEL))}</text>'
    yield f'<text class="amount" x="{_WIDTH}" y="{y + 13}">{html.escape(amount)}</text>'
    width = _n(max(1.0, right - left))
    yield f'<rect class="{style}" x="{_n(min(left, _WIDTH - 1))}" y="{y + 18}" width="{width}" height="{_BAR}"/>'
    if place + 1 < of:
        x = _n(min(max(scale.x(end), 0.5), _WIDTH - 0.5))
        yield f'<line class="level" x1="{x}" y1="{y + 18 + _BAR}" x2="{x}" y2="{y + _ROW + 18}"/>'


# ------------------------------------------------------------------ over time

_ACROSS, _HIGH, _TOP = 900, 150, 22
_POINTS = 700
"""Points of one curve: as many as its drawing has columns."""


def curves(pair: tuple[Timeline, Timeline], names: tuple[str, str]) -> str:
    """Allocated bytes of base above head, on one scale of bytes, each over its own time."""
    top = max(1, *(one.allocated.peak_bytes for one in pair))
    delta = pair[1].allocated.peak_bytes - pair[0].allocated.peak_bytes
    styles = ("base", _way(delta))
    return "".join(_panel(*three, top) for three in zip(pair, names, styles, strict=True))


def _panel(one: Timeline, name: str, style: str, top: int) -> str:
    seconds = float(one.allocated.seconds[-1]) or 1.0
    across, up = _ACROSS / seconds, _HIGH / top
    peak = _TOP + _HIGH - one.allocated.peak_bytes * up
    parts = [*_bands(one, across), _area(one.allocated, style, across, up)]
    parts.append(f'<line class="peak" x1="0" y1="{_n(peak)}" x2="{_ACROSS}" y2="{_n(peak)}"/>')
    least = "" if one.whole else "≥ "
    about = f"{name}, rank {one.rank}: peak {least}{format_bytes(one.allocated.peak_bytes)}"
    end = f"{seconds:,.3g} s"
    parts.append(f'<text x="4" y="{_n(peak - 5)}">{html.escape(about)}</text>')
    parts.append(f'<text class="amount" x="{_ACROSS - 4}" y="{_n(peak - 5)}">{html.escape(end)}</text>')
    box = f'viewBox="0 0 {_ACROSS} {_TOP + _HIGH + 18}"'
    label = html.escape(f"allocated memory over time of {about}, end {format_bytes(one.allocated.end_bytes)}")
    return f'<svg class="curve" {box} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _bands(one: Timeline, across: float) -> Iterator[str]:
    for place, band in enumerate(one.bands):
        left, right = (min(_ACROSS, second * across) for second in (band.start_s, band.stop_s))
        if right <= left:
            continue
        name, width = clean(band.name), right - left
        shade = "band" if place % 2 else "band odd"
        box = f'x="{_n(left)}" y="{_TOP}" width="{_n(width)}" height="{_HIGH}"'
        yield f'<rect class="{shade}" {box}><title>{html.escape(cut(name, 80))}</title></rect>'
        if 6.5 * len(name) < width:
            yield f'<text class="band" x="{_n(left + 3)}" y="{_TOP + _HIGH + 13}">{html.escape(name)}</text>'


def _area(curve: Curve, style: str, across: float, up: float) -> str:
    kept: Sequence[int] = thinned(curve.seconds, curve.value_bytes, _POINTS).tolist()
    floor = _TOP + _HIGH
    # a value lasts until the next point
    steps = (f"H{_n(float(curve.seconds[at]) * across)}V{_n(floor - int(curve.value_bytes[at]) * up)}" for at in kept)
    return f'<path class="{style}" d="M0 {floor}{"".join(steps)}H{_ACROSS}V{floor}Z"/>'
