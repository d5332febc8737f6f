"""Write a run in another tool's format.

  viewer      the snapshot with our categories as colours, for pytorch.org/memory_viz
  perfetto    phases, counters and annotations over time, for ui.perfetto.dev (.gz where FILE ends so)
  speedscope  what is allocated at a moment, by stack, for speedscope.app
  collapsed   the same a line a stack, for flamegraph.pl and its like
  csv         a row for each allocation
  parquet     the same; needs pyarrow: pip install pyarrow

All ranks go into one FILE. Where {rank} stands in its name each rank gets a file of its own, and so it has to
be for the viewer, which takes one snapshot at a time; -o DIR, a folder that exists, does the same for it.
Without -o, or with -o -, a text format goes to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from snapviz.cli import options, output
from snapviz.cli.progress import Progress
from snapviz.errors import UsageError

if TYPE_CHECKING:
    from snapviz.analyze.facts import Facts
    from snapviz.analyze.moments import At
    from snapviz.analyze.run import Rank, Run
    from snapviz.report.exports.flames import Profile
    from snapviz.report.exports.rows import Rows
    from snapviz.schema import Moment

__all__ = ["add_arguments", "run"]

FORMATS = ("viewer", "perfetto", "speedscope", "collapsed", "csv", "parquet")

_BINARY = ("viewer", "parquet")
_APPLY = {
    "at": ("speedscope", "collapsed", "csv", "parquet"),
    "by": ("speedscope", "collapsed"),
    "frames": ("csv", "parquet"),
    "points": ("perfetto",),
}
"""Options that only some formats have, and which those are."""

_FRAMES = 20
_POINTS = 50_000
_RANK = "{rank}"
_STDOUT = "-"
_NAMED = 60
"""Phases that a message names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz export``."""
    what = "a run directory, a snapshot file, or a folder of them"
    parser.add_argument("path", metavar="RUN", type=options.path_text, help=what)
    parser.add_argument("--to", choices=FORMATS, required=True, help="the format")
    parser.add_argument(
        "--at",
        action="append",
        metavar="WHEN",
        help="peak, end, phase:NAME[:peak|:end]: the moment of a flame graph (speedscope: repeatable, peak and end; "
        "collapsed: peak); of csv and parquet only what is allocated then (default: every allocation)",
    )
    parser.add_argument("--by", choices=("category", "owner", "module", "phase"), help="root of a flame graph's stacks")
    parser.add_argument(
        "--frames",
        type=options.whole_number,
        metavar="N",
        help=f"innermost frames in the stacks of csv and parquet ({_FRAMES}; 0: the stack's number alone)",
    )
    parser.add_argument(
        "--points",
        type=options.whole_number,
        metavar="N",
        help=f"most points of a counter in perfetto, the peak always one of them ({_POINTS:,}; 0: every change)",
    )
    options.add_reading_arguments(parser)
    parser.add_argument("-o", "--output", type=options.path_text, metavar="FILE", help="write it there")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz export``; 2 where a rank is broken, else 0."""
    _check(args)
    from snapviz.analyze.moments import parse_at
    from snapviz.analyze.run import load_run

    points = [parse_at(text) for text in args.at or ()]
    with Progress(args.quiet) as progress:
        found = load_run(args.path, cache=not args.no_cache, progress=progress, rules=args.rules)
        ranks = found.ranks if args.rank is None else (found.rank(args.rank),)
        said: list[str] = []
        for target in _targets(args, found, ranks):
            _write(args, target, _Source(found, target.ranks, points, progress, said))
    failures = found.failures if args.rank is None else ()
    for one in failures:
        who = f"rank {one.rank}" if one.rank is not None else one.source
        said.append(f"{who} is not in it, for it could not be read: {one.message}" if who else one.message)
    _say(said)
    return 2 if failures else 0


# ------------------------------------------------------------------ what was asked for


def _check(args: argparse.Namespace) -> None:
    """Raises ``UsageError`` or ``OutputError`` for what cannot be done: before any work, not after it."""
    for option, formats in _APPLY.items():
        if getattr(args, option) is not None and args.to not in formats:
            raise UsageError(f"--{option} says nothing of {args.to}: it is for {', '.join(formats)}")
    if len(args.at or ()) > 1 and args.to != "speedscope":
        raise UsageError(f"--at twice: {args.to} holds one moment (speedscope holds several)")
    name = args.output or _STDOUT
    if name == _STDOUT:
        _check_stdout(args)
    elif args.to in _BINARY and name.endswith(".gz"):
        raise UsageError(f"{name}: nothing opens a compressed file of the format {args.to}: leave .gz away")
    elif _RANK not in name and not _is_folder_of_snapshots(args):
        output.check_file(Path(name), args.force)
    if args.to == "parquet":
        from snapviz.report.exports.parquet import check_pyarrow

        check_pyarrow()


def _check_stdout(args: argparse.Namespace) -> None:
    if args.to == "parquet" or (args.to == "viewer" and args.output is None):
        raise UsageError(f"{args.to} is written to a file: name it with -o FILE")
    with output.stdout() as stream:
        if args.to == "viewer" and stream.isatty():
            raise UsageError("viewer is no text, and standard output is a terminal: name a file with -o FILE")


def _is_folder_of_snapshots(args: argparse.Namespace) -> bool:
    # unlike Path.is_dir never an error: what cannot be looked at is told of by check_file
    return args.to == "viewer" and os.path.isdir(args.output)  # noqa: PTH112


@dataclass(frozen=True)
class _Target:
    """One file that is written, or stdout, and the ranks that are in it."""

    path: Path | None
    ranks: tuple[Rank, ...]


def _targets(args: argparse.Namespace, found: Run, ranks: Sequence[Rank]) -> list[_Target]:
    if not ranks:
        raise UsageError(f"{found.name}: no rank could be read: {found.failures[0].message}")
    groups = _snapshots(ranks) if args.to == "viewer" else [tuple(ranks)]
    name = args.output or _STDOUT
    if args.to == "viewer" and name != _STDOUT and _is_folder_of_snapshots(args):
        name = str(Path(name) / "rank{rank}.pickle")
        paths = [Path(name.replace(_RANK, f"{group[0].rank:05d}")) for group in groups]
    elif _RANK in name:
        groups = groups if args.to == "viewer" else [(rank,) for rank in ranks]
        paths = [Path(name.replace(_RANK, str(group[0].rank))) for group in groups]
    elif len(groups) > 1:
        raise UsageError(
            f"{found.name} has {len(groups)} snapshots, and the viewer takes one a file: write {_RANK} into FILE, "
            "such as -o 'rank{rank}.pickle', give a folder, or choose one by --rank"
        )
    else:
        paths = [Path(name)]
    if name == _STDOUT:
        return [_Target(None, groups[0])]
    for path in paths:
        output.check_file(path, args.force)
    return [_Target(path, group) for path, group in zip(paths, groups, strict=True)]


def _snapshots(ranks: Sequence[Rank]) -> list[tuple[Rank, ...]]:
    """The ranks by the file they are in: one file can hold several devices."""
    groups: dict[int, list[Rank]] = {}
    for rank in ranks:
        groups.setdefault(id(rank.snapshot), []).append(rank)
    return [tuple(group) for group in groups.values()]


# ------------------------------------------------------------------ what is written


@dataclass(frozen=True)
class _Source:
    """What the files are made from."""

    run: Run
    ranks: tuple[Rank, ...]
    points: Sequence[At]
    progress: Progress
    said: list[str]  # what the user is told when the progress has gone from the terminal

    def facts(self) -> Iterator[Facts]:
        """The facts of each rank; nobody else keeps them."""
        for rank in self.ranks:
            self.progress(f"analysing rank {rank.rank}")
            facts = replace(rank).facts(self.progress)
            if facts.truncated or not facts.exact:
                why = "begins in the middle" if facts.truncated else "is not exact"
                self.said.append(
                    f"rank {facts.rank}: the recording {why}; snapviz info says what its figures are worth"
                )
            self.progress(f"writing rank {rank.rank}")
            yield facts


def _write(args: argparse.Namespace, target: _Target, source: _Source) -> None:
    binary = args.to in _BINARY
    write: Callable[[Any], None] = partial(_WRITERS[args.to], args, source)
    if target.path is None:
        with output.stdout() as stream:
            write(cast(Any, stream).buffer if binary else stream)
    elif binary:
        output.write_stream(target.path, args.force, write)
    elif target.path.name.endswith(".gz"):
        output.write_stream(target.path, args.force, partial(_compressed, write))
    else:
        output.write_file(target.path, args.force, write)


def _compressed(write: Callable[[IO[str]], None], stream: IO[bytes]) -> None:
    import gzip
    import io

    # no name and no time in it: the same run gives the same file
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
        text = io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8")
        write(text)
        text.detach()


def _viewer(_: argparse.Namespace, source: _Source, stream: IO[bytes]) -> None:
    from snapviz.report.exports.viewer import write_viewer

    write_viewer(source.ranks[0].columns, list(source.facts()), stream)


def _perfetto(args: argparse.Namespace, source: _Source, stream: IO[str]) -> None:
    from snapviz.report.exports.perfetto import write_perfetto

    most = _POINTS if args.points is None else args.points
    write_perfetto(list(source.facts()), source.run.name, _exporter(), most, stream)


def _speedscope(args: argparse.Namespace, source: _Source, stream: IO[str]) -> None:
    from snapviz.report.exports.flames import write_speedscope

    write_speedscope(_profiles(args, source, ("peak", "end")), source.run.name, _exporter(), stream)


def _collapsed(args: argparse.Namespace, source: _Source, stream: IO[str]) -> None:
    from snapviz.report.exports.flames import write_collapsed

    write_collapsed(_profiles(args, source, ("peak",)), len(source.ranks) > 1, stream)


def _csv(args: argparse.Namespace, source: _Source, stream: IO[str]) -> None:
    from snapviz.report.exports.csvfile import write_csv

    write_csv(_rows(args, source), stream)


def _parquet(args: argparse.Namespace, source: _Source, stream: IO[bytes]) -> None:
    from snapviz.report.exports.parquet import write_parquet

    write_parquet(_rows(args, source), {"exporter": _exporter(), "run": source.run.name}, stream)


_WRITERS: dict[str, Callable[[argparse.Namespace, _Source, Any], None]] = {
    "viewer": _viewer,
    "perfetto": _perfetto,
    "speedscope": _speedscope,
    "collapsed": _collapsed,
    "csv": _csv,
    "parquet": _parquet,
}


def _exporter() -> str:
    from snapviz import __version__

    return f"snapviz {__version__}"


def _rows(args: argparse.Namespace, source: _Source) -> Iterator[Rows]:
    from snapviz.report.exports.rows import rows_of

    frames = _FRAMES if args.frames is None else args.frames
    if not source.points:
        for facts in source.facts():
            yield from rows_of(facts, None, frames)
        return
    for facts, _, when in _moments(source, source.points):
        yield from rows_of(facts, facts.replay.allocations.allocated_after(when.event), frames)


def _profiles(args: argparse.Namespace, source: _Source, default: Sequence[str]) -> list[Profile]:
    from snapviz.analyze.livestacks import live_stacks
    from snapviz.analyze.moments import parse_at
    from snapviz.report.exports.flames import Profile

    points = source.points or [parse_at(text) for text in default]
    return [Profile(facts, at.title, live_stacks(facts, when, args.by)) for facts, at, when in _moments(source, points)]


def _moments(source: _Source, points: Sequence[At]) -> list[tuple[Facts, At, Moment]]:
    """When each point is, rank by rank; not those that lack its phase. Raises ``UsageError`` where all do."""
    from snapviz.analyze.moments import moment
    from snapviz.analyze.stretches import Stretches

    found, known = [], dict[str, None]()
    for facts in source.facts():
        stretches = Stretches(facts)
        known |= dict.fromkeys(stretches.folded)
        for at in points:
            if (when := moment(facts, stretches, at)) is not None:
                found.append((facts, at, when))
            else:
                source.said.append(f"rank {facts.rank} has no phase {at.phase}: it is not in it")
    for at in points:
        if not any(at == one for _, one, _ in found):
            names = list(known)
            told = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
            raise UsageError(f"--at {at.text}: no such phase (there is: {told})")
    return found


def _say(said: Sequence[str]) -> None:
    from snapviz.report.layout import clean

    # print would take stdout where stderr is closed
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            for text in said:
                print(f"snapviz: {clean(text)}", file=sys.stderr)
