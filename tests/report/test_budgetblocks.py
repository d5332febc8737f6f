"""Judged budgets on the pages of a diff."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from snapviz.compare.budgets import judge
from snapviz.compare.diff import diff
from snapviz.compare.spec import parse_budget
from snapviz.report.html import to_html
from snapviz.report.markdown import to_markdown
from snapviz.schema import DiffReport
from tests.analyze.builders import Trace, frame, run_of
from tests.test_sample_runs import sample


def judged(base: str, head: str, *budgets: str) -> DiffReport:
    one, other = sample(base), sample(head)
    specs = [parse_budget(text) for text in budgets]
    return diff(one, other).model_copy(update={"budgets": judge(one, other, specs)})


def test_a_comment_says_which_budget_is_exceeded_before_the_numbers(snapshot: SnapshotAssertion) -> None:
    report = judged("thunder_478/main", "thunder_478/pr", "phase.train.peak:20%", "dangling:0B", "peak:12GiB")
    text = to_markdown(report)
    table = text[text.index("| budgets") : text.index("| phase")]
    assert table == snapshot
    assert text.index("| budgets") < text.index("| phase")


def test_a_page_has_them_too_and_only_where_there_are_any() -> None:
    report = judged("thunder_478/main", "thunder_478/pr", "phase.train.peak:20%", "peak:12GiB")
    page = to_html(report)
    assert "phase.train.peak:20%" in page
    assert "▲ exceeded" in page
    assert "exceeded" not in to_html(report.model_copy(update={"budgets": ()}))
    assert "budgets" not in to_markdown(report.model_copy(update={"budgets": ()}))


def test_what_could_not_be_judged_is_said_and_no_pass() -> None:
    trace = Trace()
    trace.alloc(20, frame("f"))
    run = run_of(trace)
    specs = [parse_budget("dangling:0B")]
    report = diff(run, run).model_copy(update={"budgets": judge(run, run, specs)})
    text = to_markdown(report)
    assert "cannot be judged" in text
    assert "| not judged |" in text
