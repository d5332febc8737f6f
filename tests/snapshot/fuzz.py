"""Run in a process of its own by test_hostile: many damaged copies of one file, with memory bounded.

``python -m tests.snapshot.fuzz MODE EXTRA_MIB FILE``. MODE ``cut``: at every 1% of its length;
``flip``: random bytes replaced; ``flood``: small files that try to become large. Prints counts.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from snapviz.errors import SnapshotError
from snapviz.snapshot.pickled import decode_pickle


def cut(data: bytes) -> Iterator[bytes]:
    for percent in range(100):
        yield data[: len(data) * percent // 100]


def flip(data: bytes) -> Iterator[bytes]:
    rng = random.Random(20_260_101)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 3, 30))):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 0xFF, rng.randrange(256)))
        yield bytes(damaged)


def flood(_: bytes) -> Iterator[bytes]:
    count = 1_000_000
    head = b"\x80\x04"
    for filler in (
        b"}",
        b"]",
        b")",
        b"N",
        b"(",
        b"]a",
        b"}2",
        b"h\x00",
        b"K\x01\x85",
        b"N\x94",
        b"\x8f",
        b"]\x94h\x00a",
    ):
        yield head + b"]\x94" + filler * count + b"."
    yield head + b"](" + b"N" * count + b"e."
    yield head + b"](" + b"}" * count + b"e."
    yield head + b"}(" + b"N" * (2 * count) + b"u."
    yield (
        head + b"".join(b"X\x04\0\0\0" + i.to_bytes(4, "little") for i in range(0x20202020, 0x20202020 + count)) + b"."
    )
    yield head + b"Nr" + (count // 8).to_bytes(4, "little") + b"." * count
    for huge in (b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x7f", b"\x8b\xff\xff\xff\x7f", b"B\xff\xff\xff\xff"):
        yield head + huge + b"a" * count


def main(mode: str, extra_mib: int, path: str) -> None:
    data = Path(path).read_bytes()
    decode_pickle(np.frombuffer(data, np.uint8))  # compiled and warm before memory is limited
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (extra_mib << 20),) * 2)
    results = errors = 0
    for damaged in {"cut": cut, "flip": flip, "flood": flood}[mode](data):
        try:
            decode_pickle(np.frombuffer(damaged, np.uint8))
            results += 1
        except SnapshotError:
            errors += 1
    sys.stdout.write(f"{results} results, {errors} errors\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
