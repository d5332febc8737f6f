"""The page: whole by itself, balanced, exact, and nothing in it that a file wrote but text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.analyze.timeline import Timeline, timeline
from snapviz.compare.diff import diff
from snapviz.report.blocks import Paragraph, code, prose
from snapviz.report.html import to_html
from snapviz.report.htmlout import element
from snapviz.report.htmlsvg import bars, waterfall
from snapviz.report.layout import clean
from snapviz.schema import DiffReport
from snapviz.units import format_bytes, format_exact
from tests.analyze.builders import run_of, sample
from tests.compare.jobs import job
from tests.compare.recorded import sharded
from tests.report.hostile import TEXTS, hostile
from tests.report.parsed import Page

PAIRS = [
    ("thunder_478/main", "thunder_478/pr"),
    ("fsdp2_after", "fsdp2_before_notfixed"),
    ("uneven_ranks", "fsdp1"),
    ("single", "cuda_graph"),
]
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "section", "a"),
    *("h1", "h2", "h3", "p", "ul", "ol", "li", "div", "details", "summary", "figure", "figcaption", "code", "strong"),
    *("span", "data", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line", "path", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "value", "title", "scope", "tabindex"),
    *("role", "aria-label", "aria-labelledby", "aria-hidden", "viewbox", "width", "height"),
    *("x", "y", "x1", "x2", "y1", "y2", "d"),
}


def timelines(pair: tuple[str, str], rank: int = 0) -> tuple[Timeline, Timeline]:
    one, other = (timeline(name, sample(name).rank(rank).facts()) for name in pair)
    return one, other


def page_of(pair: tuple[str, str]) -> tuple[DiffReport, str]:
    report = diff(sample(pair[0]), sample(pair[1]))
    return report, to_html(report, timelines(pair))


def check(text: str) -> Page:
    """Asserts what must hold of every page."""
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= ELEMENTS
    assert {name for _, known in page.tags for name in known} <= ATTRIBUTES
    ids = [known["id"] for _, known in page.tags if "id" in known]
    assert len(set(ids)) == len(ids)
    for tag, known in page.tags:
        for target in (known[name] for name in ("href", "src", "aria-labelledby") if name in known):
            assert target is not None
            assert target.removeprefix("#") in ids, (tag, target)
        if tag == "svg":
            assert known.get("aria-hidden") == "true" or (known["role"] == "img" and known["aria-label"])
    for value, shown in page.data:
        bare = re.sub(r"^[▲▼≥~] ", "", shown)
        assert bare in (format_bytes(value), format_bytes(value, signed=True)), (value, shown)
    exact = [(int(known["value"] or ""), known["title"]) for tag, known in page.tags if tag == "data"]
    assert all(title == format_exact(value) for value, title in exact)
    return page


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_samples_make_a_whole_page(pair: tuple[str, str]) -> None:
    report, text = page_of(pair)
    page = check(text)
    assert clean(report.verdict) in page.text
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == 1
    assert tags.count("caption") == tags.count("table") > 2
    assert text == to_html(report, timelines(pair))


def test_its_policy_allows_its_style_and_nothing_else() -> None:
    _, text = page_of(PAIRS[0])
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert style is not None
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1] == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"https?:|//|url\(|@import|<script|javascript:", text)
    assert " style=" not in text
    assert "prefers-color-scheme: dark" in style[1]
    assert "@media print" in style[1]


@pytest.mark.parametrize("pair", PAIRS[:3], ids="-".join)
def test_every_figure_is_the_reports(pair: tuple[str, str]) -> None:
    report, text = page_of(pair)
    shown = {value for value, _ in check(text).data}
    for point in report.points:
        rank = next(r for r in point.ranks if r.rank == point.worst_rank)
        assert {rank.delta_bytes} <= shown
    first = report.points[0].worst_rank
    changed = [row for row in report.phases if row.rank == first and not row.spans]
    for row in changed:
        for one in (row.base_peak, row.head_peak, row.base_end, row.head_end, row.peak_delta, row.end_delta):
            assert one is None or one.allocated_bytes in shown
    for step in (s for w in report.waterfall if w.rank == first and w.at == "peak" for s in w.steps):
        assert {step.delta_bytes, step.to_bytes} <= shown
    assert {d.block_bytes for d in report.dangling} <= shown
    # and no figure is made up
    assert shown <= figures(report) | {one.allocated.trough_bytes for one in timelines(pair)}


def figures(report: DiffReport) -> set[int]:
    found: set[int] = set()
    document = [report.model_dump()]
    while document:
        one = document.pop()
        if isinstance(one, dict):
            document += [*one.values()]
        elif isinstance(one, (list, tuple)):
            document += one
        elif isinstance(one, int):
            found.add(one)
    return found | sums(report)


def sums(report: DiffReport) -> set[int]:
    """Rows are shown in sums: by category, by name, and what is left."""
    from snapviz.report.diffsaid import told_points
    from snapviz.report.reasons import reasons_of, shares

    found = set()
    told = told_points(report)
    for place, one in enumerate(told):
        listed = set(told[0].rank.rows) if place else set()
        found.add(sum(row.delta_bytes for row in one.rank.rows if row in listed))
        groups = reasons_of([row for row in one.rank.rows if row not in listed])
        for group, room in zip(groups, shares(groups, 10), strict=True):
            found |= {group.all.delta, *(each.delta for each in group.each)}
            found.add(sum(each.delta for each in group.each[room:]))
    return found


def test_what_is_not_there_takes_up_no_room() -> None:
    report = diff(run_of(job(), name="a"), run_of(job(), name="b"))
    page = check(to_html(report))
    assert "Why" not in page.text
    assert "Over time" not in page.text
    assert "What dangles" not in page.text
    assert "in the same allocations." in page.text
    assert "curve" not in str(page.tags)


def test_a_page_without_times_or_ranks() -> None:
    report = diff(sharded(name="a"), sharded(leak=True, name="b"))
    check(to_html(report.model_copy(update={"ranks": (), "phases": (), "points": (), "waterfall": ()})))


def test_the_sizes_stay_small() -> None:
    assert len(page_of(PAIRS[0])[1].encode()) < 40_000
    assert len(page_of(PAIRS[1])[1].encode()) < 150_000


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_no_text_of_a_file_is_more_than_text(text: str) -> None:
    curves = timelines(PAIRS[0])
    named = [replace(one, run=text, bands=tuple(replace(band, name=text) for band in one.bands)) for one in curves]
    page = check(to_html(hostile(text), (named[0], named[1])))
    if clean(text) == text and len(text) < 200:
        assert f"{text}20" in page.text


@given(text=st.text(max_size=40))
@settings(max_examples=200)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    for block in (Paragraph([code(text)]), Paragraph(prose(text))):
        page = Page(element(block))
        assert page.text in (clean(text), "(empty)")
        assert {tag for tag, _ in page.tags} <= {"p", "code"}


# ------------------------------------------------------------------ drawings


def test_bars_are_drawn_against_one_scale() -> None:
    drawn = bars(50, 100, 100)
    assert re.findall(r'class="(\w+)" x="0" y="\d+" width="([\d.]+)"', drawn) == [("base", "60"), ("more", "120")]
    assert 'class="less"' in bars(100, 50, 100)
    assert 'class="same"' in bars(50, 50, 100)
    assert "rect" not in bars(None, 0, 0)


def test_the_waterfall_begins_and_ends_at_the_totals() -> None:
    report = diff(sample("fsdp2_after"), sample("fsdp2_before_notfixed"))
    peak = report.waterfall[1]
    drawn, begins = waterfall(peak, ("a", "b"))
    assert begins == 0
    widths = [
        (kind, float(width)) for kind, width in re.findall(r'class="(base|more|less)" .*?width="([\d.]+)"', drawn)
    ]
    top = max(peak.from_bytes, *(step.to_bytes for step in peak.steps))
    levels = [peak.from_bytes, *(abs(step.delta_bytes) for step in peak.steps), peak.to_bytes]
    assert [kind for kind, _ in widths] == ["base", "more", "less", "more", "more", "base"]
    for (_, width), level in zip(widths, levels, strict=True):
        assert width == pytest.approx(max(1, 400 * level / top), abs=0.1)


def test_small_steps_on_large_totals_have_an_axis_that_says_where_it_begins() -> None:
    report = diff(sample("litgpt_eager_8/main"), sample("litgpt_eager_8/main"))
    large = report.waterfall[1].model_copy(update={"from_bytes": 1 << 40, "to_bytes": (1 << 40) + 64})
    _, begins = waterfall(large, ("a", "b"))
    assert (1 << 40) - 64 < begins < 1 << 40


# ------------------------------------------------------------------ other views of the rows


@pytest.mark.parametrize(
    "view",
    [{"by": "module"}, {"by": "rank", "mode": "ratio"}, {"mode": "absolute", "measure": "reserved"}, {"by": "stack"}],
    ids=str,
)
def test_every_view_makes_a_whole_page(view: dict[str, str]) -> None:
    report = diff(sample("uneven_ranks"), sample("fsdp1"), **view)
    page = check(to_html(report))
    assert "from base to head" in page.text
