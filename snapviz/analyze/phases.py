"""Phases of a rank: where they come from, what memory did in them, and which one made what.

Legend: E events, A allocations, P phases. Values are bytes, [P, 4] in the order of ``MEASURES``.

A rank record says what they are. A bare file has annotations (``scopes.py``), or else nothing: then
the whole recording is one phase, ``run``. How certain they are is for ``trust.py``. Both passes here
have the signature ``Facts -> Facts``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import BEFORE, MEASURES, OUTSIDE, Facts, Phases
from snapviz.analyze.scopes import DEEPEST, Scope, find_scopes, left_out, phase_scopes, step_scopes
from snapviz.analyze.windows import highest, painted
from snapviz.replay.model import Measures, Replay
from snapviz.schema import is_training

__all__ = [
    "WHOLE_RUN",
    "end_of_run",
    "find_births",
    "find_phases",
    "fold",
    "folded_births",
    "folded_phases",
    "phase_of",
]

Int64 = npt.NDArray[np.int64]

WHOLE_RUN = "run"
"""The one phase of a file that names none."""

_MOST = 6
"""Names told of phases that are lost."""

_MOST_NAMES = 1_000
"""Folded names of phases that a bare file can have: more is no table, and every name costs rows and time."""

_NUMBERED_PART = re.compile(r"(step|iteration|iter|epoch|batch)[-_ ]?(\d{1,18})")
"""A number of more digits counts nothing."""


def fold(name: str) -> str:
    """A phase's name with later steps folded into one: ``train/step3/forward`` → ``train/step/forward``.

    Number 0 keeps its number: what only the first step does (allocating optimizer state) is worth a
    row of its own.
    """
    return "/".join(_fold_part(part) for part in name.split("/"))


def _fold_part(part: str) -> str:
    match = _NUMBERED_PART.fullmatch(part)
    if match is None:
        return part
    return f"{match[1]}0" if int(match[2]) == 0 else match[1]


def folded_phases(phases: Phases) -> dict[str, Int64]:
    """Folded name → indices of its phases, in order of their start."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(phases.names):
        groups.setdefault(fold(name), []).append(index)
    return {name: np.array(indices, np.int64) for name, indices in groups.items()}


def folded_births(facts: Facts) -> tuple[list[str], Int64]:
    """The folded name of each birth, and for each the first birth of that name: what to group by."""
    names = [fold(birth) for birth in facts.births]
    first = {name: i for i, name in reversed(list(enumerate(names)))}
    return names, np.array([first[name] for name in names], np.int64)


def phase_of(phases: Phases, event: int) -> str | None:
    """The innermost phase that holds an event; none between phases and before the first event."""
    inside = np.flatnonzero((phases.first <= event) & (event < phases.stop))
    if len(inside) == 0:
        return None
    # an inner phase can hold all that its outer one does, and comes after it
    narrow = (phases.stop - phases.first)[inside][::-1]
    return phases.names[int(inside[::-1][np.argmin(narrow)])]


def end_of_run(facts: Facts) -> int:
    """The event after which the run is over: the recording's last, or the last of the training it ends with.

    A program that ends lets go of its model. Of a run whose record says when training was over, and that holds no
    more in the end than it did then, what was held then is what it holds.
    """
    last = len(facts.replay) - 1
    phases = facts.phases
    if phases.source != "record" or len(phases.names) == 0:
        return last
    event = int(phases.stop.max()) - 1
    trained = any(phases.stop[i] - 1 == event and is_training(name) for i, name in enumerate(phases.names))
    if not trained or not 0 <= event < last:
        return last
    held, in_the_end = (facts.replay.after(at).allocated_bytes for at in (event, last))
    return event if in_the_end <= held else last


def find_phases(facts: Facts) -> Facts:
    """Pass: phases from the record, else from annotations, else the run as one."""
    replay = facts.replay
    if len(replay) and not replay.has_times:
        return _whole_run(facts, "the events carry no times (torch before 2.2)")
    if facts.record is not None and facts.record.phases:
        return _from_record(facts)
    return _from_annotations(facts)


def _whole_run(facts: Facts, why: str) -> Facts:
    """The facts with the whole recording as their only phase."""
    whole = Scope(WHOLE_RUN, *_times(facts.replay))
    found = replace(facts, phases=_measure(facts.replay, [whole], "none"))
    return found.noting(f"{why}: the whole recording is one phase, '{WHOLE_RUN}'")


def _from_annotations(facts: Facts) -> Facts:
    replay = facts.replay
    first_us, last_us = _times(replay)
    from_start = not facts.truncated
    scopes, unpaired = find_scopes(facts.columns, replay.device, 0, last_us)
    steps, source = step_scopes(scopes, first_us, from_start)
    # annotations outlive the ring of events: what ended before it began has nothing left to say
    scopes = [scope for scope in scopes if from_start or scope.stop_us >= first_us]
    found, deeper = phase_scopes(scopes, steps)
    named, further = _with_few_names(found, steps)
    notes = []
    if source == "optimizer steps":
        first = "step0 holds all that came before it" if from_start else "none is the first: the recording begins later"
        notes.append(f"steps are inferred: each ends where Optimizer.step does, and {first}")
    if named and unpaired:
        notes.append(f"{unpaired:,} annotations have no partner; phases that never ended last until the recording does")
    if dropped := left_out(scopes):
        kinds = "1 kind" if len(dropped) == 1 else f"{len(dropped)} kinds"
        are = "is" if len(dropped) == 1 else "are"
        notes.append(f"{kinds} of short library scopes {are} not shown as phases")
    if deeper:
        notes.append(f"{_scopes(deeper)} more than {DEEPEST} deep, or of too long a name: not shown as phases")
    if further:
        notes.append(f"{_scopes(further)} of further names: not shown as phases, as {_MOST_NAMES:,} names are")
    if not named:
        return _whole_run(facts, "no phases are recorded").noting(*notes)
    return replace(facts, phases=_measure(replay, named, source)).noting(*notes)


def _scopes(count: int) -> str:
    return f"{count:,} scope{'s' * (count != 1)}"


def _with_few_names(named: list[Scope], steps: list[Scope]) -> tuple[list[Scope], int]:
    """The scopes of the first ``_MOST_NAMES`` folded names, steps before all others, and how many are left out."""
    names = dict.fromkeys(fold(scope.name) for scope in (*steps, *named))
    kept = set(list(names)[:_MOST_NAMES])
    few = [scope for scope in named if fold(scope.name) in kept]
    return few, len(named) - len(few)


def _from_record(facts: Facts) -> Facts:
    assert facts.record is not None
    first_us, _ = _times(facts.replay)
    seen, lost = [], []
    for phase in facts.record.phases:
        stop_us = max(phase.start_us, phase.stop_us)
        # a ring that was overwritten has lost these events: what they did cannot be known
        if facts.truncated and stop_us < first_us:
            lost.append(phase.name)
            continue
        seen.append(Scope(phase.name, phase.start_us, stop_us))
    if not seen:
        # a long run and a small ring: the names of the phases say nothing of what is left
        return _whole_run(facts.noting(*_lost(lost)), "all recorded phases lie before the first event that is left")
    return replace(facts, phases=_measure(facts.replay, seen, "record")).noting(*_lost(lost))


def _lost(names: list[str]) -> list[str]:
    if not names:
        return []
    told = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    one = len(names) == 1
    what = f"phase {told} lies" if one else f"phases {told} lie"
    return [f"{what} before the first event that is left: {'it is' if one else 'they are'} not shown"]


def _times(replay: Replay) -> tuple[int, int]:
    if len(replay.time_us) == 0:
        return 0, 0
    return int(replay.time_us[0]), int(replay.time_us[-1])


def _measure(replay: Replay, scopes: Sequence[Scope], source: str) -> Phases:
    windows = np.array([_window(replay, s, source) for s in scopes], np.int64).reshape(-1, 2)
    first, stop = windows[:, 0], np.maximum(windows[:, 0], windows[:, 1])
    start = _after(replay, first - 1)
    end = _after(replay, stop - 1)
    return Phases(
        source=source,
        names=tuple(s.name for s in scopes),
        start_us=np.array([s.start_us for s in scopes], np.int64),
        stop_us=np.array([s.stop_us for s in scopes], np.int64),
        first=first,
        stop=stop,
        start=start,
        peak=np.maximum(start, np.stack([highest(curve, first, stop) for curve in _curves(replay)], axis=1)),
        end=end,
        # what is certain of them is another pass's to say
        whole=np.ones(len(scopes), bool),
        exact=np.ones(len(scopes), bool),
        counted=np.zeros(len(scopes), bool),
        least=np.zeros((len(scopes), len(MEASURES)), bool),
    )


def _window(replay: Replay, scope: Scope, source: str) -> tuple[int, int]:
    # times can be absent or run backwards; the one phase of a file without phases is all of it
    if source == "none":
        return 0, len(replay.time_us)
    first, stop = replay.window(scope.start_us, scope.stop_us)
    return int(first), int(stop)


def _curves(replay: Replay) -> list[Int64]:
    return [replay.curve(measure) for measure in MEASURES]


def _measures(value: Measures) -> list[int]:
    return [value.requested_bytes, value.allocated_bytes, value.active_bytes, value.reserved_bytes]


def _after(replay: Replay, events: Int64) -> Int64:
    """[P, 4] the measures after each event; −1 is the start."""
    out = np.empty((len(events), len(MEASURES)), np.int64)
    for column, (curve, start) in enumerate(zip(_curves(replay), _measures(replay.start), strict=True)):
        out[:, column] = np.where(events >= 0, curve[np.maximum(events, 0)], start) if len(curve) else start
    return out


def find_births(facts: Facts) -> Facts:
    """Pass: the innermost phase each of the A allocations was made in."""
    phases, allocations = facts.phases, facts.replay.allocations
    # the widest first, so that the innermost has the last word; ties in order, as nested ones come
    order = np.argsort(phases.first - phases.stop, kind="stable")
    where = painted(phases.first[order], phases.stop[order], order + 2, len(facts.replay.time_us), 1)
    born = allocations.alloc_event
    birth = np.where(born < 0, 0, where[np.maximum(born, 0)] if len(where) else 0).astype(np.int32)
    return replace(facts, birth=birth, births=(BEFORE, OUTSIDE, *phases.names))
