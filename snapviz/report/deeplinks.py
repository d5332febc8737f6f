"""Links into the dashboard from a finished diff: which words of it lead where.

``Href`` makes a URL of what a page is to show, by the names of the dashboard's state (``snapviz.app.state``): the
dashboard itself gives one that keeps all else it shows, a page outside it one of a ``Dashboard``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from snapviz.compare.rowkeys import group_key, row_keys
from snapviz.compare.verdict import grown, judged_of, worst_of
from snapviz.errors import UsageError
from snapviz.report.blocks import Block, Inline, Link, Paragraph, Table, prose
from snapviz.report.diffsaid import worst_rank
from snapviz.report.layout import Span, clean
from snapviz.report.reasons import Reason
from snapviz.schema import DiffReport, PhaseDelta
from snapviz.units import format_bytes

__all__ = ["Dashboard", "Href", "linked_phases", "linked_verdict", "reason_key", "run_id", "ways_in"]

Href = Callable[[Mapping[str, str]], str]
"""What to show (``{"row": "6f…"}``, ``{"page": "timeline"}``) → URL."""

_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~%:\[\]-]+(?:/[A-Za-z0-9._~%/-]*)?")
"""Characters that mean nothing in Markdown or HTML."""

_PAGES = ("timeline", "live", "ranks", "dangling", "segments")


@dataclass(frozen=True)
class Dashboard:
    """Where a dashboard is served, and what the two runs are called there."""

    url: str
    base: str
    head: str
    shown: Mapping[str, str] = field(default_factory=dict)
    # what every link shows beside, as a field of the dashboard's state → its value

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.url) or not urlsplit(self.url).netloc:
            raise UsageError(
                f"--dashboard {self.url}: use where it is served, as http://127.0.0.1:8050, without a query"
            )

    def href(self, shown: Mapping[str, str]) -> str:
        """The URL of a page that shows these runs."""
        page = shown.get("page", "compare")
        assert page in ("compare", *_PAGES)
        known = {"base": self.base, "head": self.head, **self.shown} | {
            key: one for key, one in shown.items() if key != "page"
        }
        path = "/" if page == "compare" else f"/{page}"
        return f"{self.url.rstrip('/')}{path}?{urlencode(known, safe='/:')}"


def run_id(path: str, root: str) -> str:
    """What a dashboard that serves ``root`` calls the run at ``path``: where it lies below it, or the name of a root
    that is the run itself.

    Raises ``UsageError`` for a run that does not.
    """
    found = _below(path.rstrip("/"), root.rstrip("/")) if "://" in root else _below_directory(path, root)
    if found is None:
        raise UsageError(f"{path} is not in {root}: --dashboard-root is the directory that the dashboard serves")
    return found


def _below(path: str, root: str) -> str | None:
    if path == root:
        return root.rpartition("/")[2]
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _below_directory(path: str, root: str) -> str | None:
    # as it was written first: a link within the root is found under its own name
    for real in (os.path.abspath, os.path.realpath):
        where, top = Path(real(path)), Path(real(root))
        if "://" not in path and where.is_relative_to(top):
            return where.relative_to(top).as_posix() if where != top else top.name
    return None


# ------------------------------------------------------------------ what leads where

_BYTES = re.compile(r"[0-9][0-9,.]* (?:B|KiB|MiB|GiB|TiB|PiB|EiB)\b")
_WORDS = re.compile(rf"{_BYTES.pattern}|[^\s,;()]+")


def ways_in(report: DiffReport, href: Href) -> list[Block]:
    """A line of links to the pages that show these runs."""
    first = next((point.at for point in report.points if worst_rank(point) is not None), "")
    ways = {"compare": {}, "timeline": {"page": "timeline"}, "what is live": {"page": "live", "at": first}}
    ways |= {"ranks": {"page": "ranks"}} if len(report.ranks) > 1 else {}
    ways |= {"what dangles": {"page": "dangling"}} if report.dangling else {}
    spans: list[Span] = [Span("in the dashboard: ", "faint")]
    for place, (words, shown) in enumerate(ways.items()):
        spans += [Span(" · ")] * bool(place)
        spans.append(Link(words, url=href({key: one for key, one in shown.items() if one})))
    return [Paragraph(spans)]


def linked_verdict(report: DiffReport, href: Href) -> Paragraph:
    """The verdict, its parameters' names and its bytes leading to what they are of."""
    movement, colon, cause = report.verdict.partition(": ")
    spans = list(_linked(movement, _moved(report, href), {}))
    if colon:
        amounts, names = _causes(report, href)
        spans += [Span(colon), *_linked(cause, amounts, names)]
    return Paragraph(spans, "lead")


_Where = tuple[str, int]
"""URL and exact bytes."""


def _linked(text: str, amounts: Mapping[str, _Where], names: Mapping[str, _Where]) -> Iterator[Span]:
    for span in prose(text):
        at = 0
        for found in _WORDS.finditer(span.text):
            is_amount = _BYTES.fullmatch(found[0]) is not None
            where = (amounts if is_amount else names).get(found[0])
            if where is not None:
                yield from [Span(span.text[at : found.start()], span.style)] if found.start() > at else []
                yield Link(found[0], "" if is_amount else "code", where[0], where[1] if is_amount else None)
                at = found.end()
        yield from [Span(span.text[at:], span.style)] if span.text[at:] else []


def _moved(report: DiffReport, href: Href) -> dict[str, _Where]:
    """What each point moved by, as a verdict writes it."""
    found: dict[str, _Where] = {}
    for point in report.points:
        judged = judged_of(point)
        delta = grown(worst_of(judged)) if judged else 0
        if delta:
            found.setdefault(format_bytes(abs(delta)), (href({"at": point.at}), delta))
    return found


def _causes(report: DiffReport, href: Href) -> tuple[dict[str, _Where], dict[str, _Where]]:
    """The amounts and the names of a cause: rows where one row has that much, else the step of a category."""
    amounts: dict[str, _Where] = {}
    names: dict[str, _Where] = {}
    for point in report.points:
        rank = worst_rank(point)
        if rank is None:
            continue
        for row, key in zip(rank.rows, row_keys(rank.rows), strict=True):
            if row.dangling:
                names.setdefault(clean(row.owner), (href({"row": key}), row.delta_bytes))
                amounts.setdefault(format_bytes(abs(row.delta_bytes)), (href({"row": key}), row.delta_bytes))
        steps = [one.steps for one in report.waterfall if (one.at, one.rank) == (point.at, rank.rank)]
        for step in steps[0] if steps else ():
            shown = {"at": point.at, "name": step.what}
            amounts.setdefault(format_bytes(abs(step.delta_bytes)), (href(shown), step.delta_bytes))
    for one in report.dangling:
        # rows that are grouped otherwise do not name it
        names.setdefault(clean(one.name), (href({"page": "dangling", "name": one.name}), one.block_bytes))
    return amounts, names


def linked_phases(table: Table, rows: Sequence[PhaseDelta], href: Href) -> Table:
    """A table of phases whose names lead to what is held at their peaks."""
    cells: list[tuple[Inline, ...]] = []
    for line, row in zip(table.rows, rows, strict=False):
        url = href({"at": f"phase:{row.phase}:peak"})
        cells.append(([Link(clean(row.phase), "code", url)], *line[1:]))
    return Table(table.caption, table.columns, tuple(cells), table.note)


def reason_key(category: str, reason: Reason) -> str:
    """The key of a row, or of rows that are told as one."""
    if len(reason.rows) == 1:
        return row_keys(reason.rows)[0]
    return group_key(category, reason.label, reason.birth, reason.delta > 0)
