"""What crosses a boundary: the documents of a run directory (``run``), and the reports (``diff``, ``info``).

One model per document and per thing a person would point at in it; never one per event. Byte counts are
integers, in bytes, and end in ``_bytes``; times are integers, µs since the Unix epoch, and end in
``_us``.
"""

from __future__ import annotations

from snapviz.schema.base import (
    MOST_RANKS,
    Model,
)
from snapviz.schema.beside import (
    Benchmark,
    BenchmarkSide,
    OutsideDelta,
)
from snapviz.schema.diff import (
    DIFF_VERSION,
    BrokenRank,
    Dangling,
    DiffReport,
    DiffRow,
    EnvironmentChange,
    MeasureBytes,
    MeasureDelta,
    Moment,
    PhaseDelta,
    Point,
    RankDelta,
    RankPoint,
    RunSummary,
    Suspect,
    Unchanged,
    Without,
)
from snapviz.schema.info import (
    INFO_VERSION,
    InfoReport,
    LiveRow,
    OutsideInfo,
    PhaseInfo,
    RankInfo,
)
from snapviz.schema.run import (
    MANIFEST,
    RANK_VERSION,
    RUN_VERSION,
    SHARD,
    TRAIN,
    UNEXPLAINED,
    Boundary,
    GitState,
    HistoryRecord,
    HolderRecord,
    NameRecord,
    PhaseRecord,
    RankRecord,
    RunManifest,
    TorchCounters,
    is_place,
    is_training,
    read_manifest,
    read_rank_record,
)
from snapviz.schema.trust import (
    FindingReport,
    RankTrust,
    Trust,
)

__all__ = [
    "DIFF_VERSION",
    "INFO_VERSION",
    "MANIFEST",
    "MOST_RANKS",
    "RANK_VERSION",
    "RUN_VERSION",
    "SHARD",
    "TRAIN",
    "UNEXPLAINED",
    "Benchmark",
    "BenchmarkSide",
    "Boundary",
    "BrokenRank",
    "Dangling",
    "DiffReport",
    "DiffRow",
    "EnvironmentChange",
    "FindingReport",
    "GitState",
    "HistoryRecord",
    "HolderRecord",
    "InfoReport",
    "LiveRow",
    "MeasureBytes",
    "MeasureDelta",
    "Model",
    "Moment",
    "NameRecord",
    "OutsideDelta",
    "OutsideInfo",
    "PhaseDelta",
    "PhaseInfo",
    "PhaseRecord",
    "Point",
    "RankDelta",
    "RankInfo",
    "RankPoint",
    "RankRecord",
    "RankTrust",
    "RunManifest",
    "RunSummary",
    "Suspect",
    "TorchCounters",
    "Trust",
    "Unchanged",
    "Without",
    "is_place",
    "is_training",
    "read_manifest",
    "read_rank_record",
]
