"""List the parameters that outlived their sharding, who keeps them, and what they cost.

Dangling is an original, whole parameter that is live after the phase that should have released it. For
each: its names, shape, bytes, the phase it was made in, when it should have gone and when it went if it
went late, and which Python objects hold it, as the recorder found them. Then the peak of each phase
without them, and what to do about each kind of holder.

Where no record names the parameters, nothing is called dangling: there are suspects, with the evidence,
and why it cannot be told. What dangles exits with 0; a rank that cannot be read with 2.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz dangling``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument(
        "--all", action="store_true", help="a row for every parameter, with its stack: names that are alike not folded"
    )
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz dangling``; 2 where a rank is broken, else 0."""
    options.check_output(args)
    from snapviz.analyze.outlived import dangling
    from snapviz.analyze.run import load_run
    from snapviz.report.danglingtext import dangling_lines

    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = dangling(found, args.rank, progress)
    top = None if args.all else args.top
    options.write_report(args, report, lambda width: dangling_lines(report, width, top))
    return 2 if report.broken else 0
