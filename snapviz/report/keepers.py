"""What keeps dangling parameters, as lines of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from snapviz.compare.holders import keepers_of
from snapviz.report.layout import Line, Span, clean, width_of, wrapped
from snapviz.schema import Dangling, DiffRow

__all__ = ["Keepers", "kept_lines"]

_AROUND = len("kept by  (1,000 of 1,000)")
"""Columns of what stands around a path."""

_NARROWEST = 24
"""Columns a path keeps."""


class Keepers:
    """Who keeps what dangles in one rank, by the side and the owner of its rows."""

    def __init__(self, dangling: Iterable[Dangling], rank: int) -> None:
        self._found: dict[tuple[str, str], list[Dangling]] = {}
        for one in dangling:
            if one.rank == rank and one.run is not None:
                self._found.setdefault((one.run, one.name), []).append(one)

    def of(self, rows: Iterable[DiffRow]) -> list[Dangling]:
        """Those in dangling rows, of the side that has more of each."""
        keys = {(_side(row), row.owner): None for row in rows if row.dangling}
        return [one for key in keys for one in self._found.get(key, ())]

    def all_of(self, row: DiffRow) -> list[Dangling]:
        """All that dangles on the side that has more of it, where the row is all that does."""
        found = [some for (side, _), some in self._found.items() if row.dangling and side == _side(row)]
        return list(chain.from_iterable(found))


def _side(row: DiffRow) -> str:
    return "head" if row.delta_bytes >= 0 else "base"


def kept_lines(found: Sequence[Dangling], width: int, indent: int) -> list[list[Line]]:
    """For each kind of holder its lines, ``kept by …`` first; none where no holder is known."""
    around = _AROUND if len(found) > 1 else len("kept by ")
    phrases = keepers_of(found, max(_NARROWEST, width - indent - around), lambda text: width_of(clean(text)))
    out = []
    for index, phrase in enumerate(phrases):
        text = f"{'and ' if index else 'kept by '}{clean(phrase)}"
        lines = wrapped(text, width - indent, "", "  ")
        out.append([[Span(" " * indent), *spans] for spans in lines])
    return out
