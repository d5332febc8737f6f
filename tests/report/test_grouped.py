"""The tables of rows, by everything they can be grouped by: golden for the samples, at 80 and at 200 columns."""

from __future__ import annotations

from typing import get_args

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.compare.diff import diff
from snapviz.report.difftext import diff_lines
from snapviz.report.layout import Line, width_of
from snapviz.report.words import ratio
from snapviz.schema import By, DiffReport
from tests.analyze.builders import Trace, frame, run_of, sample
from tests.compare.jobs import job

VIEWS = [
    *({"by": by} for by in get_args(By)),
    {"by": "category", "mode": "absolute"},
    {"mode": "absolute"},
    {"mode": "ratio", "threshold": "10 MiB"},
    {"by": "category", "mode": "ratio"},
    {"by": "owner", "threshold": "5%"},
    {"threshold": "5%"},
    {"by": "category", "measure": "reserved"},
]


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in spans).rstrip() for spans in lines) + "\n"


def why(report: DiffReport, width: int, top: int = 5) -> str:
    lines = diff_lines(report, width, top)
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width
    text = text_of(lines)
    first = min(text.find(f"\n{word}, ") for word in ("why", "what is held") if f"\n{word}, " in text) + 1
    return text[first:].rstrip("\n").partition("\n\n")[0] + "\n"


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: "-".join(view.values()))
def test_views_of_the_samples(view: dict[str, str], width: int, snapshot: SnapshotAssertion) -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"), "end", **view)
    assert why(report, width) == snapshot


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("mode", ["delta", "absolute", "ratio"])
def test_ranks_in_a_table(mode: str, width: int, snapshot: SnapshotAssertion) -> None:
    base = run_of(*(job() for _ in range(5)), name="main")
    head = run_of(*(job(leak=n) for n in (0, 2, 1, 4, 0)), name="pr")
    report = diff(base, head, "end", by="rank", mode=mode)
    assert why(report, width, top=2) == snapshot
    # the table of ranks says the same
    assert text_of(diff_lines(report, width)).count("\nrank 3") == 1


def test_a_rank_that_shrank_is_told_where_the_worst_did_not_change() -> None:
    base, head = run_of(job(leak=1), job(), name="main"), run_of(job(), job(), name="pr")
    assert "rank 0" in why(diff(base, head, "end", by="rank"), 80)


def test_a_point_that_only_some_ranks_can_be_compared_at_names_the_others() -> None:
    objects = job().objects()
    objects["device_traces"][0] = objects["device_traces"][0][6:]
    base, head = run_of(job(), job(), name="main"), run_of(job(leak=1), objects, name="pr")
    assert why(diff(base, head, "peak", by="rank"), 80).endswith("not compared: rank 1\n")


@pytest.mark.parametrize(
    ("base", "head", "text", "style"),
    [
        (1, 2, "×2.00", "more"),
        (4, 1, "×0.25", "less"),
        (3, 3, "×1.00", "faint"),
        (0, 5, "∞", "more"),
        (5, 0, "×0", "less"),
        (0, 0, "–", "faint"),
        (-5, 5, "–", "faint"),
        (1, 12_345, "×12,345.00", "more"),
        (12_345, 1, "×8.1e-05", "less"),
        (1, 1 << 62, "×4,611,686,018,427,387,904.00", "more"),
    ],
)
def test_ratios(base: int, head: int, text: str, style: str) -> None:
    assert (ratio(base, head).text, ratio(base, head).style) == (text, style)


def test_a_name_from_a_file_cannot_write_to_the_terminal() -> None:
    evil = "\x1b[2J[bold]evil\u202e"

    def run(mib: int, name: str):
        trace = Trace()
        trace.mark("START", evil)
        trace.alloc(mib, frame(evil, f"/{evil}.py"))
        trace.mark("END", evil)
        return run_of(trace, name=name)

    for by in (None, *get_args(By)):
        report = diff(run(20, "a"), run(40, "b"), by=by, mode="ratio", threshold="1 B", mask="evil")
        shown = text_of(diff_lines(report, 80))
        assert "\x1b" not in shown
        assert "\u202e" not in shown
