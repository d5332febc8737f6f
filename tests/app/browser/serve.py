"""Serves two dashboards in one process for the tests: ``serve.py RUNS EMPTY CACHE GATE``; writes both ports as JSON.

Runs whose id begins with ``slow`` are always read in the background, and reading them waits until the file GATE is
there: so that what is shown meanwhile can be looked at.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import waitress

from snapviz.app import create_app
from snapviz.app.results import Results
from snapviz.app.serving import _compile
from snapviz.app.state import State

_GIVES_UP_S = 120


def _hold_back(gate: Path) -> None:
    is_small, prepare = Results.is_small, Results.prepare

    def small(self: Results, state: State) -> bool:
        return not state.base.startswith("slow") and is_small(self, state)

    def wait(self: Results, state: State, progress: Any) -> None:
        began = time.monotonic()
        while state.base.startswith("slow") and not gate.exists() and time.monotonic() - began < _GIVES_UP_S:
            progress("waiting at the gate")
            time.sleep(0.05)
        prepare(self, state, progress)

    Results.is_small, Results.prepare = small, wait  # type: ignore[method-assign]


def main() -> None:
    runs, empty, cache, gate = map(Path, sys.argv[1:])
    logging.basicConfig(stream=sys.stderr)
    _hold_back(gate)
    _compile(None)
    ports = []
    for root, kept in ((runs, cache / "runs"), (empty, cache / "empty")):
        listening = socket.create_server(("127.0.0.1", 0))
        server = waitress.create_server(create_app(root, cache_dir=kept).server, sockets=[listening], threads=8)
        threading.Thread(target=server.run, daemon=True).start()
        ports.append(listening.getsockname()[1])
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    parent = os.getppid()
    while os.getppid() == parent:  # until the tests end it, or are killed themselves
        time.sleep(1)


if __name__ == "__main__":
    main()
