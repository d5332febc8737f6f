"""The runs that the dashboard shows in the tests: bundled ones, and small ones with something the matter."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from collections.abc import Iterable, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any

from snapviz.app.state import PAGES
from tests.analyze.builders import SAMPLES, Trace, frame
from tests.compare.jobs import job

__all__ = ["BROKEN", "EAGER", "HOSTILE", "MARKUP", "SLOW", "THUNDER", "TRUNCATED", "UNEVEN", "UNREADABLE", "make"]

MARKUP = "<img src=x onerror=window.attacked=1>"

THUNDER = ("thunder_478/main", "thunder_478/pr")
EAGER = ("litgpt_eager_8/main", "litgpt_eager_8/pr")
UNEVEN = ("uneven/main", "uneven/pr")
# six ranks, of which the fourth keeps more in pr
SLOW = {page: (f"slow_{page}/main", f"slow_{page}/pr") for page in (*PAGES, "left")}
# what was read for one page is known on the next
BROKEN = ("broken/main", "broken/pr")
# rank 1 of broken/pr ends in the middle
TRUNCATED = ("cut/main", "cut/pr")
# histories that begin in the middle
HOSTILE = (f"{MARKUP}/main", f"{MARKUP}/pr")
UNREADABLE = "garbage.pickle"


def make(root: Path) -> None:
    """Every run, below ``root``."""
    for folder in (*THUNDER, *EAGER):
        shutil.copytree(SAMPLES / folder, root / folder)
    for folder, source in zip((*BROKEN, *chain(*SLOW.values())), cycle(THUNDER), strict=False):
        shutil.copytree(SAMPLES / source, root / folder)
    broken = root / BROKEN[1] / "rank00001.pickle.zst"
    broken.write_bytes(broken.read_bytes()[:400])
    _write(root / TRUNCATED[0], [_cut(job())])
    _write(root / TRUNCATED[1], [_cut(job(root="/repo/pr", leak=1))])
    _write(root / UNEVEN[0], [job().objects()] * 6)
    _write(root / UNEVEN[1], [job(leak=3 if rank == 3 else 1).objects() for rank in range(6)])
    for folder, kept in zip(HOSTILE, (2, 3), strict=True):
        snapshot, record = _hostile(kept)
        _write(root / folder, [snapshot], record)
    (root / UNREADABLE).write_bytes(b"this is no snapshot\n" * 50)
    _settle(root)


def _settle(root: Path) -> None:
    """As if written an hour ago: what was written just now is not kept on disk."""
    then = time.time() - 3600
    for path in root.rglob("*"):
        os.utime(path, (then, then))


def _write(folder: Path, snapshots: Sequence[dict[str, Any]], record: dict[str, Any] | None = None) -> None:
    folder.mkdir(parents=True)
    for rank, snapshot in enumerate(snapshots):
        (folder / f"rank{rank:05d}.pickle").write_bytes(pickle.dumps(snapshot))
    git = {"commit": "0" * 40, "branch": MARKUP if record else "trunk"}
    manifest = {"schema_version": 1, "name": folder.name, "world_size": len(snapshots), "git": git}
    (folder / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    if record is not None:
        (folder / "rank00000.json").write_text(json.dumps(record), encoding="utf-8")


def _cut(trace: Trace) -> dict[str, Any]:
    """What a ring of events that overflowed has left of it."""
    found = trace.objects()
    events = found["device_traces"][trace.device]
    found["device_traces"][trace.device] = events[len(events) // 3 :]
    return found


def _hostile(kept: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Four parameters and their shards, ``kept`` of the four left whole: stacks, names and phases are markup."""
    trace = Trace()
    stack = [frame(MARKUP, f"/{MARKUP}/model.py", 3), frame("<module>", "/x/</script><script>.py", 1)]
    whole = [trace.alloc(20 + 2 * number, *stack) for number in range(4)]
    named = [{"time_us": trace.tick(), "phase": "materialize", "names": _names("parameter", trace, whole)}]
    phases = [_phase("materialize", 0, trace.now)]
    shards = [trace.alloc(30 + 2 * number, *stack) for number in range(4)]
    for address in whole[kept:]:
        trace.free(address, *stack)
    named.append({"time_us": trace.tick(), "phase": "shard", "names": _names("shard", trace, shards)})
    phases.append(_phase("shard", phases[-1]["stop_us"] + 1, trace.now))
    trace.free(trace.alloc(64, *stack))
    phases.append(_phase(f"train/{MARKUP}", phases[-1]["stop_us"] + 1, trace.tick()))
    held = [{"parameter": f"{MARKUP}.0", "path": f"{MARKUP} ← model ({MARKUP}.py:4)", "kind": "module", "time_us": 1}]
    record = {"schema_version": 1, "rank": 0, "world_size": 1, "phases": phases, "boundaries": named, "holders": held}
    return trace.objects(), record


def _phase(name: str, start: int, stop: int) -> dict[str, Any]:
    return {"name": name, "start_us": start, "stop_us": stop}


def _names(kind: str, trace: Trace, addresses: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "name": f"{MARKUP}.{number}", "address": at, "nbytes": trace.segments[at]["total_size"]}
        for number, at in enumerate(addresses)
    ]
