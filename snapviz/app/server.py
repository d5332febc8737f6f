"""What the server adds to every answer, which requests it refuses, and what an error says.

The content security policy allows scripts of this server and Dash's one inline script (``new DashRenderer``), by its
hash. No eval, no worker, no other host. Styles may be inline: five libraries write ``<style>`` elements while they run,
which a policy calls inline, and each is blocked without: dash-renderer, dash-core-components, Mantine (through React),
plotly and ag-grid. Images may be ``data:`` (rasters in figures) and ``blob:`` (plotly draws its PNG from one).

A page of another site can send requests here, and have its own name point here to read the answers. Hence only known
host names are answered, and what changes anything only where the page that asks is one of ours.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from urllib.parse import urlsplit

from dash import Dash
from dash._get_app import app_context
from flask import Flask, Request, Response, abort, request
from werkzeug.exceptions import HTTPException

from snapviz.app.gate import GATE

__all__ = ["LARGEST_REQUEST", "LOOPBACK", "STREAMED", "foreseen_nowhere", "policy", "protect"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names by which a server is asked that only this machine can reach."""

STREAMED = "upload"
"""The one endpoint whose requests may be long: it counts them itself."""

LARGEST_REQUEST = 4 << 20
"""Bytes of a callback's request."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_SUITES = "_dash-component-suites/"

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def protect(app: Dash, allowed_hosts: Sequence[str] | None, sweep: Callable[[], None] = lambda: None) -> None:
    """Headers, hosts, limits and errors. ``allowed_hosts``: none allows any, as behind a proxy that checks them.

    ``sweep`` is called before every request: what has had its time goes as long as anybody is here.
    """
    server: Flask = app.server
    known = None if allowed_hosts is None else frozenset(name.lower().strip("[]") for name in allowed_hosts)
    rules = cache(lambda: policy(app))

    server.before_request(GATE.enter)
    server.teardown_request(lambda _: GATE.leave())

    @server.before_request
    def tell_which() -> None:
        # Dash would take the newest app of the process for that of any request, and not know this one's jobs
        app_context.set(app)

    @server.before_request
    def refuse() -> None:
        if known is not None and _host(request) not in known:
            abort(403, "This host name is not served here: start with --allow-host to serve it.")
        if request.method not in _READING and not _is_ours(request):
            abort(403, "Requests from other sites are refused.")
        _refuse_long(request)
        sweep()

    @server.after_request
    def add(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", rules())
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if not _is_static(app, request.path):
            response.headers["Cache-Control"] = "no-store"
        return response

    @server.errorhandler(Exception)
    def tell(error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return Response(f"{error.description or error.name}\n", error.code or 500, mimetype="text/plain")
        return Response(f"{foreseen_nowhere(error)}\n", 500, mimetype="text/plain")


def foreseen_nowhere(error: BaseException) -> str:
    """Logs an error that nobody foresaw, and says under which number: neither a traceback nor a path leaves here."""
    number = uuid.uuid4().hex[:8]
    logging.getLogger("snapviz").error("internal error %s", number, exc_info=error)
    return f"An error inside snapviz, number {number} in the server's log. Please report it."


def policy(app: Dash) -> str:
    """The content security policy. To be asked for once every callback is registered."""
    scripts = " ".join(app.csp_hashes())
    rules = (
        "default-src 'none'",
        f"script-src 'self' {scripts}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def _host(asked: Request) -> str:
    try:
        return urlsplit(f"//{asked.host}").hostname or ""
    except ValueError:
        return ""


def _is_ours(asked: Request) -> bool:
    """Whether a page of this server asks, or no browser at all, which no other site can make ask."""
    site = asked.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = asked.headers.get("Origin")
    return origin is None or origin.partition("://")[2].lower() == asked.host.lower()


def _refuse_long(asked: Request) -> None:
    if (asked.endpoint or "").rpartition(".")[2] == STREAMED:
        return
    if asked.content_length is None and asked.headers.get("Transfer-Encoding"):
        abort(411, "This request has to say how long it is.")
    if (asked.content_length or 0) > LARGEST_REQUEST:
        abort(413, f"This request is longer than {LARGEST_REQUEST >> 20} MiB.")


def _is_static(app: Dash, path: str) -> bool:
    """Scripts and styles, which are the same for everybody: their own answers say how long they hold."""
    prefix = app.config.routes_pathname_prefix
    return path.startswith((prefix + _SUITES, f"{prefix}{app.config.assets_url_path.strip('/')}/"))
