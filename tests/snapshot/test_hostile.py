"""Damaged and hostile files, in processes whose memory is limited and whose indices are checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_snapshots" / "fsdp2_after" / "rank00000.pickle.zst"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real snapshot of 1.2 MB, decompressed."""
    place = tmp_path_factory.mktemp("fuzz") / "real.pickle"
    with SAMPLE.open("rb") as file:
        place.write_bytes(zstandard.ZstdDecompressor().stream_reader(file).read())
    return place


def fuzz(mode: str, extra_mib: int, file: Path, **environment: str) -> tuple[int, int]:
    """(results, errors); a crash, a hang or a MemoryError fails."""
    command = [sys.executable, "-m", "tests.snapshot.fuzz", mode, str(extra_mib), str(file)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=600, check=False
    )
    found = re.fullmatch(r"(\d+) results, (\d+) errors\n", done.stdout)
    assert found, f"exit {done.returncode}: {done.stdout}{done.stderr[-2000:]}"
    return int(found[1]), int(found[2])


def test_cut_at_every_percent(plain: Path) -> None:
    assert fuzz("cut", 100, plain) == (0, 100)


def test_flipped_bytes(plain: Path) -> None:
    results, errors = fuzz("flip", 100, plain)
    assert results + errors == 300
    assert min(results, errors) > 20, "the damage should be neither always fatal nor always harmless"


def test_small_files_stay_small(plain: Path) -> None:
    """Files of 1 to 8 MB, a few bytes a container: nothing may take more than a small multiple of them."""
    results, errors = fuzz("flood", 400, plain)
    assert results + errors == 21
    assert errors > 10


def test_no_index_is_ever_out_of_range(plain: Path, tmp_path: Path) -> None:
    """The same damage with numba's bounds checks compiled in: an index out of range would be an IndexError."""
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    fuzz("cut", 200, plain, **checked)
    fuzz("flip", 200, plain, **checked)
    fuzz("flood", 400, plain, **checked)


def test_garbage_in_numbas_cache_is_compiled_anew(plain: Path, tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from snapviz.snapshot import intern\n"
        "slots = np.zeros(8, np.int32); intern.fill_slots(slots, np.arange(3, dtype=np.uint64)); print(slots.sum())\n"
    )

    def run() -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run() == "6\n"
    kept = list(tmp_path.rglob("*.nb?"))
    assert len(kept) >= 2
    for damaged in (kept, [f for f in kept if f.suffix == ".nbc"], [f for f in kept if f.suffix == ".nbi"]):
        for file in damaged:
            file.write_bytes(b"garbage")
        assert run() == "6\n"
