"""What differs around the two runs of a diff, in a line."""

from __future__ import annotations

from snapviz.report.layout import Line, clean, cut, wrapped
from snapviz.schema import DiffReport, EnvironmentChange

__all__ = ["differences", "environment_lines"]


def environment_lines(report: DiffReport, width: int) -> list[Line]:
    """What differs around the two runs."""
    parts = [f"{what}: {base} → {head}" for what, base, head in differences(report)]
    return wrapped(clean(f"different: {'; '.join(parts)}"), width, "", "  ", "faint") if parts else []


def differences(report: DiffReport) -> list[tuple[str, str, str]]:
    """What differs, in base and in head, in words; ``–`` on a side without it."""
    return [_difference(change) for change in report.environment if change.what not in _TOLD_ABOVE]


_TOLD_ABOVE = ("git commit", "git dirty")
"""What the first line of a report has beside the runs' names."""


def _difference(change: EnvironmentChange) -> tuple[str, str, str]:
    base, head = change.base, change.head
    if change.what == "command" and isinstance(base, str) and isinstance(head, str):
        base, head = _apart(base, head)
    return change.what, _value(base), _value(head)


def _apart(base: str, head: str) -> tuple[str, str]:
    """Two commands without the words they begin and end with alike: what is left says what was done otherwise."""
    one, other = base.split(" "), head.split(" ")
    first = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    room = min(len(one), len(other)) - first
    ends = zip(reversed(one), reversed(other), strict=False)
    last = next((i for i, (a, b) in enumerate(ends) if i == room or a != b), room)
    cut_down = [" ".join(words[first : len(words) - last]) for words in (one, other)]
    before, after = "… " * bool(first), " …" * bool(last)
    return tuple(f"{before}{text}{after}" if text else "–" for text in cut_down)  # type: ignore[return-value]


def _value(value: object) -> str:
    return "–" if value is None else "(empty)" if value == "" else cut(str(value), 60)
