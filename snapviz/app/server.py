"""What the server adds to every answer, and which requests it refuses.

The content security policy allows scripts of the package and Dash's one inline script, by its hash; no eval. Styles may
be inline: Mantine, plotly and ag-grid set them while they draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from dash import Dash
from flask import Flask, Response, abort, request

__all__ = ["LOOPBACK", "policy", "protect"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names by which a server is asked that only this machine can reach."""

_LARGEST_REQUEST = 4 << 20
"""Bytes of a callback's request."""


def protect(app: Dash, allowed_hosts: Sequence[str] | None) -> None:
    """Headers, hosts and limits. ``allowed_hosts``: none allows any, as behind a proxy that checks them."""
    server: Flask = app.server
    server.config["MAX_CONTENT_LENGTH"] = _LARGEST_REQUEST

    @server.before_request
    def refuse() -> None:
        host = urlsplit(f"//{request.host}").hostname or ""
        # a page of another site may have its name point here: its scripts would read what is served
        if allowed_hosts is not None and host not in allowed_hosts:
            abort(403, "this host is not served here: start with --allow-host to serve it")
        if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") not in _OURS:
            abort(403, "requests from other sites are refused")

    @server.after_request
    def add(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", policy(app))
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "no-referrer")
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response


_OURS = ("same-origin", "none")


def policy(app: Dash) -> str:
    """The content security policy."""
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
