"""Records a program that knows nothing of snapviz: what ``snapviz record`` does."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from snapviz.errors import RecordError, UsageError
from snapviz.record.auto import Auto
from snapviz.record.backend import Backend, HistorySettings, cuda_backend
from snapviz.record.fakeworld import fake_world
from snapviz.record.program import find_program, hide_own_frames
from snapviz.record.recorder import Recorder

__all__ = ["Request", "run"]


@dataclass(frozen=True)
class Request:
    """What to run, and how to record it."""

    command: list[str]
    # SCRIPT ARGS, or -m MODULE ARGS
    output: str
    name: str | None = None
    steps: int | None = None
    # of training; all of them where it is left out
    exit: bool = False
    # whether the process ends once these are written
    world_size: int | None = None
    # of a world that is faked; none is where it is left out
    rank: int = 0
    # in that world
    max_entries: int = HistorySettings.max_entries
    context: str = HistorySettings.context
    stacks: str = HistorySettings.stacks
    holders: bool = True
    auto: bool = True
    # whether hooks make phases
    settings: Mapping[str, str] = field(default_factory=dict)
    overwrite: bool = False


def run(request: Request, backend: Backend | None = None) -> int | BaseException:
    """Runs the program and records it. Returns 0, or what the program raised, for the caller to raise in turn.

    Raises an error of snapviz's tree where nothing could be recorded; the program has not run then.
    """
    _check(request)
    program = find_program(request.command)
    backend = backend or cuda_backend()
    why = backend.missing()
    if why:
        raise RecordError(f"nothing can be recorded here: {why}")
    # the command line needs no garbage collector; what the program's memory is may depend on it
    gc.enable()
    with contextlib.ExitStack() as stack:
        if request.world_size is not None:
            stack.enter_context(fake_world(request.rank, request.world_size))
        session = _Session(request, backend)
        stack.enter_context(session)
        error = program.run()
        session.finish()
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        hide_own_frames(error)
    return error


def _check(request: Request) -> None:
    if request.exit and request.steps is None:
        raise UsageError("--exit ends the process after --steps N: say how many")
    if request.steps is not None and not request.auto:
        raise UsageError("--steps counts what hooks see, and --no-auto leaves those out: leave out one of them")
    if request.world_size is None and request.rank:
        raise UsageError("--rank is the rank in a faked world: give --world-size too")
    if request.world_size is not None and request.rank >= request.world_size:
        last = request.world_size - 1
        raise UsageError(f"rank {request.rank} is not one of a world of {request.world_size}: 0 to {last}")
    if request.world_size is not None and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(
            "--world-size fakes the other ranks, and torchrun has started real ones: leave out one of them"
        )


class _Session(contextlib.AbstractContextManager["_Session"]):
    """One recording around a program: its messages, its end, and SIGTERM."""

    def __init__(self, request: Request, backend: Backend) -> None:
        self._request = request
        self._process = os.getpid()
        # several ranks would all say the same; the one of a faked world is alone
        self._speaks = request.world_size is not None or os.environ.get("RANK", "0") == "0"
        self._sigterm = _UntilSigterm(self.finish)
        self._done = False
        self._recorder = Recorder(
            request.output,
            name=request.name,
            rank=request.rank if request.world_size is not None else None,
            world_size=request.world_size,
            context=request.context,
            stacks=request.stacks,
            max_entries=request.max_entries,
            settings=request.settings,
            holders=request.holders,
            overwrite=request.overwrite,
            fake_process_group=True if request.world_size is not None else None,
            command=tuple(request.command),
            backend=backend,
        )
        self._auto = Auto(self._recorder, request.steps, self._enough, backend.device_type)

    def __enter__(self) -> _Session:
        self._recorder.start()
        if self._recorder.active:
            if self._request.auto:
                self._recorder.at_stop(self._auto.install())
                self._recorder.auto = self._auto
            self._say(f"recording to {self._request.output}")
            self._sigterm.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Writes what was recorded, once, and only in the process that began: a forked one has no part in it."""
        if self._done or os.getpid() != self._process:
            return
        self._done = True
        if not self._recorder.active:
            return
        with self._sigterm.held_back():  # it would end the process in the middle of a file
            self._recorder.stop()
        self._sigterm.remove()
        if self._recorder.written:  # else it has warned of what kept it
            self._say(self._summary())

    def _enough(self) -> None:
        self.finish()
        if self._request.exit:
            raise SystemExit(0)

    # ------------------------------------------------------------------ what is said

    def _summary(self) -> str:
        phases = self._recorder.phases_closed
        what = f"{_counted(self._auto.steps_begun, 'step')}, {_counted(phases, 'phase')}"
        return f"recorded {what} → {self._request.output}"

    def _say(self, words: str) -> None:
        if self._speaks and sys.stderr is not None:
            with contextlib.suppress(Exception):  # it is the program's own by now
                sys.stderr.write(f"snapviz: {words}\n")
                sys.stderr.flush()


class _UntilSigterm:
    """Does something before SIGTERM does what it would have done; not in a process that was forked."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._former: Any = None
        self._holding = False
        self._waiting: tuple[int, FrameType | None] | None = None
        self._mask: set[int] = set()

    def install(self) -> None:
        """Takes the place of the handler that is there."""
        former = signal.getsignal(signal.SIGTERM)
        # ignored, it ends nothing; one that Python did not set could not be put back
        if former in (signal.SIG_IGN, None):
            return
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, self._handle)
            self._former = former
            # Python drops what a forked process is sent before it is ready; the default action would not have
            os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._restore)

    def remove(self) -> None:
        """Puts back what was there, unless the program has a handler of its own by now."""
        former, self._former = self._former, None
        if former is not None and signal.getsignal(signal.SIGTERM) == self._handle:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, former)

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Inside, the signal waits: torchrun sends it to all ranks as soon as one has failed, and waits 30 s."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._waiting is not None:
                self._handle(*self._waiting)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._holding:
            self._waiting = (number, frame)
            return
        former = self._former
        self._work()
        self.remove()
        if callable(former):
            former(number, frame)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def _hold(self) -> None:
        if self._former is not None:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _let_go(self) -> None:
        if self._former is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _restore(self) -> None:
        if self._former is not None:
            self.remove()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
