"""Memory of one rank over time, for drawing: every event counts, and no more points than can be seen.

Legend: E events, N points, B buckets. Times are seconds since a zero, values bytes.

A sampler that looks every 10 ms misses what comes and goes between; here the curves are exact, and where
they are thinned out each bucket of time keeps its first and last value, its lowest and its highest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapviz.analyze.facts import Facts
from snapviz.analyze.phases import end_of_run, fold
from snapviz.errors import RunError, UsageError
from snapviz.replay.model import Replay
from snapviz.schema import is_training

__all__ = ["MOST_POINTS", "Band", "Curve", "Timeline", "thinned", "timeline"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

MOST_POINTS = 4_000
"""Points of one curve: more than a figure has columns."""

_KEPT = 4
"""Points that a bucket keeps at most: first, lowest, highest, last."""

_NAMED = 60
"""Phases that a message names."""

_MOST_BANDS = 60
"""Phases that are drawn one by one."""

_DEPTH = 2
"""Parts of the names of phases that are drawn: the steps, not what they are made of."""


@dataclass(frozen=True)
class Curve:
    """One measure from the first event of a window on. A value lasts until the next point."""

    seconds: Float64  # [N] rising
    value_bytes: Int64  # [N]
    peak_bytes: int  # highest, the value just before the first event included
    trough_bytes: int  # lowest from where ``Timeline.trough_since`` says
    end_bytes: int


@dataclass(frozen=True)
class Band:
    """A phase as a stretch of the figure."""

    name: str
    start_s: float
    stop_s: float


@dataclass(frozen=True)
class Timeline:
    """One rank of one run, from its first event or from the start of a phase on."""

    run: str
    rank: int
    allocated: Curve
    reserved: Curve
    bands: tuple[Band, ...]
    trough_since: str  # in words: a curve that begins with nothing says nothing by its lowest point
    whole: bool  # no event before the first one is missing
    exact: bool
    notes: tuple[str, ...]  # why not
    times_are_real: bool = True  # false with torch's fake process group, whose communication takes no time
    broken: tuple[str, ...] = ()  # ranks of the run that could not be read, and why


def timeline(run: str, facts: Facts, since: str | None = None) -> Timeline:
    """The curves of a rank, from phase ``since`` on where one is named.

    Raises ``RunError`` where there are no events or they carry no times, ``UsageError`` for a phase that
    the rank does not have.
    """
    replay = facts.replay
    if not len(replay):
        raise RunError(f"{run}: rank {facts.rank} has no events: there is nothing to draw over time")
    if not replay.has_times:
        raise RunError(f"{run}: the events of rank {facts.rank} carry no times (torch before 2.2)")
    first, zero_us = (0, int(replay.time_us[0])) if since is None else _begin(run, facts, since)
    low, trough_since = _settled(facts, first)
    window = first, low, max(end_of_run(facts), first, low) + 1
    return Timeline(
        run=run,
        rank=facts.rank,
        allocated=_curve(replay, "allocated", window, zero_us),
        reserved=_curve(replay, "reserved", window, zero_us),
        bands=tuple(_bands(facts, first, zero_us)),
        trough_since=trough_since,
        whole=not facts.truncated,
        exact=facts.exact,
        notes=facts.notes,
    )


def _begin(run: str, facts: Facts, since: str) -> tuple[int, int]:
    """First event and start in µs of the first phase of that name, folded or not, or below it."""
    phases = facts.phases
    named = [i for i, name in enumerate(phases.names) if since in (name, fold(name)) or name.startswith(f"{since}/")]
    if not named:
        known = list(dict.fromkeys(map(fold, phases.names)))
        more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
        raise UsageError(f"--from {since}: {run} has no such phase (there is: {', '.join(known[:_NAMED])}{more})")
    at = min(named, key=lambda i: int(phases.start_us[i]))
    return int(phases.first[at]), int(phases.start_us[at])


def _settled(facts: Facts, first: int) -> tuple[int, str]:
    """The event from which the trough is looked for, and that in words."""
    phases = facts.phases
    steps = [i for i, name in enumerate(phases.names) if is_training(name) and name.count("/") < _DEPTH]
    drawn = [i for i in steps if int(phases.first[i]) >= first]
    stops = sorted(int(phases.stop[i]) for i in drawn if "/" in phases.names[i])
    if len(stops) > 1:
        return stops[0], "once the first training step is over"
    if drawn:
        return min(int(phases.first[i]) for i in drawn), "from the first training step on"
    return first, "of all that is drawn"


def _curve(replay: Replay, measure: str, window: tuple[int, int, int], zero_us: int) -> Curve:
    first, low, stop = window
    values = replay.curve(measure)[first:stop]
    before = int(getattr(replay.after(first - 1), f"{measure}_bytes"))
    # a clock that went back is held at its highest, as windows of the replay hold it
    times = np.maximum.accumulate(replay.time_us)[first:stop]
    seconds = np.concatenate([[0.0], np.maximum((times - zero_us) / 1e6, 0.0)])
    values = np.concatenate([[before], values])
    kept = thinned(seconds, values)
    return Curve(
        seconds=seconds[kept],
        value_bytes=values[kept],
        peak_bytes=int(values.max()),
        # one before: what is held as the next step begins; of all of it the value before the first event too
        trough_bytes=int(values[low - first :].min()),
        end_bytes=int(values[-1]),
    )


def thinned(seconds: Float64, values: Int64, most: int = MOST_POINTS) -> Int64:
    """Indices of at most ``most`` points (at least 4) that look like all of them.

    Time is cut into equal buckets, and each keeps its first, lowest, highest and last point: a step curve
    through them reaches every peak, and has the right level wherever nothing happens.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(seconds[0], seconds[-1], max(1, most // _KEPT) + 1)[1:-1]
    bounds = np.unique(np.concatenate([[0], np.searchsorted(seconds, edges), [count]]))
    kept = set()
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some = values[start:stop]
        kept |= {start, start + int(some.argmin()), start + int(some.argmax()), stop - 1}
    return np.array(sorted(kept), np.int64)


def _bands(facts: Facts, first: int, zero_us: int) -> Iterator[Band]:
    """The phases that are drawn: the innermost of at most two parts, so that they do not overlap; of more
    steps than can be told apart the stretch from the first to the last."""
    phases = facts.phases
    if phases.source == "none":
        return
    shallow = {name for name in phases.names if name.count("/") < _DEPTH}
    outer = {name.rpartition("/")[0] for name in shallow}
    shown = [i for i, name in enumerate(phases.names) if name in shallow and name not in outer]
    groups: dict[str, list[int]] = {}
    for index in shown:
        name = phases.names[index] if len(shown) <= _MOST_BANDS else phases.names[index].partition("/")[0]
        groups.setdefault(name, []).append(index)
    last_us = int(facts.replay.time_us.max())
    for name, some in groups.items():
        if int(phases.stop[some].max()) > first:
            stop_us = min(int(phases.stop_us[some].max()), last_us)
            start_s = max(0.0, (int(phases.start_us[some].min()) - zero_us) / 1e6)
            yield Band(name, start_s, max(start_s, (stop_us - zero_us) / 1e6))
