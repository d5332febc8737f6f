"""What all figures share: their layout, arrays as plotly packs them, pictures as paletted PNG.

Legend: R rows of pixels, C columns, K colours.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Figure", "figure", "packed", "png"]

Figure = dict[str, Any]
"""``{"data": […], "layout": {…}}`` of plotly's schema."""

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif'

_CODES = {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
_CODES |= {"float32": "f4", "float64": "f8"}


def figure(data: Sequence[dict[str, Any]], layout: dict[str, Any] | None = None) -> Figure:
    """A figure on a transparent ground, drawn for a light page: the page's style sheet recolours its text and grid."""
    shared: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13, "color": "#1b1f24"},
        "margin": {"l": 70, "r": 20, "t": 20, "b": 40},
        "hoverlabel": {"font": {"family": _FONT, "size": 13}, "namelength": -1},
        "uirevision": "kept",
        "modebar": {"orientation": "h"},
    }
    return {"data": list(data), "layout": shared | (layout or {})}


def packed(array: npt.NDArray[Any]) -> dict[str, str]:
    """An array as plotly.js reads it from JSON: a third of the size of its digits.

    64-bit integers have no code there; bytes beyond 2^53 would lose their last digits, and become float64.
    """
    if array.dtype.name not in _CODES:
        array = array.astype(np.float64)
    data = np.ascontiguousarray(array).tobytes()
    spec = {"dtype": _CODES[array.dtype.name], "bdata": base64.b64encode(data).decode()}
    if array.ndim > 1:
        spec["shape"] = ", ".join(map(str, array.shape))
    return spec


def png(indices: npt.NDArray[np.uint8], palette: Sequence[str]) -> str:
    """A picture as a data URI: ``indices`` [R, C], row 0 on top, into K ≤ 256 colours ``#rrggbb`` or ``#rrggbbaa``."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(indices, np.uint8), "P")
    colours = [bytes.fromhex(colour.removeprefix("#").ljust(8, "f")) for colour in palette]
    picture.putpalette(b"".join(colour[:3] for colour in colours))
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=False, compress_level=6, transparency=bytes(colour[3] for colour in colours))
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
