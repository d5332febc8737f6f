"""The dashboard: two runs side by side in a browser. The only place that imports dash."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dash import Dash, set_props

from snapviz.app import pages, receiving, routing, server, shell
from snapviz.app.controls import notice
from snapviz.app.jobs import Jobs
from snapviz.app.results import Results
from snapviz.app.runs import Registry
from snapviz.app.uploads import UploadLimits, Uploads
from snapviz.errors import SnapvizError

__all__ = ["create_app", "private", "results_directory", "wsgi"]


def create_app(
    root: str | os.PathLike[str] = "sample_snapshots",
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    allowed_hosts: Sequence[str] | None = server.LOOPBACK,
    prefix: str = "/",
    uploads_dir: str | os.PathLike[str] | None = None,
    upload_limits: UploadLimits | None = None,
) -> Dash:
    """The dashboard over the runs below ``root``, a directory or an fsspec URL. ``app.server`` is its WSGI application.

    ``cache_dir`` keeps results; workers that share it share them. ``allowed_hosts`` are the host names by which it
    answers (none: any). ``prefix`` is the path it is served under. What is dropped on the page lies in ``uploads_dir``,
    which all workers of one server have to be given, as the option or as SNAPVIZ_UPLOADS; without, each process has one
    of its own, which goes with it. Raises ``RunError`` where the root is no directory, ``OutputError`` where uploads
    cannot be kept.
    """
    kept = private(Path(cache_dir) if cache_dir is not None else results_directory())
    uploads = Uploads(uploads_dir, upload_limits)
    runs = Registry(os.fspath(root))
    runs.also(uploads.entry, uploads.public)
    results = Results(runs, kept / "results")
    jobs = Jobs(kept / "jobs", routing.ended)
    app = Dash(
        __name__,
        title="snapviz",
        update_title="",
        index_string=_PAGE,
        assets_folder=str(Path(__file__).parent / "assets"),
        requests_pathname_prefix=prefix,
        routes_pathname_prefix=prefix,
        serve_locally=True,
        suppress_callback_exceptions=True,
        background_callback_manager=jobs,
        on_error=lambda error: _show(error, results),
        add_log_handler=False,
        enable_mcp=False,
    )
    app.server.extensions["snapviz_uploads"] = uploads
    found = pages.every()
    app.layout = lambda: shell.frame(found, prefix, uploads.limits.file_bytes)
    with jobs.open():
        routing.register(app, results, found)
        for page in found:
            page.register(app, results)
    receiving.register(app, uploads)
    server.protect(app, allowed_hosts, uploads.sweep)
    return app


def wsgi(root: str | os.PathLike[str], **options: Any) -> Any:
    """The WSGI application of ``create_app``: gunicorn is told ``snapviz.app:wsgi("runs")``."""
    return create_app(root, **options).server


_PAGE = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        {%config%}
        {%scripts%}
        {%renderer%}
    </body>
</html>
"""
"""Dash's own page, with the language that readers aloud need, and without a footer of scripts."""


def results_directory() -> Path | None:
    """Where results are kept: below the cache of decoded snapshots; none where no place is known."""
    from snapviz.snapshot.cache import cache_root

    found = cache_root()
    return found / "app" if found else None


def private(wanted: Path | None) -> Path:
    """The folder, made where it is missing, or one of this process alone where others could write into it.

    Dash's background callbacks hand their results over as pickles: whoever can write there could run anything.
    """
    if wanted is not None:
        with contextlib.suppress(OSError):
            wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
            wanted.chmod(0o700)  # only its owner can
            if os.access(wanted, os.W_OK):
                return wanted
    found = Path(tempfile.mkdtemp(prefix="snapviz-"))
    atexit.register(_remove, found, os.getpid())
    return found


def _remove(folder: Path, made_by: int) -> None:
    """At the end of the process that made it: a worker that was forked from it ends sooner."""
    if os.getpid() == made_by:
        shutil.rmtree(folder, ignore_errors=True)


def _show(error: Exception, results: Results) -> Any:
    """What a callback raised, in words; what nobody foresaw goes to the server's log under a number."""
    foreseen = isinstance(error, SnapvizError)
    words = results.runs.public(str(error)) if foreseen else server.foreseen_nowhere(error)
    asked = routing.asked_to_work()
    if asked is not None:
        return routing.ended(*asked, words)
    set_props("problem", {"children": notice(words, grave=True, title="This cannot be shown." if foreseen else "")})
    return None
