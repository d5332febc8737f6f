"""Judged budgets as text: golden for the samples, and the sentence of every form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.run import RankFailure
from snapviz.compare.budgets import check, judge
from snapviz.compare.diff import diff
from snapviz.compare.spec import parse_budget
from snapviz.report.budgettext import budget_lines, check_lines, sentences
from snapviz.report.difftext import diff_lines
from snapviz.report.jsonout import to_json
from snapviz.report.layout import width_of
from snapviz.schema import Budget, BudgetRank, CheckReport, DiffReport
from tests.analyze.builders import sample
from tests.compare.recorded import sharded, steps
from tests.report.test_text import text_of

SPECS = (
    "phase.train.peak:5%",
    "phase.train/step.end.reserved:1GiB",
    "peak.category.activation:+0B",
    "dangling:0B",
    "growth:0B",
)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("pair", [("fsdp2_after", "fsdp2_before_notfixed"), ("single", "leak")], ids="-".join)
def test_check_of_the_samples(pair: tuple[str, str], width: int, snapshot: SnapshotAssertion) -> None:
    report = check(sample(pair[1]), [parse_budget(text) for text in SPECS], sample(pair[0]))
    lines = check_lines(report, width)
    assert text_of(lines) == snapshot
    assert max(sum(width_of(span.text) for span in spans) for spans in lines) <= width


def test_budgets_stand_above_the_tables_of_a_diff(snapshot: SnapshotAssertion) -> None:
    base, head = sample("main"), sample("pr")
    report = diff(base, head)
    assert report.budgets == ()
    judged = report.model_copy(update={"budgets": judge(base, head, [parse_budget(text) for text in SPECS[::3]])})
    text = text_of(diff_lines(judged, 100))
    assert text[: text.index("\nwhy")] == snapshot
    assert DiffReport.model_validate_json(to_json(judged)) == judged
    assert "budgets" not in text_of(diff_lines(report, 100))


def budget(spec: str, *ranks: BudgetRank) -> Budget:
    parsed = parse_budget(spec)
    hit = [one for one in ranks if one.state == "hit"]
    return Budget(
        spec=spec,
        figure=parsed.figure,
        phase=parsed.phase,
        measure=parsed.measure,
        category=parsed.category,
        bound=str(parsed.bound),
        relative=parsed.bound.relative,
        state="hit" if hit else "not judged",
        worst_rank=hit[0].rank if hit else None,
        ranks=ranks,
    )


def rank(number: int | None, head: int, limit: int, base: int | None = None, **rest: object) -> BudgetRank:
    known = {
        "rank": number,
        "state": "hit",
        "base_bytes": base,
        "base_at_least": False,
        "head_bytes": head,
        "head_at_least": False,
        "inferred": False,
        "limit_bytes": limit,
        "over_bytes": head - limit,
        "why": "",
    }
    return BudgetRank.model_validate(known | rest)


GIB = 1 << 30
PEAK = 14_173_392_077
"""13.2 GiB and a part of a byte."""


@pytest.mark.parametrize(
    ("spec", "ranks", "words"),
    [
        (
            "phase.train.peak:12GiB",
            [rank(3, PEAK, 12 * GIB), rank(1, 12 * GIB + 1, 12 * GIB)],
            [
                "Phase 'train' peaked at 13.2 GiB on rank 3, limit 12.0 GiB (+1.2 GiB)",
                "  14,173,392,077 bytes, limit 12,884,901,888 bytes",
                "  also above the limit: rank 1",
            ],
        ),
        (
            "phase.train.peak.reserved:12GiB",
            [rank(3, 12 * GIB + 1, 12 * GIB, head_at_least=True)],
            [
                "Phase 'train' peaked at at least 12.0 GiB reserved on rank 3, limit 12.0 GiB (+1 B)",
                "  12,884,901,889 bytes, limit 12,884,901,888 bytes",
            ],
        ),
        (
            "end:5%",
            [rank(0, 2 * GIB, GIB + GIB // 20, GIB)],
            [
                "The run ended at 2.0 GiB on rank 0, limit 1.0 GiB (+972.8 MiB)",
                "  2,147,483,648 bytes, limit 1,127,428,915 bytes: 1,073,741,824 bytes in the baseline, and 5% more",
            ],
        ),
        (
            "dangling:5%",
            [rank(0, 1, 0, 0)],
            [
                "Dangling parameters hold 1 B on rank 0, limit 0 B (+1 B)",
                "  1 byte, limit 0 bytes: 0 bytes in the baseline, and any percentage of nothing is nothing",
            ],
        ),
        (
            "category.activation:+0B",
            [rank(0, 2048, 1024, 1024, inferred=True)],
            [
                "The run held 2.0 KiB of activation at the peak on rank 0, limit 1.0 KiB (+1.0 KiB)",
                "  2,048 bytes, limit 1,024 bytes: 1,024 bytes in the baseline, and no more; categories are inferred",
            ],
        ),
        (
            "growth:0B",
            [rank(0, 2048, 0), rank(None, 0, 0, state="not judged", why="2 more ranks are missing")],
            [
                "Every step leaves 2.0 KiB on rank 0, limit 0 B (+2.0 KiB)",
                "  2,048 bytes, limit 0 bytes",
                "growth:0B cannot be judged: 2 more ranks are missing",
            ],
        ),
    ],
)
def test_sentences(spec: str, ranks: list[BudgetRank], words: list[str]) -> None:
    assert "\n".join(sentences(budget(spec, *ranks))).split("\n") == words


def test_more_of_nothing_is_infinitely_more() -> None:
    text = text_of(budget_lines([budget("dangling:5%", rank(0, 4096, 0, 0))], 100))
    assert "0 B → 4.00 KiB (+∞%), limit 0 B (+4.00 KiB)" in text
    text = text_of(budget_lines([budget("peak:5%", rank(2, 3000, 2100, 2000))], 100))
    assert "1.95 KiB → 2.93 KiB (+50.0%) on rank 2, limit 2.05 KiB (+900 B)" in text


def test_every_rank_is_told_where_all_are_asked_for() -> None:
    told = sentences(budget("peak:1KiB", rank(0, 2048, 1024), rank(1, 4096, 1024)), every=True)
    assert [text.split(",")[0] for text in told] == [
        "The run peaked at 4.0 KiB on rank 1",
        "The run peaked at 2.0 KiB on rank 0",
    ]


def test_why_ranks_are_not_judged_is_told_once_for_all_of_them() -> None:
    ranks = [rank(n, 0, 0, state="not judged", why="it is not known") for n in range(12)]
    ranks.append(rank(12, 0, 0, state="not judged", why="\x1b[31mevil"))
    text = text_of(budget_lines([budget("peak:1KiB", *ranks)], 100))
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more: it is not known" in text
    assert "rank 12: \\x1b[31mevil" in text
    many = [rank(n, 0, 0, state="not judged", why=f"reason {n}") for n in range(9)]
    assert "5 more reasons (--format json has all)" in text_of(budget_lines([budget("peak:1KiB", *many)], 100))


def test_what_is_broken_stands_above_the_budgets() -> None:
    head = replace(sharded(leak=True, name="pr"), failures=(RankFailure(1, "rank1.pickle", "cut short"),))
    text = text_of(check_lines(check(head, [parse_budget("dangling:0B")])))
    assert text.index("! rank 1 could not be read: cut short") < text.index("budgets  1 hit")
    assert "rank 1: not judged: pr: rank1.pickle could not be read" in " ".join(text.split())


def test_a_peak_that_is_only_counted_says_so_of_its_owners() -> None:
    head = steps((60, 60), cut=1, counted=True)
    text = text_of(check_lines(check(head, [parse_budget("phase.train/step1.peak:20MiB")])))
    assert "Phase 'train/step1' peaked at 80.0 MiB on rank 0, limit 20.0 MiB (+60.0 MiB)" in text
    assert "live at that peak, rank 0: 41,943,040 bytes, as far as the recording has it" in text


def test_owners_sum_to_the_peak_and_the_report_is_json() -> None:
    report = check(sample("litgpt_eager_2/pr"), [parse_budget("phase.train.peak:1GiB")])
    (one,) = report.culprits
    assert sum(row.live_bytes for row in one.live) == report.budgets[0].ranks[0].head_bytes
    assert CheckReport.model_validate_json(to_json(report)) == report
    lines = text_of(check_lines(report, 100, top=3)).splitlines()
    assert "more owners" in lines[-1]
