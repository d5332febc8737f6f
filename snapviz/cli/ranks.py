"""Put the ranks of a run beside each other: which is worst, how far apart they are, and why.

For each rank its peak and end, what dangles, what its device holds outside the allocator, alloc retries
and OOMs; the spread between ranks, by phase too; outliers; and memory that a rank has on a device other
than its own. What makes the worst rank larger than the median one is told to the byte, as diff tells it
of two runs.

A difference between ranks exits with 0. A rank that is missing or cannot be read is a row, and exits
with 2.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz ranks``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument(
        "--at",
        default="peak",
        metavar="WHEN",
        help="peak or phase:NAME: whose peaks are compared (peak: of the run). NAME is a phase (train/step3), a folded "
        "one for all later steps (train/step), or what spans those below it (train)",
    )
    parser.add_argument(
        "--measure",
        choices=("requested", "allocated", "active", "reserved"),
        default="allocated",
        help="whose peaks are compared (allocated)",
    )
    options.add_reading_arguments(parser, "explain this rank's difference to the median one, not the worst's")
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz ranks``; 2 where a rank is broken, else 0."""
    options.check_output(args)
    from snapviz.analyze.moments import parse_at
    from snapviz.analyze.run import load_run
    from snapviz.compare.ranks import ranks
    from snapviz.errors import UsageError
    from snapviz.report.rankstext import ranks_lines

    at = parse_at(args.at)
    if not at.peak:
        raise UsageError(f"--at {args.at}: ranks compares peaks: use peak, phase:NAME or phase:NAME:peak")
    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = ranks(found, at.phase, args.measure, args.rank, progress)
    options.write_report(args, report, lambda width: ranks_lines(report, width, args.top))
    return 2 if report.broken else 0
