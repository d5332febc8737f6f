"""Decoding a pickle: runs the machine over the bytes, makes room, and words its faults."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from snapviz.errors import SnapshotError
from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.ahead import SAMPLE_BYTES, Ahead
from snapviz.snapshot.buffers import allocate, grow
from snapviz.snapshot.columns import Columns
from snapviz.snapshot.graph import Decoded, columns_of

__all__ = ["decode_pickle"]

Progress = Callable[..., None]
_SLICE = 32 << 20


def decode_pickle(
    data: npt.NDArray[np.uint8], progress: Progress | None = None, facts: dict[str, Any] | None = None
) -> Columns:
    """Columns of a pickled snapshot.

    data: uint8[n], the whole pickle; bytes behind its STOP are counted, not read. ``progress`` is
    called with (bytes read, n) about every 32 MiB, and with words while the machine is being compiled.
    Raises ``SnapshotError`` with the offset where the
    bytes are not a snapshot's; nothing in them is ever run.
    """
    view = data.view()
    view.flags.writeable = False  # one compiled version of the machine, whatever the array came from
    from snapviz.snapshot import jit  # numba and its cache load only when a pickle is read

    with jit.announced(progress, "decoding"):
        return columns_of(_run(view, progress), facts or {})


def _run(data: npt.NDArray[np.uint8], progress: Progress | None) -> Decoded:
    from snapviz.snapshot import intern, machine

    buffers = allocate(len(data))
    st = np.zeros(v.N_STATE, np.int64)
    st[v.ST_SEED] = secrets.randbits(62)
    for known in v.KNOWN_STRINGS:
        raw = np.frombuffer(known.encode(), np.uint8)
        intern.intern_known(raw, len(raw), buffers, st)
    with Ahead() as ahead:
        while True:
            at = int(st[v.ST_POS])
            limit = min(len(data), SAMPLE_BYTES if at < SAMPLE_BYTES else at + _SLICE)
            code = machine.run(data, limit, buffers, st)
            if code == v.R_GROW:
                group, needed = int(st[v.ST_A]), int(st[v.ST_B])
                ahead.replaced(group)
                buffers = grow(buffers, group, needed, int(st[v.ST_USED + group]))
            elif code == v.R_PAUSED:
                ahead.start(buffers, st[v.ST_USED :], int(st[v.ST_POS]) / len(data))
                if progress:
                    progress(int(st[v.ST_POS]), len(data))
            elif code == v.R_DONE:
                return Decoded(buffers, st, len(data))
            else:
                raise SnapshotError(_words(code, st, data), offset=int(st[v.ST_OFFSET]))


_PROTO = 0x80
"""The opcode that every pickle of protocol 2 to 5 begins with."""


def _words(code: int, st: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> str:
    """What was wrong and what was expected, for people."""
    words = _wrong(code, st, len(data))
    # a text, a picture, a checkpoint: which opcode its letters are is no news to anybody
    return f"not a memory snapshot: no pickle begins like this ({words})" if _is_another(data, words) else words


def _is_another(data: npt.NDArray[np.uint8], words: str) -> bool:
    return len(data) > 0 and int(data[0]) != _PROTO and "garbled" in words


def _wrong(code: int, st: npt.NDArray[np.int64], size: int) -> str:
    a, b = int(st[v.ST_A]), int(st[v.ST_B])
    op = v.opcode_name(a) if a >= 0 else ""
    if code == v.R_TYPE:
        return _type_words(a, b, int(st[v.ST_C]))
    more = f"{op} wants {_count(b)} more" if a >= 0 else "another opcode or STOP was expected"
    return _WORDS[code].format(op=op, byte=f"0x{a & 0xFF:02x}", b=b, size=size, more=more, limit=v.STACK_LIMIT)


_WORDS = {
    v.R_TRUNCATED: "cut short: {more}, but the data end at {size:,} bytes",
    v.R_REFUSED: "refused: {op} would import, call or build something; a memory snapshot holds only plain data",
    v.R_TEXT: "{op} belongs to pickle protocol 0; protocols 2 to 5 are read (pickle.dump's default is 4 or 5)",
    v.R_OPCODE: "garbled: byte {byte} is no pickle opcode",
    v.R_PROTOCOL: "pickle protocol {b} is not known; 2 to 5 are read",
    v.R_MEMO: "garbled: {op} refers to memo entry {b:,}, which was never stored",
    v.R_MEMO_INDEX: "garbled: {op} stores memo entry {b:,}, more than the file has bytes",
    v.R_MEMO_NUMBER: "{op} stores a number in the memo; no pickler does that",
    v.R_UNDERFLOW: "{op}: garbled: nothing is on the pickle stack where a value was expected",
    v.R_NO_MARK: "{op}: garbled: a MARK was expected before it",
    v.R_NOT_LIST: "{op}: garbled: a list was expected below the items",
    v.R_NOT_DICT: "{op}: garbled: a dict was expected below the items",
    v.R_ODD_ITEMS: "{op}: garbled: pairs of key and value were expected",
    v.R_CHANGED: "a container changes after it was used; no writer of snapshots does that",
    v.R_FRAME: "a list of frames goes on with something that is not a frame, or in a way no pickler writes it",
    v.R_LATE_KEY: "a dict gets the key that tells its kind only after its first items; no pickler writes it so",
    v.R_DEEP_STACK: "a stack of more than {limit:,} frames",
}


def _count(n: int) -> str:
    return f"{n:,} byte" + ("s" if n != 1 else "") if n >= 0 else "more bytes than can be"


def _type_words(kind: int, key: int, tag: int) -> str:
    names = list(v.KNOWN_STRINGS)
    expected = {
        **dict.fromkeys(("frames", "forward_frames"), "a list of frames"),
        **dict.fromkeys(("blocks", "history"), "a list"),
        **dict.fromkeys(
            ("action", "state", "stage", "name", "filename", "user_metadata", "compile_context", "segment_type"),
            "a string",
        ),
    }.get(names[key], "an integer of 64 bits")
    place = f"{names[key]!r} of {_article(v.KIND_WORDS[kind])}"
    return f"{place} is {_article(v.TAG_WORDS[tag])} where {expected} was expected"


def _article(word: str) -> str:
    if word in ("None", "nothing"):
        return word
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
