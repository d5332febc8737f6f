"""Explains PyTorch device memory: what a snapshot holds, and what differs between two runs.

PATH, BASE, HEAD and RUN are a run directory (run.json), a snapshot file (.pickle, also .gz, .xz, .zst), or
a folder of snapshot files. Exit codes: 0 done, 1 a budget of --fail-on was exceeded, 2 usage or unreadable input (also
where only one rank of many is broken), 3 an error inside snapviz.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from snapviz.cli import (
    benchmark_plot,
    check,
    dangling,
    diff,
    export,
    fragmentation,
    info,
    leaks,
    output,
    peak,
    ranks,
    record,
    serve,
)
from snapviz.errors import SnapvizError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["build_parser", "main"]

# Only argparse and the standard library up to here: --help has to be there at once. A command imports
# what it needs when it runs.

COMMANDS = (info, peak, fragmentation, leaks, ranks, dangling, diff, check, export, record, benchmark_plot, serve)

TRACEBACK = "SNAPVIZ_TRACEBACK"
"""Environment variable that shows the traceback of an internal error."""

_INTERRUPTED = 130
_BROKEN_PIPE = 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(prog="snapviz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", action=_Version, help="show the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        summary = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(command)
        command.add_argument(
            "--traceback", action="store_true", help=f"show where an internal error was (or set {TRACEBACK})"
        )
        command.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    """Of commands too: argparse makes them of the same class."""

    def error(self, message: str) -> NoReturn:
        """Usage and what is wrong, on stderr or nowhere: argparse would take stdout where it is closed."""
        if sys.stderr is None:
            raise SystemExit(2)
        super().error(_printable(message))

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Help, on stdout, and an error where it does not arrive: argparse says nothing of that."""
        with output.stdout() as stream:
            (file or stream).write(self.format_help())


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **rest: object) -> None:
        super().__init__(option_strings, dest, nargs=0, help=str(rest.get("help", "")))

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from snapviz import __version__

        with output.stdout() as stream:
            print(f"snapviz {__version__}", file=stream)
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code and never raises, but for what a recorded program raised.

    A bare traceback would exit with 1, which a CI job reads as a regression. The program that ``record`` ran
    ends as it would have ended alone: in Python's own hands.
    """
    with _no_collector():
        code = _run(argv)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except Exception:  # nobody can be told, and the code still counts
        output.let_go(sys.stderr)
    if isinstance(code, BaseException):
        raise code
    return code


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """One command makes no garbage worth collecting, and going through all of numba takes a tenth of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _run(argv: Sequence[str] | None) -> int | BaseException:
    show = bool(os.environ.get(TRACEBACK))
    try:
        # a name that the terminal's encoding cannot show must not end the report
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        args = _parsed(argv)
        if isinstance(args, int):
            return args
        show = show or args.traceback
        code: int | BaseException = args.run(args)
        return code
    except KeyboardInterrupt:
        return _say("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        output.let_go(sys.stdout)
        return _BROKEN_PIPE
    except (SnapvizError, MemoryError) as error:
        text = str(error) if isinstance(error, SnapvizError) else "there is not enough memory for this"
        return _say(f"error: {_printable(text)}", SnapvizError.exit_code)
    except BaseException as error:
        return _internal(error, show)


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace | int:
    """The arguments, or the exit code where all is said: help, the version, or what is wrong with them."""
    try:
        return build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2 * bool(stop.code)


def _internal(error: BaseException, show: bool) -> int:
    if show and sys.stderr is not None:
        import traceback

        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(error)
    text = f"internal error: {type(error).__name__}: {_printable(str(error))}"
    return _say(text if show else f"{text}\n(--traceback or {TRACEBACK}=1 shows where; please report it)", 3)


def _say(text: str, code: int) -> int:
    # print would take stdout where stderr is closed
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"snapviz: {text}", file=sys.stderr, flush=True)
    return code


def _printable(text: str) -> str:
    """A message that may quote a file: no escape code of it reaches the terminal, and no line of its own."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
