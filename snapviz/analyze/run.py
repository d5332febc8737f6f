"""A run: what is found at a path, one entry a rank, and every rank that could not be read by name.

A path is a run directory (``run.json``), a snapshot file, or a folder of snapshot files. Remote paths
(``s3://…``) go through fsspec. A rank that is broken or missing is a ``RankFailure``; only a path
that holds nothing at all raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from snapviz.analyze.facts import Facts
from snapviz.analyze.passes import analyze
from snapviz.analyze.place import Place, label_of
from snapviz.analyze.rules import Rule, read_rules
from snapviz.analyze.runfiles import RANK_FILE, RANK_IN_NAME, RECORD_FILE, SNAPSHOT_FILE, TRAILING_NUMBER
from snapviz.analyze.together import apart
from snapviz.errors import InputError, RunError, UsageError
from snapviz.replay.snapshot import Snapshot
from snapviz.schema import MANIFEST, RankRecord, RunManifest, read_manifest, read_rank_record
from snapviz.snapshot.columns import HOST_DEVICE, Columns

__all__ = [
    "AnyPath",
    "Loader",
    "Rank",
    "RankFailure",
    "Run",
    "load_run",
]

_MISSING_NAMED = 16
"""Missing ranks that are named one by one; the others are counted."""

AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

Loader = Callable[[str], Snapshot]
"""Path → ``Snapshot``. Raises ``SnapshotError``."""


@dataclass(frozen=True)
class RankFailure:
    """A rank that could not be read, or has no file; or several, where ``ranks`` is not 1."""

    rank: int | None
    source: str
    message: str
    ranks: int = 1


@dataclass
class Rank:
    """One rank's device: its snapshot, and its record where there is one."""

    rank: int
    device: int
    source: str
    snapshot: Snapshot
    record: RankRecord | None = None
    world_size: int | None = None
    notes: tuple[str, ...] = ()
    rules: tuple[Rule, ...] | None = None
    _facts: Facts | None = field(default=None, repr=False)

    @property
    def columns(self) -> Columns:
        """Every table of its file."""
        return self.snapshot.columns

    def facts(self, progress: Callable[[str], None] | None = None) -> Facts:
        """What the passes say of it; worked out at the first call."""
        if self._facts is None:
            try:
                replay = self.snapshot.replay(self.device, progress)
                facts = analyze(self.rank, self.columns, replay, self.record, self.world_size, self.rules)
            except MemoryError:
                raise RunError(f"{self.source}: rank {self.rank} needs more memory than there is") from None
            self._facts = facts.noting(*self.notes)
        return self._facts

    @property
    def known(self) -> Facts | None:
        """The facts, where they have been worked out."""
        return self._facts

    def forget(self) -> None:
        """Lets go of facts and replay: the next call works them out again, from the cache where there is one."""
        self._facts = None
        self.snapshot.forget(self.device)


@dataclass
class Run:
    """One run: ranks ascending, and what could not be read."""

    name: str
    path: str
    manifest: RunManifest | None
    ranks: tuple[Rank, ...]
    failures: tuple[RankFailure, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def world_size(self) -> int | None:
        """From the manifest or any record; none where nothing says it."""
        if self.manifest is not None and self.manifest.world_size is not None:
            return self.manifest.world_size
        return next((r.record.world_size for r in self.ranks if r.record and r.record.world_size), None)

    @property
    def recorded(self) -> bool:
        """Whether every rank that was read has a record."""
        return bool(self.ranks) and all(rank.record is not None for rank in self.ranks)

    def rank(self, number: int) -> Rank:
        """One rank by number. Raises ``RunError`` with why it could not be read, or naming those there are."""
        for rank in self.ranks:
            if rank.rank == number:
                return rank
        for failure in self.failures:
            if failure.rank == number:
                raise RunError(f"{self.name}: rank {number} could not be read: {failure.message}")
        known = ", ".join(str(r.rank) for r in self.ranks) or "none"
        raise RunError(f"{self.name}: no rank {number} could be read (there is: {known})")


def load_run(
    path: AnyPath,
    cache: bool = True,
    progress: Callable[..., None] | None = None,
    *,
    loader: Loader | None = None,
    rules: str | os.PathLike[str] | None = None,
) -> Run:
    """The run at a path: a run directory, a folder of snapshots, or one snapshot file.

    ``rules`` is a file of your own rules of what stacks mean, as ``snapviz/analyze/rules.toml`` has them.
    Raises ``InputError`` where the path does not exist, is one unreadable file, or holds no snapshot;
    ``UsageError`` for what is no path, and for rules that are none.
    """
    place = Place(_path_text(path))
    load = loader or _default_loader(cache, progress)
    known = read_rules(rules) if rules is not None else None
    try:
        run = _run_at(place, load)
    except MemoryError:
        raise RunError(f"{place.label}: {_NO_MEMORY}") from None
    for rank in run.ranks:
        rank.rules = known
    return run


def _run_at(place: Place, load: Loader) -> Run:
    if not place.is_folder():
        return _run_of_file(place, load)
    names = place.names()
    if MANIFEST in names or any(map(RECORD_FILE.fullmatch, names)):
        return _run_of_directory(place, names, load)
    return _run_of_folder(place, names, load)


_NO_MEMORY = "reading it needs more memory than there is"


def _path_text(path: AnyPath) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise UsageError(f"a run is read from a path, not from a {type(path).__name__}") from None
    if not text:
        raise UsageError("an empty path names no run")
    return text


def _default_loader(cache: bool, progress: Callable[..., None] | None) -> Loader:
    from snapviz.replay.snapshot import load_snapshot

    def load(path: str) -> Snapshot:
        if progress is not None:
            progress(f"reading {label_of(path)}")
        return load_snapshot(path, cache=cache, progress=progress)

    return load


def _shown(text: str) -> str:
    """A path or a message as a report can hold it: a file name that is not UTF-8 keeps what can be read."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _stem(name: str) -> str:
    return re.sub(r"\.(?:pickle|pkl|p|json|html)?(?:\.?(?:gz|xz|zst))?\Z", "", name) or name


# ------------------------------------------------------------------ one file


def _run_of_file(place: Place, load: Loader) -> Run:
    snapshot = load(place.path)
    devices = _devices(snapshot.columns)
    named = RANK_IN_NAME.fullmatch(place.name)
    # a number at the end of a lone file's name may count anything; one of several devices is another's
    numbers = (int(named[1]),) if named and len(devices) == 1 else devices
    ranks = tuple(Rank(n, device, _shown(place.label), snapshot) for n, device in zip(numbers, devices, strict=True))
    if not ranks:
        raise RunError(f"{place.label}: the snapshot holds no device with events or segments")
    notes = _host_note(snapshot.columns, "")
    if len(ranks) > 1:
        notes += (f"the file holds {len(ranks)} devices: each is taken for the rank of its number",)
    return Run(_shown(_stem(place.name)), _shown(place.label), None, ranks, notes=notes)


def _devices(columns: Columns) -> tuple[int, ...]:
    """Devices that hold anything; the first that has a trace at all where none does: an empty run."""
    found = tuple(device for device in columns.devices if device != HOST_DEVICE)
    return found or tuple(int(device) for device in columns.trace_device if device != HOST_DEVICE)[:1]


def _host_note(columns: Columns, who: str) -> tuple[str, ...]:
    if HOST_DEVICE in columns.devices:
        return (f"{who}pinned host memory is in the file and left out",)
    return ()


def _weight(columns: Columns, device: int) -> tuple[int, int]:
    """What makes a device the rank's own: events first, then reserved bytes."""
    first, stop = columns.trace_range(device)
    mine = columns.segments.device == device
    return stop - first, int(columns.segments.total_size[mine].sum())


def _rank_of_file(number: int, path: str, load: Loader, record: RankRecord | None) -> Rank:
    """The rank of a file that is known to be one rank's. Raises ``InputError``."""
    snapshot = load(path)
    devices = _devices(snapshot.columns)
    if record is not None and record.device is not None and record.device in devices:
        device = record.device
    elif devices:
        device = max(devices, key=lambda d: _weight(snapshot.columns, d))
    else:
        raise RunError(f"{label_of(path)}: the snapshot holds no device with events or segments")
    others = [d for d in devices if d != device]
    notes = _host_note(snapshot.columns, f"rank {number}: ")
    if others:
        held = int(snapshot.columns.segments.total_size[np.isin(snapshot.columns.segments.device, others)].sum())
        also = f"its file also has device {', '.join(map(str, others))} ({held:,} bytes reserved), which is left out"
        notes += (f"rank {number} is device {device}; {also}",)
    world = record.world_size if record else None
    return Rank(number, device, _shown(label_of(path)), snapshot, record, world, notes)


# ------------------------------------------------------------------ a run directory


def _run_of_directory(place: Place, names: list[str], load: Loader) -> Run:
    known = MANIFEST in names
    manifest = read_manifest(place.read(MANIFEST), place.join(MANIFEST)) if known else None
    files: dict[int, list[str]] = {}
    for name in names:
        if match := RANK_FILE.fullmatch(name):
            files.setdefault(int(match[1]), []).append(name)
    ranks, failures = [], []
    for number, candidates in sorted(files.items()):
        try:
            ranks.append(_recorded_rank(place, number, candidates, names, load, manifest))
        except (InputError, OSError, MemoryError) as error:
            failures.append(RankFailure(number, _shown(candidates[0]), _words(error)))
    world_size = next((rank.world_size for rank in ranks if rank.world_size), None)
    failures += _missing(manifest, world_size, files)
    if not files:
        raise RunError(f"{place.label}: a run directory without a snapshot (rank00000.pickle and so on)")
    failures.sort(key=lambda failure: (failure.rank is None, failure.rank or 0))
    name = manifest.name if manifest is not None else _shown(place.name)
    said = apart(manifest, [rank.record for rank in ranks if rank.record is not None])
    notes = (
        () if known else (f"{MANIFEST} is missing, which rank 0 writes: only what the ranks themselves say is known",)
    )
    return Run(name, _shown(place.label), manifest, tuple(ranks), tuple(failures), (*notes, *_unrecorded(ranks), *said))


def _missing(manifest: RunManifest | None, world_size: int | None, files: Collection[int]) -> list[RankFailure]:
    """The ranks that were meant to be recorded and have no file: the first by name, the others in one sum."""
    recorded = manifest.recorded_ranks if manifest is not None else None
    size = manifest.world_size if manifest is not None else world_size
    meant = range(size or 0) if recorded is None else recorded
    missing = sorted({number for number in meant if number not in files})
    named = [
        RankFailure(number, f"rank{number:05d}.pickle", "missing: it was to be recorded")
        for number in missing[:_MISSING_NAMED]
    ]
    more = len(missing) - len(named)
    if more:
        words = f"{more:,} more rank{'s are' if more > 1 else ' is'} missing, the last of them {missing[-1]}"
        named.append(RankFailure(None, "", words, more))
    return named


def _recorded_rank(
    place: Place, number: int, candidates: list[str], names: list[str], load: Loader, manifest: RunManifest | None
) -> Rank:
    if len(candidates) > 1:
        raise RunError(f"several files claim to be rank {number}: {', '.join(candidates)}")
    beside = RANK_FILE.fullmatch(candidates[0])
    assert beside is not None
    records = [name for end in ("json", "json.zst") if (name := f"rank{beside[1]}.{end}") in names]
    if len(records) > 1:
        raise RunError(f"several files claim to be the record of rank {number}: {', '.join(records)}")
    record = read_rank_record(place.read(records[0]), place.join(records[0])) if records else None
    if record is not None and record.rank != number:
        raise RunError(f"{place.join(records[0])}: it is the record of rank {record.rank}")
    rank = _rank_of_file(number, place.join(candidates[0]), load, record)
    rank.world_size = rank.world_size or (manifest.world_size if manifest is not None else None)
    return rank


def _unrecorded(ranks: list[Rank]) -> tuple[str, ...]:
    without = [str(rank.rank) for rank in ranks if rank.record is None]
    return (f"no record beside rank {', '.join(without)}: names and exact phases are not known",) if without else ()


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    return _shown((error.strerror or str(error)) if isinstance(error, OSError) else str(error))


# ------------------------------------------------------------------ a folder of snapshots


def _no_run(place: Place, names: list[str]) -> str:
    inner = [name for name in names if "://" not in place.path and (Path(place.path) / name / MANIFEST).is_file()]
    if not inner:
        return f"{place.label}: neither {MANIFEST} nor a snapshot file (.pickle, .pkl; .gz, .xz, .zst) in it"
    more = f" and {len(inner) - _RUNS_NAMED} more" if len(inner) > _RUNS_NAMED else ""
    runs = "1 run" if len(inner) == 1 else f"{len(inner)} runs"
    told = _shown(", ".join(inner[:_RUNS_NAMED]))
    return f"{place.label}: a folder of {runs}, each of which is read by itself: {told}{more}"


_RUNS_NAMED = 8
"""Runs in a folder that a message names."""


def _run_of_folder(place: Place, names: list[str], load: Loader) -> Run:
    files = [name for name in names if SNAPSHOT_FILE.fullmatch(name)]
    if not files:
        raise RunError(_no_run(place, names))
    numbers, how = _numbers(files)
    ranks, failures = [], []
    for index, name in enumerate(files):
        number = numbers[name] if numbers else index
        try:
            ranks.append(_rank_of_file(number, place.join(name), load, None))
        except (InputError, OSError, MemoryError) as error:
            failures.append(RankFailure(number if numbers else None, _shown(name), _words(error)))
    if not numbers and (by_device := [rank.device for rank in ranks]) and len(set(by_device)) == len(by_device):
        how = "ranks are taken from the devices in the files"
        for rank in ranks:
            rank.rank = rank.device
    ranks.sort(key=lambda rank: rank.rank)
    return Run(_shown(place.name), _shown(place.label), None, tuple(ranks), tuple(failures), (how,))


def _numbers(files: list[str]) -> tuple[dict[str, int], str]:
    """Rank numbers by file, where one rule gives each file its own; and what that rule was."""
    for pattern, words in (
        (RANK_IN_NAME, "ranks are taken from the file names (rank…)"),
        (TRAILING_NUMBER, "ranks are taken from the numbers at the end of the file names"),
    ):
        matches = {name: match for name in files if (match := pattern.fullmatch(name))}
        numbers = {name: int(match[1]) for name, match in matches.items()}
        if len(numbers) == len(files) == len(set(numbers.values())):
            return numbers, words
    return {}, "nothing in the file names says which rank is which: they are numbered in the order of their names"
