"""What is not exact, not whole or not known is told apart, and never compared as if it were."""

from __future__ import annotations

from typing import Any

from snapviz.compare.diff import diff
from snapviz.report.difftext import diff_lines
from snapviz.schema import DiffReport
from tests.analyze.builders import MIB, Trace, frame, record, run_of
from tests.compare.jobs import job
from tests.compare.recorded import FORWARD, sharded, steps


def text(report: DiffReport, width: int = 120) -> str:
    return "\n".join("".join(span.text for span in spans) for spans in diff_lines(report, width))


# ------------------------------------------------------------------ a recording whose beginning is gone


def test_what_is_older_than_a_recording_is_the_same_memory() -> None:
    whole, ring = steps((100, 100, 100), name="main"), steps((100, 100, 100), cut=2, name="ring")
    for base, head in ((whole, ring), (ring, whole)):
        (end,) = diff(base, head, ["end"]).points
        assert end.ranks[0].rows == ()
        assert (end.ranks[0].unchanged.rows, end.ranks[0].unchanged.total_bytes) == (1, 20 * MIB)


def test_a_row_of_what_is_older_has_the_birth_that_is_known() -> None:
    def run(kept: int, cut: bool):
        trace = Trace()
        trace.mark("START", "ProfilerStep#0")
        for _ in range(kept):
            trace.alloc(20, frame("f"))
        trace.mark("END", "ProfilerStep#0")
        trace.mark("START", "ProfilerStep#1")
        trace.free(trace.alloc(30, frame("g")))
        trace.mark("END", "ProfilerStep#1")
        objects = trace.objects()
        objects["device_traces"][0] = trace.events[2 * kept :] if cut else trace.events
        return run_of(objects)

    (point,) = diff(run(1, cut=False), run(3, cut=True), ["end"]).points
    (row,) = point.ranks[0].rows
    assert (row.birth_phase, row.base_count, row.head_count) == ("train/step0", 1, 3)


def test_a_peak_that_lost_its_beginning_is_not_called_lower() -> None:
    report = diff(steps((100, 100), name="main"), steps((100, 60), cut=1, name="ring"), ["end", "peak"])
    assert report.verdict == (
        "ring holds as much as main at the end of the run, in the same allocations. The peak in ring is that of "
        "the recording only, whose oldest events are gone, and not compared."
    )
    (rank,) = report.ranks
    assert (rank.base.truncated, rank.head.truncated) == (False, True)
    peak = report.points[1].ranks[0]
    assert peak.base_moment is not None
    assert peak.head_moment is not None
    assert (peak.base_moment.trust.whole, peak.head_moment.trust.whole) == (True, False)
    assert any("the recording begins in the middle" in caveat for caveat in report.caveats)
    # the other way round base is the one that may have been higher
    assert "higher" not in diff(steps((100, 60), cut=1, name="ring"), steps((100, 100), name="main")).verdict


def test_what_is_not_compared_is_not_explained_either() -> None:
    report = diff(steps((100, 100), name="main"), steps((100, 60), cut=1, name="ring"), ["end", "peak"])
    assert report.points[1].ranks[0].rows  # data they are all the same
    shown = text(report)
    assert "why" not in shown
    assert "at the peak of the run: not compared. ring has no recording of the start: begin" in shown


def test_a_file_without_events_lost_none() -> None:
    dump = steps((100, 100), name="dump")
    objects = steps_objects()
    objects["device_traces"][0] = []
    report = diff(dump, run_of(objects, name="bare"), ["end", "peak"])
    assert report.verdict.endswith("bare has no events: only what was allocated at the dump; the peak is not compared.")
    assert "oldest events" not in report.verdict


def steps_objects() -> dict[str, Any]:
    trace = Trace()
    trace.alloc(20, frame("weights"))
    return trace.objects()


def test_a_verdict_names_the_ranks_it_is_of() -> None:
    def run(name: str, cut: bool):
        one, other = Trace(0), Trace(1)
        objects = []
        for trace in (one, other):
            trace.alloc(20, frame("weights"))
            first = len(trace.events)
            trace.free(trace.alloc(30, FORWARD))
            trace.free(trace.alloc(20, FORWARD))
            document = trace.objects()
            if cut and trace is other:
                document["device_traces"][1] = trace.events[first + 4 :]
            objects.append(document)
        return run_of(*objects, name=name)

    report = diff(run("main", False), run("ring", True))
    assert report.verdict.startswith(
        "ring holds as much as main at the end of the run on both ranks and at the peak of the run on rank 0"
    )
    assert report.verdict.endswith(", and not compared on rank 1.")


def test_the_same_requests_are_only_rounding() -> None:
    def run(name: str, *mib: int):
        trace = Trace()
        for one in mib:
            address = trace.alloc(one + one % 2, FORWARD)
            # 1 MiB is too little to be split off
            trace.events[-1]["size"] = one * MIB
            segment = trace.segments[address]
            segment["requested_size"] = segment["blocks"][0]["requested_size"] = one * MIB
        return run_of(trace, name=name)

    report = diff(run("main", 20, 22), run("pr", 21, 21))
    assert report.ranks[0].end.delta.requested_bytes == 0
    assert report.verdict.startswith("pr ends and peaks 2.00 MiB higher")
    assert report.verdict.endswith(
        "The same bytes are requested at the end of the run and at the peak of the run: "
        "rounding and unsplit remainders only."
    )
    assert "requested" not in diff(run("main", 20), run("pr", 20, 22)).verdict


def test_a_peak_that_is_higher_even_without_its_beginning_is_at_least_that() -> None:
    report = diff(steps((100, 100), name="main"), steps((100, 100), cut=1, late=200, name="ring"), ["peak"])
    assert report.verdict.startswith("ring peaks at least 100.00 MiB higher")
    assert "oldest events are gone." in report.verdict
    swapped = diff(steps((100, 100), cut=1, late=200, name="ring"), steps((100, 100), name="main"), ["peak"])
    assert swapped.verdict.startswith("main peaks at least 100.00 MiB lower")


def test_the_table_marks_a_phase_that_lost_its_beginning() -> None:
    report = diff(steps((100, 100), name="main"), steps((100, 60), cut=1, name="ring"))
    (row,) = (row for row in report.phases if row.phase == "train/step")
    assert row.head_trust is not None
    assert (row.head_trust.whole, row.head_trust.counted, row.head_trust.at_least[1]) == (False, False, "allocated")
    (line,) = (line for line in text(report).splitlines() if line.startswith("train/step "))
    assert line.split()[:7] == ["train/step", "120.00", "MiB", "≥", "40.00", "MiB", "–"]
    phase = diff(steps((100, 100), name="main"), steps((100, 60), cut=1, name="ring"), ["phase:train/step1"])
    assert phase.verdict == (
        "main and ring cannot be compared at the peak of train/step1. The peak of train/step1 in ring is that of "
        "the recording only, whose oldest events are gone, and not compared."
    )
    assert "≥ the recording does not have all of the phase" in text(report)


def test_torchs_counter_is_compared_where_the_history_is_cut() -> None:
    base, head = steps((100, 60), name="main"), steps((100, 100), cut=1, counted=True, name="ring")
    report = diff(base, head, ["phase:train/step1"])
    assert report.verdict == "ring is 40.00 MiB higher at the peak of train/step1."
    (row,) = (row for row in report.phases if row.phase == "train/step")
    assert row.head_trust is not None
    assert row.head_trust.counted
    assert row.peak_delta is not None
    assert row.peak_delta.allocated_bytes == 40 * MIB
    assert "+40.00 MiB" in text(report)
    same = diff(steps((100, 100), name="main"), head, ["phase:train/step1"])
    assert same.verdict == "ring holds as much as main at the peak of train/step1, by torch's counters."


def test_what_clears_exactness_stands_first_and_is_never_cut() -> None:
    notes = tuple(f"note {i}" for i in range(30))
    head = steps((100, 60), cut=1, name="ring")
    head.notes = notes
    shown = text(diff(steps((100, 60), name="main"), head))
    assert shown.index("the recording begins in the middle") < shown.index("note 0")
    assert "note 29" not in shown
    assert "more notes" in shown


# ------------------------------------------------------------------ trust as data


def test_a_report_says_how_far_each_side_is_known() -> None:
    report = diff(sharded(), steps((100,), cut=0))
    (rank,) = report.ranks
    assert (rank.base.exact, rank.base.consistent, rank.base.truncated, rank.base.dangling_known) == (
        True,
        True,
        False,
        True,
    )
    assert (rank.head.truncated, rank.head.dangling_known) == (True, False)
    assert rank.head.dangling_why
    assert {finding.severity for finding in rank.head.findings} <= {
        "inconsistent",
        "estimate",
        "assumption",
        "information",
    }
    assert rank.head.estimated == any(finding.severity == "estimate" for finding in rank.head.findings)


def test_run_level_figures_are_those_of_the_replay() -> None:
    base, head = job(), job(scale=2)
    report = diff(run_of(base), run_of(head))
    (rank,) = report.ranks
    points = {point.at: point.ranks[0] for point in report.points}
    assert rank.peak.base.allocated_bytes == points["peak"].base_total_bytes
    assert rank.peak.delta.allocated_bytes == points["peak"].delta_bytes == 120 * MIB
    assert rank.end.head.allocated_bytes == points["end"].head_total_bytes
    assert rank.peak.head.reserved_bytes >= rank.peak.head.active_bytes >= rank.peak.head.allocated_bytes
    end = points["end"].head_moment
    assert end is not None
    assert (end.event, end.time_us) == (len(head.events) - 1, head.events[-1]["time_us"])


# ------------------------------------------------------------------ phases that mean another stretch


def test_phases_of_another_source_are_not_compared() -> None:
    trace = job(scale=2)
    phases = [("train/step0", trace.events[0]["time_us"], trace.now)]
    head = run_of(trace, records=[record(phases)], name="recorded")
    report = diff(run_of(job(), name="bare"), head, ["phase:train/step0", "peak"])
    (row,) = (row for row in report.phases if row.phase == "train/step0")
    assert (row.comparable, "annotations in base, record in head" in row.note) == (False, True)
    assert report.points[0].ranks[0].comparable is False
    assert "train/step0" not in report.verdict
    assert "at the peak" not in report.verdict
    assert report.verdict.startswith("recorded peaks 120.00 MiB higher")
    assert "not compared, their sources differ: train/step0" in text(report)
    (line,) = (line for line in text(report).splitlines() if line.startswith("train/step0 "))
    assert "+" not in line


def test_only_phases_that_cannot_be_compared_are_no_verdict() -> None:
    trace = job()
    head = run_of(trace, records=[record([("train/step0", 0, trace.now)])], name="recorded")
    report = diff(run_of(job(), name="bare"), head, ["phase:train/step0"])
    assert report.verdict == "bare and recorded cannot be compared at the peak of train/step0."
    shown = text(diff(run_of(job(), name="bare"), run_of(job(scale=2), records=[record([("train/step0", 0, 9)])])))
    assert "two different moments" not in shown
    assert "why" not in text(report)
    assert "at the peak of train/step0: not compared. Its phases come from another source on each side" in text(report)


# ------------------------------------------------------------------ names of phases


def test_a_phases_own_name_is_that_phase_and_a_folded_one_all_of_them() -> None:
    base, head = steps((40, 30, 60)), steps((40, 32, 90))
    report = diff(base, head, ["phase:train/step1", "phase:train/step", "phase:train/step2:end"])
    assert [point.at for point in report.points] == [
        "phase:train/step1:peak",
        "phase:train/step:peak",
        "phase:train/step2:end",
    ]
    assert [point.ranks[0].delta_bytes for point in report.points] == [2 * MIB, 30 * MIB, 0]
    moments = [point.ranks[0].head_moment for point in report.points]
    assert [moment and moment.phase for moment in moments] == ["train/step1", "train/step2", "train/step2"]


def test_a_name_above_phases_spans_them_and_what_lies_between() -> None:
    def run(between: int):
        trace = Trace()
        phases = []
        for step in range(2):
            begin = trace.tick()
            trace.free(trace.alloc(30, FORWARD))
            phases.append((f"train/step{step}", begin, trace.tick()))
            trace.tick()
            # after the first step, in no phase
            if step == 0:
                trace.free(trace.alloc(between, frame("between")))
                trace.tick()
        trace.free(trace.alloc(400, frame("after")))
        return run_of(trace, records=[record(phases)], name=f"b{between}")

    report = diff(run(40), run(100), ["phase:train", "phase:train:end"])
    assert [point.ranks[0].delta_bytes for point in report.points] == [60 * MIB, 0]
    (row,) = (row for row in report.phases if row.phase == "train")
    assert row.spans
    assert row.head_peak is not None
    assert row.head_peak.allocated_bytes == 100 * MIB
    assert "\ntrain " in text(report)
    # where it says nothing that its steps do not say, it takes up no room
    assert "\ntrain " not in text(diff(steps((40,)), steps((90,))))


# ------------------------------------------------------------------ what reading left out


def test_what_reading_left_out_is_a_note() -> None:
    head = run_of(job(), name="pr")
    head.ranks[0].columns.facts["notes"] = ["the page holds 2 snapshots: the first is used"]
    head.ranks[0].columns.ignored["event key 'extra'"] = 1200
    report = diff(run_of(job(), name="main"), head)
    assert "pr: the page holds 2 snapshots: the first is used" in report.notes
    assert "pr: not understood and left out: event key 'extra' (1,200)" in report.notes


# ------------------------------------------------------------------ where and when


def test_a_peak_in_another_phase_is_two_moments() -> None:
    shown = text(diff(steps((100, 60), name="main"), steps((60, 120), name="pr")))
    assert "why, at the peak of the run (train/step0 → train/step1): +20,971,520 bytes" in shown
    assert "two different moments: --at phase:NAME compares one phase" in shown
    assert "end of the run: did not change" in shown
    assert "two different" not in text(diff(steps((100, 60)), steps((120, 60))))


def test_what_spans_phases_is_shown_at_every_width_or_at_none() -> None:
    report = diff(steps((100, 60), name="main"), steps((120, 80), name="pr"))
    assert "train" in [row.phase for row in report.phases]
    for width in (60, 80, 120, 200):
        assert not [line for line in text(report, width).splitlines() if line.startswith("train ")]


def test_reserved_is_told_at_every_width() -> None:
    report = diff(steps((100, 60), name="main"), steps((120, 60), name="pr"))
    for width in (80, 200):
        shown = " ".join(text(report, width).split())
        assert "reserved peak and end 200.00 MiB → 220.00 MiB (+20.00 MiB)" in shown
    assert "reserved" not in text(diff(steps((100, 60)), steps((100, 60))), 80)
    # of a peak that is not whole nothing is said
    cut = text(diff(steps((100, 100)), steps((100, 60), cut=1)), 80)
    assert "reserved   end 140.00 MiB → 200.00 MiB (+60.00 MiB)" in cut


def test_phases_are_in_the_order_they_began() -> None:
    report = diff(job_with("zeta", "alpha"), job_with("zeta", "beta", "alpha"))
    assert [row.phase for row in report.phases if row.phase in ("zeta", "alpha", "beta")] == ["zeta", "beta", "alpha"]
    cut = diff(steps((100, 60, 40)), steps((100, 60, 40), cut=1))
    assert [row.phase for row in cut.phases if row.phase != "train"] == ["setup", "train/step0", "train/step"]


def job_with(*names: str):
    trace = Trace()
    phases = []
    for name in names:
        begin = trace.tick()
        trace.free(trace.alloc(20, FORWARD))
        phases.append((name, begin, trace.tick()))
        trace.tick()
    return run_of(trace, records=[record(phases)])


def test_a_run_against_itself_has_nothing_to_save() -> None:
    assert "without what dangles" not in text(diff(sharded(leak=True), sharded(leak=True)))
    assert "without what dangles" in text(diff(sharded(), sharded(leak=True)))


def test_the_end_of_training_and_the_end_of_a_file_are_two_moments() -> None:
    trace = Trace()
    start, kept = trace.now, trace.alloc(20, FORWARD)
    end = trace.tick()
    trace.free(kept)  # as the program ends
    recorded = run_of(trace, records=[record([("train/step0", start, end)], [])], name="main")
    bare = run_of(trace, name="pr")
    said = "main ends with its training, and pr, which has no record, where its file does"
    for base, head in ((recorded, bare), (bare, recorded)):
        assert any(caveat.startswith(said) for caveat in diff(base, head).caveats)
    assert not any(
        "ends with" in caveat for report in (diff(recorded, recorded), diff(bare, bare)) for caveat in report.caveats
    )
