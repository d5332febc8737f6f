"""What is shown of a run in a list of runs, how they are sorted, and what finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dash import html

from snapviz.app.runs import RunEntry
from snapviz.report.layout import clean, cut
from snapviz.units import format_bytes

__all__ = ["COLUMNS", "NAMES", "Column", "matching", "name_of", "ordered"]

_LONGEST = 120
"""Characters of a text from a file."""

_NOT_KNOWN = "—"


def name_of(entry: RunEntry) -> str:
    """A run's id, or the name of what was dropped, as it can be shown."""
    return cut(clean(entry.name if entry.uploaded else entry.id), _LONGEST)


def _branch(entry: RunEntry) -> str:
    return cut(clean(entry.branch), 60) or _NOT_KNOWN


def _commit(entry: RunEntry) -> Any:
    if not entry.commit:
        return _NOT_KNOWN
    git = entry.manifest.git if entry.manifest else None
    dirty = [" ", html.Span("dirty", className="badge", title="with changes that were not committed")]
    return [
        html.Code(clean(entry.commit[:7]), title=cut(clean(entry.commit), 64)),
        *(dirty if git and git.dirty else []),
    ]


def _when(entry: RunEntry) -> Any:
    created = _created(entry)
    if created is not None:
        return html.Span(created.strftime("%Y-%m-%d %H:%M"), title=f"recorded {created.isoformat()}")
    if entry.changed_s is None:
        return _NOT_KNOWN
    written = datetime.fromtimestamp(entry.changed_s, UTC)
    told = f"no record says when: its last file was written {written.isoformat()}"
    return html.Span(written.strftime("%Y-%m-%d"), title=told, className="faint")


def _created(entry: RunEntry) -> datetime | None:
    try:
        found = datetime.fromisoformat(entry.manifest.created) if entry.manifest and entry.manifest.created else None
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC) if found else None


def _ranks(entry: RunEntry) -> str:
    world = entry.manifest.world_size if entry.manifest else None
    return f"{entry.snapshots:,} of {world:,}" if world else f"{entry.snapshots:,}"


def _torch(entry: RunEntry) -> str:
    return cut(clean(entry.manifest.torch or ""), 24) or _NOT_KNOWN if entry.manifest else _NOT_KNOWN


def _device(entry: RunEntry) -> str:
    return cut(clean(entry.manifest.device or ""), 40) or _NOT_KNOWN if entry.manifest else _NOT_KNOWN


def _size(entry: RunEntry) -> Any:
    return html.Span(format_bytes(entry.size_bytes), title=f"{entry.size_bytes:,} bytes")


def _kind(entry: RunEntry) -> Any:
    if entry.kind == "run":
        return html.Span("recorded", title="with names, phases and holders")
    told = "a snapshot alone" if entry.kind == "snapshot" else "snapshots alone"
    return html.Span("bare", title=f"{told}: without names and exact phases", className="faint")


@dataclass(frozen=True)
class Column:
    """A column: its head, the key that it is sorted by ("": it is not), its cell, and whether a run has one."""

    title: str
    key: str
    cell: Callable[[RunEntry], Any]
    style: str = ""

    def known(self, entry: RunEntry) -> bool:
        """Whether anything is known of it."""
        return not entry.problem and self.cell(entry) != _NOT_KNOWN


NAMES = Column("Run", "name", name_of)

COLUMNS = (
    Column("Branch", "branch", _branch),
    Column("Commit", "", _commit),
    Column("Recorded", "recorded", _when, "when"),
    Column("Ranks", "ranks", _ranks, "number"),
    Column("torch", "torch", _torch),
    Column("Device", "device", _device),
    Column("Size", "size", _size, "number"),
    Column("Kind", "kind", _kind),
)
"""Beside the run itself."""


def ordered(entries: list[RunEntry], view: str) -> list[RunEntry]:
    """Runs in the order of a column's key, or with ``-`` before it the other way round."""
    order = _ORDERS.get(view.lstrip("-"), _ORDERS["name"])
    return sorted(entries, key=lambda entry: (order(entry), entry.id), reverse=view.startswith("-"))


_ORDERS: dict[str, Callable[[RunEntry], Any]] = {
    "name": lambda entry: entry.id.lower(),
    "branch": lambda entry: entry.branch.lower(),
    "recorded": lambda entry: created.timestamp() if (created := _created(entry)) else entry.changed_s or 0.0,
    "ranks": lambda entry: entry.snapshots,
    "torch": _torch,
    "device": lambda entry: _device(entry).lower(),
    "size": lambda entry: entry.size_bytes,
    "kind": lambda entry: entry.kind,
}


def matching(entries: list[RunEntry], text: str) -> list[RunEntry]:
    """Runs that have every word of a text somewhere in what is known of them."""
    words = text.lower().split()
    return [entry for entry in entries if all(word in _searched(entry) for word in words)]


def _searched(entry: RunEntry) -> str:
    manifest = entry.manifest
    said = (manifest.torch or "", manifest.device or "", manifest.created or "", manifest.name) if manifest else ()
    return " ".join((entry.id, entry.branch, entry.commit, entry.problem, *said)).lower()
