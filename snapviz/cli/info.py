"""Say what a snapshot or a run holds.

What the file is and how far it can be trusted, every phase with peak and end in all four measures
(requested, allocated, active, reserved), what was live at the peak, and what dangles: original parameters
that outlived the phase that should have released them. Without a rank record nothing says which they
were, and there are suspects instead, with the evidence.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz info``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="PATH", type=options.path_text, help=what)
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz info``; 2 where a rank is broken, else 0."""
    options.check_output(args)
    from snapviz.analyze.info import info
    from snapviz.analyze.run import load_run
    from snapviz.report.infotext import info_lines

    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = info(found, args.rank, progress)
    options.write_report(args, report, lambda width: info_lines(report, width, args.top))
    return 2 if report.broken else 0
