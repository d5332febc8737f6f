"""The pages of a diff, markdown and HTML, for the command: what they need beside the report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from snapviz.errors import UsageError

if TYPE_CHECKING:
    from snapviz.analyze.run import Rank, Run
    from snapviz.analyze.timeline import Timeline
    from snapviz.report.deeplinks import Href
    from snapviz.schema import DiffReport

__all__ = ["FORMATS", "add_arguments", "check", "pages", "timelines"]

FORMATS = ("text", "markdown", "html", "json")
"""What ``diff`` writes."""

_MARKER = "diff"

_DASHBOARD, _ROOT = "SNAPVIZ_DASHBOARD", "SNAPVIZ_DASHBOARD_ROOT"
"""Environment variables for what the options of the same name say."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--marker, --dashboard and --dashboard-root."""
    parser.add_argument(
        "--marker",
        metavar="NAME",
        help=f"of markdown: the name in its hidden first line, by which a bot finds its comment ({_MARKER})",
    )
    parser.add_argument(
        "--dashboard",
        metavar="URL",
        help=f"of markdown and html: link phases and reasons into the dashboard that is served there ({_DASHBOARD})",
    )
    parser.add_argument(
        "--dashboard-root",
        metavar="DIR",
        help=f"what that dashboard serves: both runs lie below it ({_ROOT}, else the current directory)",
    )


def check(args: argparse.Namespace) -> None:
    """Raises ``UsageError`` for a marker or a dashboard that cannot be one, or that no format has: before any work."""
    if args.dashboard and args.format not in ("markdown", "html"):
        raise UsageError("--dashboard makes links in a page: use it with --format markdown or html")
    _href(args)
    if args.marker is None:
        return
    if args.format != "markdown":
        raise UsageError("--marker is the first line of markdown: use it with --format markdown")
    from snapviz.report.markdown import check_marker

    check_marker(args.marker)


def _href(args: argparse.Namespace) -> Href | None:
    """What makes links into the dashboard; none where no page is written, or nobody said where it is."""
    url = args.dashboard or os.environ.get(_DASHBOARD)
    if not url or args.format not in ("markdown", "html"):
        return None
    from snapviz.report.deeplinks import Dashboard, run_id

    root = args.dashboard_root or os.environ.get(_ROOT) or "."
    shown = {key: getattr(args, key) for key in ("rank", "by", "mode", "measure", "threshold")}
    usual = {"mode": "delta", "measure": "allocated"}
    shown = {key: str(value) for key, value in shown.items() if value is not None and value != usual.get(key)}
    return Dashboard(url, run_id(args.base, root), run_id(args.head, root), shown).href


def pages(
    args: argparse.Namespace, report: DiffReport, base: Run, head: Run, progress: Callable[[str], None]
) -> Mapping[str, Callable[[], str]]:
    """Format → what writes it. Curves are computed here, while there is progress to show."""
    href = _href(args)
    if args.format == "markdown":
        from snapviz.report.markdown import to_markdown

        return {"markdown": lambda: to_markdown(report, args.top, args.marker or _MARKER, href=href)}
    if args.format == "html":
        from snapviz.report.html import to_html

        found = timelines(report, base, head, progress)
        return {"html": lambda: to_html(report, found, args.top, href)}
    return {}


def timelines(
    report: DiffReport, base: Run, head: Run, progress: Callable[[str], None]
) -> tuple[Timeline, Timeline] | None:
    """The curves of the worst rank; none where no rank is compared, or its events carry no times."""
    number = next((point.worst_rank for point in report.points if point.worst_rank is not None), None)
    if number is None:
        return None
    one, other = (_timeline(run, number, progress) for run in (base, head))
    return (one, other) if one is not None and other is not None else None


def _timeline(run: Run, number: int, progress: Callable[[str], None]) -> Timeline | None:
    from dataclasses import replace

    from snapviz.analyze.describe import fake_group_of
    from snapviz.analyze.timeline import timeline
    from snapviz.errors import RunError

    try:
        found = timeline(run.name, _rank(run, number).facts(progress))
    except RunError:
        return None
    return replace(found, times_are_real=not fake_group_of(run))


def _rank(run: Run, number: int) -> Rank:
    """The rank of that number; the only one of a run where ranks were put beside each other as the only ones."""
    return run.ranks[0] if len(run.ranks) == 1 else run.rank(number)
