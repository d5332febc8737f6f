"""Holders that run: locals of functions, of other threads, of what is suspended or ended."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.record.holders.builders import find, kinds, look, target  # noqa: E402


def line_of(function: Any, offset: int) -> int:
    return int(function.__code__.co_firstlineno) + offset


def test_a_local() -> None:
    old = torch.ones(3)
    where = target(old)
    assert look(where) == ["local 'old' in test_a_local (HERE)"]
    assert kinds(where) == ["frame"]


def test_a_local_list() -> None:
    old = [torch.ones(3), torch.ones(4)]
    where = target(old[1])
    assert look(where) == ["local 'old'[1] in test_a_local_list (HERE)"]


def test_nothing_holds() -> None:
    old = torch.ones(3)
    where = target(old)
    del old
    found = find(where)
    assert (found.holders, found.complete) == ((), True)


def inner_call(where: Any) -> list[str]:
    return look(where)


def test_every_caller_is_looked_at() -> None:
    outer = torch.ones(3)
    where = target(outer)
    (path,) = inner_call(where)
    line = line_of(test_every_caller_is_looked_at, 3)
    assert path == f"local 'outer' in test_every_caller_is_looked_at (test_frames.py:{line})"


def test_the_search_keeps_nothing_alive() -> None:
    old = torch.ones(3)
    where, freed = target(old), weakref.ref(old.untyped_storage())
    assert look(where)
    del old
    assert freed() is None
    assert look(where) == []


def test_what_exec_left_in_the_locals_stays() -> None:
    w = torch.ones(3)
    exec("left = 1")
    look(target(w))
    if sys.version_info < (3, 13):
        assert eval("left") == 1  # noqa: S307
    assert w is not None


def test_locals_that_the_user_asked_for_stay() -> None:
    w = torch.ones(3)
    where = target(w)
    mine = locals()
    look(where)
    assert mine["w"] is w


def test_a_traced_function_keeps_its_locals() -> None:
    seen: list[list[str]] = []

    def traced() -> Any:
        w = torch.ones(3)
        where = target(w)
        return w, where

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "return" and frame.f_code is traced.__code__:
            seen.append(look(argument[1]))
        if event == "line" and "where" in frame.f_locals:
            find(frame.f_locals["where"])
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        w, where = traced()
    finally:
        sys.settrace(before)
    assert target(w) == where
    assert any("local 'w' in" in path for path in seen[0])


def test_another_thread() -> None:
    ready, done = threading.Event(), threading.Event()
    where: list[Any] = []

    def work() -> None:
        w = torch.ones(3)
        where.append(target(w))
        ready.set()
        done.wait(60)
        del w

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(60)
    try:
        line = line_of(work, 4)
        name = "test_another_thread.<locals>.work"
        assert look(where[0]) == [f"local 'w' in {name} (test_frames.py:{line})"]
    finally:
        done.set()
        thread.join()


def steps(w: Any) -> Iterator[Any]:
    yield target(w)
    yield w


def test_a_generator() -> None:
    running = steps(torch.ones(3))
    where = next(running)
    path = f"local 'w' in the suspended generator steps (test_frames.py:{line_of(steps, 1)}) ← running (HERE)"
    assert look(where) == [path]
    assert kinds(where) == ["generator"]
    assert target(next(running)) == where


def test_a_coroutine() -> None:
    async def work(w: Any, out: list[Any]) -> None:
        out.append(target(w))
        await asyncio.sleep(0)

    out: list[Any] = []
    running = work(torch.ones(3), out)
    running.send(None)
    name = "test_a_coroutine.<locals>.work"
    line = line_of(work, 2)
    assert look(out[0]) == [f"local 'w' in the suspended coroutine {name} (test_frames.py:{line}) ← running (HERE)"]
    running.close()


def fail(w: Any, out: list[Any]) -> None:
    out.append(target(w))
    raise ValueError


def test_an_exception_keeps_the_frames_it_went_through() -> None:
    out: list[Any] = []
    kept: Any = None
    try:
        fail(torch.ones(3), out)
    except ValueError as error:
        kept = error
    line = line_of(fail, 2)
    path = f"local 'w' in the ended call of fail (test_frames.py:{line}) ← ValueError.__traceback__ ← kept (HERE)"
    assert look(out[0]) == [path]
    kept.__traceback__ = None
    assert look(out[0]) == []


def test_the_recorder_is_no_holder() -> None:
    space: dict[str, Any] = {"__name__": "snapviz.record.recorder", "look": look, "__builtins__": __builtins__}
    exec("def record(where, make):\n    w = make()\n    return look(where(w))", space)
    assert space["record"](target, lambda: torch.ones(3)) == []


def test_the_body_of_a_class_and_what_it_runs_in() -> None:
    class Space(dict[str, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("iter")

        def keys(self) -> Any:
            raise AssertionError("keys")

        def items(self) -> Any:
            raise AssertionError("items")

    class Meta(type):
        @classmethod
        def __prepare__(cls, *_: Any) -> Space:
            return Space()

        def __new__(cls, name: str, bases: Any, space: Any) -> Any:
            return super().__new__(cls, name, bases, {})

    class Body(metaclass=Meta):
        w = torch.ones(3)
        where = target(w)
        paths.append(look(where))

    (found,) = paths
    name = "test_the_body_of_a_class_and_what_it_runs_in.<locals>.Body"
    assert found == [f"local 'w' in {name} (HERE)"]
    paths.clear()
    assert Body is not None


paths: list[list[str]] = []
