"""The background jobs of one dashboard, apart from those of others in the same process.

A job is a process that was forked from a server with threads. It lets go of the server's sockets, ends with the server
however that ends, and is over only once somebody was told what came of it, also where that is that it was killed.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from dash import DiskcacheManager

from snapviz.app.gate import GATE

__all__ = ["Jobs"]

_LOOK_S = 0.5
"""Seconds between looks of a job whether its server still lives."""

_KEPT_S = 86_400.0
"""Seconds for which it is remembered which process was a job; none is at work for longer."""


class Jobs(DiskcacheManager):  # type: ignore[misc]  # dash has no types here
    """Runs what an app registers while it is ``open``, and nothing of another's.

    Dash gives every manager of a process the functions of every app, under keys that come from their source: of two
    dashboards, the older would run the jobs of the newer, over the newer's runs.

    Dash knows a job by the number of its process alone, which the browser keeps: by then it may be another's process.
    """

    def __init__(self, directory: Path, ended: Callable[..., Any]) -> None:
        """``ended`` gets the arguments of a job that something else has ended, and gives what it gives instead."""
        import diskcache

        self._open = False
        self._ended = ended
        self._mine: dict[int, Any] = {}
        self._directory = directory
        super().__init__(diskcache.Cache(str(directory)))

    @contextmanager
    def open(self) -> Iterator[None]:
        """While an app registers its callbacks."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def register(self, key: str, fn: Callable[..., Any], progress: Any) -> None:
        """What Dash calls with the background callbacks of any app."""
        if self._open:
            super().register(key, fn, progress)

    def call_job_fn(self, key: str, job_fn: Callable[..., None], args: Any, context: Any) -> int:
        """Begins a job; the number of its process."""
        from multiprocess import Process

        self._mend()
        told = (key, self._make_progress_key(key), args, context)
        # a daemon: the server ends it, where it would else wait for its end
        process = Process(target=_work, args=(os.getpid(), job_fn, told), daemon=True)
        with GATE.alone():
            process.start()
        self._forget_ended()
        self._mine[process.pid] = process
        try:
            self.handle.set(_name(process.pid), (_begun(process.pid), args), expire=_KEPT_S)
        except BaseException:
            process.kill()  # nobody could ask for what comes of it
            raise
        return int(process.pid)

    def get_result(self, key: str, job: Any) -> Any:
        """What came of a job; ``UNDEFINED`` while it works."""
        begun, args = self._known(job)
        gone = begun is not None and not _lives(int(job), begun)
        # asked for after it was seen to be gone: it may have ended well just before
        result = super().get_result(key, job)
        # whoever cancels a job forgets it before it is gone
        if result is self.UNDEFINED and gone and self._known(job)[0] is not None:
            self.terminate_job(job)
            return self._ended(*args)
        return result

    def job_running(self, job: Any) -> bool:
        """Whether nobody was told yet what came of it: between two looks of Dash it may end, and well."""
        return self._known(job)[0] is not None

    def terminate_job(self, job: Any) -> None:
        """Ends a job, where it is one."""
        begun, _ = self._known(job)
        if begun is None:
            return
        self.handle.delete(_name(job))
        mine = self._mine.pop(int(job), None)
        if mine is not None:
            mine.kill()
            mine.join(1)
        elif _lives(int(job), begun):
            with suppress(psutil.Error):
                psutil.Process(int(job)).kill()

    def _mend(self) -> None:
        """Makes the folder again where somebody has removed it: caches are cleared."""
        if not (self._directory / "cache.db").exists():
            import diskcache

            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.handle = diskcache.Cache(str(self._directory))

    def _forget_ended(self) -> None:
        """Those that nobody asked about any more: their page was closed."""
        for pid, process in list(self._mine.items()):
            if not process.is_alive():
                self._mine.pop(pid, None)

    def _known(self, job: Any) -> tuple[float | None, Sequence[Any]]:
        """When a job began, and its arguments; none where it is none, or is over."""
        found = self.handle.get(_name(job)) if job is not None else None
        return found if found is not None else (None, ())


def _name(job: Any) -> str:
    return f"job-{int(job)}"


def _begun(pid: int) -> float:
    """When a process began: of two with one number, the other did at another time."""
    with suppress(psutil.Error):
        return float(psutil.Process(pid).create_time())
    return 0.0


def _lives(pid: int, begun: float) -> bool:
    with suppress(psutil.Error):
        found = psutil.Process(pid)
        return bool(found.create_time() == begun and found.status() != psutil.STATUS_ZOMBIE)
    return False


# ------------------------------------------------------------------ in the job's own process


def _work(server: int, job_fn: Callable[..., None], told: Sequence[Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _leave_sockets()
    threading.Thread(target=_end_with, args=(server,), daemon=True).start()
    job_fn(*told)


def _leave_sockets() -> None:
    """Closes the port and the connections of the server, which would else stay open for as long as the job works."""
    highest = max((int(path.name) for path in Path("/dev/fd").iterdir()), default=0)
    for descriptor in range(3, highest + 1):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.close(descriptor)


def _end_with(server: int) -> None:
    """A server that was killed cannot end its jobs: they see that they have another parent."""
    while os.getppid() == server:
        time.sleep(_LOOK_S)
    os._exit(1)
