"""The small words of the text reports: frames, names, differences, lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapviz.report.layout import Span, clean, cut, width_of
from snapviz.schema import BrokenRank
from snapviz.units import format_bytes

__all__ = [
    "arrow",
    "block_counts",
    "broken_in_words",
    "change",
    "fold_names",
    "frames_in_words",
    "is_of_memory",
    "is_users_frame",
    "number",
    "plural",
    "ranges",
    "ratio",
    "signed",
]

_PLUMBING = frozenset(
    {
        "<lambda>",
        "__torch_function__",
        "_call_impl",
        "_fn",
        "_wrapped_call_impl",
        "decorate_context",
        "fn_",
        "fsdp_hook_wrapper",
        "inner",
        "no_autocast_fn",
        "wrapped",
        "wrapper",
    }
)
"""Functions that are on the way everywhere and tell nothing."""

_UNWINDER = ("torch::unwind::", "torch::CapturedTraceback::")
"""How the names of torch's own functions begin that take the stack, and are in every one of C++ frames."""

_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3")
"""Parts of a path that is a library's, where it is not relative to its package yet."""

_INNERMOST = 2
"""Frames that are told wherever they are: the operation and who asked for it."""

_LINE = re.compile(r"-?[0-9]{1,18}")


def plural(count: int, noun: str) -> str:
    """``1 block``, ``2 blocks``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def broken_in_words(broken: BrokenRank) -> str:
    """A rank that could not be read: by its number, else by its file."""
    return f"rank {broken.rank}" if broken.rank is not None else broken.source


def number(value: float) -> str:
    """A metric: ``1,024``, ``85,765.2``, ``0.5``; of one that is larger than any quantity, how large."""
    if isinstance(value, int) and abs(value) < _HUGE:
        return f"{value:,}"
    try:
        return f"{value:,.1f}" if 100 <= abs(value) < _HUGE else f"{float(value):.4g}"
    except OverflowError:
        return "more than 1e308" if value > 0 else "less than -1e308"


_HUGE = 10**15


_OF_MEMORY = re.compile(r"mem|bytes|(?:^|_)[kmgt]i?b(?:_|$)", re.IGNORECASE)


def is_of_memory(metric: str) -> bool:
    """Whether a metric's name says that it is one of memory: with a fake process group only those are real."""
    return _OF_MEMORY.search(metric) is not None


def signed(count: int) -> str:
    """A difference: ``+4.00 MiB``, ``-512 B``, ``0``."""
    return format_bytes(count, signed=True)


def change(count: int) -> Span:
    """A difference in its colour."""
    return Span(signed(count), "more" if count > 0 else "less" if count < 0 else "faint")


def ratio(base: int, head: int) -> Span:
    """Head by base in its colour: ``×2.00``, ``∞`` for what is new, ``×0`` for what is gone; – where there is none."""
    style = "more" if head > base else "less" if head < base else "faint"
    if min(base, head) < 0 or base == head == 0:
        return Span("–", "faint")
    if not base or not head:
        return Span("∞" if not base else "×0", style)
    factor = head / base
    return Span(f"×{factor:,.2f}" if factor >= 0.1 else f"×{factor:.2g}", style)


def arrow(count: int) -> Span:
    """▲ or ▼ in its colour, a blank for nothing."""
    return Span("▲" if count > 0 else "▼" if count < 0 else " ", "more" if count > 0 else "less" if count < 0 else "")


def block_counts(base: int, head: int) -> str:
    """``0 → 1 block``, ``3 blocks``."""
    return plural(head, "block") if base == head else f"{base:,} → {plural(head, 'block')}"


def frames_in_words(stack: Sequence[str], lines: Sequence[int] | None, width: int) -> str:
    """As many telling frames as fit, innermost first: ``allocate _fsdp_collectives.py:59 ← step train.py:38``.

    The two innermost, then the user's own. ``lines`` are those of the frames where their texts carry none.
    """
    if not stack:
        return "no stack (another thread, or memory from before the recording)"
    numbered = zip(stack, lines if lines is not None else [None] * len(stack), strict=True)
    out, last = "", None
    telling = _telling([_parts(text, number) for text, number in numbered])
    if not telling:
        return "only C++ frames"
    for function, file, number in telling:
        place = file.rpartition("/")[2] or file
        # the same file again is understood
        where = f"{'' if file == last else place}{number}" or place
        words = clean(f"{function} {where}".strip())
        if out and width_of(out) + width_of(words) + 5 > width:
            out += " ← …" if width_of(out) + 4 <= width else ""
            break
        out, last = f"{out} ← {words}" if out else words, file
    return cut(out, width)


_Frame = tuple[str, str, str]
"""Function, file and ``:line``."""


def _telling(frames: Sequence[_Frame]) -> list[_Frame]:
    # C++ frames (stacks="all") come before Python's, and say where in PyTorch, not where in the model
    python = [frame for frame in frames if frame[1].endswith(".py") or frame[1].startswith("<")]
    python = python or [frame for frame in frames if not frame[0].startswith(_UNWINDER)]
    chosen = [frame for frame in python if frame[0] not in _PLUMBING] or python
    inner: list[_Frame] = []
    for position, frame in enumerate(chosen):
        if len(inner) == _INNERMOST:
            return inner + [frame for frame in chosen[position:] if _is_users(frame[1])]
        # a library that calls itself under one name (einsum ← einsum ← einsum) says it once
        if not inner or frame[0] != inner[-1][0] or _is_users(frame[1]):
            inner.append(frame)
    return inner


def _is_users(file: str) -> bool:
    """Whether a file is the user's own: libraries' paths begin with their package."""
    library = any(part in file for part in _LIBRARIES)
    return not library and (file.startswith(("/", "…/")) or ("/" not in file and not file.startswith("<")))


def is_users_frame(text: str) -> bool:
    """Whether ``function (file)`` or ``function (file:line)`` is of the user's own code, by the file's name."""
    return _is_users(_parts(text, None)[1])


def _parts(text: str, number: int | None) -> _Frame:
    """Function, file and ``:line`` of a frame's text."""
    function, found, place = text.rpartition(" (")
    if not found or not place.endswith(")"):
        return text, "", ""
    file, _, line = place[:-1].rpartition(":")
    if not file or not _LINE.fullmatch(line):
        file, line = place[:-1], ""
    line = line if number is None else str(number)
    return function, file, f":{line}" if line and int(line) >= 0 else ""


_DIGITS = re.compile(r"\d{1,18}")
"""A number in a name; a longer one than an int64 holds is taken in parts."""


def fold_names(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Names that differ in one number folded: ``layers.0-7.w`` and the positions of those in it.

    In the order of their first; a name that folds with nothing stands for itself.
    """
    groups: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        groups.setdefault(_DIGITS.sub("#", name), []).append(position)
    return [(_folded([names[i] for i in members]), members) for members in groups.values()]


def _folded(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return distinct[0]
    numbers = [[int(n) for n in _DIGITS.findall(name)] for name in distinct]
    varying = [i for i in range(len(numbers[0])) if len({row[i] for row in numbers}) > 1]
    texts = [str(value) for value in numbers[0]]
    for index in varying:
        values = sorted({row[index] for row in numbers})
        # several varying numbers say which values occur, not which pairs: the count beside it does
        texts[index] = ranges(values)
    parts = iter(texts)
    return _DIGITS.sub(lambda _: next(parts), distinct[0])


def ranges(values: Sequence[int]) -> str:
    """Ascending numbers in short: ``0-3,7``."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
