"""What happens where phases begin and end: counters are read, names are taken, holders are looked for."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from snapviz.record.backend import Backend
from snapviz.record.census import Census
from snapviz.record.dangling import look_for_holders
from snapviz.record.documents import NamedMoment, Notes
from snapviz.record.guard import guarded
from snapviz.record.phases import ClosedPhase, Moment, PhaseLog
from snapviz.record.tensors import Row

__all__ = ["Boundaries"]

_SHARD = "shard"
_NUMBER = re.compile(r"\d+")

_DETAILED = 3
"""Names are read at the ends of the first so many phases of a kind (``train/step0``, ``step1``, ``step2``): each
reading of a large model takes some 10 ms, and what a step names it names again in the next."""


class Boundaries:
    """Opens and closes the phases of one rank, and notes what there is to note."""

    def __init__(self, backend: Backend, device: int, census: Census, holders: bool) -> None:
        self._backend, self._census, self._holders = backend, census, holders
        self.log = PhaseLog(backend, device)
        self.notes = Notes()
        self._times: Counter[str] = Counter()
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
        full = self.log.opened[-1].name
        moment = self._measure(full)
        closed = self._end(full, moment)
        if self._is_detailed(full):
            self._after(moment, closed)
        self._times[_NUMBER.sub("", full)] += 1
        return moment

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
                self.close()
            else:
                self._end(full, last)
        self._take_names(self.log.boundary(), None)

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
        self.notes.holders = look_for_holders(dangling, self._backend.device_type, own)

    def _measure(self, full: str) -> Moment:
        # inside a later step, to wait for the device would cost the time that it hides otherwise
        whole = full.count("/") < 2 or self._is_detailed(full)
        return self.log.boundary(synchronize=whole, whole_device=whole)

    def _is_detailed(self, full: str) -> bool:
        return self._times[_NUMBER.sub("", full)] < _DETAILED

    def _after(self, moment: Moment, closed: ClosedPhase) -> None:
        """What is looked at when a phase has ended."""
        rows = self._take_names(moment, closed.name)
        if self._holders and closed.name.rpartition("/")[2] == _SHARD:
            guarded("holders", lambda: self.look_for_holders(rows))

    def _take_names(self, moment: Moment, phase: str | None) -> tuple[Row, ...]:
        rows = guarded("names", self._census.take) or ()
        last = self.notes.censuses[-1] if self.notes.censuses else None
        if rows and (last is None or last.rows != rows):
            self.notes.censuses.append(NamedMoment(moment.stop_us, phase, rows))
        return rows
