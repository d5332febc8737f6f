"""The pickle inside a page written by ``python -m torch.cuda._memory_viz trace_plot``.

The page holds ``const local_files = [{"name": "snapshot.pickle", "base64": "..."}]``
(torch/cuda/_memory_viz.py, ``_format_viz``; the same from 2.1 to 2.14).
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from snapviz.errors import SnapshotError
from snapviz.snapshot.spool import Buffer, spooled

__all__ = ["embedded_pickle"]

_VALUE = re.compile(rb'"base64"\s*:\s*"')  # literal on both sides of what repeats: linear on any page
_PIECE = 4 << 20
"""Characters decoded in one turn; a multiple of four, so that every piece stands by itself."""


def embedded_pickle(page: Buffer) -> tuple[Buffer, int]:
    """The first file embedded in a page, decoded, and how many there are.

    Raises ``SnapshotError``, with the offset in the page, where there is none or it is not base64.
    """
    first = _VALUE.search(page)
    if first is None:
        raise SnapshotError('an HTML page without an embedded snapshot (no "base64": in it)')
    start = first.end()
    end = page.find(b'"', start)
    if end < 0:
        raise SnapshotError("the embedded snapshot has no end: the page is cut short", offset=len(page))
    more = sum(1 for _ in _VALUE.finditer(page, end))
    return spooled(_decoded(page, start, end)), 1 + more


def _decoded(page: Buffer, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _PIECE):
        piece = page[at : min(at + _PIECE, end)]
        if at + _PIECE < end and piece.endswith(b"="):
            raise SnapshotError("the embedded snapshot goes on behind its padding", offset=at + _PIECE)
        try:
            yield binascii.a2b_base64(piece, strict_mode=True)
        except binascii.Error as error:
            raise SnapshotError(f"the embedded snapshot is not base64 ({error})", offset=at) from error
