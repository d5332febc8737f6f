"""The runs there are: what a directory or an fsspec URL holds, by ids that name them and never say where they lie.

An id is the run's name within the root (``thunder_478/main``). It is looked up among those that were found and never
joined to a path, so that nothing outside of the root can be asked for: a link that leads out of it is not followed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from snapviz.analyze.runfiles import is_record_name, is_snapshot_name, names_a_rank
from snapviz.app.tree import Folder, Tree, tree_at
from snapviz.errors import InputError, RunError, UsageError
from snapviz.schema import MANIFEST, RunManifest, read_manifest

__all__ = ["Registry", "RunEntry"]

Kind = Literal["run", "folder", "snapshot"]

_SETTLED_S = 2.0
"""Seconds for which a scan is taken as it was: several callbacks of one page ask at once."""

_REST = 20
"""A scan is taken as it was for so many times as long as it took: a bucket far away is asked at every zoom else."""

_MOST = 5_000
"""Runs that are listed."""


@dataclass(frozen=True)
class RunEntry:
    """One run as it is listed: from its manifest and the names and sizes of its files, without opening a snapshot."""

    id: str
    name: str
    # for people
    path: str
    # where it lies: stays on the server
    kind: Kind
    # a run directory, a folder of snapshots, a lone snapshot
    size_bytes: int
    # of all its files
    snapshots: int
    # how many
    stamp: str
    # changes when a file of it does
    changed_s: float | None
    # last write of any of its files, seconds since the epoch; none where its store does not say
    manifest: RunManifest | None = None
    problem: str = ""
    # why it cannot be opened, in words; "" as far as is known
    compressed: bool = False
    # whether a snapshot of it is, by its name
    refused: bool = False
    # a file of it is a link that leads out of the root: nothing of it is read
    uploaded: bool = field(default=False, compare=False)
    kept_in: str = field(default="", compare=False)
    # the folder for what is decoded of it, which goes with it; "": the user's cache

    @property
    def branch(self) -> str:
        """The branch it was recorded on; "" where nothing says it."""
        return (self.manifest.git.branch or "") if self.manifest and self.manifest.git else ""

    @property
    def commit(self) -> str:
        """The commit it was recorded at; "" where nothing says it."""
        return (self.manifest.git.commit or "") if self.manifest and self.manifest.git else ""


class Registry:
    """The runs of a root, scanned again when somebody asks and it is not just now that it was."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ``RunError`` where the root cannot be listed."""
        self._root = root
        self._tree = tree_at(root)
        self.label = self._tree.label
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, RunEntry] = {}
        self._others: list[Callable[[str], RunEntry | None]] = []
        self._publics: list[Callable[[str], str]] = []
        self._scanned = -1e9
        self._rest_s = _SETTLED_S
        self.truncated = False
        self.problem = ""
        self.all()
        if self.problem:
            raise RunError(self.problem)

    def fresh(self) -> Registry:
        """The same, scanned anew, with no lock held: for a forked process."""
        found = Registry(self._root, self._clock)
        found._others, found._publics = list(self._others), list(self._publics)
        return found

    def all(self, again: bool = False) -> list[RunEntry]:
        """Every run, by id. ``again``: look now, however short ago it was."""
        with self._lock:
            begun = self._clock()
            if again or begun - self._scanned > self._rest_s:
                self._scan()
                self._scanned = self._clock()
                self._rest_s = max(_SETTLED_S, _REST * (self._scanned - begun))
            return list(self._entries.values())

    def also(self, lookup: Callable[[str], RunEntry | None], public: Callable[[str], str] = str) -> None:
        """Other runs, found by their ids alone and never listed: what somebody has dropped. ``public`` as ours."""
        self._others.append(lookup)
        self._publics.append(public)

    def get(self, run_id: str) -> RunEntry:
        """A run by its id. Raises ``UsageError`` where there is none."""
        for lookup in (*self._others, self._listed):
            found = lookup(run_id)
            if found is not None:
                return found
        raise UsageError(f"there is no run {run_id[:200]!r} here (any more): choose another")

    def public(self, text: str) -> str:
        """A message without where on the server the root lies: what remains are ids."""
        for public in self._publics:
            text = public(text)
        for place in self._tree.places():
            text = text.replace(f"{place}/", "").replace(place, self._tree.name)
        return text

    def _listed(self, run_id: str) -> RunEntry | None:
        if run_id not in self._entries:
            self.all()
        return self._entries.get(run_id)

    def _scan(self) -> None:
        try:
            found: dict[str, RunEntry] = {}
            self.truncated = False
            for entry in _runs(self._tree, self._entries):
                found[entry.id] = entry
                if len(found) >= _MOST:
                    self.truncated = True
                    break
            self._entries = dict(sorted(found.items()))
            self.truncated = self.truncated or self._tree.truncated
            self.problem = ""
        except InputError as error:
            # what was there stays known: a share that is away for a moment comes back
            self.problem = str(error)


def _runs(tree: Tree, known: Mapping[str, RunEntry]) -> Iterator[RunEntry]:
    for folder in tree.folders():
        names = {file.name for file in folder.files}
        if MANIFEST in names or any(map(is_record_name, names)):
            yield _entry(tree, folder, "run", known)
            continue
        snapshots = [file for file in folder.files if is_snapshot_name(file.name)]
        if len(snapshots) > 1 and folder.id:
            yield _entry(tree, replace(folder, files=snapshots), "folder", known)
        if not all(names_a_rank(file.name) for file in snapshots) or len(snapshots) == 1 or not folder.id:
            for file in snapshots:
                alone = Folder(f"{folder.id}/{file.name}".lstrip("/"), [file])
                yield _entry(tree, alone, "snapshot", known)


def _entry(tree: Tree, folder: Folder, kind: Kind, known: Mapping[str, RunEntry]) -> RunEntry:
    run_id, files = folder.id or tree.name, folder.files
    stamp = tree.stamp(files, folder.outside)
    before = known.get(run_id)
    if before is not None and before.stamp == stamp:
        return before
    outside = _read_from_outside(folder)
    manifest, problem = _manifest(tree, folder) if kind == "run" and not outside else (None, outside)
    times = [file.changed_s for file in files if file.changed_s is not None]
    snapshots = sum(is_snapshot_name(file.name) for file in files)
    return RunEntry(
        id=run_id,
        name=manifest.name if manifest else run_id.rpartition("/")[2],
        path=tree.path(folder.id),
        kind=kind,
        size_bytes=sum(file.size_bytes for file in files),
        snapshots=snapshots,
        stamp=stamp,
        changed_s=max(times, default=None),
        manifest=manifest,
        problem=problem or ("" if snapshots else "no snapshot in it: was recording cut off before it was written?"),
        compressed=any(file.name.endswith((".zst", ".gz", ".xz")) for file in files),
        refused=bool(outside),
    )


def _read_from_outside(folder: Folder) -> str:
    names = [name for name in folder.outside if name == MANIFEST or is_record_name(name) or is_snapshot_name(name)]
    return f"{names[0]} is a link that leads out of the served directory" if names else ""


def _manifest(tree: Tree, folder: Folder) -> tuple[RunManifest | None, str]:
    if not any(file.name == MANIFEST for file in folder.files):
        return None, ""
    try:
        return read_manifest(tree.read(folder.id, MANIFEST), f"{folder.id}/{MANIFEST}".lstrip("/")), ""
    except InputError as error:
        return None, str(error)
