"""snapviz peak as people read it."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.peak import Ask, peak
from snapviz.report.layout import width_of
from snapviz.report.peaktext import peak_lines
from snapviz.schema import PeakReport
from tests.analyze.builders import Trace, frame, record, run_of
from tests.test_sample_runs import sample


def text_of(report: PeakReport, width: int, top: int = 10) -> str:
    lines = ("".join(span.text for span in spans).rstrip() for spans in peak_lines(report, width, top))
    return "\n".join(["", *lines, ""])


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("fsdp2_before_notfixed", Ask(without=("dangling",))),
        ("accelerate_fsdp2_8/accelerate", Ask(at="phase:train/step", by="owner")),
        ("uneven_ranks", Ask(by="stack")),
        ("thunder_478/pr", Ask(at="end", by="phase")),
    ],
    ids=["without", "owner", "stack", "phase"],
)
def test_reports(name: str, ask: Ask, width: int, snapshot: SnapshotAssertion) -> None:
    text = text_of(peak(sample(name), ask), width)
    assert text == snapshot
    assert max(map(width_of, text.splitlines())) <= width


def test_names_of_a_file_move_no_cursor_and_break_no_line() -> None:
    trace = Trace()
    trace.alloc(20, frame("f\x1b[2J\n", "/w/\u202ex.py"))
    text = text_of(peak(run_of(trace, name="a\x1b[31m\nb"), Ask(by="stack")), 80)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_an_empty_run_says_so() -> None:
    text = text_of(peak(run_of(Trace()), Ask()), 80)
    assert "0 bytes allocated" in text


def test_a_table_of_many_phases_keeps_those_that_save_most() -> None:
    trace, phases = Trace(), []
    for number in range(100):
        start = trace.tick()
        trace.free(trace.alloc(20 + 2 * (number % 7), frame("f")))
        phases.append((f"part{chr(97 + number % 26)}{chr(97 + number // 26)}", start, trace.tick()))
    report = peak(run_of(trace, records=[record(phases)]), Ask(without=("stack:^f ",)))
    text = text_of(report, 100)
    assert "41 more phases: --format json has them" in text
    assert len(report.ranks[0].without) == 101
    assert text.count("-32.00 MiB") == sum(one.saved_bytes == 32 << 20 for one in report.ranks[0].without)
