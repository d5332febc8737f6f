"""Record a training script, unchanged, on every rank.

  snapviz record -o runs/pr --steps 3 -- train.py --lr 1e-4
  snapviz record -o runs/pr -- -m package.train --lr 1e-4
  torchrun --nproc_per_node=8 -m snapviz record -o runs/pr --steps 3 -- train.py
  snapviz record -o runs/pr8 --world-size 8 -- train.py     one rank of 8, on one device

The script runs in this process as Python would run it, and ends as it would have ended, with its own
exit code and its own traceback. What it does becomes phases: materialize, shard, optimizer, train and the
steps in it; 'with snapviz.phase("name"):' in the script adds its own. Processes that the script itself
starts (torch.multiprocessing.spawn) are not recorded: start those with torchrun.

It exits with 2 and runs nothing where nothing could be recorded: no CUDA device, another run in DIR. What was
recorded until a SIGTERM is written. 'snapviz diff BASE DIR' compares it with another run.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from snapviz.cli import options
from snapviz.errors import UsageError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz record``."""
    parser.usage = "snapviz record [options] -o DIR -- SCRIPT [ARGS]"
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- SCRIPT ARGS", help="what to run, or -- -m MODULE ARGS"
    )
    parser.add_argument(
        "-o", "--output", type=options.path_text, required=True, metavar="DIR", help="the run directory to write"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite another run there")
    parser.add_argument("--name", help="what to call the run (default: the name of DIR)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="note a setting of the run, such as batch_size=8; repeatable. Where two runs differ in one, diff says so",
    )
    _add_amount(parser)
    _add_world(parser)
    _add_history(parser)


def _add_amount(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps",
        type=_one_or_more,
        metavar="N",
        help="stop recording after N steps; the script goes on (default: all)",
    )
    parser.add_argument("--exit", action="store_true", help="end the process, with 0, once these steps are written")
    parser.add_argument(
        "--no-auto", action="store_true", help="no phases but those that the script names with snapviz.phase"
    )
    parser.add_argument(
        "--holders",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="after sharding, look for what keeps whole parameters that should be gone (default: on)",
    )


def _add_world(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world-size",
        type=_one_or_more,
        metavar="N",
        help="pretend that there are N ranks, and be one of them: memory is real, communication does nothing",
    )
    parser.add_argument("--rank", type=options.whole_number, default=0, metavar="R", help="which of them to be (0)")


def _add_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-entries",
        type=_one_or_more,
        default=1_000_000,
        metavar="N",
        help="events of the allocator to keep; older ones are lost (1000000)",
    )
    parser.add_argument(
        "--context",
        choices=("alloc", "all", "state"),
        default="alloc",
        help="stacks of allocations (default), of frees as well, or only of what is live",
    )
    parser.add_argument(
        "--stacks", choices=("python", "all"), default="python", help="Python frames (default), or C++ ones too: slow"
    )


def run(args: argparse.Namespace) -> int | BaseException:
    """Runs ``snapviz record``; 0, or what the script raised."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("say what to run after --: snapviz record -o DIR -- train.py ARGS")
    from snapviz.record import launch

    _give_back_streams()
    return launch.run(
        launch.Request(
            command=command,
            output=args.output,
            name=args.name,
            steps=args.steps,
            exit=args.exit,
            world_size=args.world_size,
            rank=args.rank,
            max_entries=args.max_entries,
            context=args.context,
            stacks=args.stacks,
            holders=args.holders,
            auto=not args.no_auto,
            settings=dict(args.set),
            overwrite=args.force,
        )
    )


def _give_back_streams() -> None:
    """The command line lets nothing fail over a character; the script's output is its own again."""
    with contextlib.suppress(AttributeError, ValueError):
        # stdin still has what Python chose for both
        sys.stdout.reconfigure(errors=sys.stdin.errors)  # type: ignore[union-attr]


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _one_or_more(text: str) -> int:
    value = options.whole_number(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value
