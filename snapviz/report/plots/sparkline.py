"""A curve of a few pixels as a picture of its own, for the cell of a table.

Legend: C columns. The picture stands in an ``img``, where no style sheet reaches: its colours hold on dark and on
light.
"""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

from snapviz.report.plots.colours import BASE

__all__ = ["sparkline"]

Int64 = npt.NDArray[np.int64]

_WIDTH, _HEIGHT = 96, 20


def sparkline(low: Int64, high: Int64, floor: int, ceiling: int, colour: str = BASE) -> str:
    """A data URI: ``low`` and ``high`` [C] bytes of each column, drawn between ``floor`` and ``ceiling``.

    A column is as tall as what happened in it, so that no peak is lost, and is filled below.
    """
    tops, bottoms = _heights(high, floor, ceiling), _heights(low, floor, ceiling)
    count = len(tops)
    edges = (np.arange(count + 1) * _WIDTH / count).round().astype(int).tolist()
    outline = "".join(f"V{y}H{x}" for y, x in zip(tops, edges[1:], strict=True))
    back = "".join(f"V{y}H{x}" for y, x in zip(reversed(bottoms), reversed(edges[:-1]), strict=True))
    area = f'<path fill="{colour}" fill-opacity=".22" d="M0 {_HEIGHT}{outline}V{_HEIGHT}Z"/>'
    # a column in which nothing moves is a line: its stroke shows it
    line = f'<path fill="{colour}" stroke="{colour}" stroke-width="1.2" d="M0 {bottoms[0]}{outline}{back}Z"/>'
    box = f'viewBox="0 -1 {_WIDTH} {_HEIGHT + 2}" width="{_WIDTH}" height="{_HEIGHT + 2}" preserveAspectRatio="none"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{area}{line}</svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _heights(values: Int64, floor: int, ceiling: int) -> list[int]:
    """[C] pixels from the top; one level is drawn in the middle."""
    if ceiling <= floor:
        return [_HEIGHT // 2] * len(values)
    # exact: bytes beyond 2^53 stay integers
    return [_HEIGHT - int(value - floor) * _HEIGHT // (ceiling - floor) for value in values.tolist()]
