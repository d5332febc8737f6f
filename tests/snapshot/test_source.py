"""Opening snapshots: what is recognised, what is refused, and that nothing else happens."""

from __future__ import annotations

import base64
import bz2
import errno
import gzip
import io
import json
import lzma
import os
import pickle
import resource
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import fsspec
import numpy as np
import pytest
import zstandard
from fsspec.registry import known_implementations
from hypothesis import given
from hypothesis import strategies as st

from snapviz.errors import SnapshotError
from snapviz.snapshot import compression, identity, source, spool
from snapviz.snapshot.source import Progress, Source, open_source

SNAPSHOT = {"segments": [{"address": i, "blocks": [], "total_size": i * 512} for i in range(3000)], "device_traces": []}
PICKLE = pickle.dumps(SNAPSHOT)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: bytes, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def refused(path: object, **options: object) -> SnapshotError:
    """The error that opening and reading ends with, which names the path."""
    with pytest.raises(SnapshotError) as caught, open_source(path, **options) as opened:  # type: ignore[arg-type]
        opened.data  # noqa: B018 (reading happens here)
    assert caught.value.path == str(path)
    return caught.value


def read(path: str | Path, **options: Progress) -> Source:
    """A source that was read to its end and closed."""
    with open_source(path, **options) as opened:
        assert opened.data.dtype == np.uint8
    return opened


def page(*pickles: bytes) -> bytes:
    files = [{"name": "snapshot.pickle", "base64": base64.b64encode(p).decode()} for p in pickles]
    return f"<!DOCTYPE html>\n<html><script>\nconst local_files = {json.dumps(files)}\n</script></html>".encode()


# What is recognised


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickle_is_mapped(write: Callable[..., Path], protocol: int) -> None:
    raw = pickle.dumps(SNAPSHOT, protocol)
    with open_source(write(raw, "anything.json")) as opened:
        assert opened.data.tobytes() == raw
        assert (opened.container, opened.compression, opened.offset_note) == ("pickle", (), "")
        assert opened.size_bytes == len(raw)


def test_data_is_read_only_and_outlives_the_source(write: Callable[..., Path]) -> None:
    for content in (PICKLE, gzip.compress(PICKLE)):
        with open_source(write(content)) as opened:
            data = opened.data
        with pytest.raises(ValueError, match="read-only"):
            data[0] = 1
        assert data.tobytes() == PICKLE


@pytest.mark.parametrize("layers", [("gz",), ("xz",), ("zst",), ("xz", "gz"), ("zst", "xz", "gz")])
def test_layers_are_taken_off_outermost_first(write: Callable[..., Path], layers: tuple[str, ...]) -> None:
    content = PICKLE
    for layer in reversed(layers):
        content = COMPRESS[layer](content)
    with open_source(write(content, "misnamed.txt")) as opened:
        assert opened.compression == layers
        assert opened.data.tobytes() == PICKLE
        assert all(layer in opened.offset_note for layer in layers)


def test_a_fourth_layer_is_refused(write: Callable[..., Path]) -> None:
    content = PICKLE
    for _ in range(4):
        content = gzip.compress(content)
    assert "more than 3 times" in refused(write(content)).message


@pytest.mark.parametrize("layer", COMPRESS)
def test_streams_one_after_another_are_one(write: Callable[..., Path], layer: str) -> None:
    half = len(PICKLE) // 2
    content = COMPRESS[layer](PICKLE[:half]) + COMPRESS[layer](PICKLE[half:])
    assert read(write(content)).data.tobytes() == PICKLE


def test_a_skippable_zstd_frame_is_skipped(write: Callable[..., Path]) -> None:
    skippable = b"\x51\x2a\x4d\x18\x04\x00\x00\x00abcd"
    content = skippable + COMPRESS["zst"](PICKLE) + skippable
    opened = read(write(content))
    assert (opened.data.tobytes(), opened.notes) == (PICKLE, ())


@pytest.mark.parametrize("layer", ["gz", "xz"])
def test_zeros_behind_a_stream_are_padding(write: Callable[..., Path], layer: str) -> None:
    opened = read(write(COMPRESS[layer](PICKLE) + bytes(10_000)))
    assert (opened.data.tobytes(), opened.notes) == (PICKLE, ())


@pytest.mark.parametrize("layer", COMPRESS)
def test_what_follows_a_stream_is_left_out_and_said(write: Callable[..., Path], layer: str) -> None:
    opened = read(write(COMPRESS[layer](PICKLE) + b"q" * 5001))
    assert opened.data.tobytes() == PICKLE
    assert opened.notes == (f"5,001 bytes after the end of the {layer} stream were left out",)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b" \r\n\t", b"\xef\xbb\xbf \n"])
@pytest.mark.parametrize(("text", "container"), [(b"{}", "json"), (b"[1]", "json"), (page(PICKLE), "html")])
def test_text_is_told_by_its_first_character(
    write: Callable[..., Path], start: bytes, text: bytes, container: str
) -> None:
    assert read(write(start + text)).container == container


@pytest.mark.parametrize("first", [b"(lp0\n.", b"}.", b"].", b")."])
def test_old_pickles_are_not_taken_for_json(write: Callable[..., Path], first: bytes) -> None:
    assert read(write(first)).container == "pickle"


@pytest.mark.parametrize("layer", COMPRESS)
def test_what_expands_much_within_the_bound_is_whole(write: Callable[..., Path], layer: str) -> None:
    content = bytes(16 << 20) + b"end"
    assert read(write(COMPRESS[layer](content))).data.tobytes() == content


def test_a_page_gives_the_pickle_inside(write: Callable[..., Path]) -> None:
    opened = read(write(gzip.compress(page(PICKLE + b"\x00\x00"))))
    assert opened.data.tobytes() == PICKLE + b"\x00\x00"
    assert (opened.container, opened.compression) == ("html", ("gz",))
    assert opened.offset_note == "in the pickle inside the page"


def test_a_page_larger_than_one_piece(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.snapshot.page._PIECE", 64)
    assert read(write(page(PICKLE))).data.tobytes() == PICKLE


def test_the_first_of_several_pickles_of_a_page_is_used(write: Callable[..., Path]) -> None:
    opened = read(write(page(PICKLE, b"other", b"third")))
    assert opened.data.tobytes() == PICKLE
    assert opened.notes == ("the page holds 3 snapshots: the first is used",)


def test_large_streams_go_through_a_file(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 1000)
    opened = read(write(gzip.compress(PICKLE)))
    assert opened.data.tobytes() == PICKLE
    assert not isinstance(opened.data.base.obj if hasattr(opened.data.base, "obj") else opened.data.base, bytearray)


def test_progress_counts_the_bytes_of_the_file(write: Callable[..., Path]) -> None:
    content = gzip.compress(np.random.default_rng(0).bytes(3 << 20))
    seen: list[tuple[int, int]] = []
    read(write(content), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(content), len(content))
    assert len(seen) > 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_nothing_is_read_before_it_is_asked_for(write: Callable[..., Path]) -> None:
    with open_source(write(gzip.compress(PICKLE)[:-20])) as broken:
        assert broken.identity is not None
        with pytest.raises(SnapshotError, match="cut short"):
            broken.data  # noqa: B018


def test_a_real_snapshot_opens(shared: Path) -> None:
    for path in sorted((shared / "corpus").glob("*.xz")):
        with open_source(path) as opened:
            assert opened.compression == ("xz",)
            assert opened.data.tobytes() == lzma.decompress(path.read_bytes())


# What is refused


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "gone.pickle").message


def test_an_empty_file(write: Callable[..., Path]) -> None:
    error = refused(write(b""))
    assert ("empty" in error.message, error.offset) == (True, 0)


@pytest.mark.parametrize("layer", COMPRESS)
def test_empty_once_decompressed(write: Callable[..., Path], layer: str) -> None:
    assert "empty once decompressed" in refused(write(COMPRESS[layer](b""))).message


def test_a_folder(tmp_path: Path) -> None:
    assert "a folder" in refused(tmp_path).message


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe" in refused(tmp_path / "pipe").message


def test_a_pipe_that_takes_a_files_place_does_not_block(
    tmp_path: Path, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    regular = write(PICKLE).stat()
    monkeypatch.setattr("snapviz.snapshot.opening.Path.stat", lambda self: regular)
    assert "a pipe" in refused(tmp_path / "pipe").message


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device(device: str) -> None:
    assert "a device" in refused(device).message


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may be no longer than 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert "a socket" in refused("s").message


@pytest.mark.parametrize("path", ["-", "a\x00b", "x" * 300, ""])
def test_what_is_no_path(path: str) -> None:
    assert refused(path).message


def test_standard_input_is_explained() -> None:
    assert "standard input is not read" in refused("-").message


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "no permission"), (errno.EIO, "cannot be read"), (errno.ELOOP, "cannot be read")],
)
def test_what_the_system_refuses(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    path = write(PICKLE)
    monkeypatch.setattr("snapviz.snapshot.opening.os.open", failing)
    assert words in refused(path).message


def zipped() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("archive/data.pkl", PICKLE)
    return memory.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped(), "torch.save"),
        (bz2.compress(PICKLE), "bzip2"),
        (b"\x04\x22\x4d\x18rest", "lz4"),
        (b"7z\xbc\xaf\x27\x1crest", "7-Zip"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    ],
)
def test_what_people_mistake_for_a_snapshot(write: Callable[..., Path], content: bytes, words: str) -> None:
    assert words in refused(write(content)).message
    assert words in refused(write(gzip.compress(content))).message


@pytest.mark.parametrize("layer", COMPRESS)
def test_a_stream_cut_anywhere_says_how_much_there_was(write: Callable[..., Path], layer: str) -> None:
    noise = np.random.default_rng(1).bytes(300_000)  # so that what comes out grows with what goes in
    content = COMPRESS[layer](noise)
    amounts = []
    for twentieth in range(1, 20):
        error = refused(write(content[: len(content) * twentieth // 20]))
        assert layer in error.message
        assert "cut short" in error.message
        assert error.offset is not None
        assert f"{error.offset:,} bytes could be decompressed" in error.message
        amounts.append(error.offset)
    assert amounts == sorted(amounts)
    assert amounts[-1] > 200_000


@pytest.mark.parametrize("layer", COMPRESS)
def test_a_stream_with_a_wrong_byte_never_gives_wrong_data(write: Callable[..., Path], layer: str) -> None:
    whole = (
        COMPRESS[layer](PICKLE) if layer != "zst" else zstandard.ZstdCompressor(write_checksum=True).compress(PICKLE)
    )
    for at in range(8, len(whole), max(1, len(whole) // 60)):
        content = bytearray(whole)
        content[at] ^= 0x10
        try:
            assert read(write(bytes(content))).data.tobytes() == PICKLE
        except SnapshotError as error:
            assert error.path  # either outcome is right


@pytest.mark.parametrize("layer", COMPRESS)
def test_a_bomb_is_refused_at_its_bound(
    write: Callable[..., Path], layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "EXPANSION_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(source, "EXPANSION", 10)
    error = refused(write(COMPRESS[layer](bytes(64 << 20))))
    assert "over" in error.message
    assert error.offset is not None
    assert error.offset <= (66 << 20)


def test_a_bomb_inside_a_layer_is_refused(write: Callable[..., Path]) -> None:
    inner = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(write(gzip.compress(inner)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # KiB


def test_a_zstd_window_beyond_the_bound_is_refused(write: Callable[..., Path]) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert "corrupt" in refused(write(compressor.compress(PICKLE) + compressor.flush())).message


def test_an_xz_dictionary_beyond_the_bound_is_refused(write: Callable[..., Path]) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3}]
    try:
        content = lzma.compress(PICKLE, filters=filters)
    except MemoryError:
        pytest.skip("no memory to make such a file")
    assert "Memory usage limit" in refused(write(content)).message


def test_many_tiny_streams_take_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given_bytes = 0

    class Counting(compression._Gzip):
        def decompress(self, data: bytes, max_length: int, /) -> bytes:
            nonlocal given_bytes
            given_bytes += len(data)
            return super().decompress(data, max_length)

    monkeypatch.setattr(compression, "_Gzip", Counting)
    count = 4_000
    assert list(compression.Layer("gz", iter([gzip.compress(b"") * count]), lambda: 1)) == []
    assert given_bytes <= count * 2048


def test_no_room_for_what_is_decompressed(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 10)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    assert "TMPDIR" in refused(write(gzip.compress(PICKLE))).message


@pytest.mark.parametrize(
    ("content", "words", "offset"),
    [
        (b"<html>base64</html>", "without an embedded snapshot", None),
        (b'<html>"base64": "AAAA', "cut short", 21),
        (b'<html>"base64": "A*AA"', "not base64", 17),
        (b'<html>"base64": "AAAA*AAAA"', "not base64", 17),
        (b'<html>"base64": "AA=="', "", None),
    ],
)
def test_a_page_that_is_not_right(write: Callable[..., Path], content: bytes, words: str, offset: int | None) -> None:
    if not words:
        assert read(write(content)).data.tobytes() == b"\x00"
        return
    error = refused(write(content))
    assert (words in error.message, error.offset) == (True, offset)


def test_padding_in_the_middle_of_a_page(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapviz.snapshot.page._PIECE", 4)
    assert "padding" in refused(write(b'<"base64":"AA==AAAA"')).message


@given(st.binary(max_size=200), st.sampled_from(["", *COMPRESS]), st.integers(0, 200))
def test_any_bytes_give_data_or_a_snapshot_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, layer: str, cut: int
) -> None:
    content = COMPRESS[layer](raw) if layer else raw
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content[: len(content) - cut])
    try:
        assert len(read(path).data) > 0
    except SnapshotError as error:
        assert error.path == str(path)  # either outcome is right


# Files that change


@pytest.mark.parametrize("change", ["append", "rewrite", "cut", "rewrite and set the time back"])
def test_a_change_while_reading_is_found(write: Callable[..., Path], change: str) -> None:
    path = write(PICKLE)
    with open_source(path) as opened:
        opened.verify_unchanged()
        before = path.stat()
        time.sleep(0.02)  # longer than the tick of the clock of file times
        with path.open("ab" if change == "append" else "r+b") as file:
            file.truncate(10) if change == "cut" else file.write(PICKLE[:50])
        if "back" in change:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(SnapshotError, match="changed while it was being read"):
            opened.verify_unchanged()


def test_a_file_that_is_replaced_or_removed_was_still_read_whole(write: Callable[..., Path]) -> None:
    path = write(PICKLE)
    with open_source(path) as opened:
        write(b"another", "other").replace(path)
        opened.verify_unchanged()
        assert opened.data.tobytes() == PICKLE


def test_a_removed_file_that_is_written_on_has_changed(write: Callable[..., Path]) -> None:
    path = write(PICKLE)
    with open_source(path) as opened, path.open("ab") as file:
        path.unlink()
        file.write(b"more")
        file.flush()
        with pytest.raises(SnapshotError, match="changed while it was being read"):
            opened.verify_unchanged()


# Remote stores


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_a_url_is_read_through_fsspec(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/runs/a.pickle.zst", COMPRESS["zst"](PICKLE))
    with open_source("memory://runs/a.pickle.zst") as opened:
        assert opened.data.tobytes() == PICKLE
        assert opened.compression == ("zst",)
        opened.verify_unchanged()
    memory.pipe("/runs/b.pickle", PICKLE)
    assert read("memory://runs/b.pickle").data.tobytes() == PICKLE


def test_a_file_url_is_a_local_path(write: Callable[..., Path]) -> None:
    opened = read(f"file://{write(PICKLE)}")
    assert opened.data.tobytes() == PICKLE


def test_a_local_path_with_a_colon(write: Callable[..., Path]) -> None:
    assert read(write(PICKLE, "a:b")).data.tobytes() == PICKLE


def test_remote_files_that_are_not_there(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/runs/empty", b"")
    assert "no such file" in refused("memory://runs/gone").message
    assert "an empty file" in refused("memory://runs/empty").message
    assert "a folder" in refused("memory://runs").message
    assert "no-such-protocol" in refused("no-such-protocol://x").message


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"class": "a_package_nobody_has.System", "err": "Install a_package_nobody_has to access this"}
    monkeypatch.setitem(known_implementations, "nowhere", entry)
    error = refused("nowhere://bucket/key")
    assert "nowhere://" in error.message
    assert "Install a_package_nobody_has" in error.message


def test_whatever_a_driver_raises_is_a_snapshot_error(
    memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusalError(Exception):
        pass

    def failing(*_: object, **__: object) -> None:
        raise RefusalError("no credentials")

    memory.pipe("/a", PICKLE)
    for method in ("open", "info"):
        with monkeypatch.context() as patch:
            patch.setattr(type(memory), method, failing)
            assert "RefusalError: no credentials" in refused("memory://a").message


def test_a_remote_file_that_changes_while_reading(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/a", PICKLE)
    opened = open_source("memory://a")
    memory.pipe("/a", PICKLE + b"more")
    with pytest.raises(SnapshotError, match="changed while"):
        opened.verify_unchanged()


def test_errors_do_not_show_passwords_and_signatures() -> None:
    with pytest.raises(SnapshotError) as caught:
        read("no-such-protocol://user:secret@host/key?signature=hidden")
    assert "no-such-protocol://host/key" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


# Identity


@pytest.fixture
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later: what was just written has settled."""
    monkeypatch.setattr(identity, "now_ns", lambda: time.time_ns() + 3600 * 10**9)


def key(path: Path | str) -> str:
    with open_source(path) as opened:
        return opened.identity.key


@pytest.mark.usefixtures("_later")
class TestLocalIdentity:
    def test_the_same_file_has_the_same_key(self, write: Callable[..., Path]) -> None:
        path = write(PICKLE)
        assert key(path) == key(path) != ""

    def test_two_paths_to_one_file_have_one_key(self, write: Callable[..., Path], tmp_path: Path) -> None:
        path = write(PICKLE)
        (tmp_path / "link").symlink_to(path)
        assert key(tmp_path / "link") == key(path)

    def test_a_rewrite_of_the_same_size_with_its_time_set_back(self, write: Callable[..., Path]) -> None:
        path = write(bytes(1 << 20))
        before, stat = key(path), path.stat()
        time.sleep(0.02)
        with path.open("r+b") as file:
            file.seek(300_001)  # between the samples
            file.write(b"\xff")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert path.stat().st_size == stat.st_size
        assert path.stat().st_mtime_ns == stat.st_mtime_ns
        assert key(path) != before

    def test_touch(self, write: Callable[..., Path]) -> None:
        path = write(PICKLE)
        before = key(path)
        time.sleep(0.02)
        path.touch()
        assert key(path) != before

    def test_rename_over(self, write: Callable[..., Path]) -> None:
        path = write(PICKLE)
        before, stat = key(path), path.stat()
        other = write(PICKLE, "other")
        os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        other.replace(path)
        assert key(path) != before

    def test_samples_alone_tell_files_apart(self, write: Callable[..., Path]) -> None:
        path = write(bytes(1 << 20))
        stat = path.stat()
        contents = [bytearray(1 << 20) for _ in range(4)]
        contents[1][0] = contents[2][-1] = contents[3][8 * (1 << 20) // 17] = 1
        keys = {identity.local_identity("p", stat, lambda at, n, c=c: bytes(c[at : at + n])).key for c in contents}
        assert len(keys) == 4


@pytest.mark.parametrize("name", ["st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_every_fact_of_a_local_file_is_in_its_key(name: str) -> None:
    facts = {"st_dev": 1, "st_ino": 2, "st_size": 3, "st_mtime_ns": 4, "st_ctime_ns": 5}
    one, other = (
        identity.local_identity("/a", cast("os.stat_result", SimpleNamespace(**stat)), lambda at, count: b"same")
        for stat in (facts, facts | {name: 6})
    )
    assert one.key != other.key


def test_a_file_that_just_changed_has_no_key_and_says_why(write: Callable[..., Path]) -> None:
    found = read(write(PICKLE)).identity
    assert found.key == ""
    assert "2 s" in found.reason


def test_a_file_from_the_future_has_no_key(write: Callable[..., Path]) -> None:
    path = write(PICKLE)
    os.utime(path, (2**32, 2**32))
    assert key(path) == ""


@pytest.mark.parametrize(
    "info", [{"ETag": '"abc"'}, {"md5Hash": "xyz"}, {"generation": 17}, {"etag": "abc", "LastModified": "today"}]
)
def test_a_remote_object_is_known_by_what_vouches_for_it(info: dict[str, object]) -> None:
    one = identity.remote_identity("s3://a/b", info | {"size": 5})
    assert one.key
    assert one == identity.remote_identity("s3://a/b", info | {"size": 5, "accessed": "now"})
    changed = {name: f"{value}2" for name, value in info.items()}
    others = [("s3://a/c", info | {"size": 5}), ("s3://a/b", info | {"size": 6}), ("s3://a/b", changed | {"size": 5})]
    assert len({one.key, *(identity.remote_identity(*other).key for other in others)}) == 4


@pytest.mark.parametrize("info", [{}, {"Last-Modified": "today"}, {"ETag": 'W/"abc"'}, {"etag": None}])
def test_a_remote_object_nothing_vouches_for_has_no_key(info: dict[str, object]) -> None:
    found = identity.remote_identity("https://host/a", info)
    assert found.key == ""
    assert found.reason


def test_a_key_names_no_path(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "now_ns", lambda: 2**62)
    opened: Source = read(write(PICKLE, "secret"))
    assert len(opened.identity.key) == 64
    assert "secret" not in opened.identity.key
