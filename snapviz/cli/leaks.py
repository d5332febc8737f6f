"""Say what each training step leaves behind, and which stacks grow from step to step.

Steps are the phases .../stepN, as recorded or annotated. For each: what is allocated at its end, and what
of it is still there later and when the run is over. What grows is listed by stack, with owner and
category: memory that is live at the end, older than anything of its stack was when it was freed, and that
again and again, so that optimizer state, workspaces, caches that fill up, prefetched batches and what is
freed a step later do not count.

Growth alone exits with 0. A rank that cannot be read exits with 2, and the report of the others is still
printed.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz leaks``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument(
        "--after",
        type=options.whole_number,
        default=1,
        metavar="K",
        help="steps that have to begin while memory lives before it counts as left behind (1)",
    )
    parser.add_argument(
        "--times",
        type=options.whole_number,
        default=3,
        metavar="N",
        help="steps in which a stack has to leave something behind to count as growing (3)",
    )
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz leaks``; 2 where a rank is broken, else 0."""
    options.check_output(args)
    from snapviz.analyze.growth import check_options
    from snapviz.analyze.leaks import leaks
    from snapviz.analyze.run import load_run
    from snapviz.report.growthtext import leaks_lines

    check_options(args.after, args.times)
    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = leaks(found, args.rank, args.after, args.times, progress)
    options.write_report(args, report, lambda width: leaks_lines(report, width, args.top))
    return 2 if report.broken else 0
