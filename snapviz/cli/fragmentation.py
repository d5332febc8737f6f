"""Explain why more memory is reserved than allocated, and why a request ran out of memory.

Every byte of reserved memory at a moment: requested, rounding, held back for other streams, and free, by what holds
it: whole segments that could be given back, segments that little keeps, and gaps in busy ones. Then what pins the
mostly free ones, how small the largest free block got in each phase, and of each time that memory ran out what was
asked for, why it did not fit, and what could help.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz fragmentation``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument(
        "--at",
        action="append",
        metavar="WHEN",
        help="peak (of reserved memory), end, phase:NAME[:peak|:end], event:N, oom (the last time memory ran out) or "
        "oom:N; repeatable (default: peak and end)",
    )
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz fragmentation``; 2 where a rank is broken or has no such moment, else 0."""
    options.check_output(args)
    from snapviz.analyze.fragmentation import DEFAULT_MOMENTS, fragmentation, parse_wanted
    from snapviz.analyze.run import load_run
    from snapviz.report.fragmentationtext import fragmentation_lines

    at = args.at or DEFAULT_MOMENTS
    for text in at:
        parse_wanted(text)
    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = fragmentation(found, at, args.rank, progress)
    options.write_report(args, report, lambda width: fragmentation_lines(report, width, args.top))
    # that only some ranks ran out of memory is nothing wrong with the others
    missing = [point for rank in report.ranks for point in rank.missing_points if not point.startswith("oom")]
    return 2 if report.broken or missing else 0
