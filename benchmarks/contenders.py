#!/usr/bin/env python3
"""What speed.py measures, one thing a process: prints its own time, and what it found, as JSON.

    python benchmarks/contenders.py NAME [PATH]

Imports that a contender needs come before its clock starts, and so do compiled kernels: the smallest of
the samples is opened and replayed first. How long that takes is measured by ``kernels``.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapviz.replay import Replay

SMALL = Path(__file__).parents[1] / "sample_snapshots/pr/rank00000.pickle.zst"

Found = dict[str, Any]


class Clock:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> Found:
        """Seconds passed, and seconds of the processor's time, which no other process adds to."""
        return {"seconds": time.perf_counter() - self._wall, "cpu_seconds": time.process_time() - self._cpu}


def main() -> None:
    _, name, *rest = sys.argv
    print(json.dumps(CONTENDERS[name](Path(rest[0]) if rest else SMALL)))


def bare(_: Path) -> Found:
    """Nothing but Python and pickle: what ``pickle.load``'s process weighs without a file."""
    return Clock().read()


def plain_pickle(path: Path) -> Found:
    """``pickle.load`` as people call it."""
    clock = Clock()
    with path.open("rb") as file:
        snapshot = pickle.load(file)
    return clock.read() | {"events": sum(map(len, snapshot["device_traces"]))}


def pickle_without_collector(path: Path) -> Found:
    """``pickle.load`` with the garbage collector off, which few know to do."""
    gc.disable()
    return plain_pickle(path)


def kernels(_: Path) -> Found:
    """Getting the decoder's and the replay's kernels ready: compiled, or read from numba's cache."""
    import numba  # noqa: F401  (what is measured is snapviz's part)

    from snapviz import load_snapshot

    clock = Clock()
    snapshot = load_snapshot(SMALL, cache=False)
    decoder = clock.read()
    clock_of_replay = Clock()
    snapshot.replay()
    return clock.read() | {"decoder": decoder, "replay": clock_of_replay.read()}


def open_columns(path: Path) -> Found:
    """A file to columns, without the cache."""
    kernels(SMALL)
    from snapviz import load_snapshot

    clock = Clock()
    snapshot = load_snapshot(path, cache=False)
    return clock.read() | {"events": len(snapshot.columns.events)}


def open_to_peaks(path: Path) -> Found:
    """A file to columns, replay, and the peaks of the run and of each phase, without the cache."""
    kernels(SMALL)
    import snapviz.schema  # noqa: F401  (pydantic takes a while, and is for the record alone)
    from snapviz import load_snapshot

    clock = Clock()
    replay = load_snapshot(path, cache=False).replay()
    peaks = peak_table(replay, path)
    return clock.read() | {
        "events": len(replay),
        "phases": len(peaks) - 1,
        "peaks": peaks["run"],
        "exact": replay.exact,
    }


def peak_table(replay: Replay, path: Path) -> dict[str, list[int]]:
    """The peak in each measure, of the run and of every phase in the record beside the file."""
    from snapviz.replay import MEASURES
    from snapviz.schema import read_rank_record

    windows = {"run": (0, len(replay))}
    beside = path.with_name(f"{path.name.partition('.')[0]}.json")
    if beside.exists():
        for phase in read_rank_record(beside.read_bytes(), str(beside)).phases:
            windows[phase.name] = replay.window(phase.start_us, phase.stop_us)
    return {name: [replay.peak(measure, *window)[0] for measure in MEASURES] for name, window in windows.items()}


def reopen(path: Path) -> Found:
    """Columns and replay through the cache: from it where the file was opened before."""
    from snapviz import load_snapshot

    clock = Clock()
    replay = load_snapshot(path).replay()
    return clock.read() | {"events": len(replay), "from_cache": "numba" not in sys.modules}


CONTENDERS: dict[str, Callable[[Path], Found]] = {
    "bare": bare,
    "pickle": plain_pickle,
    "pickle-gc-off": pickle_without_collector,
    "kernels": kernels,
    "open": open_columns,
    "peaks": open_to_peaks,
    "reopen": reopen,
}

if __name__ == "__main__":
    main()
