"""Opcodes of the pickle machine: their argument bytes, and why some are refused (numba)."""

from __future__ import annotations

from numba import int64, uint64

from snapviz.snapshot import vocabulary as v
from snapviz.snapshot.jit import inlined

__all__ = ["argument_width", "long_integer", "number", "verdict"]


@inlined
def number(data, at, length):  # type: ignore[no-untyped-def]
    """Little-endian unsigned, at most 8 bytes (wraps into int64 at 8)."""
    first = uint64(at)
    if length == 1:
        return int64(data[first])
    value = uint64(0)
    shift = uint64(0)
    for i in range(uint64(length)):
        value |= uint64(data[first + i]) << shift
        shift += uint64(8)
    return int64(value)


@inlined
def long_integer(data, at, length):  # type: ignore[no-untyped-def]
    """LONG1/LONG4's two's complement: (fits 64 bits, value)."""
    if length == 0:
        return True, int64(0)
    kept = min(length, 8)
    value = number(data, at, kept)
    if length < 8 and data[at + length - 1] & 0x80:
        value -= int64(1) << int64(8 * length)
    fill = 0xFF if value < 0 else 0
    for i in range(8, length):
        if data[at + i] != fill:
            return False, int64(0)
    return True, value


@inlined
def argument_width(op):  # type: ignore[no-untyped-def]
    """Bytes of fixed argument (or of the length prefix) that follow an opcode."""
    if op == 0x68 or op == 0x4B or op == 0x71 or op == 0x8A or op == 0x8C or op == 0x80 or op == 0x55 or op == 0x43:
        return 1  # BINGET BININT1 BINPUT LONG1 SHORT_BINUNICODE PROTO SHORT_BINSTRING SHORT_BINBYTES
    if op == 0x4D:
        return 2  # BININT2
    if op == 0x4A or op == 0x6A or op == 0x72 or op == 0x58 or op == 0x8B or op == 0x54 or op == 0x42:
        return 4  # BININT LONG_BINGET LONG_BINPUT BINUNICODE LONG4 BINSTRING BINBYTES
    if op == 0x95 or op == 0x47 or op == 0x8D or op == 0x8E or op == 0x96:
        return 8  # FRAME BINFLOAT BINUNICODE8 BINBYTES8 BYTEARRAY8
    return 0


@inlined
def verdict(op):  # type: ignore[no-untyped-def]
    """Why an opcode the machine does not have is refused."""
    # GLOBAL STACK_GLOBAL REDUCE BUILD INST OBJ NEWOBJ NEWOBJ_EX PERSID BINPERSID EXT1 EXT2 EXT4 and
    # out-of-band buffers: what would import, call or fetch something.
    if (
        op == 0x63 or op == 0x93 or op == 0x52 or op == 0x62 or op == 0x69 or op == 0x6F or op == 0x81 or op == 0x92
        or op == 0x50 or op == 0x51 or op == 0x82 or op == 0x83 or op == 0x84 or op == 0x97 or op == 0x98
    ):  # fmt: skip
        return v.R_REFUSED
    # INT LONG FLOAT STRING UNICODE GET PUT: the text forms of protocol 0.
    if op == 0x49 or op == 0x4C or op == 0x46 or op == 0x53 or op == 0x56 or op == 0x67 or op == 0x70:
        return v.R_TEXT
    return v.R_OPCODE
