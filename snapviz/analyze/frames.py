"""Frames made comparable: a file's name without what differs between two machines or two runs.

Legend: F frames, S stacks, L frames of all stacks, W strings, K distinct (file, function) pairs.

Rules are data (``_LIBRARY_ROOTS``, ``_GENERATED``); a file that none of them knows is the user's
own and keeps its whole path here: only a comparison knows what it corresponds to elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from snapviz.snapshot.columns import Columns

__all__ = ["FrameNames", "is_python", "normal_file", "normal_function"]

Int64 = npt.NDArray[np.int64]

_LIBRARY_ROOTS = (
    (re.compile(r".*/(?:site|dist)-packages/"), ""),
    (re.compile(r".*/lib(?:64)?/python3(?:\.\d+)?t?/"), "python3/"),
)
"""Where a library begins; what stands before differs from machine to machine."""

_GENERATED = (
    (re.compile(r"(?:.*/)?torchinductor_[^/]*/.*|(?:.*/)?torchinductor/.{2}/c[0-9a-z]{20,}.*"), "<torchinductor>"),
    (re.compile(r"(?:.*/)?\.?triton/cache/.*"), "<triton>"),
    (re.compile(r"<eval_with_key>.*"), "<eval_with_key>"),
    (re.compile(r"<ipython-input-.*>|.*/ipykernel_\d+/.*"), "<ipython>"),
    (re.compile(r"<(?P<stem>[A-Za-z_][\w-]*?)[-_. ]*\d+>"), r"<\g<stem>>"),
    (re.compile(r"(?P<stem>[A-Za-z_][\w.]*?)_\d+"), r"<\g<stem>>"),
    (re.compile(r"(?:/private)?(?:/var)?/tmp/(?:tmp|pymp-|pip-)[\w-]+/(?P<rest>.*)"), r"<tmp>/\g<rest>"),
    (re.compile(r"(?:/private)?(?:/var)?/tmp/tmp[\w-]{6,}(?P<suffix>\.\w+)?"), r"<tmp>\g<suffix>"),
)
"""Whole names of code that is written while the program runs: a number or a hash that changes from
run to run. Tried in this order; ``thunder.computation_3`` and its like are the sixth."""

_RESUME = re.compile(r"(torch_dynamo_resume_in_.*)_at_\d+")
_NUMBERED = re.compile(r"(.*?\D)_?\d+(?:_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12})?")
_COMPILED = re.compile(r"__compiled_fn_\d+.*")


def normal_file(filename: str) -> tuple[str, str]:
    """The comparable name of a file and its kind: ``library``, ``generated`` or ``user``."""
    path = filename.replace("\\", "/")
    for pattern, replacement in _GENERATED:
        if match := pattern.fullmatch(path):
            return match.expand(replacement), "generated"
    for pattern, replacement in _LIBRARY_ROOTS:
        if match := pattern.match(path):
            return replacement + path[match.end() :], "library"
    return path, "library" if path.startswith("<frozen ") else "user"


def normal_function(name: str, kind: str) -> str:
    """The comparable name of a function; numbers are cut only where a compiler chose them."""
    if match := _RESUME.fullmatch(name):
        return match[1]
    if _COMPILED.fullmatch(name):
        return "__compiled_fn"
    if kind == "generated" and (match := _NUMBERED.fullmatch(name)):
        return match[1]
    return name


def is_python(file: str) -> bool:
    """Whether a comparable file name is Python's: with ``stacks="all"`` a stack begins with C++ frames."""
    return file.endswith((".py", ".pyx")) or file.startswith("<")


@dataclass(frozen=True)
class FrameNames:
    """The frames of one snapshot under their comparable names; each distinct one is named once."""

    columns: Columns

    @cached_property
    def files(self) -> dict[int, tuple[str, str]]:
        """String id of every file name → its comparable name and kind."""
        strings = self.columns.strings
        return {int(w): normal_file(strings.text(int(w))) for w in np.unique(self.columns.frames.filename)}

    @cached_property
    def _pairs(self) -> tuple[Int64, Int64]:
        frames = self.columns.frames
        # ids are below 2**31 and at least -1, so that one int64 holds both
        joint = (frames.filename.astype(np.int64) + 1 << 32) | (frames.name.astype(np.int64) + 1)
        values, inverse = np.unique(joint, return_inverse=True)
        return values, inverse.reshape(-1).astype(np.int64)

    @cached_property
    def names(self) -> tuple[tuple[str, str], ...]:
        """[K] (file, function), comparable, of every distinct pair; different pairs may read alike."""
        strings = self.columns.strings
        found = []
        for value in self._pairs[0].tolist():
            file, kind = self.files[(value >> 32) - 1]
            found.append((file, normal_function(strings.text((value & 0xFFFFFFFF) - 1), kind)))
        return tuple(found)

    @property
    def of_frame(self) -> Int64:
        """[F] index into ``names``."""
        return self._pairs[1]
