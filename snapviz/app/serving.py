"""The dashboard on a port of this machine, by waitress: one process, several threads."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from snapviz.app import create_app
from snapviz.app.server import LARGEST_REQUEST, LOOPBACK
from snapviz.app.uploads import UploadLimits
from snapviz.errors import UsageError

__all__ = ["serve"]

_THREADS = 8
"""Requests that are answered at once: several people, and several charts of each."""


def serve(
    root: str,
    host: str = "127.0.0.1",
    port: int = 8050,
    allow_hosts: Sequence[str] = (),
    *,
    limits: UploadLimits | None = None,
    open_browser: bool = False,
    said: TextIO | None = sys.stderr,
) -> int:
    """Serves the runs below ``root`` until interrupted; 0. Raises ``SnapvizError`` where it cannot begin."""
    import waitress

    limits = limits or UploadLimits()
    _allow_files()
    app = create_app(root, allowed_hosts=_hosts(host, allow_hosts), upload_limits=limits)
    listening = _bound(host, port)
    _compile(said)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}/"
    if said is not None:
        print(f"snapviz: {url} shows the runs in {root} (Ctrl-C ends it)", file=said, flush=True)
        if not _is_loopback(host):
            print("snapviz: whoever reaches this port can read them: there is no password", file=said, flush=True)
    if open_browser:
        import webbrowser

        webbrowser.open(url)
    server = waitress.create_server(
        app.server,
        sockets=[listening],
        threads=_THREADS,
        ident="snapviz",
        asyncore_use_poll=True,  # select() knows no file beyond the 1024th
        # it takes a whole request into a file before the app sees any of it
        max_request_body_size=max(limits.file_bytes, LARGEST_REQUEST) + 1,
    )
    _end_when_told()
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    server.close()
    return 0


def _allow_files() -> None:
    """As many open files as may be: each rank of a run that is shown has two, and a shell often allows 1024 or 256."""
    try:
        import resource
    except ModuleNotFoundError:
        return  # a system without such limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _FILES:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


_FILES = (65_536, 10_240)
"""How many may be open, the first that the system gives: macOS has a limit of its own."""


def _end_when_told() -> None:
    """SIGTERM ends as Ctrl-C does: what was dropped on the page is removed."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _hosts(host: str, more: Sequence[str]) -> Sequence[str] | None:
    """The names by which it answers; all of them where it listens on every address and none is named."""
    if more:
        return (*LOOPBACK, host, *(name.lower() for name in more))
    return (*LOOPBACK, host) if _is_loopback(host) else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens, before anything is promised. Raises ``UsageError``."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        with contextlib.ExitStack() as undo:
            undo.callback(found.close)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(128)
            undo.pop_all()
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error} (--port names another)") from None
    return found


def _compile(said: TextIO | None) -> None:
    """Compiles decoder and replay before anybody waits, and before there are threads that a job is forked from."""
    from snapviz.snapshot.jit import COMPILING, announced

    told = iter([f"snapviz: {COMPILING}"])

    def tell(_: str) -> None:
        for words in told:
            if said is not None:
                print(words, file=said, flush=True)

    with announced(tell, ""):
        for name in ("snapshot.machine", "replay.coordinates", "replay.kernels", "replay.lives", "replay.freekernels"):
            import_module(f"snapviz.{name}")
