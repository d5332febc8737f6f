"""The run directory: ``run.json`` and a ``rankNNNNN.json`` beside each rank's snapshot.

Versions are whole numbers. A document of a higher one than ``RUN_VERSION`` or ``RANK_VERSION`` is
refused in words; a new optional field does not raise them.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field, ValidationError, model_validator

from snapviz.errors import RunError
from snapviz.schema.base import (
    Address,
    Bytes,
    Count,
    Metrics,
    Micros,
    Model,
    PhaseName,
    RankNumber,
    Settings,
    Tally,
    WorldSize,
)

__all__ = [
    "MANIFEST",
    "MOST_WINDOWS",
    "RANK_VERSION",
    "RECOMPUTED",
    "RUN_VERSION",
    "SHARD",
    "TRAIN",
    "UNEXPLAINED",
    "Boundary",
    "GitState",
    "HistoryRecord",
    "HolderRecord",
    "ModuleRecord",
    "NameRecord",
    "PhaseRecord",
    "RankRecord",
    "RunManifest",
    "TorchCounters",
    "is_place",
    "is_training",
    "read_manifest",
    "read_rank_record",
]

RUN_VERSION = 1
RANK_VERSION = 1

MANIFEST = "run.json"
"""The file of a run directory that holds the manifest."""

SHARD = "shard"
"""The last part of the names of phases whose end is the end of the original parameters."""

TRAIN = "train"
"""The first part of the names of phases that train."""

UNEXPLAINED = "unexplained"
"""Kind of a holder that the recorder counted and did not find."""

MOST_WINDOWS = 100_000
"""Windows of modules that a rank keeps: three steps of a model of 420 modules, in 39 parts each, with all of it
recomputed; some 4 MB of JSON, a fraction of that compressed."""

RECOMPUTED = 1
"""Flag of a window: the forward ran in a backward, as activation checkpointing has it run again."""


def is_training(phase: str) -> bool:
    """Whether a phase's name says that it trains: ``train``, ``train/step3``."""
    return phase.partition("/")[0] == TRAIN


class GitState(Model):
    """The state of the checkout a run was started from."""

    commit: str
    # full hash where known; shown cut to 7 characters
    branch: str | None = None
    # none on a detached head
    dirty: bool | None = None
    # none where nobody looked; a dirty tree makes the commit only half the truth


class RunManifest(Model):
    """``run.json``: what is true of the whole run."""

    schema_version: int
    # whole number, RUN_VERSION when written by this version
    name: str
    # for people; the directory's name where the recorder was given none
    created: str | None = None
    # ISO 8601 with offset: text, because nothing computes with it
    command: tuple[str, ...] = ()
    # argv, one entry an argument, so that quoting is never guessed
    git: GitState | None = None
    # none outside a checkout
    world_size: WorldSize | None = None
    # ranks of the job, recorded or not
    recorded_ranks: tuple[RankNumber, ...] | None = None
    # ranks that were meant to be recorded; none means all of world_size. One that then has no file
    # is reported as missing: without this a crashed rank and one never recorded look alike
    torch: str | None = None
    # torch.__version__, with its local part (+cu130)
    device: str | None = None
    # the device's name, such as NVIDIA H200
    allocator_settings: Settings = {}
    # as torch reports them; a difference here explains differences of reserved memory
    packages: dict[str, str] = {}
    # package → version, those the recorder thought matter (lightning-thunder, accelerate, …)
    settings: Settings = {}
    # what the user passed of the run itself (batch size, sequence length): compared between runs
    fake_process_group: bool | None = None
    # whether torch's fake process group stood in for the other ranks: communication did nothing, so that
    # its own memory is missing, values are wrong and times say nothing. None where nobody said
    metrics: Metrics = {}
    # name → value, of the whole run; unit in the name (tokens_per_s). NaN and infinity are not known


class TorchCounters(Model):
    """torch's own counters for one phase; peaks were reset at its start."""

    peak_allocated_bytes: Bytes
    # torch.cuda.max_memory_allocated at the end
    end_allocated_bytes: Bytes
    # torch.cuda.memory_allocated at the end
    peak_reserved_bytes: Bytes
    # torch.cuda.max_memory_reserved at the end
    end_reserved_bytes: Bytes
    # torch.cuda.memory_reserved at the end
    peak_active_bytes: Bytes | None = None
    # memory_stats()["active_bytes.all.peak"]; optional: memory_stats costs more than the four above
    end_active_bytes: Bytes | None = None
    # memory_stats()["active_bytes.all.current"]
    peak_requested_bytes: Bytes | None = None
    # memory_stats()["requested_bytes.all.peak"]
    end_requested_bytes: Bytes | None = None
    # memory_stats()["requested_bytes.all.current"]
    alloc_retries: Tally | None = None
    # memory_stats()["num_alloc_retries"] in the phase: times the cache was flushed for want of memory
    ooms: Tally | None = None
    # memory_stats()["num_ooms"] in the phase
    device_free_bytes: Bytes | None = None
    # cudaMemGetInfo at the end, of the whole device
    device_total_bytes: Bytes | None = None
    # the same: total − free − reserved is held outside the allocator, by contexts, NCCL, other processes


class PhaseRecord(Model):
    """A named stretch of a rank. Phases may nest; an inner one's name begins with its outer one's."""

    name: PhaseName
    # nested by "/", at most 1,000 characters and 32 parts; steps are train/step0, train/step1, …
    start_us: Micros
    # the clock of the snapshot's time_us, taken before the first thing of the phase
    stop_us: Micros
    # taken after the last thing of the phase, once the device is synchronised. One before start_us (a
    # clock that was set back) is taken for start_us
    counters: TorchCounters | None = None
    # what replay is checked against; none where the device has no such counters


class NameRecord(Model):
    """One tensor at one boundary. Several may lie in one allocation (FSDP2's gradients do)."""

    kind: str
    # parameter, shard, gradient, buffer, optimizer_state, optimizer_param, unsharded (what an all-gather
    # filled); text, so that a newer recorder's kinds still open. optimizer_param is what param_groups
    # hold, stale or not: by a module's name only where it is the very parameter that the module has, or had
    # before sharding; a master copy is named by its place in the optimizer. A parameter before sharding is
    # any that the module holds. At a boundary after it, only what the module itself holds whole and runs
    # with (never sharded, or not sharded at all): never an original that only a wrapper, an optimizer
    # or a transform still keeps, nor what an all-gather puts together for a while. It is taken at its
    # word: an original that is still called a parameter is in use and does not dangle
    name: str
    # the module path of the tensor; optimizer state ends in its key (layers.0.w.exp_avg)
    address: Address
    # data pointer of the storage: an allocation's address, or inside one
    nbytes: Bytes
    # bytes of the storage, all of it where the tensor is a view
    dtype: str | None = None
    # torch.float32, …
    shape: Annotated[tuple[Bytes, ...], Field(max_length=64)] | None = None
    # at most 64 sizes. Of the tensor; of the local shard for kind shard: this tells a shard that is a view of the
    # whole parameter's storage, which it keeps, from a parameter that was not cut


class Boundary(Model):
    """The names of one moment, taken between two phases."""

    time_us: Micros
    # when the addresses were read: a name means the allocation that was live then
    phase: PhaseName | None = None
    # the phase that just ended; none for a boundary outside phases
    names: tuple[NameRecord, ...] = ()
    # empty when nothing was registered yet
    complete: bool | None = None
    # false where a module or an optimizer could not be read: what is not named may be in use all the same


class HolderRecord(Model):
    """A Python path to a reference that keeps a parameter's storage."""

    parameter: str
    # a name as in NameRecord.name
    path: str
    # innermost first: Model._parameters['p1'] ← ThunderModule._model ← m (train.py:31)
    kind: str | None = None
    # module, optimizer, frame, global, closure, …; text for the reason NameRecord.kind is
    time_us: Micros | None = None
    # when it was looked for: a holder may be gone later


class HistoryRecord(Model):
    """How the allocator's history was recorded: what decides whether a replay is exact."""

    first_allocation: bool
    # whether recording began before the first allocation of this device
    max_entries: Count | None = None
    # events kept per device; older ones are overwritten and nothing in the snapshot says so: a trace
    # of this many is taken to have lost some
    context: str | None = None
    # "all", "alloc" or "state": "alloc" means that a free carries its alloc's stack
    stacks: str | None = None
    # "python" or "all" (with C++)
    events: Tally | None = None
    # events of this device in the snapshot
    overflowed: bool | None = None
    # whether there were max_entries of them, so that older ones may have been overwritten


ModulePath = Annotated[str, Field(max_length=1000)]
"""A module's path: at most 1,000 characters, since reports repeat it."""

Window = tuple[Annotated[int, Field(ge=0, lt=MOST_WINDOWS)], Micros, Micros, Annotated[int, Field(ge=0, lt=1 << 31)]]
"""(index into the names, start_us, stop_us, flags) of one call of a module, with all hooks around its forward."""


class ModuleRecord(Model):
    """When the forwards of a model's modules ran, in the steps in which names were read: the first three."""

    names: Annotated[tuple[ModulePath, ...], Field(max_length=MOST_WINDOWS)] = ()
    # paths as in NameRecord.name, without the wrappers that put no name of their own before a parameter's:
    # layers.3.mlp; "" is a whole model. A module that lies in several places has the first of their names
    windows: Annotated[tuple[Window, ...], Field(max_length=MOST_WINDOWS)] = ()
    # in order of their start, an outer one before those that lie in it. They nest: a window lies in another
    # or beside it. Times are as those of phases, on the clock of the snapshot's time_us; a stop before its
    # start is taken for the start. Flags: RECOMPUTED; others are of a newer recorder, and may be ignored
    complete: bool | None = None
    # false where calls were left out: there were more than are kept, they were made in several threads at
    # once, or something that is compiled would have seen that they are noted. What is compiled has one
    # window for the whole of it, and that is no omission

    @model_validator(mode="after")
    def _has_the_names(self) -> ModuleRecord:
        highest = max((window[0] for window in self.windows), default=-1)
        if highest >= len(self.names):
            raise ValueError(f"a window is of name {highest}, and there are {len(self.names)}")
        return self


class RankRecord(Model):
    """``rankNNNNN.json``: what one rank knew while it ran and a snapshot cannot say."""

    schema_version: int
    # whole number, RANK_VERSION when written by this version
    rank: RankNumber
    # global rank
    world_size: WorldSize | None = None
    # as in the manifest; here too because a record may travel alone
    device: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    # ordinal of this rank's device: the slot of device_traces that is this rank's
    device_name: str | None = None
    # such as NVIDIA H200; ranks of one job can differ
    torch: str | None = None
    # torch.__version__
    history: HistoryRecord | None = None
    # none: nobody knows, so nothing is taken for granted
    phases: tuple[PhaseRecord, ...] = ()
    # in order of start_us
    boundaries: Annotated[tuple[Boundary, ...], Field(max_length=10_000)] = ()
    # in order of time_us. A recorder notes names where they changed: some dozens of times
    holders: tuple[HolderRecord, ...] = ()
    # found when asked for; empty says nothing
    modules: ModuleRecord | None = None
    # none where nobody looked: without the hooks of snapviz record, or where no model was called in training
    metrics: Metrics = {}
    # name → value, of this rank. NaN and infinity are not known


def is_place(name: str) -> bool:
    """Whether an ``optimizer_param`` is named by its place in the optimizer, because no module ever had it.

    A name that ends in a number may be one, in another tool's words.
    """
    return ".param_groups[" in name or ".state, key " in name or name.rpartition(".")[2].isdecimal()


_Model = TypeVar("_Model", RunManifest, RankRecord)


def read_manifest(text: str | bytes, where: str) -> RunManifest:
    """A ``run.json``. Raises ``RunError`` naming ``where``, the field and what was expected."""
    return _read(RunManifest, text, where, RUN_VERSION)


def read_rank_record(text: str | bytes, where: str) -> RankRecord:
    """A ``rankNNNNN.json``. Raises ``RunError`` naming ``where``, the field and what was expected."""
    return _read(RankRecord, text, where, RANK_VERSION)


class _Versioned(Model):
    schema_version: int


def _read(model: type[_Model], text: str | bytes, where: str, known: int) -> _Model:
    try:
        # the version first: a newer document's other fields may rightly not fit
        version = _Versioned.model_validate_json(text).schema_version
        if not 1 <= version <= known:
            raise RunError(
                f"{where}: schema version {version}, but this snapviz reads versions 1 to {known}; "
                + ("a newer snapviz wrote it: update snapviz" if version > known else "it is not a snapviz document")
            )
        return model.model_validate_json(text)
    except ValidationError as error:
        raise RunError(f"{where}: {_first_fault(error)}") from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {first['msg']}{more}" if place else f"{first['msg']}{more}"
