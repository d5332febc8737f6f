"""What the fixture ``snapviz`` gives: recordings of one test, and runs that it reads."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from snapviz.errors import OutputError, RecordError

if TYPE_CHECKING:
    from snapviz.analyze.run import AnyPath, Run
    from snapviz.record.recorder import Recorder

__all__ = ["Memory", "place_of"]

_ATTEMPTS = 20

_LONGEST = 100
"""Characters of a test's name that are kept in that of its directory."""


def place_of(nodeid: str, number: int = 0) -> str:
    """The name of the directory of a test's recording: the same in every session, and no other test's."""
    words = re.sub(r"[^A-Za-z0-9._]+", "-", nodeid).strip("-.")[-_LONGEST:].lstrip("-.")
    code = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}-{code}{f'-{number + 1}' if number else ''}"


class Memory:
    """Device memory in one test.

    ``phase`` begins to record, and the recording lasts until the test is over or ``finish`` is called;
    ``load_run`` reads a run, which takes neither a device nor torch. ``runs`` are all that the test's limits judge.
    """

    def __init__(self, nodeid: str, save: Path | None, temporary: pytest.TempPathFactory) -> None:
        self.runs: list[Run] = []
        self.recorded: list[int] = []
        """Which of ``runs`` were recorded here."""
        self.nodeid, self._save, self._temporary = nodeid, save, temporary
        self._recorder: Recorder | None = None
        self._directory = Path()
        self.lost: list[str] = []
        """Why recordings left nothing to judge."""

    @property
    def idle(self) -> bool:
        """Whether nothing was recorded or read, nor tried."""
        return self._recorder is None and not self.runs and not self.lost

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A phase of the recording, in the one that is open (names are joined by ``/``).

        The first one begins a recording. Skips the test where nothing can be recorded, with the reason.
        """
        return self._running().phase(name)

    def watch(self, *things: Any, **named: Any) -> None:
        """Names the tensors of modules and optimizers that were made before the recording began."""
        self._running().watch(*things, **named)

    def metric(self, name: str, value: float) -> None:
        """A figure of the run, its unit in the name, such as ``tokens_per_s``."""
        self._running().metric(name, value)

    @contextmanager
    def record(self, name: str | None = None, **options: Any) -> Iterator[Recorder]:
        """A recording of its own, with the options of ``snapviz.record``; a test can have several.

        Skips the test where nothing can be recorded. Raises ``RecordError`` where one is running already.
        """
        recorder = self._begin(name, options)
        try:
            yield recorder
        finally:
            self.finish()

    def finish(self) -> Run | None:
        """Ends the recording that is running and reads it; none where there is none, or it has nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        recorder.stop()
        if not recorder.written:
            self.lost.append("the recording wrote no file: a device that is never used has none")
            shutil.rmtree(self._directory, ignore_errors=True)
            return None
        run = self._own(recorder)
        self.recorded.append(len(self.runs))
        self.runs.append(run)
        return run

    def load_run(self, path: AnyPath) -> Run:
        """The run at a path: a run directory, a folder of snapshots or one snapshot. Raises ``InputError``."""
        from snapviz.analyze.run import load_run

        run = load_run(path)
        self.runs.append(run)
        return run

    def abandon(self) -> None:
        """Stops what still records, and leaves it."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop()

    def _running(self) -> Recorder:
        return self._recorder or self._begin(None, {})

    def _begin(self, name: str | None, options: dict[str, Any]) -> Recorder:
        from snapviz.record import backend
        from snapviz.record.recorder import Recorder

        try:
            device = options.pop("backend", None) or backend.cuda_backend()
        except RecordError as error:
            pytest.skip(str(error))
        if why := device.missing():
            pytest.skip(f"nothing can be recorded: {why}")
        # what earlier tests left in cycles is no part of this one
        gc.collect()
        directory = self._new_directory()
        test = self.nodeid.rpartition("::")[2] or self.nodeid
        known: dict[str, Any] = {"name": name or test, "command": ("pytest", self.nodeid), "backend": device}
        recorder = Recorder(directory, **(known | options))
        recorder.start()
        self._directory, self._recorder = directory, recorder
        return recorder

    def _new_directory(self) -> Path:
        if self._save is None:
            return self._temporary.mktemp("snapviz") / "run"
        self._save.mkdir(parents=True, exist_ok=True)
        # beside where it will be, so that it takes its place in one step
        place = self._save / f".{place_of(self.nodeid, len(self.recorded))}.{os.getpid()}"
        shutil.rmtree(place, ignore_errors=True)
        return place

    def _own(self, recorder: Recorder) -> Run:
        from snapviz.analyze.run import load_run

        run = load_run(self._directory, cache=False)
        place = self._directory
        if self._save is not None:
            place = self._save / place_of(self.nodeid, len(self.recorded))
            _take_place(self._directory, place, run.world_size or 1)
        # other ranks are recorded, and judged, by processes of their own
        own = tuple(one for one in run.failures if one.rank == recorder.rank)
        return replace(run, failures=own, path=str(place))


def _take_place(written: Path, place: Path, world_size: int) -> None:
    """Has a recording take the place of an earlier session's, all at once; of several ranks, each its files."""
    if world_size > 1:
        place.mkdir(exist_ok=True)
        for file in written.iterdir():
            file.replace(place / file.name)
        written.rmdir()
        return
    # another process may run the same test (xdist's --dist=each): whoever comes last is kept
    for attempt in range(_ATTEMPTS):
        with contextlib.suppress(OSError):
            written.rename(place)
            return
        old = place.with_name(f".{place.name}.{os.getpid()}.{attempt}")
        with contextlib.suppress(OSError):
            place.rename(old)
            shutil.rmtree(old, ignore_errors=True)
    raise OutputError(f"{place}: the recording cannot be put there; it is left in {written}")
