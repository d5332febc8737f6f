"""Tar archives as a stream, without trusting a byte of them.

Not ``tarfile``: it reads a header of names (pax, GNU) into memory at whatever size the archive says, and
follows what an archive says of links and places. Here a header of names is small or refused, an entry is
a name, a kind and its bytes, and nothing is ever written. Read are the old format, ustar, GNU and pax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from snapviz.errors import RunError

__all__ = ["BLOCK", "Entry", "TarStream", "is_tar"]

BLOCK = 512
"""Bytes of a header, and what every entry's bytes are filled up to."""

_LONGEST_HEADER = 1 << 20
"""Bytes of a header of names. One name of 4 KiB is as long as a path gets."""

_HEADERS_IN_A_ROW = 16
"""Headers of names before one entry: pax and GNU write at most four."""

_CHECKSUM = slice(148, 156)
_OCTAL = re.compile(rb"[0-7]+")
_FILES = b"\x0007"
_NAMES = b"xgLK"

_PIECE = 1 << 20
"""Bytes of an entry given in one turn."""


@dataclass(frozen=True)
class Entry:
    """One entry: ``name`` as it stands there, and what it is: anything but a file or a folder is ``other``."""

    name: bytes
    kind: Literal["file", "folder", "other"]
    size_bytes: int


def is_tar(head: bytes) -> bool:
    """Whether 512 bytes are a tar header: the one thing that all of its formats share is the sum."""
    if len(head) < BLOCK or not head[0]:
        return False
    said = head[_CHECKSUM].strip(b" \0")
    return _OCTAL.fullmatch(said) is not None and int(said, 8) == sum(head[:BLOCK]) - sum(head[_CHECKSUM]) + 8 * 0x20


class TarStream:
    """A tar archive given as chunks. What is wrong with it raises ``RunError``."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._at = 0
        self._unread = 0

    def entries(self) -> Iterator[Entry]:
        """Every entry in turn. What was not read of an entry's ``content`` is passed over."""
        while (head := self._exactly(BLOCK)).strip(b"\0"):
            entry = self._entry(head)
            self._unread = entry.size_bytes
            yield entry
            for _ in self.content():
                pass
            self._exactly(-entry.size_bytes % BLOCK)
        for _ in self._chunks:  # to its end, where a compressed stream has the sum of all of it
            pass

    def content(self) -> Iterator[bytes]:
        """The bytes of the entry that was given last, in pieces."""
        while self._unread:
            piece = self._some(min(self._unread, _PIECE))
            self._unread -= len(piece)
            yield piece

    def _entry(self, head: bytes) -> Entry:
        said: dict[bytes, bytes] = {}
        for _ in range(_HEADERS_IN_A_ROW):
            if not is_tar(head):
                raise RunError("the tar archive is damaged: what should be the header of a file is none")
            if head[156] not in _NAMES:
                return _told(head, said)
            said |= self._names(head)
            head = self._exactly(BLOCK)
        raise RunError("the tar archive is damaged: names without a file")

    def _names(self, head: bytes) -> dict[bytes, bytes]:
        """What a header of names says of the entry that follows it."""
        size = _number(head[124:136])
        if size > _LONGEST_HEADER:
            raise RunError(f"the tar archive has a name of {size:,} bytes, which no file has")
        content = self._exactly(size)
        self._exactly(-size % BLOCK)
        kind = head[156:157]
        if kind == b"L":
            return {b"path": content.rstrip(b"\0")}
        return dict(_records(content)) if kind == b"x" else {}

    def _exactly(self, count: int) -> bytes:
        """A few bytes: of a header, or what fills one up."""
        pieces = []
        while count:
            pieces.append(self._some(count))
            count -= len(pieces[-1])
        return b"".join(pieces)

    def _some(self, most: int) -> bytes:
        """At least one byte and at most ``most``."""
        while self._at == len(self._buffer):
            self._buffer, self._at = next(self._chunks, b""), 0
            if not self._buffer:
                raise RunError("the tar archive is cut short: copy it again")
        piece = self._buffer[self._at : self._at + most]
        self._at += len(piece)
        return piece


def _told(head: bytes, said: dict[bytes, bytes]) -> Entry:
    """An entry by its header and by what headers of names before it said."""
    size = _decimal(said[b"size"]) if b"size" in said else _number(head[124:136])
    name = said.get(b"path", _name(head))
    sparse = any(key.startswith(b"GNU.sparse") for key in said)
    if head[156:157] == b"5":
        return Entry(name, "folder", size)
    if head[156] not in _FILES or sparse:
        return Entry(name, "other", size)
    # the old format has no folders: a name that ends in a slash is one
    return Entry(name, "folder" if name.endswith(b"/") else "file", size)


def _name(head: bytes) -> bytes:
    name = head[:100].partition(b"\0")[0]
    prefix = head[345:500].partition(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _number(field: bytes) -> int:
    """A size: octal digits, or GNU's binary for 8 GiB and more. Raises ``RunError``."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    if text and not _OCTAL.fullmatch(text):
        raise RunError("the tar archive is damaged: a size that is no number")
    return int(text or b"0", 8)


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise RunError("the tar archive is damaged: a size that is no number")
    return int(text)


def _records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Records of a length, a key and a value, each ended by a line's end. Raises ``RunError``."""
    at = 0
    while at < len(content):
        digits, _, _ = content[at : at + 8].partition(b" ")
        end = at + int(digits) if digits.isdigit() else 0
        key, equals, value = content[at + len(digits) + 1 : end - 1].partition(b"=")
        if end > len(content) or content[end - 1 : end] != b"\n" or not equals:
            raise RunError("the tar archive is damaged: a header of names that cannot be read")
        yield key, value
        at = end
