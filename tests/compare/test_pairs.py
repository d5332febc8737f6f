"""Two real runs of one program, in float32 and under autocast: what a precision costs, and where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from snapviz.analyze.run import load_run
from snapviz.compare.diff import diff
from snapviz.compare.stacks import JointStacks
from snapviz.report.difftext import diff_lines
from snapviz.schema import DiffReport, RankPoint

SMALL = "pair-small-fp32", "pair-small-bf16"
XL = "pair-xl-fp32-expandable", "pair-xl-bf16-expandable"
MIB = 1 << 20


def paths(shared: Path, pair: tuple[str, str]) -> list[Path]:
    files = [shared / "corpus" / f"{name}.pickle.xz" for name in pair]
    if missing := [file.name for file in files if not file.exists()]:
        pytest.skip(f"{' and '.join(missing)} not in {shared}")
    return files


def peak(report: DiffReport) -> RankPoint:
    (point,) = (point for point in report.points if point.at == "peak")
    return point.ranks[0]


def in_mib(*counts: int | None) -> list[float]:
    return [round((count or 0) / MIB, 1) for count in counts]


def test_autocast_makes_a_small_model_ask_for_more(shared: Path) -> None:
    report = diff(*paths(shared, SMALL), measure="requested", by="category")
    found = peak(report)
    assert in_mib(found.base_total_bytes, found.head_total_bytes, found.delta_bytes) == [531.0, 743.7, 212.7]
    assert sum(row.delta_bytes for row in found.rows) == found.delta_bytes
    # neither recording has its start: the runs are not judged, and the recordings are explained all the same
    assert (
        "and not compared. Of what is recorded, the highest of pair-small-bf16 is 212.66 MiB higher" in report.verdict
    )
    text = "\n".join("".join(span.text for span in spans) for spans in diff_lines(report, 100))
    assert (
        "why, at the peak of the run, as far as it is recorded, by category, in requested bytes: +222,994,432" in text
    )
    assert "both recordings begin in the middle" in text


def test_what_is_requested_is_told_beside_what_is_allocated(shared: Path) -> None:
    report = diff(*paths(shared, SMALL))
    (rank,) = report.ranks
    assert in_mib(rank.peak.base.requested_bytes, rank.peak.head.requested_bytes) == [531.0, 743.7]
    text = "\n".join("".join(span.text for span in spans) for spans in diff_lines(report, 100))
    assert "requested   peak ≥ 531.05 MiB → ≥ 743.71 MiB\n" in text
    found = peak(report)
    requested = sum(row.head_requested_bytes - row.base_requested_bytes for row in found.rows)
    assert requested / MIB == pytest.approx(212.66, abs=0.01)
    assert in_mib(found.delta_bytes) == [243.0]


def test_and_a_large_one_for_less(shared: Path) -> None:
    report = diff(*paths(shared, XL), measure="requested")
    found = peak(report)
    assert in_mib(found.base_total_bytes, found.head_total_bytes) == [40_566.9, 37_578.6]
    assert sum(row.delta_bytes for row in found.rows) == found.delta_bytes
    assert "of pair-xl-bf16-expandable is 2.92 GiB lower in requested bytes" in report.verdict


@pytest.mark.parametrize("pair", [SMALL, XL], ids="-".join)
def test_every_stack_of_the_plain_run_is_found_under_autocast(pair: tuple[str, str], shared: Path) -> None:
    facts = [load_run(file).ranks[0].facts() for file in paths(shared, pair)]
    stacks = JointStacks(*(one.frames for one in facts))
    base, head = (stacks.ids(side, one.replay.allocations.stack) for side, one in enumerate(facts))
    # without the table of plumbing a quarter of them is not
    assert np.isin(base, head).all()
    # what only autocast makes stays a stack of its own
    assert not np.isin(head, base).all()
