"""Phases without a line of code: what the hooks of ``snapviz.record.frameworks`` see becomes phases.

Before training, phases are stretches: what the program has been doing lately (``materialize``, ``shard``,
``optimizer``, ``ddp``, ``jit``). One lasts until a call of another kind begins, so that 33 calls of
``fully_shard``, one a layer, are one phase. Training begins with the first forward of a whole model and is
never left: ``train``, in it ``step0``, ``step1``, …, in each ``forward``, ``backward`` and ``optimizer``. A
step lasts until the next forward that comes after an optimizer's step.

Nothing in here may fail a training: what goes wrong is warned of once, and no more phases are made.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol

from snapviz.record.boundaries import DETAILED
from snapviz.record.guard import tell
from snapviz.record.windows import WindowLog
from snapviz.schema import SHARD, TRAIN

__all__ = ["Auto", "Span"]

_WITHIN_TRAINING = (SHARD, "ddp")
"""Stretches that get a phase of their own inside a step: what is sharded that late is worth seeing."""


_STEP = re.compile(r"(?:^|/)(?:step|iter|iteration)[-_ ]?\d+\Z")
"""A phase that counts as a step, where the program names its own."""


class _Phases(Protocol):
    """What is needed of a ``Recorder``."""

    windows: WindowLog

    def open(self, name: str) -> None: ...
    def close(self) -> None: ...
    def switch(self, name: str) -> None: ...
    def watch(self, *things: Any) -> None: ...
    def mark(self) -> None: ...


class Span:
    """A context manager out of two calls, neither of which raises; the second is given what the first said."""

    __slots__ = ("_began", "_begin", "_end")

    def __init__(self, begin: Callable[[], bool], end: Callable[[bool], None]) -> None:
        self._begin, self._end = begin, end
        self._began = False

    def __enter__(self) -> None:
        self._began = self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._began)


class _Here(threading.local):
    """What this thread is in."""

    depth = 0  # calls of hooked functions
    busy = False  # in a forward or a backward that is a phase


class Auto:
    """Makes phases of what a program does.

    Args:
        recorder: opens and closes them.
        steps: how many steps of training to record; None for all of them.
        on_done: called once when a step more than ``steps`` would begin. It ends the recording.
        device_type: where what counts lies: ``cuda``.
    """

    def __init__(
        self,
        recorder: _Phases,
        steps: int | None = None,
        on_done: Callable[[], None] | None = None,
        device_type: str = "cuda",
    ) -> None:
        self.device_type = device_type
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext
        """What to enter around a compiler that reads a program's code, so that it finds nothing of ours in modules."""
        self._recorder, self._steps, self._on_done = recorder, steps, on_done
        self._lock = threading.RLock()
        self._here = _Here()
        self._process = os.getpid()
        self._off = False
        self._paused = 0
        self._stretch: str | None = None
        self._step = -1
        self._named_steps = 0
        self._home = 0
        """The thread that trains, once one does: a forward in another one is none of a step's."""
        self._part: str | None = None
        """What is open in the step: ``forward``, …"""
        self._stepping: int | None = None
        """The optimizer, by id, whose step the part is."""
        self._stepped = False
        """Whether an optimizer has stepped in this step."""
        self._forwards = False
        """Whether a forward was ever seen. One inside a compiled function is not, and then backward begins a step."""

    @property
    def steps_begun(self) -> int:
        """Steps of training so far, with the one that is going on."""
        return max(self._step + 1, self._named_steps)

    @property
    def steady(self) -> bool:
        """Whether a stretch goes on, or training does."""
        return self._stretch is not None or self._step >= 0

    @property
    def listening(self) -> bool:
        """Whether a call in this thread could begin something: not off, not paused, not inside of a phase's call."""
        return not (self._off or self._paused or self._here.busy or self._here.depth) and self._is_mine()

    @property
    def windows(self) -> WindowLog:
        """Where calls of modules are noted."""
        return self._recorder.windows

    @property
    def reads_names(self) -> bool:
        """Whether this thread is in a forward or a backward of a step whose names are read."""
        return self._here.busy and not self._off and self.steps_begun <= DETAILED

    def install(self) -> Callable[[], None]:
        """Puts the hooks in place; what is returned takes them away and ends all this."""
        from snapviz.record import frameworks

        uninstall = frameworks.install(self)

        def undo() -> None:
            self.stop()
            uninstall()

        return undo

    def stop(self) -> None:
        """Makes no more phases. What is open is the recorder's to close."""
        self._off = True

    # ------------------------------------------------------------------ what hooks tell

    def activity(self, name: str) -> Span:
        """Around a call of a kind. Only the outermost counts: what ``prepare`` does is all ``shard``."""
        return Span(lambda: self._enter(name), self._leave)

    def touch(self, name: str) -> None:
        """Something of a kind happened, and no call goes around it."""
        with self.activity(name):
            pass

    def forward(self) -> Span:
        """Around the forward of a whole model."""
        return Span(lambda: self._begin("forward"), self._end)

    def backward(self) -> Span:
        """Around what torch.autograd does."""
        return Span(lambda: self._begin("backward"), self._end)

    def clearing(self) -> Span:
        """Around the clearing of gradients. After a step, it is the last that is known to belong to it."""
        return Span(lambda: True, lambda _: self._guarded(self._cleared))

    def named_phase_ended(self, name: str) -> None:
        """A phase that the program itself names has ended: one that is called a step is one."""
        self._guarded(self._named_phase_ended, name)

    def optimizer_begins(self, optimizer: Any) -> None:
        """An optimizer's step begins."""
        self._guarded(self._optimizer_begins, id(optimizer))

    def optimizer_ended(self, optimizer: Any) -> None:
        """An optimizer's step has ended, maybe in the thread of a backward."""
        self._guarded(self._optimizer_ended, id(optimizer))

    def saw(self, thing: Any) -> None:
        """A module or an optimizer whose tensors should have names."""
        self._guarded(self._recorder.watch, thing)

    # ------------------------------------------------------------------ what the user's own phases tell

    def pause(self) -> None:
        """The user names phases: a stretch ends here, a step goes on with the user's phase in it."""
        self._paused += 1
        self._guarded(self._make_room)

    def resume(self) -> None:
        """The user's phase has ended."""
        self._paused = max(0, self._paused - 1)

    def _make_room(self) -> None:
        if self._here.depth:  # inside of a hooked call: the user's phase is a part of it
            return
        if self._stretch is not None:
            self._recorder.close()
            self._stretch = None
        elif self._part in _WITHIN_TRAINING:
            self._close_part()

    # ------------------------------------------------------------------ stretches

    def _enter(self, name: str) -> bool:
        outermost = self.listening
        self._here.depth += 1
        if outermost:
            self._guarded(self._turn_to, name)
        return True

    def _leave(self, _: bool) -> None:
        self._here.depth -= 1

    def _turn_to(self, name: str) -> None:
        if self._step < 0:
            if self._stretch is None:
                self._recorder.open(name)
            elif self._stretch != name:
                self._recorder.switch(name)
            self._stretch = name
        elif name in _WITHIN_TRAINING and self._is_home():
            self._part_becomes(name)

    # ------------------------------------------------------------------ training

    def _begin(self, part: str) -> bool:
        """Whether a part began. What is called inside of one is not told: checkpointing runs forwards in backward."""
        return self.listening and bool(self._guarded(self._begin_part, part))

    def _begin_part(self, part: str) -> bool:
        forward = part == "forward"
        if self._step < 0:
            self._begin_training()
        elif not self._is_home():
            return False
        elif self._stepped and (forward or not self._forwards):
            self._next_step()
        self._forwards = self._forwards or forward
        if self._off:  # that was one step more than was asked for
            return False
        self._part_becomes(part)
        self._here.busy = True
        return True

    def _end(self, began: bool) -> None:
        if began:
            self._here.busy = False
            self._guarded(self._close_part)

    def _begin_training(self) -> None:
        self._home = threading.get_ident()
        if self._stretch is None:
            self._recorder.open(TRAIN)
        else:
            self._recorder.switch(TRAIN)
        self._stretch = None
        self._step = 0
        self._recorder.open("step0")

    def _next_step(self) -> None:
        self._close_part()
        if self._step + 1 == self._steps:
            self._off = True
            if self._on_done is not None:
                self._on_done()
            return
        self._step += 1
        self._stepped = False
        self._recorder.switch(f"step{self._step}")

    def _part_becomes(self, part: str) -> None:
        if self._part is None:
            self._recorder.open(part)
        elif self._part != part:
            self._recorder.switch(part)
        self._part = part
        self._stepping = None

    def _close_part(self) -> None:
        if self._part is not None:
            self._recorder.close()
        self._part = self._stepping = None

    def _optimizer_begins(self, optimizer: int) -> None:
        if not self.listening:
            return
        if self._step < 0:
            # no training yet: a checkpoint is being loaded, or the state made in advance
            self._turn_to("optimizer")
        elif self._is_home() and self._stepping is None:
            self._part_becomes("optimizer")
            self._stepping = optimizer

    def _optimizer_ended(self, optimizer: int) -> None:
        if self._step < 0 or not self._is_mine():
            return
        # in whatever thread, and inside a phase of the user's too
        self._stepped = True
        if self._stepping == optimizer and self._is_home() and not self._paused:
            self._close_part()

    def _cleared(self) -> None:
        between = self._stepped and self._part is None and not self._paused
        if between and self._is_mine() and self._is_home():
            self._recorder.mark()

    def _named_phase_ended(self, name: str) -> None:
        if not _STEP.search(name) or not self._is_mine():
            return
        self._named_steps += 1
        if self._named_steps == self._steps:
            self._off = True
            if self._on_done is not None:
                self._on_done()

    # ------------------------------------------------------------------ where, and what if

    def _is_home(self) -> bool:
        return threading.get_ident() == self._home

    def _is_mine(self) -> bool:
        return os.getpid() == self._process

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        # a forked process may have been given the lock as another thread held it
        if self._off or not self._is_mine():
            return None
        try:
            with self._lock:
                return work(*arguments)
        except Exception as error:
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        """Makes no more phases, and says so once."""
        if self._off:
            return
        self._off = True
        tell(
            f"no more phases are made by themselves ({type(error).__name__}: {error}); "
            "the recording goes on without them"
        )
