"""Explain what is live at a moment, by category, module, owner or stack, and what a fix would save.

WHEN is the peak of the run by default. Every table sums to what is allocated then, and says how much of it was
recorded, annotated or inferred. --without takes allocations out and gives the exact peak of every phase as it would
have been, with nothing else changed: `--without dangling`, `--without category:gradient`, `--without 'owner:lm_head'`.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz peak``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument("--at", default="peak", metavar="WHEN", help="end, peak, phase:NAME[:peak|:end] (peak)")
    parser.add_argument(
        "--by",
        default="line",
        metavar="WHAT",
        help="line, category, owner, module, phase or stack: what rows are (line)",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="WHAT",
        help="take out dangling, category:NAME, owner:REGEX, module:REGEX, phase:REGEX or stack:REGEX; repeatable",
    )
    parser.add_argument("--depth", type=options.whole_number, metavar="N", help="parts of a module's path (all)")
    parser.add_argument("--no-fold", action="store_true", help="a row for each layer, not for all alike")
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz peak``; 2 where a rank is broken or has no such moment, else 0."""
    options.check_output(args)
    from snapviz.analyze.peak import Ask, peak
    from snapviz.analyze.run import load_run
    from snapviz.report.peaktext import peak_lines

    ask = Ask(args.at, args.by, tuple(args.without), not args.no_fold, args.depth)
    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = peak(found, ask, args.rank, progress)
    options.write_report(args, report, lambda width: peak_lines(report, width, args.top))
    return 2 if report.broken or report.missing else 0
