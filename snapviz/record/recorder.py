"""One rank's recording, from the first allocation to the files of its run directory.

To record must not change a run: what goes wrong in here is warned of and training goes on. Only what
cannot be meant is raised, and only at the start: a directory that holds another run, history that
somebody records already.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from snapviz.errors import RecordError, UsageError
from snapviz.record.backend import Backend, CudaBackend, HistorySettings
from snapviz.record.census import Census
from snapviz.record.current import active, set_active
from snapviz.record.dangling import look_for_holders
from snapviz.record.documents import Job, NamedMoment, Notes, history_record, manifest_of, rank_record
from snapviz.record.phases import ClosedPhase, Moment, PhaseLog
from snapviz.record.surroundings import git_state, package_versions, rank_and_world
from snapviz.record.tensors import Row
from snapviz.record.watched import Watched
from snapviz.record.write import RunDirectory

__all__ = ["Recorder"]

_SHARD = "shard"
_NUMBER = re.compile(r"\d+")

_DETAILED = 3
"""Names are read at the ends of the first so many phases of a kind (``train/step0``, ``step1``, ``step2``): each
reading of a large model takes some 10 ms, and what a step names it names again in the next."""


class Recorder:
    """Records one rank; a context manager.

    Args:
        directory: where to, a path or an fsspec URL; each rank writes its own files, rank 0 the manifest.
        name: of the run, for people; the directory's own where it is left out.
        rank, world_size: as torch.distributed or torchrun have them where they are left out.
        device: ordinal; the process's own device where it is left out.
        context, stacks, max_entries: how torch records history, see ``HistorySettings``.
        settings: what the run was asked to do (batch size, …): compared between runs.
        holders: whether to look for what keeps parameters that dangle at the end of ``shard``.
        overwrite: whether another run in the directory may be replaced.
        fake_process_group: whether torch's fake process group stands in for the other ranks.
        command: the command line, as it is to be shown.
        backend: what is recorded; torch.cuda's allocator.

    ``start``, and entering, raise ``RecordError`` where recording cannot begin as asked.
    """

    def __init__(  # noqa: PLR0913 - each is something a user may have to say
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        device: int | None = None,
        context: str = "alloc",
        stacks: str = "python",
        max_entries: int = HistorySettings.max_entries,
        settings: Mapping[str, Any] | None = None,
        holders: bool = True,
        overwrite: bool = False,
        fake_process_group: bool | None = None,
        command: tuple[str, ...] | None = None,
        backend: Backend | None = None,
    ) -> None:
        if max_entries < 1:
            raise UsageError(f"max_entries is {max_entries}: at least one event has to be kept")
        self.active = False
        self.auto: Any = None
        """What makes phases by itself and has to pause while the user names them (``snapviz.record.auto``)."""
        self.directory = os.fspath(directory)
        self._asked = (rank, world_size, device)
        self._history = HistorySettings(max_entries, context, stacks)
        self._holders, self._overwrite = holders, overwrite
        self._backend = backend
        self._lock = threading.RLock()
        self._job = Job(
            name=name or Path(self.directory).name or self.directory,
            command=tuple(sys.orig_argv) if command is None else command,
            rank=0,
            world_size=1,
            settings=dict(settings or {}),
            fake_process_group=fake_process_group,
        )
        self._notes = Notes()
        self._times: Counter[str] = Counter()
        self._explicit = 0
        self._at_stop: list[Callable[[], None]] = []
        self._files = RunDirectory(self.directory)

    # ------------------------------------------------------------------ begin and end

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to record. Raises ``RecordError``; warns where this rank cannot be recorded."""
        running = active()
        if running is not None:
            raise RecordError(f"a recording is running already in this process, into {running.directory}")
        backend = self._backend = self._backend or _cuda()
        why = backend.missing()
        if why:
            _warn(f"nothing is recorded: {why}")
            return
        backend.prepare()
        if backend.is_recording():
            raise RecordError(
                "memory history is being recorded already (_record_memory_history): two recordings would "
                "overwrite each other; switch it off, or leave out snapviz"
            )
        self._identify()
        if not self._claim():
            return
        device = self._own_device(backend)
        self._fresh = backend.is_fresh(device)
        self._log = PhaseLog(backend, device)
        self._watched = Watched()
        self._census = Census(self._watched, backend.device_type)
        self._watched.install()
        backend.start(self._history)
        backend.reset_peaks(device)
        self.active = True
        set_active(self)
        self._describe(backend)

    def stop(self) -> None:
        """Closes what is open, writes this rank's files, and switches everything off. Never raises."""
        with self._lock:
            if not self.active:
                return
            self.active = False
            self._guard("the last phase", self._close_all)
            for undo in reversed(self._at_stop):
                self._guard("hooks", undo)
            self._guard("hooks", self._watched.remove)
            snapshot = self._guard("the snapshot", self._backend_now.snapshot)
            self._guard("the allocator's history", self._backend_now.stop)
            set_active(None)
            if snapshot is not None:
                self._guard(f"rank {self._job.rank}", lambda: self._write(snapshot))
            for lost in sorted(self._census.lost):
                _warn(f"left out: {lost}")
            self._guard("temporary files", self._files.close)

    def at_stop(self, undo: Callable[[], None]) -> None:
        """Has ``undo`` called when the recording ends, the last one first."""
        self._at_stop.append(undo)

    @property
    def _backend_now(self) -> Backend:
        assert self._backend is not None
        return self._backend

    def _identify(self) -> None:
        rank, world_size = rank_and_world()
        self._job.rank = rank if self._asked[0] is None else self._asked[0]
        self._job.world_size = max(world_size if self._asked[1] is None else self._asked[1], self._job.rank + 1)

    def _leads(self) -> bool:
        """Whether this rank writes the manifest."""
        return self._job.rank == 0 or bool(self._job.fake_process_group)

    def _claim(self) -> bool:
        try:
            self._files.claim(self._job.rank, self._job.world_size, self._leads(), self._overwrite)
        except OSError as error:
            _warn(
                f"rank {self._job.rank} is not recorded: {self.directory} cannot be written: {error.strerror or error}"
            )
            return False
        return True

    def _own_device(self, backend: Backend) -> int:
        """The device asked for; else torchrun's, which the process has yet to choose; else the current one."""
        if self._asked[2] is not None:
            return self._asked[2]
        local = os.environ.get("LOCAL_RANK", "")
        if local.isdecimal() and int(local) < backend.device_count():
            return int(local)
        return backend.current_device()

    def _describe(self, backend: Backend) -> None:
        """The first manifest: a job that is killed leaves at least that."""
        words = self._guard("the device's name", lambda: backend.describe(self._log.device)) or {}
        self._job.torch, self._job.device_name = words.get("torch"), words.get("device")
        if self._leads():
            self._job.packages = self._guard("versions", lambda: package_versions(sys.modules.get("torch"))) or {}
            self._job.git = self._guard("git", lambda: git_state(Path.cwd()))
            self._guard("the manifest", lambda: self._files.write_manifest(manifest_of(self._job)))

    # ------------------------------------------------------------------ what a user says

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase, in the one that is open (names are joined by ``/``).

        Raises ``UsageError`` for what is no phase's name.
        """
        if not self.active:
            yield
            return
        self._log.joined(name)  # a name that cannot be is told before anything changes
        if self._explicit == 0 and self.auto is not None:
            self.auto.pause()
        self._explicit += 1
        depth = len(self._log.opened)
        self.open(name)
        try:
            yield
        finally:
            self._explicit -= 1
            self._close_down_to(depth)
            if self._explicit == 0 and self.auto is not None:
                self.auto.resume()

    def watch(self, *things: Any, **named: Any) -> None:
        """Names the tensors of these modules and optimizers; ``named``: with a word of your own before them.

        Raises ``UsageError`` for what is neither.
        """
        if not self.active:
            return
        for name, thing in [*((None, thing) for thing in things), *named.items()]:
            if not self._watched.add(thing, name):
                raise UsageError(f"a module or an optimizer can be watched, not a {type(thing).__name__}")

    def metric(self, name: str, value: float) -> None:
        """Notes a figure of the run, its unit in the name: ``metric("tokens_per_s", 11_603)``."""
        self._job.metrics[name] = value if isinstance(value, int) else float(value)

    def find_holders(self) -> None:
        """Looks, now, for what keeps the parameters that are whole and that nothing runs with."""
        if self.active:
            with self._lock:
                self._guard("holders", lambda: self._look(self._census.take()))

    # ------------------------------------------------------------------ phases

    def path(self) -> str | None:
        """Full name of the innermost open phase."""
        return self._log.path if self.active else None

    def open(self, name: str) -> None:
        """Opens a phase in the innermost open one. Raises ``UsageError`` for what is no name."""
        with self._lock:
            if self.active:
                full = self._log.joined(name)
                self._guard("a phase", lambda: self._begin(full, self._boundary(full)))

    def close(self) -> None:
        """Closes the innermost phase."""
        with self._lock:
            if self.active and self._log.opened:
                self._guard("a phase", self._end)

    def switch(self, name: str) -> None:
        """Closes the innermost phase and opens another beside it, in one boundary."""
        with self._lock:
            if self.active and self._log.opened:
                outer = self._log.opened[-1].name.rpartition("/")[0]
                full = f"{outer}/{name}" if outer else name
                self._guard("a phase", lambda: self._begin(full, self._end()))

    def _close_down_to(self, depth: int) -> None:
        """Closes what an explicit phase holds, and what hooks left open in it."""
        while self.active and len(self._log.opened) > depth:
            self.close()

    def _begin(self, full: str, moment: Moment) -> None:
        self._log.begin(full, moment)

    def _boundary(self, full: str) -> Moment:
        """The boundary at which a phase begins; names are read there too: what was made outside of phases."""
        moment = self._measure(full)
        if self._is_detailed(full):
            self._take_names(moment, None)
        return moment

    def _end(self) -> Moment:
        full = self._log.opened[-1].name
        moment = self._measure(full)
        closed = self._log.end(moment)
        self._notes.phases.append(closed)
        if self._is_detailed(full):
            self._after(moment, closed)
        self._times[_NUMBER.sub("", full)] += 1
        return moment

    def _measure(self, full: str) -> Moment:
        self._follow_device()
        # inside a later step, to wait for the device would cost the step time that it hides otherwise
        whole = full.count("/") < 2 or self._is_detailed(full)
        return self._log.boundary(synchronize=whole, whole_device=whole)

    def _is_detailed(self, full: str) -> bool:
        return self._times[_NUMBER.sub("", full)] < _DETAILED

    def _follow_device(self) -> None:
        """The process may choose its device only after recording began; until then nothing was allocated."""
        backend, log = self._backend_now, self._log
        if self._asked[2] is None and self._fresh and not self._notes.phases:
            current = backend.current_device()
            if current != log.device and backend.is_fresh(log.device):
                log.device = current

    def _after(self, moment: Moment, closed: ClosedPhase) -> None:
        """What is looked at when a phase has ended."""
        rows = self._take_names(moment, closed.name)
        if self._holders and closed.name.rpartition("/")[2] == _SHARD:
            self._guard("holders", lambda: self._look(rows))

    def _take_names(self, moment: Moment, phase: str | None) -> tuple[Row, ...]:
        rows = self._guard("names", self._census.take) or ()
        last = self._notes.censuses[-1] if self._notes.censuses else None
        if rows and (last is None or last.rows != rows):
            self._notes.censuses.append(NamedMoment(moment.stop_us, phase, rows))
        return rows

    def _look(self, rows: tuple[Row, ...]) -> None:
        device_type = self._backend_now.device_type
        self._notes.holders = look_for_holders(self._census.dangling(rows), device_type, (self, self._census))

    def _close_all(self) -> None:
        while self._log.opened:
            self._end()
        self._take_names(self._log.boundary(), None)

    # ------------------------------------------------------------------ files

    def _write(self, snapshot: dict[str, Any]) -> None:
        self._finally_identify()
        history = history_record(self._history, self._fresh, snapshot["device_traces"], self._log.device)
        record = rank_record(self._job, self._log.device, history, self._notes)
        self._files.write_rank(record, snapshot)
        if self._leads():
            self._files.write_manifest(manifest_of(self._job, snapshot.get("allocator_settings")))

    def _finally_identify(self) -> None:
        """The process group may have been made after recording began."""
        rank, world_size = rank_and_world()
        if self._asked[0] is None and self._asked[1] is None:
            self._job.rank, self._job.world_size = rank, world_size

    def _guard(self, what: str, work: Callable[[], Any]) -> Any:
        """Does one thing; what goes wrong is warned of, and never training's problem."""
        try:
            return work()
        except Exception as error:
            _warn(f"{what} could not be recorded ({type(error).__name__}: {error})")
            return None


def _cuda() -> Backend:
    try:
        return CudaBackend()
    except ImportError as error:
        raise RecordError(f"recording needs torch: {error}") from error


def _warn(words: str) -> None:
    # under ``python -W error`` a warning of ours would end the training
    with suppress(Warning):
        warnings.warn(f"snapviz: {words}", RuntimeWarning, stacklevel=3)
