"""Frames made comparable: a file's name without what differs between two machines or two runs.

Legend: F frames, S stacks, L frames of all stacks, W strings, K distinct (file, function) pairs.

Rules are data (``_LIBRARY_ROOTS``, ``_GENERATED``), each linear in the length of a name; a file that
none of them knows is the user's own and keeps its path here: only a comparison knows what it
corresponds to elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from snapviz.snapshot.columns import FRAME_TEXT_BYTES, Columns

__all__ = ["FrameNames", "is_python", "normal_file", "normal_function"]

Int64 = npt.NDArray[np.int64]

_LIBRARY_ROOTS = (
    (re.compile(r".*/(?:site|dist)-packages/", re.DOTALL), ""),
    (re.compile(r".*/lib(?:64)?/python3(?:\.\d+)?t?/", re.DOTALL), "python3/"),
)
"""Where a library begins; what stands before differs from machine to machine."""

_GENERATED = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"(?:.*/)?torchinductor_[^/]*/.*|(?:.*/)?torchinductor/.{2}/c[0-9a-z]{20,}.*", "<torchinductor>"),
        (r"(?:.*/)?\.?triton/cache/.*", "<triton>"),
        (r"<eval_with_key>.*", "<eval_with_key>"),
        (r"<ipython-input-.*>|.*/ipykernel_\d+/.*", "<ipython>"),
        (r"(?:/private)?(?:/var)?/tmp/(?:tmp|pymp-|pip-)[\w-]+/(?P<rest>.*)", r"<tmp>/\g<rest>"),
        (r"(?:/private)?(?:/var)?/tmp/tmp[\w-]{6,}(?P<suffix>\.\w+)?", r"<tmp>\g<suffix>"),
    )
)
"""Whole names of code that is written while the program runs: a number or a hash that changes from
run to run. Tried in this order; what only ends in a number is ``_numbered``'s."""

_BRACKETED = re.compile(r"[A-Za-z_][\w-]*")
_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
_DIGITS = "0123456789"

_LONGEST_PATH = 4096
"""Characters: PATH_MAX of Linux. A longer name is no file's, and no rule is tried on it."""
_LONGEST_TEXT = FRAME_TEXT_BYTES
"""Of a comparable name, as of what is shown: one string can stand in every frame of a file."""

_RESUME = re.compile(r"(torch_dynamo_resume_in_.*)_at_\d+")
_NUMBERED = re.compile(r"(.*?\D)_?\d+(?:_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12})?")
_COMPILED = re.compile(r"__compiled_fn_\d+.*")


def normal_file(filename: str) -> tuple[str, str]:
    """The comparable name of a file and its kind: ``library``, ``generated`` or ``user``."""
    path = filename.replace("\\", "/")
    if len(path) > _LONGEST_PATH:
        return path, "user"
    for pattern, replacement in _GENERATED:
        if match := pattern.fullmatch(path):
            return match.expand(replacement), "generated"
    if (stem := _numbered(path)) is not None:
        return f"<{stem}>", "generated"
    for pattern, replacement in _LIBRARY_ROOTS:
        if match := pattern.match(path):
            return replacement + path[match.end() :], "library"
    return path, "library" if path.startswith("<frozen ") else "user"


def _numbered(path: str) -> str | None:
    """The name of generated code without its number: ``<fx-generated_1>``, ``thunder.computation_3``; else none."""
    bracketed = path.startswith("<") and path.endswith(">")
    whole = path[1:-1] if bracketed else path
    named = whole.rstrip(_DIGITS)
    # by hand: a pattern that tries every length of the stem takes the square of the length
    if named == whole or not (bracketed or named.endswith("_")):
        return None
    stem = (named[:1] + named[1:].rstrip("-_. ")) if bracketed else named[:-1]
    return stem if (_BRACKETED if bracketed else _DOTTED).fullmatch(stem) else None


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


_RECORDER = re.compile(r"(?:.*/)?snapviz/record/(?:frameworks/)?(?P<name>\w+)\.py", re.DOTALL)
"""The recorder's own files: what it puts around functions stands in every stack below them."""
_MODULE = "torch/nn/modules/module.py"
_LAUNCHER = "program"
"""The one of them that runs the script: what called it, it would not have without ``snapviz record``."""


@dataclass(frozen=True)
class FrameNames:
    """The frames of one snapshot under their comparable names; each distinct one is named once."""

    columns: Columns

    @cached_property
    def files(self) -> dict[int, tuple[str, str]]:
        """String id of every file name → its comparable name and kind."""
        found = {}
        for string in np.unique(self.columns.frames.filename).tolist():
            file, kind = normal_file(self.columns.strings.text(string))
            # the end of a path tells more than its beginning
            found[string] = (file if len(file) <= _LONGEST_TEXT else f"…{file[-_LONGEST_TEXT:]}", kind)
        return found

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
        known: dict[tuple[int, str], str] = {}
        found = []
        for value in self._pairs[0].tolist():
            file, kind = self.files[(value >> 32) - 1]
            function = (value & 0xFFFFFFFF) - 1, kind
            if function not in known:
                known[function] = normal_function(self.columns.strings.text(function[0], _LONGEST_TEXT), kind)
            found.append((file, known[function]))
        return tuple(found)

    @cached_property
    def _recorder(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
        """[F] which frames are the recorder's, and which of them the launcher's; none where none is."""
        files = self.columns.frames.filename
        own = {
            string: match["name"]
            for string in np.unique(files).tolist()
            if (match := _RECORDER.fullmatch(self.columns.strings.text(string, _LONGEST_PATH).replace("\\", "/")))
        }
        if not own:
            return None
        launchers = [string for string, name in own.items() if name == _LAUNCHER]
        return np.isin(files, list(own)), np.isin(files, launchers)

    def of(self, stack: int) -> npt.NDArray[np.int32]:
        """Frame ids of a stack, innermost first, as it would be had nobody recorded the program from outside."""
        frames = self.columns.stacks.of(stack)
        if self._recorder is None or len(frames) == 0:
            return frames
        own, launcher = self._recorder
        outside = np.flatnonzero(launcher[frames])
        frames = frames[: int(outside[0])] if len(outside) else frames
        return frames[~own[frames]]

    @cached_property
    def same(self) -> npt.NDArray[np.int32]:
        """[S] for each stack the first that is the same but for the recorder.

        Its frames stand in the stacks of the steps in which it notes modules, and there ``Module.__call__`` goes
        through another line of its own.
        """
        count = len(self.columns.stacks)
        if self._recorder is None:
            return np.arange(count, dtype=np.int32)
        calls = np.array([file == _MODULE for file, _ in self.names], bool)[self.of_frame]
        lines = np.where(calls, -1, self.columns.frames.line).astype(np.int64)
        key = np.stack([self.of_frame, lines], axis=1)
        first: dict[bytes, int] = {}
        found = [first.setdefault(key[self.of(stack)].tobytes(), stack) for stack in range(count)]
        return np.array(found, np.int32)

    def text(self, frame: int) -> str:
        """One frame for people; the same text, and no copy of it, however many stacks hold it."""
        if frame not in self._texts:
            self._texts[frame] = self.columns.frame_text(frame)
        return self._texts[frame]

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {}

    @property
    def of_frame(self) -> Int64:
        """[F] index into ``names``."""
        return self._pairs[1]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """[S] a key of each stack by its files and functions, without lines: the same in another run.

        Of a user's own files only the last part counts, since the folders they lie in differ from machine to machine.
        """
        from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

        own = {file for file, kind in self.files.values() if kind == "user"}
        texts = [f"{file.rpartition('/')[2] if file in own else file}\n{function}" for file, function in self.names]
        hashes = np.array([xxh3_64_intdigest(text.encode("utf-8", "replace")) for text in texts], np.uint64)
        of_frame = hashes[self.of_frame]
        stacks = range(len(self.columns.stacks))
        return tuple(xxh3_64_hexdigest(of_frame[self.of(stack)].tobytes()) for stack in stacks)
