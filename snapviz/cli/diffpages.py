"""The pages of a diff, markdown and HTML, for the command: what they need beside the report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from snapviz.errors import UsageError

if TYPE_CHECKING:
    from snapviz.analyze.run import Rank, Run
    from snapviz.analyze.timeline import Timeline
    from snapviz.schema import DiffReport

__all__ = ["FORMATS", "add_arguments", "check", "pages", "timelines"]

FORMATS = ("text", "markdown", "html", "json")
"""What ``diff`` writes."""

_MARKER = "diff"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--marker."""
    parser.add_argument(
        "--marker",
        metavar="NAME",
        help=f"of markdown: the name in its hidden first line, by which a bot finds its comment ({_MARKER})",
    )


def check(args: argparse.Namespace) -> None:
    """Raises ``UsageError`` for a marker that cannot be one, or that no format has: before any work."""
    if args.marker is None:
        return
    if args.format != "markdown":
        raise UsageError("--marker is the first line of markdown: use it with --format markdown")
    from snapviz.report.markdown import check_marker

    check_marker(args.marker)


def pages(
    args: argparse.Namespace, report: DiffReport, base: Run, head: Run, progress: Callable[[str], None]
) -> Mapping[str, Callable[[], str]]:
    """Format → what writes it. Curves are computed here, while there is progress to show."""
    if args.format == "markdown":
        from snapviz.report.markdown import to_markdown

        return {"markdown": lambda: to_markdown(report, args.top, args.marker or _MARKER)}
    if args.format == "html":
        from snapviz.report.html import to_html

        found = timelines(report, base, head, progress)
        return {"html": lambda: to_html(report, found, args.top)}
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
