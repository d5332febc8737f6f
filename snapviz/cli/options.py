"""Options that several commands have, and what they do with a finished report."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from snapviz.cli import output

if TYPE_CHECKING:
    from snapviz.report.layout import Line
    from snapviz.schema import Model

__all__ = [
    "add_budget_arguments",
    "add_output_arguments",
    "add_reading_arguments",
    "add_row_arguments",
    "check_output",
    "path_text",
    "row_arguments",
    "whole_number",
    "write_lines",
    "write_report",
]

_WIDTH = 100
"""Columns where there is no terminal to ask: a pipe, a file, a CI log. COLUMNS overrules it."""


def whole_number(text: str) -> int:
    """An argument that is 0 or more."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def path_text(text: str) -> str:
    """An argument that names a file or a folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing")
    return text


def _file(text: str) -> Path:
    return Path(path_text(text))


def add_reading_arguments(parser: argparse.ArgumentParser, rank: str = "only this rank") -> None:
    """--rank, --rules, --no-cache, --quiet; ``rank`` is what --rank means."""
    parser.add_argument("--rank", type=whole_number, metavar="N", help=rank)
    parser.add_argument(
        "--rules", type=path_text, metavar="FILE", help="your own rules of what stacks mean (TOML), tried before ours"
    )
    parser.add_argument("--no-cache", action="store_true", help="neither use nor fill the cache of decoded snapshots")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")


def add_row_arguments(parser: argparse.ArgumentParser) -> None:
    """--by, --mode, --measure, --threshold, --mask: what is allowed is checked where the library checks it."""
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="group the rows by stack, phase, category, owner, module or rank (default: by owner, category, phase and "
        "stack together)",
    )
    parser.add_argument(
        "--mode",
        default="delta",
        metavar="MODE",
        help="delta: what changed, the largest difference first (default); ratio: the largest factor first; absolute: "
        "all there is, the largest first",
    )
    parser.add_argument(
        "--measure",
        default="allocated",
        metavar="BYTES",
        help="whose bytes, and whose peak: requested, allocated (default), active or reserved",
    )
    parser.add_argument(
        "--threshold",
        metavar="SIZE",
        help="sum rows below it in one line: a size (10MiB), or a share (1%%) of all that changed, in mode absolute of "
        "the total; what dangles is always listed",
    )
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="REGEX",
        help="leave frames whose 'function (file)' it matches, and parts of names that it matches whole, out of the "
        "matching; repeatable",
    )


def row_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The same, as the arguments of ``snapviz.diff``."""
    return {name: getattr(args, name) for name in ("by", "mode", "measure", "threshold", "mask")}


def add_budget_arguments(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """--fail-on."""
    parser.add_argument(
        "--fail-on",
        action="append",
        default=None if required else [],
        required=required,
        metavar="BUDGET",
        help="FIGURE:LIMIT, such as phase.train.peak:5%%, peak:+512MiB, end.reserved:12GiB or dangling:0B; exits "
        "with 1 where a rank has more; repeatable",
    )


def add_output_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json")) -> None:
    """--top, --format, -o, -f."""
    parser.add_argument("--top", type=whole_number, default=10, metavar="N", help="rows to show of each list (10)")
    told = ", ".join(["text for people (default)", *formats[1:-1]]) + f" or {formats[-1]}"
    parser.add_argument("--format", choices=formats, default="text", help=told)
    parser.add_argument("-o", "--output", type=_file, metavar="FILE", help="write the report there instead of stdout")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE")


def check_output(args: argparse.Namespace) -> None:
    """Raises ``OutputError`` where the report could not be written: before any work, not after it."""
    if args.output is not None:
        output.check_file(args.output, args.force)
        return
    with output.stdout():
        pass


def write_report(
    args: argparse.Namespace,
    report: Model,
    lines: Callable[[int], list[Line]],
    pages: Mapping[str, Callable[[], str]] | None = None,
) -> None:
    """Writes a report as --format and -o say. ``lines`` lays it out for a width in columns; ``pages`` are
    other formats that the command has, each a function that gives its text."""
    if pages is not None and args.format in pages:
        _write_page(args, pages[args.format]())
        return
    if args.output is not None:
        output.write_file(args.output, args.force, lambda stream: _write(args, report, lines, stream))
        return
    with output.stdout() as stream:
        _write(args, report, lines, stream)


def _write_page(args: argparse.Namespace, text: str) -> None:
    if args.output is not None:
        output.write_file(args.output, args.force, lambda stream: stream.write(text))
        return
    with output.stdout() as stream:
        stream.write(text)


def _write(args: argparse.Namespace, report: Model, lines: Callable[[int], list[Line]], stream: IO[str]) -> None:
    if args.format == "json":
        from snapviz.report.jsonout import to_json

        stream.write(to_json(report))
        return
    _lay_out(lines, stream)


def write_lines(lines: Callable[[int], list[Line]]) -> None:
    """Writes to stdout what ``lines`` lays out for a width in columns."""
    with output.stdout() as stream:
        _lay_out(lines, stream)


def _lay_out(lines: Callable[[int], list[Line]], stream: IO[str]) -> None:
    from snapviz.report.layout import write_lines as write

    terminal = stream is sys.stdout and stream.isatty()
    write(lines(_width(terminal)), stream, colour=terminal and _coloured())


def _width(terminal: bool) -> int:
    if not terminal and not os.environ.get("COLUMNS"):
        return _WIDTH
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _coloured() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
