"""What is compiled, when, and how often."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from snapviz.replay import replay_device
from snapviz.replay.freeblocks import FollowedPool, free_curves
from snapviz.replay.segments import SegmentHistory
from snapviz.snapshot.columns import Columns
from tests.replay.builders import BASE, MIB, alloc, block, columns, free, gap, segment, segment_alloc

EVENTS = [*free(BASE + MIB, 512), segment_alloc(BASE + 4 * MIB, 2 * MIB), alloc(BASE, 100)]
FINAL = [segment(BASE, block(512, 100), gap(2 * MIB - 512)), segment(BASE + 4 * MIB, gap(2 * MIB))]


CALLED_FROM_PYTHON = (
    "collect",
    "find_lives",
    "follow",
    "last_seen",
    "place_segments",
    "place_start",
    "run",
    "undo_segments",
)


def functions():
    from snapviz.replay import coordinates, freekernels, heap, kernels, ledger, lives

    for module in (coordinates, freekernels, heap, kernels, ledger, lives):
        for function in vars(module).values():
            if hasattr(function, "signatures"):
                yield function


def backed(made: Columns, how: str, folder) -> Columns:
    """The same columns over other memory."""

    def convert(array: np.ndarray) -> np.ndarray:
        if how == "read-only":
            array = array.copy()
            array.flags.writeable = False
        elif how == "strided":
            array = np.repeat(array, 2, axis=0)[::2]
        elif how == "memory-mapped" and array.size:
            path = folder / f"{len(list(folder.iterdir()))}.npy"
            np.save(path, array)
            array = np.load(path, mmap_mode="r")
        return array

    changed = {}
    for item in fields(made):
        value = getattr(made, item.name)
        if hasattr(value, "arrays"):
            value = type(value)(**{name: convert(array) for name, array in value.arrays()})
        elif isinstance(value, np.ndarray):
            value = convert(value)
        changed[item.name] = value
    return replace(made, **changed)


@pytest.mark.parametrize("how", ["writable", "read-only", "strided", "memory-mapped"])
def test_one_signature_serves_every_kind_of_array(how, tmp_path):
    made = backed(columns(EVENTS, FINAL), how, tmp_path)
    found = replay_device(made, 0)
    assert found.exact, found.notes
    assert found.end.allocated_bytes == 512
    history = SegmentHistory(found, made)
    assert history.at(0).size_bytes.tolist() == [2 * MIB]
    assert free_curves(history, [FollowedPool(0)]).whole_bytes.tolist() == [0, 0, 2 * MIB, 4 * MIB, 2 * MIB]
    for measure in ("time_us", "allocated_bytes"):
        assert type(getattr(found, measure)) is np.ndarray or how == "memory-mapped"
    # a function that others call is not loaded at all where their code was found on disk
    assert {len(function.signatures) for function in functions()} <= {0, 1}
    assert sum(len(function.signatures) for function in functions()) >= len(CALLED_FROM_PYTHON)


def test_the_cache_does_not_outlive_what_is_compiled_into_it(tmp_path):
    """A function whose constants lie in another file, which changed since: compiled anew."""
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "snapviz", tmp_path / "snapviz", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from snapviz.replay import coordinates\nprint(sum(coordinates.collect.stats.cache_misses.values()))\n"

    def misses() -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert [misses(), misses()] == ["1", "0"]
    rules = tmp_path / "snapviz/replay/rules.py"
    rules.write_text(rules.read_text() + "\n# changed\n")
    assert misses() == "1"


def test_importing_the_floor_imports_no_numba():
    code = "import sys, snapviz.replay; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_columns_stay_as_they_are():
    made = columns(EVENTS, FINAL)
    before = [(name, array.copy(), array.flags.writeable) for name, array in made.events.arrays()]
    replay_device(made, 0)
    for (name, copy, writeable), (_, array) in zip(before, made.events.arrays(), strict=True):
        assert (copy == array).all(), name
        assert array.flags.writeable == writeable, name


def test_compiles_without_a_place_for_a_cache(tmp_path):
    """A read-only install and no home directory: slower at every start, not an error."""
    code = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "from snapviz.replay.jit import INT, jit\n"
        "assert jit(INT(INT))(lambda n: n + 1)(1) == 2\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
