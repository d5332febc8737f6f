from __future__ import annotations

from typing import Any

import pytest

from snapviz.analyze.device import DeviceCounts, folded_device, outside_by_phase
from snapviz.analyze.facts import Facts
from snapviz.analyze.info import info
from snapviz.analyze.passes import analyze
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, record, run_of


def known(*phases: tuple[str, int, int, dict[str, Any] | None]) -> RankRecord:
    document = record([phase[:3] for phase in phases]).model_dump()
    for phase, (*_, counters) in zip(document["phases"], phases, strict=True):
        names = ("peak_allocated", "end_allocated", "peak_reserved", "end_reserved")
        zero = {f"{name}_bytes": 0 for name in names}
        phase["counters"] = None if counters is None else zero | counters
    return RankRecord.model_validate(document)


def facts_of(rank_record: RankRecord | None) -> Facts:
    snap = Trace().snap()
    return analyze(0, snap.columns, snap.replay(0), rank_record)


def memory(outside: int, reserved: int = 100, **rest: int) -> dict[str, int]:
    total = 1000 * MIB
    free = total - (outside + reserved) * MIB
    return {"device_total_bytes": total, "device_free_bytes": free, "end_reserved_bytes": reserved * MIB} | rest


def test_what_is_neither_free_nor_reserved_is_outside() -> None:
    one = known(
        ("train", 10, 90, memory(40)),
        ("train/step0", 10, 20, memory(7)),
        ("train/step1", 30, 40, memory(9, reserved=200)),
        ("train/step2", 50, 60, memory(8)),
        ("eval", 95, 99, {"device_total_bytes": 5}),
        ("export", 100, 110, None),
    )
    facts = facts_of(one)
    # in the order in which they ended
    assert outside_by_phase(facts) == [
        ("train/step0", 7 * MIB),
        ("train/step1", 9 * MIB),
        ("train/step2", 8 * MIB),
        ("train", 40 * MIB),
    ]
    found = folded_device(facts)
    assert found["train/step"] == DeviceCounts(outside_bytes=8 * MIB)
    assert found["eval"] == DeviceCounts()
    assert "export" not in found


@pytest.mark.parametrize(
    "counters", [{}, {"device_free_bytes": 7}, memory(-1), {"device_total_bytes": 1, "device_free_bytes": 2}]
)
def test_what_cannot_be_is_not_known(counters: dict[str, int]) -> None:
    assert outside_by_phase(facts_of(known(("a", 1, 2, counters)))) == []


def test_without_a_record_nothing_is_known() -> None:
    assert outside_by_phase(facts_of(None)) == []
    assert folded_device(facts_of(None)) == {}


def test_retries_of_later_steps_are_summed() -> None:
    one = known(
        ("train/step0", 1, 2, {"alloc_retries": 5, "ooms": 0}),
        ("train/step1", 3, 4, {"alloc_retries": 2}),
        ("train/step2", 5, 6, {"alloc_retries": 1, "ooms": 1}),
    )
    found = folded_device(facts_of(one))
    assert (found["train/step0"].alloc_retries, found["train/step0"].ooms) == (5, 0)
    assert (found["train/step"].alloc_retries, found["train/step"].ooms) == (3, 1)


def test_info_has_the_first_and_the_last() -> None:
    trace = Trace()
    start = trace.now
    trace.free(trace.alloc(20))
    one = known(("a", start, start + 5, memory(7)), ("b", start + 6, trace.now, memory(3, alloc_retries=2)))
    (rank,) = info(run_of(trace, records=[one])).ranks
    assert rank.outside is not None
    assert rank.outside.model_dump() == {
        "first_phase": "a",
        "first_bytes": 7 * MIB,
        "last_phase": "b",
        "last_bytes": 3 * MIB,
    }
    assert [(p.outside_bytes, p.alloc_retries, p.ooms) for p in rank.phases] == [
        (7 * MIB, None, None),
        (3 * MIB, 2, None),
    ]
    (bare,) = info(run_of(trace)).ranks
    assert bare.outside is None
