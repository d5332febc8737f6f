"""Stacks of two snapshots under one numbering: what makes them the same stack in both.

Legend: K distinct (file, function) pairs of one side, n stacks asked for.

A stack is the sequence of its (file, function), innermost first, without line numbers, a frame that
repeats counted once (recursion of another depth is the same stack), and without what ``masks`` and
``plumbing`` leave out. Library and generated files have
comparable names already (``analyze.frames``); the user's own are paired here, longest common path
suffix first, in a way that is the same when base and head are swapped. What is a library in one run
only may be the user's own in the other: the same code, installed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from snapviz.analyze.frames import FrameNames
from snapviz.compare.masks import Masks
from snapviz.compare.plumbing import is_plumbing

__all__ = ["NO_STACK", "JointStacks", "pair_files"]

Int64 = npt.NDArray[np.int64]

NO_STACK = 0
"""Joint id of an allocation without frames."""

_WEAK_NAMES = ("__init__.py", "__main__.py")
"""Files that are alike in name only: a common suffix of one part says nothing about them."""

_DEPTH = 64
"""Parts of a path that are compared, from its end; no real one has half as many."""

_LONGEST = 500
"""Characters of a function's or a file's name in a report; a longer one is an accident or an attack."""

_INNERMOST, _OUTERMOST = 150, 50
"""Frames of a stack in a report: a deeper one loses its middle."""


def pair_files(base: Collection[str], head: Collection[str]) -> dict[str, str]:
    """User files of base → their counterpart in head; a file without one is left out.

    Identical paths first, then by the longest common suffix of whole parts (of the last ``_DEPTH``);
    where several are equally long, in the order of the paths. Swapping the arguments inverts the result
    exactly.
    """
    same = set(base) & set(head)
    pairs = {path: path for path in same}
    left, right = set(base) - same, set(head) - same
    deepest = min(_DEPTH, max((path.count("/") + 1 for path in left | right), default=0))
    for depth in range(deepest, 0, -1):
        here, there = _by_suffix(left, depth), _by_suffix(right, depth)
        for suffix in sorted(here.keys() & there.keys()):
            if depth == 1 and suffix in _WEAK_NAMES:
                continue
            pairs |= zip(here[suffix], there[suffix], strict=False)
        left -= pairs.keys()
        right -= set(pairs.values())
    return pairs | _weak_pairs(pairs, left, right)


def _by_suffix(paths: Iterable[str], depth: int) -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sorted(paths):
        parts = path.rsplit("/", depth)
        if len(parts) >= depth:
            found["/".join(parts[-depth:])].append(path)
    return found


def _weak_pairs(pairs: dict[str, str], left: set[str], right: set[str]) -> dict[str, str]:
    """``__init__.py`` of two folders that other files have already shown to be the same.

    Only where neither has a second counterpart: a choice could fall otherwise with the sides swapped.
    """
    moved: dict[str, set[str]] = defaultdict(set)
    for b, h in pairs.items():
        if b != h:
            moved[_without(b, h)].add(_without(h, b))
    found = []
    for one in sorted(left):
        for root in _roots(one):
            counterparts = {to + one[len(root) :] for to in moved.get(root, ())} & right
            found += [(one, other) for other in sorted(counterparts) if _without(one, other) == root]
    ones, others = Counter(one for one, _ in found), Counter(other for _, other in found)
    return {one: other for one, other in found if ones[one] == others[other] == 1}


def _roots(path: str) -> Iterator[str]:
    """What stands before each of the last parts of a path."""
    end = len(path)
    for _ in range(_DEPTH):
        end = path.rfind("/", 0, max(0, end - 1)) + 1 if end else -1
        if end < 0:
            return
        yield path[:end]


def _pair_scripts(pairs: dict[str, str], base: set[str], head: set[str]) -> dict[str, str]:
    """The program that was started, where it is called otherwise in head: the only script left on each side."""
    left, right = base - pairs.keys(), head - set(pairs.values())
    return {left.pop(): right.pop()} if len(left) == len(right) == 1 else {}


def _libraries(names: FrameNames) -> set[str]:
    return {file for file, kind in names.files.values() if kind == "library"}


def _pair_installed(
    pairs: dict[str, str], base: set[str], head: set[str], base_libraries: set[str], head_libraries: set[str]
) -> dict[str, str]:
    """The same code checked out in one run and installed in the other: what is left of the user's files,
    with the files of packages that are a library in the other run only."""
    left, right = base - pairs.keys(), head - set(pairs.values())
    here, there = ({_package(file) for file in files} for files in (base_libraries, head_libraries))
    only_base = {file for file in base_libraries if _package(file) not in there}
    only_head = {file for file in head_libraries if _package(file) not in here}
    return pair_files(left, only_head) | pair_files(only_base, right)


def _package(library: str) -> str:
    return library.partition("/")[0]


def _text_of_pair(one: str, other: str) -> str:
    if one == other:
        return one
    # "…/": how a reader tells the user's own file from a library's, whose path begins with its package
    return (
        f"…/{suffix}"
        if (suffix := _common_suffix(one, other))
        else "|".join(sorted(path.rpartition("/")[2] for path in (one, other)))
    )


def _common_suffix(one: str, other: str) -> str:
    """The longest common suffix of whole parts of two paths."""
    parts = []
    for a, b in zip(reversed(one.split("/")), reversed(other.split("/")), strict=False):
        if a != b:
            break
        parts.append(a)
    return "/".join(reversed(parts))


def _without(one: str, other: str) -> str:
    return one.removesuffix(_common_suffix(one, other))


_NO_MASKS = Masks()


class JointStacks:
    """The stacks of base (side 0) and head (side 1) of one rank."""

    def __init__(self, base: FrameNames, head: FrameNames, masks: Masks = _NO_MASKS) -> None:
        self._sides, self._masks = (base, head), masks
        users = [{f for f, kind in side.files.values() if kind == "user"} for side in self._sides]
        scripts = [
            {f for f, function in side.names if function == "<module>" and f in users[i]}
            for i, side in enumerate(self._sides)
        ]
        pairs = pair_files(*users)
        pairs |= _pair_installed(pairs, *users, *(_libraries(side) - users[i] for i, side in enumerate(self._sides)))
        pairs |= _pair_scripts(pairs, *scripts)
        # a key for every file and side; the text only serves people
        self._keys: list[dict[str, Hashable]] = [
            {b: ("pair", b, h) for b, h in pairs.items()},
            {h: ("pair", b, h) for b, h in pairs.items()},
        ]
        self._texts = {("pair", b, h): _text_of_pair(b, h) for b, h in pairs.items()}
        self._frames: dict[tuple[Hashable, str], int] = {}
        self._frame_texts: list[str] = []
        self._plumbing: list[bool] = []
        # of each joint frame, what a mask can match: as it is shown, and by its own path on each side
        self._forms: list[set[str]] = []
        self._of_pair = [self._join(side) for side in (0, 1)]
        masked = [bool(masks.expressions) and masks.frame(*forms) for forms in self._forms]
        self._left_out = np.array(self._plumbing, bool) | np.array(masked, bool)
        self._stacks: dict[bytes, int] = {b"": NO_STACK}
        self._known: list[dict[int, int]] = [{-1: NO_STACK}, {-1: NO_STACK}]

    def _join(self, side: int) -> Int64:
        """[K] joint frame id of every distinct (file, function) of one side."""
        names = self._sides[side]
        user = {file for file, kind in names.files.values() if kind == "user"}
        out = np.empty(len(names.names), np.int64)
        for i, (file, function) in enumerate(names.names):
            key = self._keys[side].get(file, ("only", side, file) if file in user else file)
            joint = self._frames.setdefault((key, function), len(self._frames))
            if joint == len(self._frame_texts):
                text = self._texts.get(key, file) if isinstance(key, tuple) else file
                self._frame_texts.append(f"{_cut(function)} ({_cut_left(text)})")
                self._plumbing.append(is_plumbing(function, file))
                self._forms.append({self._frame_texts[joint]})
            if self._masks.expressions:
                self._forms[joint].add(f"{function} ({file})")
            out[i] = joint
        return out

    def masked_by(self, masks: Masks) -> list[str]:
        """``function (file)`` of the frames that some of the masks match."""
        both = zip(self._frame_texts, self._forms, strict=True)
        return [text for text, forms in both if masks.frame(*forms)]

    def ids(self, side: int, stacks: npt.NDArray[np.int32]) -> Int64:
        """[n] joint ids of stack ids of one side; ``NO_STACK`` for ``ABSENT`` and empty ones."""
        distinct, inverse = np.unique(stacks, return_inverse=True)
        known = self._known[side]
        for stack in distinct.tolist():
            if stack not in known:
                joint, _ = self._sequence(side, stack)
                known[stack] = self._stacks.setdefault(joint.tobytes(), len(self._stacks))
        return np.array([known[stack] for stack in distinct.tolist()], np.int64)[inverse.reshape(-1)]

    def _sequence(self, side: int, stack: int) -> tuple[Int64, Int64]:
        """Joint frame ids of a stack without repetitions and what is left out, and the frames they stand for."""
        names = self._sides[side]
        frames = names.of(stack)
        joint = self._of_pair[side][names.of_frame[frames]]
        shown = ~self._left_out[joint]
        frames, joint = frames[shown], joint[shown]
        kept = np.append(True, joint[1:] != joint[:-1]) if len(joint) else np.zeros(0, bool)
        return joint[kept], frames[kept].astype(np.int64)

    def path(self, side: int, stack: int) -> Int64:
        """Joint ids of the frames that tell a stack from others, innermost first: what ``ids`` numbers."""
        return self._sequence(side, stack)[0]

    @property
    def frame_texts(self) -> Sequence[str]:
        """``function (file)`` of every joint frame by its id."""
        return self._frame_texts

    def texts(self, side: int, stack: int) -> tuple[str, ...]:
        """``function (file)`` of each frame of a stack, innermost first, the same text on both sides.

        A stack of more than 200 frames has a line for those in its middle.
        """
        frames = self._sequence(side, stack)[0].tolist()
        gap = f"… {len(frames) - _INNERMOST - _OUTERMOST:,} frames …"
        return tuple(gap if i is None else self._frame_texts[i] for i in _ends(frames))

    def lines(self, side: int, stack: int) -> tuple[int, ...]:
        """Line numbers for ``texts``, of this side; -1 where there is none."""
        _, frames = self._sequence(side, stack)
        lines = self._sides[side].columns.frames.line[frames].tolist()
        return tuple(-1 if number is None else number for number in _ends(lines))


T = TypeVar("T")


def _ends(frames: Sequence[T]) -> list[T | None]:
    """Innermost and outermost frames, with none between them for those left out."""
    if len(frames) <= _INNERMOST + _OUTERMOST:
        return [*frames]
    return [*frames[:_INNERMOST], None, *frames[-_OUTERMOST:]]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cut_left(text: str) -> str:
    """Of a path the end says most."""
    return text if len(text) <= _LONGEST else f"…{text[1 - _LONGEST :]}"
