"""The samples as a newer recorder would have left them: holders, memory outside the allocator, a process group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from snapviz.analyze.run import Run
from snapviz.schema import RankRecord, RunManifest
from tests.analyze.builders import MIB, sample

Holders = Callable[[int, str], Iterable[dict[str, Any]]]
"""Position and name of a parameter → its holders."""

DEVICE = 150 << 30


def nobody(_: int, __: str) -> list[dict[str, Any]]:
    return []


def module_holds(_: int, name: str) -> list[dict[str, Any]]:
    # the recorder writes them in the order it finds them
    return [
        {"parameter": name, "path": "2 references", "kind": "unexplained"},
        {
            "parameter": name,
            "path": f"Model._parameters['{name}'] ← ThunderModule._model ← m (train.py:31)",
            "kind": "module",
        },
    ]


def optimizer_holds(position: int, name: str) -> list[dict[str, Any]]:
    path = f"optimizer.param_groups[0]['params'][{position}]"
    return [{"parameter": name, "path": path, "kind": "optimizer"}]


def enriched(
    name: str, holders: Holders = nobody, *, outside: int | None = None, retries: int = 0, **manifest: Any
) -> Run:
    """``outside`` MiB are held after the first phase, and 64 more after each of the others."""
    run = sample(name)
    assert run.manifest is not None
    run.manifest = RunManifest.model_validate(run.manifest.model_dump() | manifest)
    for rank in run.ranks:
        assert rank.record is not None
        document = rank.record.model_dump()
        names = sorted({name["name"] for one in document["boundaries"] for name in one["names"]})
        document["holders"] = tuple(one for i, parameter in enumerate(names) for one in holders(i, parameter))
        for index, phase in enumerate(document["phases"]):
            counters = phase["counters"]
            if outside is not None:
                held = counters["end_reserved_bytes"] + (outside + 64 * index) * MIB
                counters |= {"device_total_bytes": DEVICE, "device_free_bytes": DEVICE - held}
                counters |= {"alloc_retries": retries * (index == 2), "ooms": 0}
        rank.record = RankRecord.model_validate(document)
    return run
