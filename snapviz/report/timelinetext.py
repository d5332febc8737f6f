"""The figures of timelines as a table: peak, trough and end in MiB, a row for each run."""

from __future__ import annotations

from collections.abc import Sequence

from snapviz.analyze.timeline import Timeline
from snapviz.report.layout import Column, Line, Span, clean, line, render_table, wrapped

__all__ = ["labels_of", "mib", "timeline_lines"]

_MIB = 1 << 20

_NOTES = 3
"""Notes of one run; `snapviz info` has all."""


def mib(count: int) -> str:
    """Bytes in MiB, always: ``1,000.79``. One unit, since a table of curves is read against their axis."""
    hundredths = (2 * count * 100 + _MIB) // (2 * _MIB)
    return f"{hundredths // 100:,}.{hundredths % 100:02}"


def labels_of(found: Sequence[Timeline]) -> list[str]:
    """Names of the runs for people, told apart by number where two have one."""
    names = [clean(one.run) for one in found]
    again = [name for name in names if names.count(name) > 1]
    return [f"{name} ({index + 1})" if name in again else name for index, name in enumerate(names)]


def timeline_lines(found: Sequence[Timeline], since: str | None, width: int = 100) -> list[Line]:
    """What could not be read and what is not certain, then a table for allocated and one for reserved memory."""
    labels = labels_of(found)
    lines: list[Line] = []
    for label, one in zip(labels, found, strict=True):
        for rank in one.broken:
            lines += wrapped(f"{label}: {clean(rank)}", width, "! ", "  ", "warning")
        for note in one.notes[:_NOTES]:
            lines += wrapped(f"{label}: {clean(note)}", width, "~ ", "  ")
    for measure in ("allocated", "reserved"):
        columns = [Column(f"{measure}, MiB", number=False), *map(Column, ("rank", "peak", "trough", "end"))]
        rows = []
        for label, one in zip(labels, found, strict=True):
            curve = getattr(one, measure)
            least = "" if one.whole else "≥ "
            cells = [str(one.rank), least + mib(curve.peak_bytes), mib(curve.trough_bytes), mib(curve.end_bytes)]
            rows.append([Span(label), *map(Span, cells)])
        lines += [*([line()] if lines else []), *render_table(columns, rows, width)]
    return lines + wrapped(_legend(found, since), width, "", "  ", "faint")


def _legend(found: Sequence[Timeline], since: str | None) -> str:
    of = f"from {clean(since)} on" if since is not None else "of all events"
    ways = list(dict.fromkeys(one.trough_since for one in found))
    if len(ways) > 1:
        named = list(zip(labels_of(found), found, strict=True))
        ways = [f"{way} in {' and '.join(n for n, one in named if one.trough_since == way)}" for way in ways]
    least = "; ≥ the recording begins in the middle" * (not all(one.whole for one in found))
    return f"{of}; trough: the lowest {', '.join(ways)}{least}"
