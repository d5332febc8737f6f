"""What differs around two runs, and can move memory, or what is known of it."""

from __future__ import annotations

import shlex

from pydantic import JsonValue

from snapviz.analyze.describe import allocator_settings, known
from snapviz.analyze.run import Run
from snapviz.schema import EnvironmentChange

__all__ = ["environment_of"]


_Change = tuple[str, JsonValue, JsonValue]
"""What differs, in base and in head."""

_HISTORY = ("context", "stacks", "max_entries", "first_allocation")
"""Of how the allocator's history was recorded: it moves no memory, and decides what is known of it."""


def environment_of(base: Run, head: Run) -> tuple[EnvironmentChange, ...]:
    """Differences of what is known on both sides: what only one side knows is no difference."""
    found = _both(
        [
            ("torch", known(base, "torch"), known(head, "torch")),
            ("device", known(base, "device"), known(head, "device")),
            ("world size", base.world_size, head.world_size),
            ("process group", _process_group(base), _process_group(head)),
        ]
    )
    found += _changes("allocator", allocator_settings(base), allocator_settings(head))
    if base.manifest and head.manifest:
        found += _changes("package", dict(base.manifest.packages), dict(head.manifest.packages))
        found += _changes("setting", base.manifest.settings, head.manifest.settings)
    found += _programs(base, head)
    found += _histories(base, head)
    return tuple(EnvironmentChange(what=what, base=b, head=h) for what, b, h in found)


def _both(pairs: list[_Change]) -> list[_Change]:
    return [pair for pair in pairs if pair[1] is not None and pair[2] is not None and _differ(pair[1], pair[2])]


def _programs(base: Run, head: Run) -> list[_Change]:
    """The program itself: its checkout and how it was called."""
    sides = [run.manifest for run in (base, head)]
    git = [side.git if side else None for side in sides]
    one, other = git
    found: list[_Change] = []
    if one is not None and other is not None:
        found = [(f"git {what}", getattr(one, what), getattr(other, what)) for what in ("commit", "branch", "dirty")]
    # quoted as a shell would take it: one text, and no argument is lost in it
    commands = [shlex.join(side.command) if side and side.command else None for side in sides]
    return _both([*found, ("command", commands[0], commands[1])])


def _histories(base: Run, head: Run) -> list[_Change]:
    one, other = (
        next((r.record.history for r in run.ranks if r.record and r.record.history), None) for run in (base, head)
    )
    return _both([(f"history {what}", getattr(one, what, None), getattr(other, what, None)) for what in _HISTORY])


def _process_group(run: Run) -> str | None:
    fake = run.manifest.fake_process_group if run.manifest else None
    return None if fake is None else "fake" if fake else "real"


def _changes(kind: str, base: dict[str, JsonValue], head: dict[str, JsonValue]) -> list[_Change]:
    if not base or not head:
        return []
    keys = sorted(base.keys() | head.keys())
    return [(f"{kind} {key}", base.get(key), head.get(key)) for key in keys if _differ(base.get(key), head.get(key))]


def _differ(base: JsonValue, head: JsonValue) -> bool:
    """Whether two values are different; NaN is what it was, however deep in a list it lies."""
    return base != head and repr(base) != repr(head)
