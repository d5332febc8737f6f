"""Background jobs: what came of them is always told, and nothing of them outlives its server."""

from __future__ import annotations

import os
import re
import shutil
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
from dash import Dash

from snapviz.app import create_app, routing
from snapviz.app import jobs as jobs_module
from snapviz.app.jobs import Jobs
from snapviz.app.state import State

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
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


def _sockets(_: Any) -> int:
    # the folder's own descriptor is gone by the time it is looked at
    return sum(path.is_symlink() and str(path.readlink()).startswith("socket:") for path in _DESCRIPTORS.iterdir())


_DESCRIPTORS = Path("/proc/self/fd")


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


def test_a_job_that_is_cancelled_while_somebody_asks_gives_nothing(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = begun(jobs, "sleep", 600)

    def cancelled(*_: object) -> bool:
        monkeypatch.undo()
        jobs.terminate_job(job)
        return False

    monkeypatch.setattr(jobs_module, "_lives", cancelled)  # just after it was looked up
    assert jobs.get_result("sleep", job) is jobs.UNDEFINED


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


@pytest.mark.skipif(not _DESCRIPTORS.exists(), reason="looks into /proc")
def test_a_job_holds_no_socket_of_its_server(jobs: Jobs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        job = begun(jobs, "sockets", None)
        assert told(jobs, "sockets", job) == 0
        assert listening.fileno() > 0


SERVER = """
import sys, time
from pathlib import Path
from snapviz.app.jobs import Jobs
jobs = Jobs(Path({folder!r}), list)
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


def test_a_folder_that_was_removed_is_made_again(jobs: Jobs, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    job = begun(jobs, "double", 3)
    assert told(jobs, "double", job) == 6


def asked(app: Dash, state: State) -> dict[str, Any]:
    """The answer to a request for a job."""
    given = {"id": "job", "property": "data", "value": {"state": state.data(), "at": 1.0}}
    body = {"output": "done.data", "outputs": {"id": "done", "property": "data"}, "inputs": [given], "state": []}
    body["changedPropIds"] = ["job.data"]
    client = app.server.test_client()
    client.get("/_dash-dependencies")
    handles: dict[str, Any] = {}
    for _ in range(600):
        answer = client.post("/_dash-update-component", json=body, query_string=handles)
        assert answer.status_code == 200
        found = answer.get_json()
        if "response" in found:
            return dict(found["response"]["done"]["data"])
        handles = handles or {key: found[key] for key in ("cacheKey", "job")}
        time.sleep(0.05)
    raise AssertionError("it never ends")


@pytest.fixture
def app(tmp_path: Path) -> Dash:
    shutil.copytree(SAMPLES / "thunder_478", tmp_path / "runs")
    return create_app(tmp_path / "runs", cache_dir=tmp_path / "kept", allowed_hosts=None)


STATE = State(base="main", head="pr")


def test_a_job_of_the_dashboard(app: Dash) -> None:
    done = asked(app, STATE)
    assert done["for"] == STATE.data()
    assert "failed" not in done


def test_runs_that_went_away_are_said_to_be_gone(app: Dash, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "runs")
    failed = routing._failure(asked(app, STATE), STATE)
    assert "no such directory" in failed
    assert str(tmp_path) not in failed


def test_a_job_that_cannot_begin_says_so(
    app: Dash, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full, at /secret")

    monkeypatch.setattr(Jobs, "call_job_fn", fail)
    failed = routing._failure(asked(app, STATE), STATE)
    assert re.fullmatch(r"An error inside snapviz, number [0-9a-f]{8} in .*", failed)
    assert "disk is full" in caplog.text
