"""Judge a run by budgets, such as a limit to the peak of a phase.

A budget is FIGURE:LIMIT. FIGURE is one of:

  peak                  the highest allocated in the run
  end                   what is allocated when the run is over
  phase.NAME.peak       the highest allocated in a phase: train/step3, train/step (all later ones), train (all of it)
  phase.NAME.end        what is allocated at the end of the last phase of that name
  ….reserved            after peak or end: that measure (requested, allocated, active, reserved)
  ….category.NAME       after peak or end: allocations of a category (activation, gradient, …) at that moment
  category.NAME         the same at the peak of the run: short for peak.category.NAME
  dangling              the parameters that outlive the phase that should have released them, their sum
  growth                what a training step adds and later steps leave, per step, on average from the third on

LIMIT is 12GiB (at most so much), or with --baseline +512MiB or 5% (at most so much more than the baseline has; of
nothing any percentage is nothing). Every rank is judged, and the worst is named.

Exits with 0 where all budgets are kept on all ranks, with 1 where one is hit, and with 2 where a rank is broken or
missing, or a budget cannot be judged on it: a figure that is only a lower bound or an estimate is never within a limit.
"""

from __future__ import annotations

import argparse

from snapviz.cli import options
from snapviz.cli.progress import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz check``."""
    parser.add_argument("run_path", metavar="RUN", type=options.path_text, help="the run that is judged")
    what = "the run whose figures +512MiB and 5%% are added to"
    parser.add_argument("--baseline", metavar="RUN", type=options.path_text, help=what)
    options.add_budget_arguments(parser, required=True)
    options.add_reading_arguments(parser)
    options.add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz check``; 2 where a rank is broken or a budget cannot be judged, 1 where one is hit, else 0."""
    options.check_output(args)
    from snapviz.analyze.run import load_run
    from snapviz.compare.budgets import check, exit_code
    from snapviz.compare.spec import parse_budget
    from snapviz.report.budgettext import check_lines

    specs = [parse_budget(text) for text in args.fail_on]
    with Progress(args.quiet) as progress:
        reading = {"cache": not args.no_cache, "progress": progress, "rules": args.rules}
        base = load_run(args.baseline, **reading) if args.baseline else None
        head = load_run(args.run_path, **reading)
        report = check(head, specs, base, args.rank, progress)
    options.write_report(args, report, lambda width: check_lines(report, width, args.top))
    return 2 if report.broken else exit_code(report.budgets)
