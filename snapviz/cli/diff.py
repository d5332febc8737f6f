"""Explain the memory difference between two runs, to the byte.

Ranks are matched by number, phases by name (steps folded into the first and the later ones),
allocations by owner, category, phase of birth and stack. Line numbers and the checkout's path do not
count, and addresses never do. Every byte of the difference is in a row; rows that did not change are
counted. --by groups them otherwise, --mode and --measure say what is shown, and --threshold and --top how
much: what is not listed is summed in a line of its own.

A difference alone exits with 0. A budget (--fail-on FIGURE:LIMIT, as phase.train.peak:5% or dangling:0B) that is
hit on any rank exits with 1. A rank that cannot be read, or on which a budget cannot be judged, exits with 2, and
the report of the others is still printed. 'snapviz check --help' lists them.
"""

from __future__ import annotations

import argparse

from snapviz.cli import diffpages, options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz diff``."""
    parser.add_argument("base", metavar="BASE", type=options.path_text, help="what HEAD is compared with")
    parser.add_argument("head", metavar="HEAD", type=options.path_text, help="the run that is judged")
    parser.add_argument(
        "--at",
        action="append",
        metavar="WHEN",
        help="end, peak, phase:NAME[:peak|:end]; repeatable (default: end and peak of the run). NAME is a "
        "phase (train/step3), a folded one for all later steps (train/step), or what spans those below it (train)",
    )
    options.add_row_arguments(parser)
    options.add_budget_arguments(parser)
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser, diffpages.FORMATS)
    diffpages.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz diff``; 2 where a rank is broken, nothing could be compared or a budget not judged, 1 where a
    budget is exceeded, else 0."""
    options.check_output(args)
    diffpages.check(args)
    from snapviz.analyze.moments import DEFAULT_POINTS, parse_at
    from snapviz.analyze.run import load_run
    from snapviz.compare.budgets import exit_code, judge
    from snapviz.compare.diff import diff
    from snapviz.compare.spec import parse_budget
    from snapviz.compare.view import view_of
    from snapviz.report.difftext import diff_lines

    rows = options.row_arguments(args)
    view_of(**rows)
    points = args.at or DEFAULT_POINTS
    for point in points:
        parse_at(point)
    specs = [parse_budget(text) for text in args.fail_on]
    with Progress(args.quiet) as progress:
        base = load_run(args.base, cache=not args.no_cache, progress=progress, rules=args.rules)
        head = load_run(args.head, cache=not args.no_cache, progress=progress, rules=args.rules)
        report = diff(base, head, points, args.rank, progress, **rows)
        report = report.model_copy(update={"budgets": judge(base, head, specs, args.rank, progress)})
        pages = diffpages.pages(args, report, base, head, progress)
    options.write_report(args, report, lambda width: diff_lines(report, width, args.top), pages)
    unread = report.broken or not any(point.ranks for point in report.points)
    return 2 if unread else exit_code(report.budgets)
