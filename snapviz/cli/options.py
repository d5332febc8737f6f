"""Options that several commands have, and what they do with a finished report."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from snapviz.errors import OutputError

if TYPE_CHECKING:
    from snapviz.report.layout import Line
    from snapviz.schema import DiffReport, InfoReport

__all__ = ["add_output_arguments", "add_reading_arguments", "check_output", "whole_number", "write_report"]

_WIDTH = 100
"""Columns where there is no terminal to ask: a pipe, a file, a CI log. COLUMNS overrules it."""


def whole_number(text: str) -> int:
    """An argument that is 0 or more."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """--rank, --no-cache, --quiet."""
    parser.add_argument("--rank", type=whole_number, metavar="N", help="only this rank")
    parser.add_argument("--no-cache", action="store_true", help="neither use nor fill the cache of decoded snapshots")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """--top, --format, -o, -f."""
    parser.add_argument("--top", type=whole_number, default=10, metavar="N", help="rows to show of each list (10)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default), or json")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the report there instead of stdout")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE")


def check_output(args: argparse.Namespace) -> None:
    """Raises ``OutputError`` where the report could not be written: before any work, not after it."""
    if args.output is None:
        return
    if args.output.is_dir():
        raise OutputError(f"{args.output}: is a folder")
    if args.output.exists() and not args.force:
        raise OutputError(f"{args.output}: exists already (-f overwrites it)")
    if not args.output.parent.is_dir():
        raise OutputError(f"{args.output}: there is no folder {args.output.parent}")


def write_report(args: argparse.Namespace, report: DiffReport | InfoReport, lines: Callable[[int], list[Line]]) -> None:
    """Writes a report as --format and -o say. ``lines`` lays it out for a width in columns."""
    if args.output is None:
        _write(args, report, lines, sys.stdout)
        return
    try:
        # beside the target and renamed: a reader never sees half a report, and a failure leaves the old
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=args.output.parent, delete=False) as stream:
            try:
                _write(args, report, lines, stream)
                stream.flush()
                _take_place(Path(stream.name), args.output, args.force)
            except BaseException:
                Path(stream.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{args.output}: {error.strerror or error}") from None


def _take_place(written: Path, target: Path, force: bool) -> None:
    mask = os.umask(0)
    os.umask(mask)
    written.chmod(0o666 & ~mask)
    if force:
        written.replace(target)
        return
    # a link fails where the name exists, also where someone made it since it was checked
    os.link(written, target)
    written.unlink()


def _write(
    args: argparse.Namespace, report: DiffReport | InfoReport, lines: Callable[[int], list[Line]], stream: IO[str]
) -> None:
    if args.format == "json":
        from snapviz.report.jsonout import to_json

        stream.write(to_json(report))
        return
    from snapviz.report.layout import write_lines

    terminal = stream is sys.stdout and stream.isatty()
    write_lines(lines(_width(terminal)), stream, colour=terminal and _coloured())


def _width(terminal: bool) -> int:
    if not terminal and not os.environ.get("COLUMNS"):
        return _WIDTH
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _coloured() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
