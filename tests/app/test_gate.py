"""A process is forked while no request is at work."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from snapviz.app import create_app, gate
from snapviz.app.gate import Gate
from snapviz.app.jobs import Jobs


def test_whoever_wants_to_be_alone_waits_for_the_others_and_they_for_it() -> None:
    here = Gate()
    order: list[str] = []
    inside, let_go, both = threading.Event(), threading.Event(), threading.Barrier(2)

    def early() -> None:
        here.enter()
        inside.set()
        let_go.wait(30)
        order.append("early")
        here.leave()

    def lone() -> None:
        here.enter()
        both.wait(30)
        with here.alone():
            order.append("alone")
            time.sleep(0.05)
            order.append("done")
        here.leave()

    def late() -> None:
        while len(here._waiting) < 2 and "done" not in order:
            time.sleep(0.001)
        here.enter()
        order.append("late")
        here.leave()

    threads = [threading.Thread(target=early)]
    threads[0].start()
    assert inside.wait(30)
    threads += [threading.Thread(target=one) for one in (lone, lone, late)]
    for thread in threads[1:]:
        thread.start()
    while len(here._waiting) < 2:
        time.sleep(0.001)
    time.sleep(0.05)
    assert order == []
    let_go.set()
    for thread in threads:
        thread.join(30)
    assert order == ["early", "alone", "done", "alone", "done", "late"]


def test_nobody_waits_for_ever() -> None:
    here = Gate(patience_s=0.01)
    other = threading.Thread(target=here.enter)
    other.start()
    other.join()
    with here.alone():
        assert here._inside


def test_requests_go_through_it_and_a_job_is_alone(tmp_path: Path) -> None:
    seen: list[tuple[bool, bool]] = []
    app = create_app(tmp_path, cache_dir=tmp_path / "kept")
    me = threading.get_ident()
    app.server.add_url_rule(
        "/look", view_func=lambda: seen.append((me in gate.GATE._inside, bool(gate.GATE._waiting))) or "seen"
    )
    client = app.server.test_client()
    assert client.get("/look", headers={"Host": "localhost"}).status_code == 200
    assert client.get("/look", headers={"Host": "elsewhere"}).status_code == 403
    assert seen == [(True, False)]
    assert me not in gate.GATE._inside, "also after what was refused"

    jobs = Jobs(tmp_path / "jobs", list)
    job = jobs.call_job_fn("key", lambda key, *_: jobs.handle.set(key, bool(gate.GATE._waiting)), [], {})
    jobs._mine[job].join()
    assert jobs.get_result("key", job) is True
