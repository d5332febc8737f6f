"""gzip, xz and zstd as streams of chunks, without trusting a byte of them.

Every layer takes an iterator of chunks and is one. Output comes in steps of at most ``STEP`` bytes
however far a few bytes of input would expand, and is counted by whoever reads it; what a stream
asks for in memory is bounded before it is given.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from snapviz.errors import SnapshotError

__all__ = ["HEAD_BYTES", "STEP", "Layer", "layer_name", "refuse_unreadable"]

STEP = 1 << 20
"""Bytes: the most that one turn of a gzip or xz decompressor gives."""

_STEP_IN = 2048
"""Bytes given to a decompressor in one turn. In zstd four bytes can become a block of 128 KiB, so
that one turn gives at most 64 MiB; and a file of a million tiny streams stays linear in time."""

HEAD_BYTES = 512
"""Bytes that are enough to tell what a file is."""

_XZ_MEMORY = 256 << 20
"""Bytes a xz stream may ask for. ``xz -9`` needs 65 MiB; a header of 12 bytes can demand 4 GiB."""

_ZSTD_WINDOW = 128 << 20
"""Bytes of window a zstd frame may ask for: the format's own default, ``zstd --long=27``."""

_MAGIC_BYTES = 6
_NAMES = {b"\x1f\x8b": "gz", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}

_UNREADABLE = {
    b"PK\x03\x04": "a zip archive, as torch.save writes: a checkpoint is not a memory snapshot. If it is a zipped "
    "snapshot, unzip it first",
    b"PK\x05\x06": "an empty zip archive",
    b"BZh": "compressed with bzip2, which is not read here: decompress it with bunzip2, or recompress it with zstd",
    b"\x04\x22\x4d\x18": "compressed with lz4, which is not read here: decompress it with `lz4 -d`, or recompress it "
    "with zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive: extract it first",
    b"version https://git-lfs": "a Git LFS pointer and not the file itself: run `git lfs pull`",
}


def layer_name(head: bytes) -> str | None:
    """``gz``, ``xz`` or ``zst`` by the magic bytes a stream begins with; ``None`` for anything else."""
    if len(head) >= 4 and head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
        return "zst"  # a skippable frame, which parallel zstd writers put first
    return next((name for magic, name in _NAMES.items() if head.startswith(magic)), None)


def refuse_unreadable(head: bytes) -> None:
    """Raises ``SnapshotError`` for what people mistake for a snapshot, saying what it is and what to do."""
    for magic, what in _UNREADABLE.items():
        if head.startswith(magic):
            raise SnapshotError(what, offset=0)


class Layer:
    """One compressed layer over ``chunks``; iterating gives the decompressed chunks.

    Several streams one after another are read as one, as ``gzip``, ``xz`` and ``zstd`` do.
    ``allowed`` gives the bytes that may come out so far. Raises ``SnapshotError`` where more do,
    and where the stream is corrupt or cut short, with the bytes it gave before.
    """

    def __init__(self, name: str, chunks: Iterator[bytes], allowed: Callable[[], int]) -> None:
        self.name = name
        self.bytes_out = 0
        self.left_out = 0
        """Bytes after the end of the compressed stream that are not part of it."""
        self._input = _Input(chunks)
        self._allowed = allowed

    def __iter__(self) -> Iterator[bytes]:
        make, errors = _decoder(self.name)
        try:
            while layer_name(self._input.peek(_MAGIC_BYTES)) == self.name:
                yield from self._stream(make())
                if self.name != "zst":
                    self._input.skip_zeros()  # padding, which gzip and xz allow
        except errors as error:
            raise self._broken(f"is corrupt ({error})") from error
        self.left_out = self._input.drain()

    def _stream(self, decoder: _Decoder) -> Iterator[bytes]:
        while not decoder.eof:
            piece = self._input.take(_STEP_IN) if decoder.needs_input else b""
            ended = decoder.needs_input and not piece
            out = decoder.decompress(piece, STEP)
            if out:
                self._count(len(out))
                yield out
            elif ended and not decoder.eof:
                raise self._broken("is cut short")
        self._input.give_back(len(decoder.unused_data))

    def _count(self, count: int) -> None:
        self.bytes_out += count
        if self.bytes_out > (allowed := self._allowed()):
            raise SnapshotError(
                f"the {self.name} stream gives more than {allowed:,} bytes, over 1000 times what it was compressed to: "
                "no snapshot does. If it is one, decompress it first",
                offset=self.bytes_out,
            )

    def _broken(self, how: str) -> SnapshotError:
        message = f"the {self.name} stream {how}: {self.bytes_out:,} bytes could be decompressed; copy the file again"
        return SnapshotError(message, offset=self.bytes_out)


class _Input:
    """Chunks as a stream that can be looked into and stepped back in by what was taken last."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._at = 0

    def peek(self, count: int) -> bytes:
        while len(self._buffer) - self._at < count:
            more = next(self._chunks, b"")
            if not more:
                break
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        return self._buffer[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        if self._at == len(self._buffer):
            self._buffer, self._at = next(self._chunks, b""), 0
        piece = self._buffer[self._at : self._at + count]
        self._at += len(piece)
        return piece

    def give_back(self, count: int) -> None:
        self._at -= count

    def skip_zeros(self) -> None:
        while piece := self.take(_STEP_IN):
            if rest := piece.lstrip(b"\x00"):
                self.give_back(len(rest))
                return

    def drain(self) -> int:
        """Reads what is left; returns how many bytes that was."""
        return len(self._buffer) - self._at + sum(map(len, self._chunks))


class _Decoder(Protocol):
    """The interface of ``lzma.LZMADecompressor``, which the other two are brought to."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._raw = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._raw.eof

    @property
    def needs_input(self) -> bool:
        return not self._raw.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._raw.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._raw.decompress(data or self._raw.unconsumed_tail, max_length)


class _Zstd:
    """zstandard's stream. It cannot bound its output, which is why ``_STEP_IN`` is small."""

    needs_input = True

    def __init__(self, context: Any) -> None:
        self._raw = context.decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._raw.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._raw.unused_data)

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        return bytes(self._raw.decompress(data))


def _xz() -> _Decoder:
    import lzma

    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _decoder(name: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """How to make a decompressor of that name, and what it raises at bytes that are not right."""
    if name == "gz":
        return _Gzip, (zlib.error,)
    if name == "xz":
        import lzma

        return _xz, (lzma.LZMAError,)
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return partial(_Zstd, context), (zstandard.ZstdError,)
