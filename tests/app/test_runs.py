"""The page of runs: what is listed, found, sorted and chosen, and what is dropped on it, in Python and in a browser."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash import Dash

from snapviz.app import create_app
from snapviz.app.pages.runs import _Page
from snapviz.app.results import Results
from snapviz.app.runrows import COLUMNS, matching, ordered
from snapviz.app.runs import Registry, RunEntry
from snapviz.app.state import State
from snapviz.app.uploads import UploadLimits
from snapviz.schema import GitState, RunManifest
from tests.app.tabs import Tab, served
from tests.app.test_uploads import MAIN, SAMPLES, a_snapshot


def entry(name: str, **more: Any) -> RunEntry:
    base = RunEntry(name, name, "/place", "run", 1024, 1, "stamp", 1e9)
    return replace(base, **more)


def manifest(**more: Any) -> RunManifest:
    return RunManifest(schema_version=1, name="n", **more)


def results_of(root: Path, tmp: Path) -> Results:
    return Results(Registry(str(root)), tmp / "results")


def listed(entries: list[RunEntry], tmp: Path, **state: Any) -> str:
    results = results_of(SAMPLES, tmp)
    shown = _Page(State(page="runs", **state), "/").listed(results, entries)
    results.close()
    return json.dumps(shown, default=lambda component: component.to_plotly_json())


def order_of(text: str, entries: list[RunEntry]) -> list[str]:
    found = [(text.find(f'"{each.id}"'), each.id) for each in entries]
    return [name for at, name in sorted(found) if at >= 0]


RUNS = [
    entry("b", size_bytes=3, manifest=manifest(git=GitState(commit="abc123456", branch="main", dirty=True))),
    entry("C", size_bytes=1, snapshots=8, manifest=manifest(created="2026-01-02T03:04:05+00:00", world_size=8)),
    entry("a", size_bytes=2, problem="run.json: not JSON"),
]


@pytest.mark.parametrize(
    ("view", "names"),
    [("", ["a", "b", "C"]), ("-name", ["C", "b", "a"]), ("size", ["C", "a", "b"]), ("-size", ["b", "a", "C"]),
     ("-recorded", ["C", "b", "a"]), ("-ranks", ["C", "b", "a"]), ("nonsense", ["a", "b", "C"])],
)  # fmt: skip
def test_sorted(view: str, names: list[str], tmp_path: Path) -> None:
    assert [each.id for each in ordered(RUNS, view)] == names
    assert order_of(listed(RUNS, tmp_path, view=view), RUNS) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [("", "bCa"), ("main", "b"), ("ABC12", "b"), ("2026-01", "C"), ("json", "a"), ("main abc", "b"), ("main x", ""),
     (".*", "")],
)  # fmt: skip
def test_found_by_every_word_and_never_by_a_pattern(text: str, names: str) -> None:
    assert "".join(each.id for each in matching(RUNS, text)) == names


def test_a_run_says_what_is_known_of_it(tmp_path: Path) -> None:
    text = listed(RUNS, tmp_path)
    for words in ("abc1234", "dirty", "8 of 8", "2026-01-02 03:04", "cannot be opened: ", "run.json: not JSON", "3 B"):
        assert words in text
    assert "abc123456" in text, "all of the commit is in its title"


def test_a_column_in_which_nothing_is_known_takes_up_no_room(tmp_path: Path) -> None:
    bare = [entry("x", kind="snapshot"), entry("y", kind="folder", snapshots=3)]
    text = listed(bare, tmp_path)
    assert "Branch" not in text
    assert "torch" not in text
    assert "Branch" in listed(RUNS, tmp_path)


def test_a_choice_is_an_address_and_undoes_itself(tmp_path: Path) -> None:
    text = listed(RUNS, tmp_path, base="b", head="C", rank=3, q="")
    assert '"/runs?base=C&head=C"' in text, "another base, and places in the old one forgotten"
    assert '"/runs?head=C&rank=' not in text
    assert '"/runs?head=C"' in text, "base again is no base"
    assert '"/?head=b"' in text, "the run alone"


def test_a_run_that_leads_outside_cannot_be_chosen(tmp_path: Path) -> None:
    text = listed([entry("out", problem="a link that leads out", refused=True)], tmp_path)
    assert "base=out" not in text
    assert "leads out" in text


def test_many_runs_are_shown_by_the_hundred(tmp_path: Path) -> None:
    many = [entry(f"run{at:05d}") for at in range(5000)]
    first, last = listed(many, tmp_path), listed(many, tmp_path, show="50")
    assert order_of(first, many) == [each.id for each in many[:100]]
    assert order_of(last, many) == [each.id for each in many[-100:]]
    assert "1 to 100 of 5,000" in first
    assert '"/runs?show=2"' in first
    assert order_of(listed(many, tmp_path, show="9999"), many) == order_of(last, many), "no such page: the last"
    assert order_of(listed(many, tmp_path, show="x"), many) == order_of(first, many)
    assert len(first) < 300_000


def test_names_from_files_are_cut_and_harmless(tmp_path: Path) -> None:
    hostile = entry("<b>\x1b[31m\u202e" + "x" * 100_000, manifest=manifest(device="<i>\n" * 1000))
    text = listed([hostile], tmp_path)
    assert "\\u001b" not in text.replace("\\\\", "")
    assert "dangerously" not in text
    assert len(text.replace("x" * 100, "")) < 20_000 + 3 * 100_000  # its address is what it is


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.title)
def test_every_cell_bears_an_entry_of_nothing(column: Any) -> None:
    for each in (
        entry("x"),
        entry("x", manifest=manifest(created="no date")),
        entry("x", changed_s=None, size_bytes=0),
    ):
        cell = column.cell(each)
        assert "None" not in str(cell), cell


def test_a_directory_of_nothing_says_how_to_record(tmp_path: Path) -> None:
    assert "snapviz record" in listed([], tmp_path)


# ------------------------------------------------------------------ in a browser


@pytest.fixture
def app(tmp_path: Path) -> Dash:
    return create_app(SAMPLES, cache_dir=tmp_path / "cache", upload_limits=UploadLimits(file_bytes=1 << 20))


@pytest.fixture
def tab(chromium: Any, app: Dash) -> Iterator[Tab]:
    with served(app) as base:
        yield Tab(chromium, base)


def choose(page: Any, button: str, files: Any) -> None:
    with page.expect_file_chooser() as chooser:
        page.click(button)
    chooser.value.set_files(files)


def test_choosing_and_finding(tab: Tab) -> None:
    page = tab.open("/runs", "#runs-list table")
    page.keyboard.press("/")
    page.keyboard.type("thunder_478")
    page.locator("#runs-list tbody tr").nth(2).wait_for(state="detached")
    assert page.locator("#runs-list tbody tr").count() == 2
    page.locator("#runs-list a.base").first.click()
    page.locator("#runs-list a.base.here").wait_for()
    page.locator("#runs-list a.head").nth(1).click()
    page.get_by_text("Compare them →").click()
    page.locator("#runs-list").wait_for(state="detached")
    assert page.url.endswith("/?base=thunder_478/main&head=thunder_478/pr")
    assert tab.complaints == []


def test_a_new_run_appears_by_itself_or_when_asked(chromium: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with served(create_app(root, cache_dir=tmp_path / "cache")) as base:
        tab = Tab(chromium, base)
        page = tab.open("/runs", "#runs-list pre")
        assert "snapviz record" in page.inner_text("#runs-list")
        (root / "rank00000.pickle.zst").write_bytes(a_snapshot().read_bytes())
        page.locator("#runs-list table").wait_for(timeout=15_000)
        (root / "rank00001.pickle.zst").write_bytes(a_snapshot().read_bytes())
        page.click("#rescan")
        page.locator("#runs-list tbody tr").nth(1).wait_for()
        assert tab.complaints == []


def test_what_is_dropped_is_offered_and_removed(tab: Tab, app: Dash, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "thunder.tar.gz", "w:gz") as archive:
        archive.add(MAIN, arcname="mine")
    page = tab.open("/runs?base=thunder_478/main", "#runs-list table")
    choose(page, "#choose-files", str(tmp_path / "thunder.tar.gz"))
    page.get_by_text("Use as head").click()
    page.locator("#runs-dropped a.head.here").wait_for()
    assert "head=upload:" in page.url
    assert page.inner_text("#runs-chosen").startswith("base thunder_478/main\nhead main")
    page.reload()
    page.locator("#runs-dropped a.head.here").wait_for()
    other = Tab(tab.page.context.browser, tab.base).open("/runs", "#runs-list table")
    assert other.locator("#runs-dropped table").count() == 0, "somebody else sees nothing of it"
    page.click(".forget")
    page.locator("#runs-dropped table").wait_for(state="detached")
    assert "upload" not in page.url
    uploads = app.server.extensions["snapviz_uploads"]
    assert uploads.used_bytes() == 0
    assert tab.complaints == []


def test_a_folder_is_sent_as_it_is(tab: Tab, app: Dash) -> None:
    page = tab.open("/runs", "#runs-list table")
    choose(page, "#choose-folder", str(MAIN.parent))
    page.locator(".drop-buttons").nth(1).wait_for()
    uploads = app.server.extensions["snapviz_uploads"]
    sent = {path.name: path.read_bytes() for path in uploads.path.rglob("*/main/*")}
    assert sent == {path.name: path.read_bytes() for path in MAIN.iterdir()}
    assert tab.complaints == []


def test_what_cannot_be_opened_is_said_in_words(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "<b>bad.pickle").write_bytes(b"\x80\x04rubbish")
    (tmp_path / "large.pickle").write_bytes(bytes((1 << 20) + 1))
    page = tab.open("/runs", "#runs-list table")
    choose(page, "#choose-files", [str(tmp_path / "<b>bad.pickle"), str(tmp_path / "large.pickle")])
    page.locator(".drop-error").nth(1).wait_for()
    cards = page.locator(".drop-card").all_inner_texts()
    assert "<b>bad.pickle" in cards[0]
    assert "at byte" in cards[0]
    assert "takes 1.00 MiB at most" in cards[1]
    assert page.locator(".drop-buttons").count() == 0
    assert len(tab.complaints) == 1, "the one that was refused by the server"


def test_a_drop_on_any_page(tab: Tab) -> None:
    page = tab.open("/?head=thunder_478/main", "#page h1")
    content = list(a_snapshot().read_bytes())
    given = page.evaluate_handle(
        """content => {
          const carried = new DataTransfer();
          carried.items.add(new File([new Uint8Array(content)], "rank00000.pickle.zst"));
          return carried;
        }""",
        content,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": given})
    assert page.locator("#snapviz-veil").is_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": given})
    assert not page.locator("#snapviz-veil").is_visible()
    page.get_by_text("Use as base").click()
    page.wait_for_url("**base=upload:**")
    assert tab.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(chromium: Any, app: Dash, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with served(app) as base:
        tab = Tab(chromium, base, color_scheme=scheme)
        page = tab.open("/runs?base=thunder_478/main&head=thunder_478/pr", "#runs-list table")
        found = [
            (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"][:300])
            for each in axe.run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert found == []
