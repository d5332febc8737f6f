"""What the pages show, worked out once: reports on disk, shared by every worker, and facts in memory.

On disk lies JSON alone, under keys that change when a file of a run, an option or snapviz itself does. Facts are arrays
of this process; the least recently used go once they are more than ``FACTS_BYTES`` together.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from snapviz.analyze.facts import Facts
from snapviz.analyze.moments import DEFAULT_POINTS
from snapviz.analyze.run import Loader, Run, load_run
from snapviz.app.disk import Disk
from snapviz.app.recent import Recent
from snapviz.app.runs import Registry, RunEntry
from snapviz.app.state import State
from snapviz.compare.diff import diff
from snapviz.errors import RunError
from snapviz.replay.snapshot import Snapshot
from snapviz.schema import DiffReport
from snapviz.snapshot.cache import Cache
from snapviz.snapshot.load import load_columns

__all__ = ["FACTS_BYTES", "Results"]

Progress = Callable[..., None]

FACTS_BYTES = 640 << 20
"""Bytes of facts in one worker: two runs of two million events, with room for what a page makes of them."""

_RUNS = 8
"""Runs that a worker keeps open: each has its snapshots mapped, and open files for them."""

_REPORTS = 16
"""Parsed reports that a worker keeps."""

_EXPANDED = 30
"""How far a compressed snapshot grows, about."""

_QUICK_BYTES = 96 << 20
"""Bytes of snapshots, as they were before compression, that are read and compared within a second."""

_DROPPED_S = 86_400.0
"""Seconds for which a result about a run that was dropped here stays on disk: as long as an unused upload does."""

_SETTLED_S = 2.0
"""Seconds after which a later write has another time (``snapviz.snapshot.identity``)."""


class Results:
    """Runs, facts and reports of one dashboard. Safe to share between threads."""

    def __init__(self, runs: Registry, directory: Path, facts_bytes: int = FACTS_BYTES) -> None:
        """``directory`` holds what is kept on disk; workers that are given the same share it."""
        self.runs = runs
        self._directory = directory
        self._disk = Disk(directory)
        self._facts_bytes = facts_bytes
        self._lock = threading.Lock()
        self._locks: dict[object, threading.RLock] = {}
        self._loaded: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._costs: OrderedDict[tuple[tuple[str, str], int], int] = OrderedDict()
        self._reports: Recent[str, DiffReport] = Recent(_REPORTS)

    def fresh(self) -> Results:
        """The same runs and the same place on disk, with nothing in memory and no lock held: for a forked process."""
        return Results(self.runs.fresh(), self._directory, self._facts_bytes)

    # ------------------------------------------------------------------ runs and facts

    def run(self, run_id: str, progress: Progress | None = None) -> Run:
        """The run of an id, its snapshots mapped. Raises ``SnapvizError``."""
        entry = self.runs.get(run_id)
        if entry.refused:
            raise RunError(f"{entry.id}: {entry.problem}")
        key = (entry.id, entry.stamp)
        with self._only_one(key):
            with self._lock:
                found = self._loaded.get(key)
                if found is not None:
                    self._loaded.move_to_end(key)
                    return found
            run = self._named_by_ids(load_run(entry.path, progress=progress, loader=_beside(entry, progress)))
            with self._lock:
                self._loaded[key] = run
                self._loaded.move_to_end(key)
                self._forget_older(key)
            return run

    def _named_by_ids(self, run: Run) -> Run:
        """The run without where on the server it lies, in what is said of ranks that could not be read."""
        public = self.runs.public
        failures = tuple(replace(one, source=public(one.source), message=public(one.message)) for one in run.failures)
        return replace(run, failures=failures)

    def ranks(self, state: State) -> list[int]:
        """Ranks that can be read in base or in head, ascending."""
        chosen = [run_id for run_id in (state.base, state.head) if run_id]
        return sorted({rank.rank for run_id in chosen for rank in self.run(run_id).ranks})

    def facts(self, run_id: str, rank: int, progress: Progress | None = None) -> Facts:
        """What is known of one rank. Raises ``SnapvizError``."""
        entry = self.runs.get(run_id)
        one = self.run(run_id, progress).rank(rank)
        key = (entry.id, entry.stamp)
        with self._only_one((key, rank)):
            facts = one.facts(progress)
        with self._lock:
            self._costs[key, rank] = _bytes_of(facts)
            self._costs.move_to_end((key, rank))
            self._make_room()
        return facts

    def _make_room(self) -> None:
        """Lets go of the facts that were used longest ago; never of the last."""
        while len(self._costs) > 1 and sum(self._costs.values()) > self._facts_bytes:
            (key, rank), _ = self._costs.popitem(last=False)
            if key in self._loaded:
                self._loaded[key].rank(rank).forget()

    def _forget_older(self, key: tuple[str, str]) -> None:
        """Of one run only what it is now, where a file of it was written since; of all only the last used."""
        older = [one for one in self._loaded if one[0] == key[0] and one != key]
        for other in dict.fromkeys((*older, *list(self._loaded)[:-_RUNS])):
            del self._loaded[other]
            for cost in [cost for cost in self._costs if cost[0] == other]:
                del self._costs[cost]

    # ------------------------------------------------------------------ reports

    def report(self, state: State, progress: Progress | None = None) -> DiffReport:
        """Base and head compared, as the state asks for it, at the end, at the peak and at its own moment.

        Raises ``SnapvizError``.
        """
        key = self.key("report", state, state.at, state.by, state.mode, state.measure, state.threshold)
        with self._only_one(key):
            known = self._reports.get(key)
            if known is not None:
                return known
            text = self._disk.get(key)
            report = DiffReport.model_validate_json(text) if text is not None else None
            if report is None:
                report = self._compared(state, progress)
                self._put(key, state, report.model_dump_json())
            return self._reports.put(key, report)

    def _compared(self, state: State, progress: Progress | None) -> DiffReport:
        base, head = self.run(state.base, progress), self.run(state.head, progress)
        report = diff(
            base,
            head,
            tuple(dict.fromkeys((*DEFAULT_POINTS, *([state.at] if state.at else [])))),
            progress=progress,
            by=state.by or None,
            mode=state.mode,
            measure=state.measure,
            threshold=state.threshold or None,
        )
        for run_id, run in ((state.base, base), (state.head, head)):
            self._count(run_id, run)
        return report

    def _count(self, run_id: str, run: Run) -> None:
        """Counts the facts that a comparison of all ranks has left in memory."""
        entry = self.runs.get(run_id)
        with self._lock:
            for rank in run.ranks:
                if rank.known is not None:
                    self._costs.setdefault(((entry.id, entry.stamp), rank.rank), _bytes_of(rank.known))
            self._make_room()

    def kept(self, what: str, state: State, make: Callable[[], Any], *parts: object) -> Any:
        """A small JSON value about both runs from disk, or made and kept there. ``parts`` are what else it hangs on."""
        key = self.key(what, state, *parts)
        with self._only_one(key):
            text = self._disk.get(key)
            if text is not None:
                return json.loads(text)
            text = json.dumps(make())
            self._put(key, state, text)
            # as it will be read again: a tuple is a list from the first time on
            return json.loads(text)

    def _put(self, key: str, state: State, text: str) -> None:
        young = any(
            entry.changed_s is not None and not entry.uploaded and time.time() - entry.changed_s < _SETTLED_S
            for entry in self._entries(state)
        )
        if not young:
            dropped = any(entry.uploaded for entry in self._entries(state))
            self._disk.put(key, text, _DROPPED_S if dropped else None)

    def key(self, what: str, state: State, *parts: object) -> str:
        """Of a result about a state's runs: another one when a file of them, or snapviz, changes."""
        stamps = [(entry.id, entry.stamp) for entry in self._entries(state)]
        sides = (bool(state.base), bool(state.head))
        return hashlib.sha256(repr((what, _version(), sides, stamps, parts)).encode("utf-8", "replace")).hexdigest()

    def _entries(self, state: State) -> list[RunEntry]:
        return [self.runs.get(run_id) for run_id in (state.base, state.head) if run_id]

    # ------------------------------------------------------------------ before a page is shown

    def is_prepared(self, state: State) -> bool:
        """Whether ``prepare`` has been done for these runs as they are now, by any worker."""
        return self._disk.get(self._mark(state)) is not None

    def is_small(self, state: State) -> bool:
        """Whether both runs are read and compared within about a second."""
        return sum(_expanded_bytes(entry) for entry in self._entries(state)) < _QUICK_BYTES

    def prepare(self, state: State, progress: Progress) -> None:
        """Reads and compares both runs, so that what pages ask for is quick. Raises ``SnapvizError``."""
        for run_id in dict.fromkeys((state.base, state.head)):
            if run_id:
                for rank in self.run(run_id, progress).ranks:
                    progress(f"{run_id}: replaying rank {rank.rank}")
                    self.facts(run_id, rank.rank, progress)
        if state.base and state.head:
            self.report(_asked(state), progress)
        self._put(self._mark(state), state, "1")

    def _mark(self, state: State) -> str:
        state = _asked(state)
        options = (state.at, state.by, state.mode, state.measure, state.threshold) if state.base and state.head else ()
        return self.key("prepared", state, *options)

    def close(self) -> None:
        """Lets go of the disk."""
        self._disk.close()

    @contextmanager
    def _only_one(self, key: object) -> Iterator[None]:
        """Two who ask for the same thing at once: the second waits for the first's."""
        with self._lock:
            if len(self._locks) > 4096:
                self._locks.clear()  # at worst something is made twice
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            yield


def _beside(entry: RunEntry, progress: Progress | None) -> Loader | None:
    """Loads what was dropped here with a cache that is removed with it; none where the user's own will do."""
    if not entry.kept_in:
        return None
    cache = Cache(entry.kept_in)

    def load(path: str) -> Snapshot:
        loaded = load_columns(path, cache, progress)
        return Snapshot(loaded.columns, loaded.path, loaded)

    return load


def _asked(state: State) -> State:
    """A state with what its page's report hangs on: the first screen shows one, of all others the plain one tells which
    rank is the worst."""
    return state if state.page == "compare" else State(base=state.base, head=state.head)


def _expanded_bytes(entry: RunEntry) -> int:
    return entry.size_bytes * (_EXPANDED if entry.compressed else 1)


def _bytes_of(facts: Facts) -> int:
    """Bytes of the arrays of facts and their replay, those mapped from the cache too: they take memory once read."""
    return _arrays(facts.replay) + _arrays(facts.replay.allocations) + _arrays(facts)


def _arrays(thing: object) -> int:
    if not is_dataclass(thing):
        return 0
    values = (getattr(thing, field.name, None) for field in fields(thing))
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


@cache
def _version() -> str:
    """Of snapviz as it is installed: a change of any module gives other results."""
    import snapviz

    root = Path(snapviz.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".toml"))
    told = [(str(path.relative_to(root)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]
