"""The cache: what it gives back is what was put, or nothing, whatever happened to its folder."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from snapviz.snapshot import cache as module
from snapviz.snapshot.cache import Cache
from snapviz.snapshot.identity import Identity

FILE = Identity("k" * 64)
HEADER = {"facts": {"protocol": 4}, "text": "ü"}
ARRAYS = {
    "times": np.arange(1000, dtype=np.int64),
    "codes": np.array([1, -1, 3], np.int8),
    "none": np.empty((0, 2), np.int64),
    "pairs": np.arange(20, dtype=np.int32).reshape(10, 2),
    "one": np.array(2.5),
    "flags": np.array([True, False]),
}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def entry(cache: Cache) -> Path:
    """The only file in a cache."""
    assert cache.root is not None
    (path,) = cache.root.iterdir()
    return path


def same(found: tuple[dict[str, Any], dict[str, Any]] | None) -> bool:
    """Whether what was found is what every test here puts."""
    if found is None:
        return False
    header, arrays = found
    return (
        header == HEADER
        and list(arrays) == list(ARRAYS)
        and all(
            arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array) for name, array in ARRAYS.items()
        )
    )


def put(cache: Cache, key: str = FILE.key, **arrays: Any) -> bool:
    return cache.put(Identity(key), "columns", "1", HEADER, arrays or ARRAYS)


def get(cache: Cache, key: str = FILE.key) -> tuple[dict[str, Any], dict[str, Any]] | None:
    return cache.get(Identity(key), "columns", "1")


def test_what_was_put_comes_back(cache: Cache) -> None:
    assert get(cache) is None
    assert put(cache)
    assert same(get(cache))
    assert cache.note == ""


def test_arrays_are_mapped_read_only_and_aligned(cache: Cache) -> None:
    put(cache)
    found = get(cache)
    assert found is not None
    for array in found[1].values():
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.size == 0 or array.ctypes.data % 64 == 0


def test_arrays_outlive_the_entry(cache: Cache) -> None:
    put(cache)
    found = get(cache)
    entry(cache).unlink()
    assert same(found)


def test_arrays_in_any_order_of_memory(cache: Cache) -> None:
    square = np.arange(16).reshape(4, 4)
    put(cache, turned=square.T, reversed=square[::-1], strided=square[:, ::2])
    found = get(cache)
    assert found is not None
    assert np.array_equal(found[1]["turned"], square.T)
    assert np.array_equal(found[1]["reversed"], square[::-1])
    assert np.array_equal(found[1]["strided"], square[:, ::2])


@pytest.mark.parametrize("other", [("x" * 64, "columns", "1"), (FILE.key, "replay", "1"), (FILE.key, "columns", "2")])
def test_key_kind_and_version_are_told_apart(cache: Cache, other: tuple[str, str, str]) -> None:
    put(cache)
    assert cache.get(Identity(other[0]), *other[1:]) is None
    assert same(get(cache))


def test_an_entry_under_another_ones_name_is_not_used(cache: Cache) -> None:
    put(cache)
    path = entry(cache)
    put(cache, "x" * 64)
    (other,) = (p for p in path.parent.iterdir() if p != path)
    path.replace(other)
    assert get(cache, "x" * 64) is None
    assert "of another file" in cache.note


def test_a_file_without_a_key_is_not_kept(cache: Cache) -> None:
    lately = Identity("", "it changed too lately")
    assert not cache.put(lately, "columns", "1", HEADER, ARRAYS)
    assert cache.note == "it changed too lately"
    assert cache.get(lately, "columns", "1") is None
    assert cache.root is not None
    assert not cache.root.exists()


@pytest.mark.parametrize("bad", [np.array(["a"]), np.array([None]), np.array([1], ">i8"), np.array([1j])])
def test_only_plain_numbers_are_kept(cache: Cache, bad: np.ndarray[Any, Any]) -> None:
    with pytest.raises(TypeError, match="cannot be cached"):
        put(cache, bad=bad)


# Entries that are not right


def test_an_entry_cut_anywhere_is_not_there(cache: Cache) -> None:
    put(cache)
    path = entry(cache)
    whole = path.read_bytes()
    for twentieth in range(20):
        path.write_bytes(whole[: len(whole) * twentieth // 20])
        assert get(cache) is None
        assert "not used" in cache.note
        assert not path.exists()
    path.write_bytes(whole)
    assert same(get(cache))


def test_an_entry_with_any_wrong_bit_is_not_there(cache: Cache) -> None:
    put(cache)
    path = entry(cache)
    whole = path.read_bytes()
    for at in [*range(64), *range(64, len(whole), len(whole) // 100)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        assert get(cache) is None, at
        assert not path.exists()


def test_an_entry_that_grew_is_not_there(cache: Cache) -> None:
    put(cache)
    path = entry(cache)
    path.write_bytes(path.read_bytes() + b"\x00")
    assert get(cache) is None


def test_an_entry_of_an_older_layout_is_replaced(cache: Cache) -> None:
    put(cache)
    path = entry(cache)
    path.write_bytes(b"snapviz\x00" + path.read_bytes()[8:])
    assert get(cache) is None
    assert "another layout" in cache.note
    assert put(cache)
    assert same(get(cache))


def forged(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrites the header of an entry and makes its hash right, as someone hostile would."""
    raw = path.read_bytes()
    end = 24 + int.from_bytes(raw[8:16], "little")
    header = json.loads(raw[24:end])
    changed = change(header)
    text = changed if isinstance(changed, bytes) else json.dumps(changed or header).encode()
    path.write_bytes(raw[:8] + len(text).to_bytes(8, "little") + xxhash.xxh3_64_digest(text) + text + raw[end:])


HUGE = [2**62, -1, 2**400, 1.5, None, True, "1", [], 10**9]


@pytest.mark.parametrize(
    "change",
    [
        *(lambda h, v=v: h["arrays"][0].update(offset=v) for v in HUGE),
        *(lambda h, v=v: h["arrays"][0].update(shape=[v]) for v in HUGE),
        lambda h: h["arrays"][0].update(shape=[2**40] * 8),
        lambda h: h["arrays"][0].update(shape=[1] * 100),
        lambda h: h["arrays"][0].update(shape=5),
        lambda h: h["arrays"][0].update(offset=8),
        *(lambda h, v=v: h["arrays"][0].update(dtype=v) for v in ("|O", "<U8", "<i16", "|V8", [], None, 5)),
        lambda h: h["arrays"][0].update(name=[]),
        lambda h: h.update(arrays={"a": 1}),
        lambda h: h.update(arrays=[1]),
        lambda h: h.update(header=[]),
        lambda h: h.update(data_bytes=2**62),
        lambda h: h.update(data_xxh3=None),
        lambda _: b"[" * 100_000,
        lambda _: b"[]",
        lambda _: b"\xff",
        lambda _: b'{"key":' + b"9" * 10_000 + b"}",
    ],
)
def test_a_forged_header_is_refused(cache: Cache, change: Callable[[dict[str, Any]], Any]) -> None:
    put(cache)
    forged(entry(cache), change)
    assert get(cache) is None
    assert "was not used" in cache.note


def test_a_forged_header_would_be_used_if_it_were_right(cache: Cache) -> None:
    put(cache)
    forged(entry(cache), lambda header: None)
    assert same(get(cache))


@given(st.binary(max_size=400))
def test_any_file_is_an_entry_or_not_there(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    cache = Cache(tmp_path_factory.mktemp("any"))
    put(cache)
    entry(cache).write_bytes(content)
    assert get(cache) is None


def test_a_sparse_giant_is_not_read(cache: Cache) -> None:
    put(cache)
    with entry(cache).open("r+b") as file:
        file.truncate(1 << 42)
    assert get(cache) is None
    assert "larger than the cache" in cache.note


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_something_else_in_an_entrys_place(cache: Cache, what: str, tmp_path: Path) -> None:
    put(cache)
    path = entry(cache)
    path.replace(tmp_path / "moved")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "moved")
    assert get(cache) is None
    assert cache.note
    assert put(cache) is (what != "folder")


def test_an_entry_of_another_user_is_left_alone(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache)
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    assert get(cache) is None
    assert "another user" in cache.note
    assert entry(cache).exists()


# Where nothing can be kept


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    cache = Cache(tmp_path / "cache" / "inside")
    assert get(cache) is None
    assert not put(cache)
    assert "nothing was kept" in cache.note


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_is_full_or_read_only(cache: Cache, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.Path, "replace", failing)
    assert not put(cache)
    assert os.strerror(number) in cache.note
    assert cache.root is not None
    assert list(cache.root.iterdir()) == []


def test_a_cache_that_is_off(tmp_path: Path) -> None:
    cache = Cache(tmp_path, enabled=False)
    assert not put(cache)
    assert get(cache) is None
    assert cache.note == "it is off"


def test_the_folder_is_the_environments_or_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Cache().root == Path(os.environ["SNAPVIZ_CACHE_DIR"])
    monkeypatch.setenv("SNAPVIZ_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache().root == tmp_path / "snapviz"


def test_without_a_home_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAPVIZ_CACHE_DIR")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *_, **__: "~/.cache/snapviz")
    cache = Cache()
    assert not put(cache)
    assert "SNAPVIZ_CACHE_DIR" in cache.note
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_for_its_user_alone(cache: Cache) -> None:
    put(cache)
    assert cache.root is not None
    assert cache.root.stat().st_mode & 0o777 == 0o700


# Size


def aged(cache: Cache, key: str, seconds: float) -> Path:
    """An entry that was last used that long ago."""
    assert cache.root is not None
    before = set(cache.root.glob("*")) if cache.root.exists() else set()
    put(cache, key)
    (path,) = set(cache.root.glob("*")) - before
    at = time.time() - seconds
    os.utime(path, (at, at))
    return path


def test_least_recently_used_goes_first(cache: Cache) -> None:
    first, second, third = (aged(cache, name, age) for name, age in [("a", 50), ("b", 90), ("c", 70)])
    assert same(get(cache, "b"))  # the oldest is the youngest now
    cache.limit_bytes = 3 * first.stat().st_size
    fourth = aged(cache, "d", 0)
    assert [path.exists() for path in (first, second, third, fourth)] == [True, True, False, True]
    cache.limit_bytes = 2 * first.stat().st_size
    aged(cache, "e", 0)
    assert not first.exists()
    assert second.exists() + fourth.exists() == 1


def test_what_was_just_written_stays_whatever_the_clock_says(cache: Cache) -> None:
    future = aged(cache, "a", -1000)
    cache.limit_bytes = future.stat().st_size
    put(cache, "b")
    assert not future.exists()
    assert same(get(cache, "b"))


def test_an_entry_beyond_the_limit_is_not_written(cache: Cache) -> None:
    kept = aged(cache, "a", 10)
    cache.limit_bytes = kept.stat().st_size - 1
    assert not put(cache, "b")
    assert "larger than the cache may be" in cache.note
    assert kept.exists()


def test_a_header_beyond_the_limit_is_not_written(cache: Cache) -> None:
    assert not cache.put(FILE, "columns", "1", {"text": "x" * (5 << 20)}, ARRAYS)
    assert "larger" in cache.note


def test_only_our_own_files_are_removed(cache: Cache) -> None:
    path = aged(cache, "a", 10)
    ours, young, theirs = (
        path.with_name(n) for n in ("writing-1.snapviz-part", "writing-2.snapviz-part", "thesis.tex")
    )
    for file in (ours, young, theirs):
        file.write_bytes(bytes(10_000))
    os.utime(ours, (1, 1))
    os.utime(theirs, (1, 1))
    cache.limit_bytes = path.stat().st_size
    assert put(cache, "b")
    assert [file.exists() for file in (path, ours, young, theirs)] == [False, False, True, True]


# More than one process


def hammer(root: str, seed: int, counts: Any) -> None:
    """Puts and gets a few entries that others put and get too; none may ever be half there."""
    random = np.random.default_rng(seed)
    cache = Cache(root, limit_bytes=400_000)
    wrong = hits = 0
    for _ in range(150):
        key = int(random.integers(6))
        if random.random() < 0.5:
            cache.put(Identity(str(key)), "columns", "1", {"key": key}, {"a": np.full(10_000 + key, key)})
        elif found := cache.get(Identity(str(key)), "columns", "1"):
            hits += 1
            array = found[1]["a"]
            wrong += not (found[0] == {"key": key} and len(array) == 10_000 + key and bool((array == key).all()))
        wrong += "not used" in cache.note
    counts.put((wrong, hits))


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    counts = context.Queue()
    workers = [context.Process(target=hammer, args=(str(tmp_path), seed, counts)) for seed in range(3)]
    for worker in workers:
        worker.start()
    results = [counts.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert [wrong for wrong, _ in results] == [0, 0, 0]
    assert sum(hits for _, hits in results) > 20
    assert all(path.suffix == ".snapviz" for path in tmp_path.iterdir())


def test_sizes_are_of_the_file_and_not_of_the_header(cache: Cache) -> None:
    put(cache)
    length = sum(math.ceil(array.nbytes / 64) * 64 for array in ARRAYS.values())
    size = entry(cache).stat().st_size
    assert size % 64 == 0
    assert length < size < length + 2048
