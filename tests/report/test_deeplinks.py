"""Links from a page into the dashboard: what they show is what the dashboard reads."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from snapviz.app.state import State
from snapviz.cli.main import main
from snapviz.compare.diff import diff
from snapviz.compare.rowkeys import row_keys
from snapviz.errors import UsageError
from snapviz.report.blocks import Link
from snapviz.report.deeplinks import Dashboard, linked_verdict, run_id, ways_in
from snapviz.report.html import to_html
from snapviz.report.markdown import to_markdown
from snapviz.schema import DiffReport
from tests.analyze.builders import MIB, SAMPLES, sample
from tests.compare.recorded import sharded
from tests.report.hostile import TEXTS, hostile
from tests.report.parsed import Page, check_markdown, parsed

MAIN, PR = str(SAMPLES / "thunder_478" / "main"), str(SAMPLES / "thunder_478" / "pr")
URL = "https://memory.example.org/snapviz"
OURS = re.compile(r"\[(`[^`]*`|<code>.*?</code>|(?:[^\[\]]|\\.)*)\]\(" + re.escape(URL) + r"[^)]*\)")
"""A link into the dashboard."""
DASHBOARD = Dashboard(URL, "thunder_478/main", "thunder_478/pr")


@pytest.fixture(scope="module")
def thunder() -> DiffReport:
    return diff(sample("thunder_478/main"), sample("thunder_478/pr"))


def links(markdown: str) -> list[str]:
    inline = [child for token in parsed(markdown) for child in token.children or []]
    return [str(child.attrs["href"]) for child in inline if child.type == "link_open"]


def state_of(url: str) -> State:
    parts = urlsplit(url)
    assert url.startswith(f"{URL}/")
    return State.from_url(parts.path.removeprefix("/snapviz"), parts.query)


def test_every_link_is_what_the_dashboard_itself_would_write(thunder: DiffReport) -> None:
    found = links(to_markdown(thunder, href=DASHBOARD.href))
    assert len(found) > 8
    for url in found:
        state = state_of(url)
        assert (state.base, state.head) == ("thunder_478/main", "thunder_478/pr")
        assert state.url(URL) == url


def test_the_verdict_leads_to_the_moment_and_to_the_row(thunder: DiffReport) -> None:
    found = [span for span in linked_verdict(thunder, DASHBOARD.href).text if isinstance(span, Link)]
    (key,) = row_keys(thunder.points[0].ranks[0].rows)
    assert [(span.text, span.count, state_of(span.url).at, state_of(span.url).row) for span in found] == [
        ("4.00 MiB", 4 * MIB, "end", ""),
        ("p1", None, "", key),
        ("4.00 MiB", 4 * MIB, "", key),
    ]
    assert "".join(span.text for span in linked_verdict(thunder, DASHBOARD.href).text) == thunder.verdict


def test_what_many_rows_hold_leads_to_the_step_of_their_category() -> None:
    names = ("torch_optimizer_after_fsdp", "torch_optimizer_before_fsdp_not_fixed")
    report = diff(*(sample(f"accelerate_fsdp2_2/{name}") for name in names))
    found = [span for span in linked_verdict(report, DASHBOARD.href).text if isinstance(span, Link)]
    shown = [(span.text, state_of(span.url).at, state_of(span.url).name) for span in found if span.style != "code"]
    assert shown == [
        ("2.50 MiB", "end", ""),
        ("443.50 MiB", "peak", ""),
        ("2.27 GiB", "end", "optimizer state"),
        ("2.26 GiB", "end", "dangling parameter"),
    ]
    assert [span.text for span in found if span.style == "code"] == [
        "model.embed_tokens.weight",
        "model.layers.0.mlp.down_proj.weight",
    ]


def test_phases_and_reasons_lead_to_themselves(thunder: DiffReport) -> None:
    states = [state_of(url) for url in links(to_markdown(thunder, href=DASHBOARD.href))]
    assert {"phase:shard:peak", "phase:train/step0/forward:peak"} <= {state.at for state in states}
    (key,) = row_keys(thunder.points[0].ranks[0].rows)
    assert ("end", key) in {(state.at, state.row) for state in states}
    assert {"timeline", "live", "ranks", "dangling"} <= {state.page for state in states}


def test_without_a_dashboard_a_page_is_as_it_was(thunder: DiffReport) -> None:
    plain = to_markdown(thunder)
    assert links(plain) == []
    linked = to_markdown(thunder, href=DASHBOARD.href).replace(to_line(thunder), "")
    # a parameter that is called by a word is code once it is a link
    assert OURS.sub(r"\1", linked).replace("parameter `p1`", "parameter p1", 1) == plain
    assert "<a href" not in re.sub(r'<a href="#', "", to_html(thunder))


def to_line(report: DiffReport) -> str:
    """The line of ways in, as the page has it."""
    page = to_markdown(report, href=DASHBOARD.href)
    return next(line for line in page.splitlines() if line.startswith("in the dashboard")) + "\n\n"


def test_html_has_the_same_links(thunder: DiffReport) -> None:
    page = Page(to_html(thunder, href=DASHBOARD.href))
    found = {known["href"] for tag, known in page.tags if tag == "a" and not str(known["href"]).startswith("#")}
    assert found <= set(links(to_markdown(thunder, href=DASHBOARD.href)))
    assert len(found) > 8


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_no_text_of_a_file_gets_into_a_link(text: str) -> None:
    page = to_markdown(hostile(text), href=DASHBOARD.href)
    for url in links(page):
        assert state_of(url).base == "thunder_478/main"
        assert not set(url) & set(" <>()\"'`|\\")
    check_markdown(OURS.sub(r"\1", page))


def test_names_that_rows_do_not_tell_lead_to_what_dangles() -> None:
    report = diff(sharded(name="a"), sharded(leak=True, name="b"), by="rank")
    (link,) = [one for one in linked_verdict(report, DASHBOARD.href).text if getattr(one, "style", "") == "code"]
    assert isinstance(link, Link)
    assert (state_of(link.url).page, state_of(link.url).name) == ("dangling", "norm.bias")


def test_what_is_the_same_has_ways_in_and_no_more() -> None:
    report = diff(sample("thunder_478/main"), sample("thunder_478/main"))
    assert not any(isinstance(span, Link) for span in linked_verdict(report, DASHBOARD.href).text)
    (line,) = ways_in(report, DASHBOARD.href)
    assert [span.text for span in line.text if isinstance(span, Link)] == [  # type: ignore[union-attr]
        "compare",
        "timeline",
        "what is live",
        "ranks",
    ]


# ------------------------------------------------------------------ what a dashboard is, and what it calls a run


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "//host", "http://", "http://a/?x=1", "http://a/(b)", "http://a b", "http://a/#x", ""],
)
def test_what_is_no_place_of_a_dashboard(url: str) -> None:
    with pytest.raises(UsageError, match="--dashboard"):
        Dashboard(url, "a", "b")


@pytest.mark.parametrize(
    ("path", "root", "found"),
    [
        ("runs/a/main", "runs", "a/main"),
        ("runs/a/main/", "./runs/", "a/main"),
        ("runs/snap.pickle", "runs", "snap.pickle"),
        ("runs", "runs", "runs"),
        ("s3://bucket/runs/a", "s3://bucket/runs/", "a"),
        ("s3://bucket/runs", "s3://bucket/runs", "runs"),
    ],
)
def test_a_run_is_called_by_where_it_lies(
    path: str, root: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_id(path, root) == found


@pytest.mark.parametrize(
    ("path", "root"),
    [("elsewhere/a", "runs"), ("runs-2/a", "runs"), ("s3://bucket/runs-2/a", "s3://bucket/runs"), ("s3://b/a", ".")],
)
def test_a_run_elsewhere_is_refused(path: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--dashboard-root"):
        run_id(path, root)


def test_the_ids_are_those_of_the_registry(tmp_path: Path) -> None:
    from snapviz.app.runs import Registry

    for name in ("thunder_478/main", "leak"):
        entry = Registry(str(SAMPLES)).get(name)
        assert run_id(entry.path, str(SAMPLES)) == entry.id
    (alone,) = Registry(MAIN).all()
    assert run_id(alone.path, MAIN) == alone.id


# ------------------------------------------------------------------ the command


def test_the_command_links_where_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["diff", MAIN, PR, "--format", "markdown", "-q", "--dashboard", URL, "--dashboard-root", str(SAMPLES)]
    assert main([*command, "--rank", "1", "--by", "owner", "--threshold", "1%"]) == 0
    states = [state_of(url) for url in links(capsys.readouterr().out)]
    assert states
    for state in states:
        assert (state.base, state.rank, state.by, state.mode, state.threshold) == (
            "thunder_478/main", 1, "owner", "delta", "1%",
        )  # fmt: skip


def test_the_environment_says_it_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPVIZ_DASHBOARD", URL)
    monkeypatch.setenv("SNAPVIZ_DASHBOARD_ROOT", str(SAMPLES))
    assert main(["diff", MAIN, PR, "--format", "html", "-q"]) == 0
    assert f'href="{URL}/?base=thunder_478/main&amp;head=thunder_478/pr' in capsys.readouterr().out
    # what is no page has no links, and is not in the way
    assert main(["diff", MAIN, PR, "--format", "text", "-q"]) == 0
    assert URL not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--format", "json", "--dashboard", URL], "use it with --format markdown or html"),
        (["--format", "markdown", "--dashboard", "nowhere"], "use where it is served"),
        (["--format", "markdown", "--dashboard", URL, "--dashboard-root", "/does/not/exist"], "is not in"),
    ],
)
def test_what_cannot_be_linked_is_said_first(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", MAIN, PR, *argv]) == 2
    assert words in capsys.readouterr().err
