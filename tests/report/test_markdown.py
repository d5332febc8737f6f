"""The comment of a pull request: what it says, that it fits, and that no name in it is more than text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from snapviz.analyze.run import RankFailure
from snapviz.compare.diff import diff
from snapviz.errors import UsageError
from snapviz.report.blocks import Paragraph, Table, code, prose
from snapviz.report.difftext import diff_lines
from snapviz.report.layout import Column, Span, clean
from snapviz.report.markdown import check_marker, marker_line, to_markdown
from snapviz.report.markdownout import LIMIT, Writer, inline, length
from snapviz.schema import DiffReport
from tests.analyze.builders import run_of, sample
from tests.compare.jobs import job
from tests.compare.recorded import sharded
from tests.report.hostile import TEXTS, hostile
from tests.report.parsed import check_markdown, parsed

PAIRS = [
    ("thunder_478/main", "thunder_478/pr"),
    ("fsdp2_after", "fsdp2_before_notfixed"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_samples(pair: tuple[str, str], snapshot: SnapshotAssertion) -> None:
    text = to_markdown(diff(sample(pair[0]), sample(pair[1])))
    assert text == snapshot
    check_markdown(text)


def test_ranks_that_differ_are_told_one_by_one() -> None:
    text = to_markdown(diff(sample("uneven_ranks"), sample("fsdp1")))
    check_markdown(text)
    assert "| phase (rank 0) |" in text
    assert "| rank 0 (worst) | 211.11 MiB | 259.14 MiB | +48.04 MiB |\n| rank 1 |" in text
    assert "<summary>phases of rank 1</summary>" in text
    assert "#### why, at the end of the run, rank 0 (worst of 2): +50,368,512 bytes" in text


def test_the_marker_is_the_first_line_and_has_a_name() -> None:
    report = diff(sharded(name="a"), sharded(leak=True, name="b"))
    assert to_markdown(report).startswith("<!-- snapviz:diff -->\n### snapviz: `a` → `b`\n\n")
    assert to_markdown(report, marker="fsdp-8").splitlines()[0] == marker_line("fsdp-8") == "<!-- snapviz:fsdp-8 -->"


@pytest.mark.parametrize("name", ["", "a b", "a--b", "-a", "a-", "-->", "a>", "a\n", "ä", "x" * 65])
def test_a_marker_that_could_end_its_comment_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="marker"):
        check_marker(name)
    with pytest.raises(UsageError, match="marker"):
        to_markdown(diff(sharded(), sharded()), marker=name)


def test_nothing_that_did_not_change_takes_up_room() -> None:
    text = to_markdown(diff(run_of(job(), name="a"), run_of(job(), name="b")))
    told = text[: text.index("<details>")]
    assert "in the same allocations." in told
    assert "|" not in told
    assert "why" not in told


def test_what_is_not_certain_stands_above_the_tables() -> None:
    failures = (RankFailure(1, "rank1.pickle", "truncated"),)
    report = diff(run_of(job(), name="main"), run_of(job(leak=1), name="pr", failures=failures))
    text = to_markdown(report.model_copy(update={"caveats": ("main: its oldest events are gone",)}))
    caution = text.index("> [!CAUTION]\n> - pr: rank 1 is not in these numbers: truncated\n")
    assert 0 < caution < text.index("> [!NOTE]\n> - main: its oldest events are gone\n") < text.index("| phase")


def test_every_row_is_there_once_and_the_categories_sum() -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"))
    text = to_markdown(report)
    assert "#### why, at the end of the run: +302,235,136 bytes" in text
    every = text[text.index("<summary>all 309 rows") :]
    assert len(re.findall(r"^\| [▲▼]", every[: every.index("</details>")], re.MULTILINE)) == 3
    # what the first table has all of is not told again
    assert "<summary>all 1 row" not in to_markdown(diff(sample("main"), sample("pr")))


# ------------------------------------------------------------------ what a name may not do


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_no_text_of_a_file_is_more_than_text(text: str) -> None:
    report = hostile(text)
    page = to_markdown(report)
    names = check_markdown(page)
    assert page.splitlines()[0] == "<!-- snapviz:diff -->"
    # and it is still there, as it was
    if clean(text).strip() == clean(text) and len(text) < 200:
        assert f"{clean(text)}20" in names


def test_hostile_names_as_they_are_written(snapshot: SnapshotAssertion) -> None:
    text = "a|`b` <script>@octocat #1 [x](https://evil.example) -->"
    assert to_markdown(hostile(text), top=3) == snapshot


@given(text=st.text(max_size=30) | st.text("`|<>@#[]()!*_~$:\\-. \n1aG", max_size=30))
@settings(max_examples=300)
def test_any_text_as_a_name_and_in_a_sentence(text: str) -> None:
    table = Table("", (Column("", number=False),), (([code(text)],), (prose(text),)))
    for block in (Paragraph([code(text)]), Paragraph(prose(text)), table):
        writer = Writer(LIMIT, marker_line())
        assert writer.write(block)
        check_markdown(writer.text())
    (token,) = [one for one in parsed(inline([code(text), Span(".")])) if one.type == "inline"]
    shown = "".join(child.content for child in token.children or [] if child.type != "html_inline")
    if clean(text).strip():
        assert shown == f"{clean(text)}."


@given(text=st.text("`|<>@#[]()!*_~$:\\-. \n1aGé4", max_size=60))
@settings(max_examples=300)
def test_prose_loses_no_letter(text: str) -> None:
    assert "".join(span.text for span in prose(text)) == clean(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kept by m['p1'] ← model (train.py:47).", "kept by `m['p1']` ← model (`train.py:47`)."),
        ("main peaks 4.00 MiB higher: 1024×1024", "main peaks 4.00 MiB higher: 1024×1024"),
        ("torch's fake group, 0-7 and +328.03", "torch's fake group, 0-7 and +328.03"),
        ("see https://x.y or www.x.y, e.g. a@b.c", "see `https://x.y` or `www.x.y`, `e.g`. `a@b.c`"),
        ("GH-12 gh-1 #1 @x :x: f(x)", "`GH-12` `gh-1` `#1` `@x` `:x`: `f(x)`"),
    ],
)
def test_names_in_a_sentence_are_code(text: str, shown: str) -> None:
    assert inline(prose(text)) == shown


# ------------------------------------------------------------------ the limit


def large(phases: int = 400) -> DiffReport:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"))
    (row,) = [r for r in report.phases if r.phase == "shard"]
    more = [row.model_copy(update={"phase": f"train/step{n}/{'x' * 100}"}) for n in range(phases)]
    (end, peak), letters = report.points, "abcdefghijklmnopqrstuvwxyz"
    (rank,) = end.ranks
    rows = [
        row.model_copy(update={"owner": f"{one}{other}.{row.owner}"})
        for one in letters
        for other in letters[:6]
        for row in rank.rows[:10]
    ]
    end = end.model_copy(update={"ranks": (rank.model_copy(update={"rows": tuple(rows)}),)})
    return report.model_copy(update={"phases": (*report.phases, *more), "points": (end, peak)})


@pytest.mark.parametrize("limit", [LIMIT, 30_000, 10_000, 5_000, 2_001])
def test_a_large_report_is_cut_between_rows_and_says_so(limit: int) -> None:
    text = to_markdown(large(), limit=limit, top=200)
    assert length(text) <= limit
    assert text.endswith("`--format html` and `json` have all.\n")
    check_markdown(text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        heading, rule, *rows = table.splitlines()
        assert rows
        assert {row.count("|") - row.count("\\|") for row in (heading, rule, *rows)} == {heading.count("|")}


def test_what_fits_is_not_cut() -> None:
    text = to_markdown(diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed")))
    assert len(text) < LIMIT // 2
    assert "Cut here" not in text


@given(limit=st.integers(2_000, 30_000))
@settings(max_examples=40)
def test_any_limit_holds_and_leaves_nothing_open(limit: int) -> None:
    text = to_markdown(hostile("x|`y` 𝒳"), limit=limit)
    assert length(text) <= limit
    check_markdown(text)


def test_a_page_of_nothing_but_caveats_still_fits() -> None:
    report = hostile("c").model_copy(update={"caveats": tuple(f"{number} {'w ' * 240}" for number in range(900))})
    text = to_markdown(report)
    assert length(text) <= LIMIT
    assert "Cut here" in text


def test_characters_are_counted_as_a_browser_does() -> None:
    assert length("a→𝒳") == 4


# ------------------------------------------------------------------ other views of the rows

VIEWS = [
    {"by": "category"},
    {"by": "owner", "mode": "ratio"},
    {"by": "phase", "mode": "absolute"},
    {"by": "rank"},
    {"by": "stack", "measure": "requested"},
    {"mode": "absolute", "measure": "reserved"},
    {"threshold": "10%"},
]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_every_view_has_the_rows_of_the_text_report(view: dict[str, str]) -> None:
    report = diff(sample("uneven_ranks"), sample("fsdp1"), **view)
    text = to_markdown(report)
    check_markdown(text)
    shown = "".join(span.text for spans in diff_lines(report, 200) for span in spans)
    told = text[: text.index("<details>")]
    title = next(line for line in told.splitlines() if line.startswith("#### "))
    assert re.sub("[`#\\\\]", "", title).strip() in shown
    for amount in re.findall(r"[+-][\d.]+ [KMG]iB", told):
        assert amount in shown


def test_by_category_what_dangles_has_a_row_with_its_keeper() -> None:
    text = to_markdown(diff(sample("thunder_478/main"), sample("thunder_478/pr"), by="category"))
    assert "| category | main | pr | Δ | besides |\n" in text
    assert "| `dangling parameter` | – | 4.00 MiB | ▲ +4.00 MiB | only in head · 1 block |\n" in text
    assert "- `dangling parameter` **kept by** `Model._parameters['p1']` ← " in text
    assert "| total | 6.00 MiB | 10.00 MiB | ▲ +4.00 MiB |" in text
