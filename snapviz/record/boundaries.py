"""What happens where phases begin and end: counters are read, names are taken, holders are looked for."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any

from snapviz.record.backend import Backend
from snapviz.record.census import Census
from snapviz.record.dangling import look_for_holders
from snapviz.record.documents import NamedMoment, Notes
from snapviz.record.guard import guarded
from snapviz.record.phases import ClosedPhase, Moment, PhaseLog
from snapviz.record.tensors import Row
from snapviz.record.windows import WindowLog
from snapviz.schema import SHARD, is_training

__all__ = ["DETAILED", "Boundaries"]

_NUMBER = re.compile(r"\d+")

DETAILED = 3
"""In training, names are read at the ends of the first so many phases of a kind (``train/step0``, ``step1``,
``step2``): each reading of a large model takes some 10 ms, and what a step names it names again in the next."""

_HOLDERS_S = 10.0
"""The most that a rank waits for the search for holders, all its phases together: 0.3 s was enough for 300
parameters among 0.8 million objects."""


class Boundaries:
    """Opens and closes the phases of one rank, and notes what there is to note."""

    def __init__(self, backend: Backend, device: int, census: Census, holders: bool) -> None:
        self._backend, self._census, self._holders = backend, census, holders
        self.log = PhaseLog(backend, device)
        self.windows = WindowLog(census.paths)
        self.notes = Notes(windows=self.windows)
        self._times: Counter[str] = Counter()
        self._holders_left_s = _HOLDERS_S
        self._last_in: dict[str, Moment] = {}
        """Name of an open phase → when the last phase that lies in it ended, or it was marked."""

    @property
    def depth(self) -> int:
        """How many phases are open."""
        return len(self.log.opened)

    def open(self, name: str) -> None:
        """Opens a phase in the innermost one. Names are read too: what was made outside of phases."""
        full = self.log.joined(name)
        moment = self._measure(full)
        if self._is_detailed(full):
            self._take_names(moment, None)
        self.log.begin(full, moment)

    def close(self) -> Moment:
        """Closes the innermost phase."""
        moment = self._measure(self.log.opened[-1].name)
        self._close(moment)
        return moment

    def _close(self, moment: Moment) -> None:
        full = self.log.opened[-1].name
        closed = self._end(full, moment)
        if self._is_detailed(full):
            self._after(moment, closed)
        self._times[_NUMBER.sub("", full)] += 1

    def switch(self, name: str) -> None:
        """Closes the innermost phase and opens one beside it, in one boundary."""
        outer = self.log.opened[-1].name.rpartition("/")[0]
        self.log.begin(f"{outer}/{name}" if outer else name, self.close())

    def mark(self) -> None:
        """Has the innermost phase end now, where it is never closed."""
        full = self.log.opened[-1].name
        self._last_in[full] = self._measure(full)

    def close_all(self) -> None:
        """Closes every phase that is open, and reads the names a last time.

        What consists of phases ended with the last of them: a training that nobody ends explicitly ended with its
        last step, and not when the program had let go of its model.
        """
        while self.log.opened:
            full = self.log.opened[-1].name
            last = self._last_in.get(full)
            if last is None:
                self._close(self.log.boundary(synchronize=False))
            else:
                self._end(full, last)
        # not waiting: what a rank that is ending waits for may never come
        self._take_names(self.log.boundary(synchronize=False), None)

    def _end(self, full: str, moment: Moment) -> ClosedPhase:
        closed = self.log.end(moment)
        self.notes.phases.append(closed)
        self._last_in.pop(full, None)
        if self.log.opened:
            self._last_in[self.log.opened[-1].name] = moment
        return closed

    def look_for_holders(self, rows: tuple[Row, ...] | None = None) -> None:
        """Looks for what keeps the originals that nothing of ``rows``, or of what there is now, runs with."""
        dangling = self._census.dangling(self._census.take() if rows is None else rows)
        own: tuple[Any, ...] = (self, self._census)
        start = time.monotonic()
        found = look_for_holders(dangling, self._backend.device_type, own, max(0.5, self._holders_left_s))
        self._holders_left_s -= time.monotonic() - start
        looked_for = {one.name for one in dangling}
        # one that another phase found to be kept still is, or its parameter is looked for anew
        kept = [one for one in self.notes.holders if one.parameter not in looked_for]
        self.notes.holders = [*kept, *found]

    def _measure(self, full: str) -> Moment:
        # The allocator's counters are the host's: to wait for the device changes none of them, but lets blocks go
        # that another stream still used, and costs a step the time that it hides otherwise. So not in training.
        outside = not is_training(full)
        return self.log.boundary(synchronize=outside, whole_device=outside or self._is_detailed(full))

    def _is_detailed(self, full: str) -> bool:
        return not _is_repeated(full) or self._times[_NUMBER.sub("", full)] < DETAILED

    def _after(self, moment: Moment, closed: ClosedPhase) -> None:
        """What is looked at when a phase has ended."""
        rows = self._take_names(moment, closed.name)
        if self._holders and closed.name.rpartition("/")[2] == SHARD:
            guarded("holders", lambda: self.look_for_holders(rows))

    def _take_names(self, moment: Moment, phase: str | None) -> tuple[Row, ...]:
        rows = guarded("names", self._census.take) or ()
        last = self.notes.censuses[-1] if self.notes.censuses else None
        if rows and (last is None or last.rows != rows):
            self.notes.censuses.append(NamedMoment(moment.stop_us, phase, rows, self._census.complete))
        return rows


def _is_repeated(full: str) -> bool:
    """Whether a phase is one of many alike: in training, or with a number in its name. A shard of each layer is not."""
    last = full.rpartition("/")[2]
    return is_training(full) or (bool(_NUMBER.search(full)) and last != SHARD)
