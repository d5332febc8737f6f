"""Background jobs: what came of them is always told, and nothing of them outlives its server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from snapviz.app import routing
from snapviz.app.jobs import Jobs
from snapviz.app.state import State

CONTEXT: dict[str, Any] = {}


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(tmp_path, lambda *args: ["ended", *args])
    with found.open():
        found.register("sleep", time.sleep, None)
        found.register("double", lambda number: 2 * number, None)
        found.register("sockets", _sockets, None)
    yield found
    for process in list(found._mine.values()):
        process.kill()
        process.join()


def _sockets(_: Any) -> list[str]:
    places = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_there(name)]
    return [place for place in places if place.startswith("socket:")]


def _is_there(name: str) -> bool:
    return Path(f"/proc/self/fd/{name}").is_symlink()


def begun(jobs: Jobs, name: str, *args: Any) -> int:
    return jobs.call_job_fn(name, jobs.func_registry[name], list(args), CONTEXT)


def told(jobs: Jobs, name: str, job: Any) -> Any:
    """As Dash asks: the result, then whether it still runs."""
    for _ in range(600):
        result = jobs.get_result(name, job)
        if result is not jobs.UNDEFINED or not jobs.job_running(job):
            return result
        time.sleep(0.05)
    raise AssertionError("it never ends")


def until(true: Callable[[], bool]) -> bool:
    return any(true() or time.sleep(0.05) for _ in range(600))


def test_a_job_gives_its_result_once(jobs: Jobs) -> None:
    job = begun(jobs, "double", 21)
    assert told(jobs, "double", str(job)) == 42
    assert not jobs.job_running(job)
    assert told(jobs, "double", str(job)) is jobs.UNDEFINED


def test_a_job_that_ends_between_two_looks_still_gives_its_result(jobs: Jobs) -> None:
    job = begun(jobs, "double", 4)
    jobs._mine[job].join()
    assert jobs.job_running(job), "nobody was told"
    assert told(jobs, "double", job) == 8


def test_a_job_that_something_else_ended_says_so(jobs: Jobs) -> None:
    job = begun(jobs, "sleep", 600)
    assert jobs.get_result("sleep", job) is jobs.UNDEFINED
    os.kill(job, signal.SIGKILL)
    assert told(jobs, "sleep", job) == ["ended", 600]
    assert not psutil.pid_exists(job), "no zombie is left"


def test_what_the_page_says_of_it() -> None:
    state = State(base="a", head="b")
    done = routing.ended({"state": state.data(), "at": 1.0})
    assert "enough memory" in routing._failure(done, state)
    assert routing._failure(done, State(base="a")) == ""


def test_a_job_that_is_cancelled_gives_nothing(jobs: Jobs) -> None:
    job = begun(jobs, "sleep", 600)
    jobs.terminate_job(str(job))
    assert not psutil.pid_exists(job)
    assert told(jobs, "sleep", job) is jobs.UNDEFINED


def test_no_process_is_ended_that_is_no_job(jobs: Jobs) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        try:
            jobs.terminate_job(str(other.pid))
            jobs.terminate_job(None)
            assert other.poll() is None
            # its number was a job's, before that ended
            jobs.handle.set(f"job-{other.pid}", (1.0, [7]))
            assert told(jobs, "sleep", other.pid) == ["ended", 7]
            jobs.handle.set(f"job-{other.pid}", (1.0, [7]))
            jobs.terminate_job(other.pid)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_job_of_another_worker_can_be_ended(jobs: Jobs, tmp_path: Path) -> None:
    job = begun(jobs, "sleep", 600)
    Jobs(tmp_path, list).terminate_job(job)
    assert until(lambda: not jobs._mine[job].is_alive())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")
def test_a_job_holds_no_socket_of_its_server(jobs: Jobs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        job = begun(jobs, "sockets", None)
        assert told(jobs, "sockets", job) == []
        assert listening.fileno() > 0


SERVER = """
import sys, time
from snapviz.app.jobs import Jobs
jobs = Jobs({folder!r}, list)
with jobs.open():
    jobs.register("sleep", time.sleep, None)
print(jobs.call_job_fn("sleep", jobs.func_registry["sleep"], [600], {{}}), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_a_job_ends_with_its_server(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER.format(folder=str(tmp_path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        job = int(server.stdout.readline())
        assert psutil.pid_exists(job)
        if how == "ends":
            server.stdin.close()
        else:
            server.kill()
        server.wait(timeout=30)
    assert until(lambda: not psutil.pid_exists(job) or psutil.Process(job).status() == psutil.STATUS_ZOMBIE)
