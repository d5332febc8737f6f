#!/usr/bin/env python3
"""Makes a run of any length from a real recording, by repeating its steady training step.

    python benchmarks/multiply.py OUTPUT [--recording PICKLE] [--events 2000000]

OUTPUT becomes a run directory: a plain pickle of at least that many events, its rank record and its
manifest. The phases of the record say where the step is: from the end of the last but one step to the end
of the last. It can be repeated if it leaves the allocator as it found it: the same blocks live at the same
addresses, the same segments. One thing real steps do leave to the next is the value they return, such as
the loss, in a block of its own that is freed in the middle of the next step. That free is moved to the
step's end, as ``del loss`` would. Before anything is written, two repetitions are replayed, and have to be
exact with the peaks of the recording; a step for which they are not is refused.

What is shared stays shared as torch shares it (torch/csrc/cuda/Module.cpp, 2.11, ``py_symbolize``): the
events of one traceback have one list of frames, fresh in each repetition; frames are one object wherever
they appear; ``user_metadata`` and ``compile_context`` are a new string in each event. So bytes per event
and opcodes are those of a long run. Steps, phases and times count on.

Everything is built in memory: about 0.7 KB an event, so 7 GiB for 10 million.
"""

from __future__ import annotations

import argparse
import gc
import io
import pickle
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import zstandard

from snapviz.replay import MEASURES, Allocations, Replay, replay_device
from snapviz.schema import PhaseRecord, RankRecord, RunManifest, read_manifest, read_rank_record
from snapviz.snapshot.objects import columns_from_objects

DEFAULT_RECORDING = Path(__file__).parents[1] / "sample_snapshots/fsdp2_before_notfixed/rank00000.pickle.zst"

Event = dict[str, Any]

_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_PROTOCOL = 4
"""pickle's default up to Python 3.13, which is what torch dumps with."""


class UnsteadyError(Exception):
    """Why a recording has no step that can be repeated."""


@dataclass(frozen=True)
class Recording:
    """A snapshot as plain objects, with what is known of its rank."""

    snapshot: dict[str, Any]
    record: RankRecord
    manifest: RunManifest
    device: int

    @property
    def trace(self) -> list[Event]:
        """The events of the rank's device."""
        trace: list[Event] = self.snapshot["device_traces"][self.device]
        return trace


@dataclass(frozen=True)
class Handed:
    """A block that the step before leaves to this one, and the block that this one leaves instead."""

    free_requested: int  # its events, as indices into the trace
    free_completed: int
    next_address: int


@dataclass(frozen=True)
class Step:
    """The stretch of the trace that can be repeated: events ``first`` to ``stop``."""

    stem: str  # train/step
    number: int
    first: int
    stop: int
    start_us: int  # end of the step before
    stop_us: int
    handed: tuple[Handed, ...]

    @property
    def period_us(self) -> int:
        """How much later each repetition is than the one before."""
        return self.stop_us - self.start_us

    def renamed(self, name: str, later: int) -> str:
        """A phase's name, counted on where it is of this step or a later one."""
        match = re.match(rf"{re.escape(self.stem)}(\d+)(?=/|$)", name)
        if match is None or int(match[1]) < self.number:
            return name
        return f"{self.stem}{int(match[1]) + later}{name[match.end() :]}"


class _PlainData(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"a snapshot holds plain data only, this one {module_name}.{global_name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="run directory to write")
    parser.add_argument("--recording", type=Path, default=DEFAULT_RECORDING, metavar="PICKLE")
    parser.add_argument("--events", type=int, default=2_000_000, help="at least so many (default: 2000000)")
    args = parser.parse_args()
    gc.disable()  # nothing here is a cycle, and millions of objects would be looked at again and again
    try:
        print(multiply(args.recording, args.output, args.events))
    except UnsteadyError as error:
        sys.exit(f"multiply: {args.recording}: {error}")


def multiply(recording: Path, output: Path, events: int) -> str:
    """Writes the run directory and says what is in it. Raises ``UnsteadyError``."""
    source = read_recording(recording)
    step = steady_step(source)
    per_step = step.stop - step.first
    times = max(0, -(-(events - len(source.trace)) // per_step))
    longer = repeated(source, step, times)
    output.mkdir(parents=True, exist_ok=True)
    stem = f"rank{source.record.rank:05d}"
    with (output / f"{stem}.pickle").open("wb") as file:
        pickle.dump(longer, file, protocol=_PROTOCOL)
        size = file.tell()
    (output / f"{stem}.json").write_text(_json(repeated_record(source.record, step, times)), encoding="utf-8")
    ranks = {"name": output.name, "recorded_ranks": (source.record.rank,)}
    (output / "run.json").write_text(_json(source.manifest.model_copy(update=ranks)), encoding="utf-8")
    count = len(longer["device_traces"][source.device])
    return (
        f"{output}: {count:,} events, {step.stem}{step.number} repeated {times:,} times "
        f"({per_step:,} events each), {size / 1e6:,.1f} MB, {size / count:.1f} bytes an event"
    )


def _json(document: RankRecord | RunManifest) -> str:
    return document.model_dump_json(indent=1, exclude_none=True) + "\n"


def read_recording(path: Path) -> Recording:
    """A rank's file out of a run directory, with its record and manifest."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    snapshot = _PlainData(io.BytesIO(data)).load()
    beside = path.with_name(f"{path.name.partition('.')[0]}.json")
    record = read_rank_record(beside.read_bytes(), str(beside))
    manifest = read_manifest(path.with_name("run.json").read_bytes(), str(path.with_name("run.json")))
    traces = snapshot["device_traces"]
    device = next(index for index, trace in enumerate(traces) if trace) if record.device is None else record.device
    return Recording(snapshot, record, manifest, device)


# ------------------------------------------------------------------ finding the step


def steady_step(source: Recording) -> Step:
    """The last step, if the allocator ends it as it began it. Raises ``UnsteadyError``."""
    replay = _replay(source.snapshot, source.device)
    if not replay.exact:
        raise UnsteadyError(f"its replay is not exact: {' '.join(replay.notes)}")
    before, last = _last_two_steps(source.record)
    first, stop = (replay.window(phase.start_us, phase.stop_us)[1] for phase in (before, last))
    stem, number = _numbered(last.name)
    _require_same_segments(source.trace[first:stop])
    handed = tuple(_handed_on(replay.allocations, first - 1, stop - 1))
    step = Step(stem, number, first, stop, before.stop_us, last.stop_us, handed)
    _require_repeatable(source, step, replay)
    return step


def _numbered(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*\D)(\d+)", name)
    return (match[1], int(match[2])) if match else (name, -1)


def _last_two_steps(record: RankRecord) -> tuple[PhaseRecord, PhaseRecord]:
    steps = [phase for phase in record.phases if re.fullmatch(r"step\d+", phase.name.rpartition("/")[2])]
    if len(steps) < 2:
        raise UnsteadyError("its record names fewer than two steps")
    return steps[-2], steps[-1]


def _require_same_segments(events: Sequence[Event]) -> None:
    change: Counter[tuple[int, int]] = Counter()
    for event in events:
        change[event.get("addr", 0), event["size"]] += _RESERVES.get(event["action"], 0)
    if any(change.values()):
        raise UnsteadyError("the last step reserves or releases segments")


def _handed_on(table: Allocations, before: int, after: int) -> Iterator[Handed]:
    """Pairs what is live at only one of two events: the older is freed between, the younger takes its place.

    Raises ``UnsteadyError`` where they do not pair up by size, or one is not simply allocated.
    """
    old, new = _live(table, before), _live(table, after)
    gone = sorted(old.keys() - new.keys(), key=lambda block: block[1:])
    come = sorted(new.keys() - old.keys(), key=lambda block: block[1:])
    if [block[1:] for block in gone] != [block[1:] for block in come]:
        raise UnsteadyError(f"{len(gone)} live blocks differ from one step to the next, and not in address alone")
    for block, successor in zip(gone, come, strict=True):
        row = old[block]
        requested, completed = int(table.free_requested_event[row]), int(table.free_completed_event[row])
        if not before < requested < completed <= after:
            raise UnsteadyError(f"a block at {block[0]:#x} is waiting to be freed when the step ends")
        yield Handed(requested, completed, successor[0])


def _live(table: Allocations, event: int) -> dict[tuple[int, int, int, bool], int]:
    """Address, block and requested bytes, and whether it is still allocated → row, of each active block."""
    rows = table.active_after(event).nonzero()[0]
    keys = zip(
        table.address[rows].tolist(),
        table.block_bytes[rows].tolist(),
        table.requested_bytes[rows].tolist(),
        table.allocated_after(event)[rows].tolist(),
        strict=True,
    )
    return dict(zip(keys, rows.tolist(), strict=True))


def _require_repeatable(source: Recording, step: Step, replay: Replay) -> None:
    longer = _replay(repeated(source, step, 2), source.device)
    if not longer.exact:
        raise UnsteadyError(f"repeating {step.stem}{step.number} is not what an allocator does: {longer.notes[0]}")
    if _peaks(longer) != _peaks(replay):
        raise UnsteadyError(f"repeating {step.stem}{step.number} changes the peak")


def _replay(snapshot: dict[str, Any], device: int) -> Replay:
    return replay_device(columns_from_objects(snapshot), device)


def _peaks(replay: Replay) -> list[int]:
    return [replay.peak(measure, 0, len(replay))[0] for measure in MEASURES]


# ------------------------------------------------------------------ repeating it


def repeated(source: Recording, step: Step, times: int) -> dict[str, Any]:
    """The snapshot with so many repetitions before its own last step; segments are as they were.

    The step itself comes last, so that blocks that live to the end share their frames with its events.
    """
    trace, total_us = source.trace, times * step.period_us
    frees = [trace[index] for handed in step.handed for index in (handed.free_requested, handed.free_completed)]
    moved = {index for handed in step.handed for index in (handed.free_requested, handed.free_completed)}
    own = [event for index, event in enumerate(trace[step.first : step.stop], step.first) if index not in moved]
    closing = [
        event | {"addr": handed.next_address, "time_us": step.stop_us + 1}
        for handed in step.handed
        for event in (trace[handed.free_requested], trace[handed.free_completed])
    ]
    longer = trace[: step.first] if times else list(trace)
    if times:
        longer += [_later(event | {"time_us": step.start_us + 1}, step, -1, 0) for event in frees]
        for count in range(times):
            longer += _again([*own, *closing], step, count)
        longer += [_later(event, step, times, total_us) for event in [*own, *trace[step.stop :]]]
    traces = list(source.snapshot["device_traces"])
    traces[source.device] = longer
    return source.snapshot | {"device_traces": traces, "external_annotations": _annotations(source, step, times)}


def _later(event: Event, step: Step, count: int, shift_us: int) -> Event:
    """The same event at another time, in a step of another number."""
    changed = event | {"time_us": event["time_us"] + shift_us}
    if "user_metadata" in event:
        changed["user_metadata"] = _fresh(step.renamed(event["user_metadata"], count))
    return changed


def _again(events: Sequence[Event], step: Step, count: int) -> list[Event]:
    """One repetition, as if it had been captured anew."""
    shift_us = count * step.period_us
    names = {name: step.renamed(name, count) for name in {event.get("user_metadata", "") for event in events}}
    stacks: dict[int, list[Any]] = {}
    copies = []
    for event in events:
        copy = event.copy()
        copy["time_us"] += shift_us
        if "user_metadata" in copy:
            copy["user_metadata"] = _fresh(names[copy["user_metadata"]])
        if "compile_context" in copy:
            copy["compile_context"] = _fresh(copy["compile_context"])
        if (frames := copy.get("frames")) is not None:
            known = stacks.get(id(frames))
            copy["frames"] = stacks.setdefault(id(frames), frames[:]) if known is None else known
        copies.append(copy)
    return copies


def _fresh(text: str) -> str:
    """An equal string that is another object, as each conversion from C++ makes one."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def _annotations(source: Recording, step: Step, times: int) -> list[dict[str, Any]]:
    """The annotations, those of the step repeated with it; none where torch wrote none."""
    found = source.snapshot.get("external_annotations", [])
    before = [each for each in found if each["time_us"] <= step.start_us]
    own = [each for each in found if step.start_us < each["time_us"] <= step.stop_us]
    after = [each for each in found if each["time_us"] > step.stop_us]
    shifts = [count * step.period_us for count in range(times)]
    copies = [_annotation_again(each) | {"time_us": each["time_us"] + shift} for shift in shifts for each in own]
    last_us = times * step.period_us
    return [*before, *copies, *(each | {"time_us": each["time_us"] + last_us} for each in [*own, *after])]


def _annotation_again(annotation: dict[str, Any]) -> dict[str, Any]:
    """A copy whose stage and name are strings of its own, and their keys too, as torch writes them."""
    return {
        _fresh(key) if isinstance(value, str) else key: _fresh(value) if isinstance(value, str) else value
        for key, value in annotation.items()
    }


def repeated_record(record: RankRecord, step: Step, times: int) -> RankRecord:
    """The rank record of the longer run: the step's phases repeated, everything after them later."""
    before = [phase for phase in record.phases if phase.start_us <= step.start_us]
    own = [phase for phase in record.phases if step.start_us < phase.start_us <= step.stop_us]
    after = [phase for phase in record.phases if phase.start_us > step.stop_us]
    copies = [_phase_later(phase, step, count) for count in range(times) for phase in own]
    last_us = times * step.period_us
    boundaries = [
        boundary.model_copy(
            update={
                "time_us": boundary.time_us + (last_us if boundary.time_us > step.start_us else 0),
                "phase": boundary.phase and step.renamed(boundary.phase, times),
            }
        )
        for boundary in record.boundaries
    ]
    phases = (*before, *copies, *(_phase_later(phase, step, times) for phase in [*own, *after]))
    return record.model_copy(update={"phases": phases, "boundaries": tuple(boundaries)})


def _phase_later(phase: PhaseRecord, step: Step, count: int) -> PhaseRecord:
    shift_us = count * step.period_us
    update = {
        "name": step.renamed(phase.name, count),
        "start_us": phase.start_us + shift_us,
        "stop_us": phase.stop_us + shift_us,
    }
    return phase.model_copy(update=update)


if __name__ == "__main__":
    main()
