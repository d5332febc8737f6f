"""A small job with everything an export has to show, and ways to read what was written."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any

import numpy as np

from snapviz.analyze.facts import CATEGORIES, Facts
from snapviz.analyze.run import Run
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record, run_of

__all__ = ["HOSTILE", "binary", "dangling_run", "facts_of", "named", "plainly", "small_run", "text"]

HOSTILE = '=cmd|"/C calc"!A0;\n\x1b[31m\u202e<script>,'
"""A name that is a formula, ends a frame, a line and a cell, moves a cursor and turns text round."""

MAIN = frame("<module>", "/repo/train.py", 9)


def small_run() -> Run:
    """Two ranks in two phases: a parameter that stays, an activation that goes, something of before the phases."""
    traces, records = [], []
    for rank in range(2):
        trace = Trace(device=0)
        trace.alloc(20, frame("early", "/repo/setup.py", 3), MAIN)
        start = trace.tick()
        kept = trace.alloc(40, frame("__init__", "/repo/model.py", 12), MAIN)
        middle = trace.tick()
        trace.mark("START", "Optimizer.step#AdamW.step")
        gone = trace.alloc(
            60 + 20 * rank, frame("forward", "/repo/model.py", 20), frame("step", "/repo/train.py", 5), MAIN
        )
        trace.mark("END", "Optimizer.step#AdamW.step")
        trace.free(gone)
        stop = trace.tick()
        phases = [("materialize", start, middle - 1), ("train/step0", middle, stop)]
        names = [("parameter", "layers.0.w", kept, 40 * MIB)]
        traces.append(trace)
        records.append(record(phases, [(middle - 1, names)], rank=rank))
    return run_of(*traces, name="small", records=records)


def dangling_run() -> Run:
    """One rank whose whole parameter outlives the phase that shards it."""
    trace = Trace()
    start = trace.tick()
    whole = trace.alloc(40, frame("__init__"), MAIN)
    made = trace.tick()
    shard = trace.alloc(20, frame("_shard_tensor"), MAIN)
    sharded = trace.tick()
    trace.alloc(60, frame("forward"), MAIN)
    stop = trace.tick()
    phases = [("materialize", start, made - 1), ("shard", made, sharded - 1), ("train/step0", sharded, stop)]
    before = ("parameter", "w", whole, 40 * MIB)
    boundaries = [(made - 1, [before]), (sharded - 1, [("shard", "w", shard, 20 * MIB)])]
    return run_of(trace, name="dangling", records=[record(phases, boundaries)])


def facts_of(trace: Trace | dict[str, Any], known: RankRecord | None = None) -> Facts:
    """The facts of one rank's trace, or of a snapshot's plain objects."""
    return run_of(trace, records=[known]).ranks[0].facts()


def named(facts: Facts, allocation: int, category: str, owner: str = "") -> Facts:
    """The same with one allocation of a category, and of an owner."""
    categories, owners = facts.category.copy(), facts.owner.copy()
    categories[allocation] = CATEGORIES.index(category)
    if owner:
        owners[allocation] = len(facts.owners)
    return replace(facts, category=categories, owner=owners, owners=(*facts.owners, owner) if owner else facts.owners)


def plainly(facts: Facts) -> Facts:
    """The same with nothing that is inferred today and may be told better tomorrow: each third is of one category."""
    count = len(facts.category)
    return replace(
        facts,
        category=(np.arange(count) % 3 + CATEGORIES.index("parameter")).astype(np.int8),
        evidence=np.zeros(count, np.int8),
        module=np.zeros(count, np.int32),
        recomputed=np.zeros(count, bool),
    )


def text(write: Callable[[IO[str]], None]) -> str:
    stream = io.StringIO()
    write(stream)
    return stream.getvalue()


def binary(write: Callable[[IO[bytes]], None]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()
