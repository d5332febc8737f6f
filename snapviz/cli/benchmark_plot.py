"""Draw the memory of runs over time: allocated.png and reserved.png, a line for each run.

The two figures of accelerate's FSDP2 benchmark, from the events themselves: every allocation counts, where a
sampler sees one moment in 10 ms. The y axis is in MiB, the x axis in seconds since each run's first event,
or since the start of a phase (--from). Of each run the rank with the highest peak is drawn, or --rank. Faint
bands are the phases of the first run. A table of the same figures goes to stdout.

Drawing needs matplotlib: pip install matplotlib.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from snapviz.cli import options, output
from snapviz.cli.progress import Progress

if TYPE_CHECKING:
    from snapviz.analyze.run import RankFailure, Run
    from snapviz.analyze.timeline import Timeline

__all__ = ["add_arguments", "run"]

MEASURES: tuple[Literal["allocated", "reserved"], ...] = ("allocated", "reserved")
"""A figure for each, named after it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz benchmark-plot``."""
    what = "run directories, snapshot files, or folders of them"
    parser.add_argument("runs", metavar="RUN", nargs="+", type=options.path_text, help=what)
    parser.add_argument("--from", dest="since", metavar="PHASE", help="begin at this phase of each run, as train/step1")
    parser.add_argument("--title", metavar="TEXT", help="title of both figures")
    options.add_reading_arguments(parser)
    parser.add_argument("--format", choices=("png", "svg"), default="png", help="of the figures (png)")
    parser.add_argument(
        "-o",
        "--output",
        type=options.path_text,
        default=".",
        metavar="DIR",
        help="folder for the figures (the current one)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite figures that are there")


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz benchmark-plot``; 2 where a rank is broken, else 0."""
    places = {measure: Path(args.output) / f"{measure}.{args.format}" for measure in MEASURES}
    # before any work, not after it
    for place in places.values():
        output.check_file(place, args.force)
    from snapviz.analyze.run import load_run
    from snapviz.report.figures import check_matplotlib, draw
    from snapviz.report.timelinetext import timeline_lines

    check_matplotlib()
    with Progress(args.quiet) as progress:
        runs = [load_run(path, cache=not args.no_cache, progress=progress, rules=args.rules) for path in args.runs]
        found = [_worst(one, args, progress) for one in runs]
        progress("drawing")
        for measure, place in places.items():
            figure = draw(found, measure, args.title, args.since, args.format)
            output.write_bytes(place, args.force, figure)
    options.write_lines(lambda width: timeline_lines(found, args.since, width))
    # where one rank is asked for, those that are broken are others
    return 2 if args.rank is None and any(one.failures for one in runs) else 0


def _worst(run: Run, args: argparse.Namespace, progress: Progress) -> Timeline:
    """Of the rank that is asked for, else of the one with the highest allocated peak in what is drawn."""
    from snapviz.analyze.describe import fake_group_of
    from snapviz.analyze.timeline import timeline
    from snapviz.errors import RunError

    ranks = run.ranks if args.rank is None else (run.rank(args.rank),)
    found = []
    for rank in ranks:
        progress(f"analysing rank {rank.rank}")
        found.append(timeline(run.name, rank.facts(progress), args.since))
    if not found:
        raise RunError(f"{run.name}: no rank could be read: {run.failures[0].message}")
    worst = max(found, key=lambda one: (one.allocated.peak_bytes, -one.rank))
    broken = [f"{_who(one)} could not be read: {one.message}" if one.source else one.message for one in run.failures]
    fake = fake_group_of(run)
    return replace(
        worst,
        notes=(*([fake] if fake else []), *worst.notes),
        times_are_real=not fake,
        broken=tuple(broken) if args.rank is None else (),
    )


def _who(failure: RankFailure) -> str:
    return f"rank {failure.rank}" if failure.rank is not None else failure.source
