"""One rank's recording, from the first allocation to the files of its run directory.

To record must not change a run: what goes wrong in here is warned of and training goes on. Only what
cannot be meant is raised, and only at the start: a directory that holds another run, history that
somebody records already.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from snapviz.errors import RecordError, UsageError
from snapviz.record.again import Again
from snapviz.record.backend import Backend, HistorySettings, cuda_backend
from snapviz.record.boundaries import Boundaries
from snapviz.record.census import Census
from snapviz.record.current import active, set_active
from snapviz.record.documents import Job, history_record, manifest_of, rank_record
from snapviz.record.guard import guarded, tell
from snapviz.record.surroundings import Place, git_state, launched_job, package_versions, process_group
from snapviz.record.watched import Watched
from snapviz.record.write import RunDirectory
from snapviz.schema import MOST_RANKS

__all__ = ["Recorder"]

_RECORDED_ALREADY = (
    "memory history is being recorded already (_record_memory_history): two recordings would overwrite each "
    "other; switch it off, or leave out snapviz"
)


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
        if not 1 <= max_entries < 1 << 63:
            raise UsageError(f"max_entries is {max_entries}: at least one event has to be kept, and fewer than 2**63")
        if rank is not None and not 0 <= rank < MOST_RANKS:
            raise UsageError(f"rank {rank}: 0 to {MOST_RANKS - 1}")
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
        self._process = os.getpid()
        self._explicit = 0
        self._group: Place | None = None
        self._written: dict[str, Any] | None = None
        """The allocator's settings, once this rank's files are written."""
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
        backend = self._backend = self._backend or cuda_backend()
        why = backend.missing()
        if why:
            tell(f"nothing is recorded: {why}")
            return
        if backend.is_ready() and backend.is_recording():
            raise RecordError(_RECORDED_ALREADY)
        self._identify()
        if not self._claim():
            return
        self._fresh = True
        self._watched = Watched()
        self._census = Census(self._watched, backend.device_type)
        self._boundaries = Boundaries(backend, self._own_device(backend), self._census, self._holders)
        self.windows = self._boundaries.windows
        guarded("what there is already", self._watched.look_around)
        guarded("what is made", self._watched.install)
        self.active = True
        set_active(self)
        backend.when_ready(lambda: guarded("history", self._begin_history))
        self._describe(backend)

    def _begin_history(self) -> None:
        """Once the allocator is there: the program may set it up, and choose its devices, before it uses them."""
        backend = self._backend_now
        if not self.active or os.getpid() != self._process:
            return
        if backend.is_recording():
            self._give_up(_RECORDED_ALREADY)
            return
        self._boundaries.log.device = self._own_device(backend)
        self._fresh = backend.is_fresh(self._boundaries.log.device)
        backend.before_program_resets(self._boundaries.log.fold)
        backend.start(self._history)
        backend.reset_peaks(self._boundaries.log.device)

    def _give_up(self, why: str) -> None:
        """Leaves the program alone from now on."""
        tell(f"nothing is recorded: {why}")
        self.active = False
        self._leave()

    def _leave(self) -> None:
        """Takes everything away that was put around the program."""
        for undo in reversed(self._at_stop):
            guarded("hooks", undo)
        self._at_stop.clear()
        guarded("hooks", self._watched.remove)
        set_active(None)

    def stop(self) -> None:
        """Closes what is open, writes this rank's files, and switches everything off. Never raises."""
        if os.getpid() != self._process:  # a forked process has no part in it
            return
        with self._lock:
            if not self.active:
                return
            self.active = False
            guarded("the last phase", self._boundaries.close_all)
            self._leave()
            was_used = self._backend_now.is_ready()
            snapshot = guarded("the snapshot", self._backend_now.snapshot)
            guarded("the allocator's history", self._backend_now.stop)
            if not was_used:
                tell(f"rank {self._job.rank} is not recorded: it never used its device")
            elif snapshot is not None:
                guarded(f"rank {self._job.rank}", lambda: self._write(snapshot))
            for lost in sorted(self._census.lost):
                tell(f"left out: {lost}")
            guarded("temporary files", self._files.close)

    def at_stop(self, undo: Callable[[], None]) -> None:
        """Has ``undo`` called when the recording ends, the last one first."""
        self._at_stop.append(undo)

    @property
    def _backend_now(self) -> Backend:
        assert self._backend is not None
        return self._backend

    def _identify(self) -> None:
        """Rank and world as asked for, else as the process group has them, else as torchrun says.

        A group that was destroyed is remembered: it may be all that knew the rank.
        """
        rank, world_size = self._asked[:2]
        group = process_group()
        if group is not None:
            self._group = group
        known = self._group or launched_job()
        self._job.rank = known.rank if rank is None else rank
        self._job.world_size = max(known.world_size if world_size is None else world_size, self._job.rank + 1)
        if known.is_fake:
            self._job.fake_process_group = True

    def _leads(self) -> bool:
        """Whether this rank writes the manifest."""
        return self._job.rank == 0 or bool(self._job.fake_process_group)

    def _claim(self) -> bool:
        try:
            # what torchrun starts again after a failure takes the place of what it was
            overwrite = self._overwrite or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
            self._files.claim(self._job.rank, self._job.world_size, self._leads(), overwrite)
        except OSError as error:
            tell(
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
        self._name_device(backend)
        if self._leads():
            self._job.packages = guarded("versions", lambda: package_versions(sys.modules.get("torch"))) or {}
            self._job.git = guarded("git", lambda: git_state(Path.cwd()))
            guarded("the manifest", lambda: self._files.write_manifest(manifest_of(self._job)))

    def _name_device(self, backend: Backend) -> None:
        words = guarded("the device's name", lambda: backend.describe(self._boundaries.log.device)) or {}
        self._job.torch, self._job.device_name = words.get("torch"), words.get("device")

    # ------------------------------------------------------------------ what a user says

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A phase, in the one that is open (names are joined by ``/``); it may be entered again.

        To enter it raises ``UsageError`` for what is no phase's name.
        """
        return Again(lambda: self._phase(name))

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        if not self.active or os.getpid() != self._process:
            yield
            return
        self._boundaries.log.joined(name)  # a name that cannot be is told before anything changes
        if self._explicit == 0 and self.auto is not None:
            self.auto.pause()
        self._explicit += 1
        depth = self._boundaries.depth
        self.open(name)
        try:
            yield
        finally:
            self._explicit -= 1
            self._close_down_to(depth)
            if self.auto is not None:
                self.auto.named_phase_ended(name)
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
        """Notes a figure of the run, its unit in the name: ``metric("tokens_per_s", 11_603)``.

        One that comes after the end is added to the manifest.
        """
        try:
            self._job.metrics[str(name)] = int(value) if isinstance(value, int) else float(value)
        except (TypeError, ValueError):
            tell(f"the metric {name} is no number: {value!r:.40}")
            return
        if self._written is not None:
            guarded("a metric", self._write_manifest)
            guarded("temporary files", self._files.close)

    def find_holders(self) -> None:
        """Looks, now, for what keeps the parameters that are whole and that nothing runs with."""
        with self._lock:
            if self.active:
                guarded("holders", self._boundaries.look_for_holders)

    # ------------------------------------------------------------------ phases

    @property
    def rank(self) -> int:
        """This process's rank, as far as it is known yet."""
        return self._job.rank

    @property
    def phases_closed(self) -> int:
        """How many phases have ended."""
        return len(self._boundaries.notes.phases) if hasattr(self, "_boundaries") else 0

    @property
    def written(self) -> bool:
        """Whether this rank's files are there."""
        return self._written is not None

    def path(self) -> str | None:
        """Full name of the innermost open phase."""
        return self._boundaries.log.path if self.active else None

    def open(self, name: str) -> None:
        """Opens a phase in the innermost open one. Raises ``UsageError`` for what is no name."""
        with self._lock:
            if self.active:
                self._boundaries.log.joined(name)
                self._at_boundary(lambda: self._boundaries.open(name))

    def close(self) -> None:
        """Closes the innermost phase."""
        with self._lock:
            if self.active and self._boundaries.depth:
                self._at_boundary(self._boundaries.close)

    def switch(self, name: str) -> None:
        """Closes the innermost phase and opens another beside it, in one boundary."""
        with self._lock:
            if self.active and self._boundaries.depth:
                self._at_boundary(lambda: self._boundaries.switch(name))

    def mark(self) -> None:
        """Notes that the innermost phase went on until now: it ended then, should nothing else end it."""
        with self._lock:
            if self.active and self._boundaries.depth:
                self._at_boundary(self._boundaries.mark)

    def _at_boundary(self, work: Callable[[], object]) -> None:
        guarded("rank and device", self._look_around)
        guarded("a phase", work)

    def _look_around(self) -> None:
        """A program may choose its device and make its process group long after recording began."""
        self._identify()
        backend, log = self._backend_now, self._boundaries.log
        if self._asked[2] is None and self._fresh:
            current = backend.current_device()
            # until then nothing was allocated on the other, so that no figure was of it
            if current != log.device and backend.is_fresh(log.device):
                log.device = current

    def _close_down_to(self, depth: int) -> None:
        """Closes what an explicit phase holds, and what hooks left open in it."""
        while self.active and self._boundaries.depth > depth:
            self.close()

    # ------------------------------------------------------------------ files

    def _write(self, snapshot: dict[str, Any]) -> None:
        self._identify()
        self._name_device(self._backend_now)
        # first what cannot be had again
        self._files.write_snapshot(self._job.rank, snapshot)
        history = history_record(self._history, self._fresh, snapshot["device_traces"], self._boundaries.log.device)
        record = rank_record(self._job, self._boundaries.log.device, history, self._boundaries.notes)
        self._files.write_record(record)
        self._written = dict(snapshot.get("allocator_settings") or {})
        self._write_manifest()

    def _write_manifest(self) -> None:
        if self._leads():
            self._files.write_manifest(manifest_of(self._job, self._written))
