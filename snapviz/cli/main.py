"""Explains PyTorch device memory: what a snapshot holds, and what differs between two runs.

PATH, BASE and HEAD are a run directory (run.json), a snapshot file (.pickle, also .gz, .xz, .zst), or
a folder of snapshot files. Exit codes: 0 done, 2 usage or unreadable input (also where only one rank of
many is broken), 3 an error inside snapviz.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence

from snapviz.cli import diff, info
from snapviz.errors import SnapvizError

__all__ = ["build_parser", "main"]

# Only argparse and the standard library up to here: --help has to be there at once. A command imports
# what it needs when it runs.

COMMANDS = (info, diff)

TRACEBACK = "SNAPVIZ_TRACEBACK"
"""Environment variable that shows the traceback of an internal error."""

_INTERRUPTED = 130
_BROKEN_PIPE = 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(prog="snapviz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", action=_Version, help="show the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
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


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **rest: object) -> None:
        super().__init__(option_strings, dest, nargs=0, help=str(rest.get("help", "")))

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from snapviz import __version__

        print(f"snapviz {__version__}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code and never raises.

    A bare traceback would exit with 1, which a CI job reads as a regression.
    """
    with _no_collector():
        return _run(argv)


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


def _run(argv: Sequence[str] | None) -> int:
    show = bool(os.environ.get(TRACEBACK))
    try:
        # a name that the terminal's encoding cannot show must not end the report
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        args = build_parser().parse_args(argv)
        show = show or args.traceback
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code)) * 2
    except KeyboardInterrupt:
        return _say("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        return _pipe_closed()
    except SnapvizError as error:
        return _say(f"error: {_printable(str(error))}", error.exit_code)
    except BaseException as error:
        return _internal(error, show)


def _internal(error: BaseException, show: bool) -> int:
    if show:
        import traceback

        with contextlib.suppress(OSError):
            traceback.print_exception(error)
    text = f"internal error: {type(error).__name__}: {_printable(str(error))}"
    return _say(text if show else f"{text}\n(--traceback or {TRACEBACK}=1 shows where; please report it)", 3)


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"snapviz: {text}", file=sys.stderr, flush=True)
    return code


def _printable(text: str) -> str:
    """A message that may quote a file: no escape code of it reaches the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _pipe_closed() -> int:
    """Whoever read the output has enough: the interpreter must not complain when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
    return _BROKEN_PIPE
