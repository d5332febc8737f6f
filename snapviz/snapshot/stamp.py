"""What the code of a floor is, as a short text: results and machine code are kept only under it.

A version number that someone has to raise is forgotten once, and then old numbers are shown as exact.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["code_stamp"]


@cache
def code_stamp(*places: Path) -> str:
    """A hash of source files, or of all in a folder, and of snapviz's version where there are none."""
    import xxhash

    from snapviz import __version__

    stamp = xxhash.xxh3_128(__version__.encode())
    for place in places:
        for source in sorted(place.glob("*.py")) if place.is_dir() else filter(Path.is_file, [place]):
            stamp.update(source.name.encode() + b"\0" + source.read_bytes())
    return stamp.hexdigest()
