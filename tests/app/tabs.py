"""Tabs of a browser on an app that is served in this process, for tests; what they complain of is collected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dash import Dash
from werkzeug.serving import WSGIRequestHandler, make_server

__all__ = ["Tab", "served"]


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object, **__: object) -> None:
        pass


@contextmanager
def served(app: Dash) -> Iterator[str]:
    """The app on a free port; its URL."""
    server = make_server("127.0.0.1", 0, app.server, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Tab:
    """A page of a browser, with what its console complained of and whom else it asked."""

    def __init__(self, chromium: Any, base: str, **more: Any) -> None:
        self.page = chromium.new_context(accept_downloads=True, **more).new_page()
        self.base = base
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def open(self, path: str, wait_for: str) -> Any:
        """Goes to a path of the app and waits for something to be there."""
        self.page.goto(self.base + path)
        self.page.wait_for_selector(wait_for)
        return self.page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.complaints.append(f"asked {request.url}")
