"""A heap-diff for PyTorch device memory.

``diff("main", "pr")`` compares two runs, ``load_run`` reads one, ``load_snapshot`` one file;
``record("main")`` records one, with ``phase("shard")`` inside it. The names below are imported when they
are first used: ``import snapviz`` alone imports no numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from snapviz.errors import InputError, OutputError, RecordError, RunError, SnapshotError, SnapvizError, UsageError

if TYPE_CHECKING:
    from snapviz.analyze.run import Run, load_run
    from snapviz.compare.diff import diff
    from snapviz.record.current import metric, phase
    from snapviz.record.recorder import Recorder
    from snapviz.replay.snapshot import Snapshot, load_snapshot
    from snapviz.schema import DiffReport

    record = Recorder

__all__ = [
    "DiffReport",
    "InputError",
    "OutputError",
    "RecordError",
    "Recorder",
    "Run",
    "RunError",
    "Snapshot",
    "SnapshotError",
    "SnapvizError",
    "UsageError",
    "__version__",
    "diff",
    "load_run",
    "load_snapshot",
    "metric",
    "phase",
    "record",
]

__version__ = "0.1.0"

_LAZY = {
    "Recorder": "snapviz.record.recorder",
    "DiffReport": "snapviz.schema",
    "Run": "snapviz.analyze.run",
    "Snapshot": "snapviz.replay.snapshot",
    "diff": "snapviz.compare.diff",
    "load_run": "snapviz.analyze.run",
    "load_snapshot": "snapviz.replay.snapshot",
    "metric": "snapviz.record.current",
    "phase": "snapviz.record.current",
}


def __getattr__(name: str) -> object:
    """Imports a public name at its first use (PEP 562)."""
    if name == "record":  # the package, which can be called
        return importlib.import_module("snapviz.record")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
