"""One server for all tests of a process, and a new visitor for each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.app.browser import places

ROOT = Path(__file__).resolve().parents[3]
SERVER = Path(__file__).with_name("serve.py")


@dataclass(frozen=True)
class Served:
    """Two dashboards of one process: over runs, and over an empty directory."""

    runs: str
    empty: str
    gate: Path
    # reading runs called slow waits until this is there
    log: Path


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, chromium: Any) -> Iterator[Served]:
    """The dashboards, in a process of their own."""
    root = tmp_path_factory.mktemp("served")
    runs, empty, cache, log = root / "runs", root / "empty", root / "cache", root / "log"
    for folder in (runs, empty, cache):
        folder.mkdir()
    places.make(runs)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SNAPVIZ_CACHE_DIR": str(cache / "decoded")}
    command = [sys.executable, str(SERVER), *map(str, (runs, empty, cache, root / "gate"))]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        ) as server,
    ):
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, log.read_text(encoding="utf-8")
        first, second = json.loads(line)
        yield Served(f"http://127.0.0.1:{first}", f"http://127.0.0.1:{second}", root / "gate", log)
        # with the jobs that it has forked, which may still wait
        os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture
def visit(chromium: Any, served: Served) -> Iterator[Callable[..., Any]]:
    """Makes visitors: each is somebody else. Whatever a browser complains about fails the test at its end."""
    from tests.app.browser.visitor import Visitor

    visitors, contexts = [], []

    def come(url: str = "", **options: Any) -> Visitor:
        context = chromium.new_context(**({"viewport": {"width": 1400, "height": 900}} | options))
        context.set_default_timeout(60_000)
        contexts.append(context)
        visitors.append(Visitor(context, url or served.runs, served.log))
        return visitors[-1]

    yield come
    for context in contexts:
        context.close()
    for visitor in visitors:
        visitor.check()


@pytest.fixture
def somebody(visit: Callable[..., Any]) -> Any:
    """One visitor."""
    return visit()
