#!/usr/bin/env python3
"""The dashboard for dashboard.py: ``dashboard_server.py RUNS CACHE LOG``; what each request took goes to LOG.

A line of LOG is a JSON object: ``at`` (s since the epoch at which it came), ``seconds`` until its last byte was made,
``bytes`` of the answer, and ``what``: the path, or the first output of a callback.
"""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import waitress

from snapviz.app import create_app

Application = Callable[..., Iterable[bytes]]


class Timed:
    """A WSGI application that notes what each request takes."""

    def __init__(self, inner: Application, log: TextIO) -> None:
        self._inner, self._log, self._lock = inner, log, threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        came, began = time.time(), time.perf_counter()
        what, body = _what(environ)
        answer = self._inner(environ | {"wsgi.input": io.BytesIO(body)}, start)
        try:
            made = b"".join(answer)
        finally:
            if hasattr(answer, "close"):
                answer.close()
        line = {"at": came, "seconds": time.perf_counter() - began, "bytes": len(made), "what": what}
        with self._lock:
            self._log.write(json.dumps(line) + "\n")
            self._log.flush()
        return [made]


def _what(environ: dict[str, Any]) -> tuple[str, bytes]:
    """What is asked for, and the request's body."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    path = str(environ["PATH_INFO"])
    if not path.endswith("_dash-update-component"):
        return path, body
    output = str(json.loads(body).get("output", "")).strip(".").partition("...")[0]
    return output.partition("@")[0], body


def main() -> None:
    root, cache, log = sys.argv[1:]
    app = create_app(root, cache_dir=cache)
    with Path(log).open("a", encoding="utf-8") as lines:
        server = waitress.create_server(Timed(app.server, lines), host="127.0.0.1", port=0, threads=8)
        print(server.effective_port, flush=True)
        server.run()


if __name__ == "__main__":
    main()
