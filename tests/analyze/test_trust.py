from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapviz.analyze.facts import Facts, is_truncated
from snapviz.analyze.info import info
from snapviz.analyze.passes import analyze
from snapviz.replay.model import Finding, Severity
from snapviz.report.infotext import info_lines
from snapviz.schema import RankInfo, RankRecord
from tests.analyze.builders import MIB, Trace, record, run_of

BEGINS = "the recording begins in the middle: peaks are those of the recording, not of the run"


def facts_of(trace: Trace, known: RankRecord | None = None) -> Facts:
    snap = trace.snap()
    return analyze(0, snap.columns, snap.replay(0), known)


def rank_of(trace: Trace, known: RankRecord | None = None) -> tuple[RankInfo, str]:
    report = info(run_of(trace, records=[known]))
    text = "\n".join("".join(span.text for span in spans) for spans in info_lines(report, 200))
    return report.ranks[0], text


def counters(peak: int, end: int, reserved: int, **more: int) -> dict[str, int]:
    """torch's counters, in MiB."""
    values = {
        "peak_allocated_bytes": peak,
        "end_allocated_bytes": end,
        "peak_reserved_bytes": reserved,
        "end_reserved_bytes": reserved,
    }
    return {name: value * MIB for name, value in (values | more).items()}


def known_by(
    phases: list[tuple[str, int, int, dict[str, int] | None]], history: dict[str, Any] | None = None
) -> RankRecord:
    document = record([phase[:3] for phase in phases]).model_dump()
    for phase, (*_, counted) in zip(document["phases"], phases, strict=True):
        phase["counters"] = counted
    return RankRecord.model_validate(document | {"history": history})


class Cut:
    """400 MiB come and go, then 50 stay. The first events are lost: all but the last free of the 400."""

    def __init__(self) -> None:
        self.trace = trace = Trace()
        self.start = trace.now
        old = trace.alloc(400)
        trace.events.clear()
        trace.free(old)
        self.middle = trace.tick()
        self.second = trace.tick()
        trace.alloc(50)
        self.stop = trace.tick()

    def phases(self, first: dict[str, int] | None = None) -> list[tuple[str, int, int, dict[str, int] | None]]:
        return [
            ("test_a", self.start, self.middle, first),
            ("test_b", self.second, self.stop, counters(50, 50, 450)),
        ]


def test_a_bare_file_that_begins_in_the_middle_says_so_first() -> None:
    rank, text = rank_of(Cut().trace)
    assert rank.notes[0] == BEGINS
    assert (rank.truncated, rank.exact, rank.consistent) == (True, True, True)
    (phase,) = rank.phases
    assert (phase.whole, phase.exact, phase.counted, phase.growth) == (False, False, False, None)
    assert phase.at_least == ("requested", "allocated", "active", "reserved")
    assert "exact to the byte from the first event on, and what was before is not known" in text
    assert "≥ " in text


def test_a_whole_one_is_exact() -> None:
    trace = Trace()
    trace.free(trace.alloc(20))
    rank, text = rank_of(trace)
    (phase,) = rank.phases
    assert (rank.truncated, rank.exact) == (False, True)
    assert (phase.whole, phase.exact, phase.counted, phase.at_least) == (True, True, False, ())
    assert BEGINS not in rank.notes
    assert "exact to the byte: nothing is estimated" in text


def test_scopes_that_began_before_the_first_event_are_not_whole() -> None:
    cut = Cut()
    for name, start, stop in (("ProfilerStep#0", cut.start, cut.middle), ("ProfilerStep#1", cut.second, cut.stop)):
        for stage, time in (("START", start), ("END", stop)):
            cut.trace.annotations.append({"name": name, "stage": stage, "device": 0, "time_us": time})
    facts = facts_of(cut.trace)
    assert facts.phases.names == ("train/step0", "train/step1")
    assert facts.phases.whole.tolist() == [False, True]
    assert facts.notes[:2] == (
        BEGINS,
        "phase train/step0 began before the first event that is left: its peak may have been higher",
    )


def test_torchs_counters_stand_in_for_what_is_lost() -> None:
    cut = Cut()
    facts = facts_of(cut.trace, known_by(cut.phases(counters(500, 0, 600))))
    phases = facts.phases
    assert (phases.counted.tolist(), phases.whole.tolist()) == ([True, False], [False, True])
    # reserved at the end differs from the replay's: a contradiction, told before all else
    assert facts.notes[0].startswith("phase test_a: end reserved is 419,430,400 bytes by replay and 629,145,600 ")
    assert not facts.exact
    facts = facts_of(cut.trace, known_by(cut.phases(counters(500, 0, 400))))
    assert (facts.phases.peak[0] // MIB).tolist() == [400, 500, 400, 400]
    assert facts.phases.least[0].tolist() == [True, False, True, False]
    assert (
        "phase test_a began before the first event that is left: its peak and end are torch's own counters "
        "(requested and active: only of the events that are left)"
    ) in facts.notes
    assert facts.exact


def test_no_peak_of_torchs_is_below_what_is_seen() -> None:
    cut = Cut()
    facts = facts_of(cut.trace, known_by(cut.phases(counters(100, 0, 400))))
    assert facts.notes[0] == (
        "phase test_a: peak allocated is 419,430,400 bytes by replay and 104,857,600 by torch's counter"
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"peak_allocated_bytes": 7}, "peak allocated"),
        ({"end_allocated_bytes": 7}, "end allocated"),
        ({"peak_reserved_bytes": 7}, "peak reserved"),
        ({"end_active_bytes": 7}, "end active"),
        ({"peak_requested_bytes": 7}, "peak requested"),
    ],
)
def test_every_counter_there_is_has_to_agree(wrong: dict[str, int], told: str) -> None:
    trace = Trace()
    start = trace.now
    trace.alloc(20)
    good = counters(20, 20, 20, peak_active_bytes=20, end_requested_bytes=20)
    right = facts_of(trace, known_by([("a", start, trace.now, good)]))
    assert (right.notes, right.exact, right.phases.exact.tolist()) == ((), True, [True])
    known = known_by([("a", start, trace.now, good | wrong), ("b", trace.now + 1, trace.now + 2, None)])
    facts = facts_of(trace, known)
    assert facts.notes == (f"phase a: {told} is 20,971,520 bytes by replay and 7 by torch's counter",)
    assert (facts.exact, facts.phases.exact.tolist()) == (False, [False, True])
    assert "exact to the byte" not in rank_of(trace, known)[1]


@pytest.mark.parametrize(
    ("history", "truncated"),
    [
        (None, False),
        ({"first_allocation": True}, False),
        ({"first_allocation": True, "max_entries": 5}, False),
        ({"first_allocation": True, "max_entries": 4}, True),
        ({"first_allocation": False}, True),
        ({"first_allocation": True, "overflowed": True}, True),
        ({"first_allocation": True, "overflowed": True, "max_entries": 5, "events": 4}, True),
        ({"first_allocation": True, "overflowed": False, "max_entries": 5, "events": 4}, False),
        ({"first_allocation": True, "overflowed": False}, False),
        # what the recorder says of a ring that is full is not believed
        ({"first_allocation": True, "overflowed": False, "max_entries": 4, "events": 4}, True),
        ({"first_allocation": True, "overflowed": False, "max_entries": 5, "events": 5}, True),
        ({"first_allocation": False, "overflowed": False, "max_entries": 5, "events": 4}, True),
    ],
)
def test_the_record_says_what_no_file_shows(history: dict[str, Any] | None, truncated: bool) -> None:
    trace = Trace()
    start = trace.now
    trace.free(trace.alloc(20))
    known = known_by([("a", start, trace.now, None)], history)
    facts = facts_of(trace, known)
    assert len(facts.replay) == 4
    assert (facts.truncated, is_truncated(facts.replay, known.history)) == (truncated, truncated)
    assert facts.phases.whole.tolist() == [not truncated]
    _, text = rank_of(trace, known)
    assert ("exact to the byte from the first event on" in text) == truncated


def test_without_events_only_the_dump_is_known() -> None:
    trace = Trace()
    trace.alloc(20)
    trace.events.clear()
    rank, text = rank_of(trace)
    assert rank.notes[0] == "no events: only what is allocated at the dump is known"
    assert "exact to the byte" not in text
    assert "peak, by phase" not in text
    assert "live at the dump" in text
    rank, text = rank_of(trace, known_by([("a", 10, 20, counters(90, 20, 90))]))
    (phase,) = rank.phases
    assert (phase.counted, phase.peak.allocated_bytes, phase.whole) == (True, 90 * MIB, False)
    assert rank.notes[0].endswith("peaks and ends of phases are torch's own counters")
    assert "peak, by phase" in text
    # not even that nothing was ever allocated
    rank, _ = rank_of(Trace(), known_by([("a", 10, 20, None)]))
    assert (rank.truncated, [phase.whole for phase in rank.phases]) == (True, [False])


@pytest.mark.parametrize(
    ("kind", "severity", "exact"),
    [
        ("estimated-blocks", "estimate", [False, True]),
        ("older-blocks", "information", [True, True]),
        ("no-split-rule", "estimate", [False, False]),
        ("npu-rules", "assumption", [False, False]),
    ],
)
def test_an_estimate_ends_where_the_last_estimated_block_does(kind: str, severity: Severity, exact: list[bool]) -> None:
    trace = Trace()
    start = trace.now
    trace.free(trace.alloc(20))
    middle = trace.tick()
    trace.alloc(24)
    snap = trace.snap()
    replay = snap.replay(0)
    table = replace(replay.allocations, estimated=np.array([kind == "estimated-blocks", False]))
    guessed = replace(
        replay,
        allocations=table,
        exact=severity == "information",
        findings=(Finding(kind, severity, 1, "a block may be larger"),),
    )
    known = record([("a", start, middle), ("b", middle + 1, trace.now)])
    facts = analyze(0, snap.columns, guessed, known)
    assert facts.phases.exact.tolist() == exact
    assert facts.phases.whole.tolist() == [True, True]
    assert facts.exact == (severity == "information")


def test_a_file_that_contradicts_itself_has_no_exact_phase() -> None:
    trace = Trace()
    trace.alloc(20)
    snap = trace.snap()
    facts = analyze(0, snap.columns, replace(snap.replay(0), consistent=False, exact=False))
    assert (facts.phases.exact.tolist(), facts.phases.whole.tolist()) == ([False], [True])


def test_findings_and_what_reading_left_out_are_data() -> None:
    cut = Cut()
    run = run_of(cut.trace)
    run.ranks[0].columns.facts["notes"] = ["9 bytes after the end were left out"]
    (rank,) = info(run).ranks
    findings = run.ranks[0].facts().replay.findings
    assert findings
    assert [vars(finding) for finding in findings] == [finding.model_dump() for finding in rank.findings]
    assert rank.reading_notes == ("9 bytes after the end were left out",)
    assert "notes" not in rank.container
    text = "".join(span.text for spans in info_lines(info(run), 200) for span in spans)
    assert "9 bytes after the end were left out" in text


def test_a_container_keeps_its_lists() -> None:
    trace = Trace()
    trace.alloc(20)
    run = run_of(trace)
    run.ranks[0].columns.facts["compression"] = ["gzip", "tar"]
    assert info(run).ranks[0].container["compression"] == ["gzip", "tar"]
