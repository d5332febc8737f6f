"""``POST upload?name=NAME``: the file itself as the request's body, in a stream. ``DELETE upload?id=ID`` removes it.

The answer is JSON: ``{"id", "name", "size_bytes", "snapshots"}``, or ``{"error": words}``. Not a form, and not Dash's
own upload, which reads a file into the browser's memory and sends it as text within JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from dash import Dash
from flask import Response, jsonify, request
from werkzeug.exceptions import HTTPException

from snapviz.app.server import STREAMED, foreseen_nowhere
from snapviz.app.uploads import Uploads
from snapviz.errors import InputError, OutputError, SnapvizError, UsageError
from snapviz.report.layout import clean

__all__ = ["register"]

_CHUNK_BYTES = 1 << 18

_CODES: tuple[tuple[type[SnapvizError], int], ...] = ((UsageError, 413), (InputError, 422), (OutputError, 507))


def register(app: Dash, uploads: Uploads) -> None:
    """The route. It stands before Dash's own, which takes every path."""

    @app.server.route(
        f"{app.config.routes_pathname_prefix}upload", endpoint=STREAMED, methods=["POST", "DELETE"], strict_slashes=True
    )
    def upload() -> tuple[Response, int]:
        try:
            return _removed(uploads) if request.method == "DELETE" else _received(uploads)
        except SnapvizError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), 400)
            return jsonify(error=clean(str(error))), code
        except (HTTPException, ConnectionError):
            return jsonify(error="the file did not arrive whole: try again"), 400
        except Exception as error:
            return jsonify(error=foreseen_nowhere(error)), 500


def _received(uploads: Uploads) -> tuple[Response, int]:
    announced = request.content_length
    entry = uploads.receive(request.args.get("name", ""), _pieces(request.stream, announced), announced)
    told: dict[str, Any] = {
        "id": entry.id,
        "name": clean(entry.name),
        "size_bytes": entry.size_bytes,
        "snapshots": entry.snapshots,
    }
    return jsonify(told), 201


def _removed(uploads: Uploads) -> tuple[Response, int]:
    if not uploads.remove(request.args.get("id", "")):
        return jsonify(error="there is no such upload (any more)"), 404
    return jsonify(removed=True), 200


def _pieces(stream: IO[bytes], announced: int | None) -> Iterator[bytes]:
    """The body in pieces. Raises ``InputError`` where it ends before what was announced."""
    read = 0
    while piece := stream.read(_CHUNK_BYTES):
        read += len(piece)
        yield piece
    if announced is not None and read != announced:
        raise InputError(f"only {read:,} of {announced:,} bytes arrived: try again")
