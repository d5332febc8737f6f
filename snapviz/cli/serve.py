"""Show runs side by side in a browser: the dashboard.

DIR is a directory of runs, or an fsspec URL of one (s3://bucket/runs); it is looked through again while it is
served. Nothing is sent anywhere: the pages ask this server alone, and it listens on this machine only unless
--host says otherwise. Whoever can reach it can read every run below DIR.
"""

from __future__ import annotations

import argparse
import sys

from snapviz.cli import options
from snapviz.errors import UsageError
from snapviz.units import parse_bytes

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``snapviz serve``."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", type=options.path_text, help="directory or URL of runs (.)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=_port, default=8050, help="port to listen on (8050; 0: any that is free)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name by which browsers may ask, beside localhost and the address of --host; repeatable",
    )
    parser.add_argument(
        "--upload-limit",
        default="2 GiB",
        metavar="SIZE",
        help="largest file that may be dropped on the page (2 GiB; 0 B: none); it is kept in the temporary folder, or "
        "where SNAPVIZ_UPLOADS says, and removed when it was not used for a day, and at the end",
    )
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr")


def run(args: argparse.Namespace) -> int:
    """Runs ``snapviz serve`` until it is interrupted."""
    most_bytes = parse_bytes(args.upload_limit)
    try:
        from snapviz.app.serving import serve
        from snapviz.app.uploads import UploadLimits
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "snapviz":
            raise
        raise UsageError(
            f"the dashboard needs {error.name}: pip install 'snapviz[app]', in a clone pip install '.[app]'"
        ) from None
    said = None if args.quiet else sys.stderr
    return serve(
        args.directory,
        args.host,
        args.port,
        args.allow_host,
        limits=UploadLimits(file_bytes=most_bytes),
        open_browser=args.open,
        said=said,
    )


def _port(text: str) -> int:
    value = options.whole_number(text)
    if value > 65_535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535")
    return value
