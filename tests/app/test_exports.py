"""Charts as images and pages as files, in a real browser: what comes out is harmless, whole, and asks nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dash_ag_grid as dag
import pytest
from dash import html

from snapviz.app import controls, create_app
from snapviz.app.pages import compare
from tests.app.tabs import Tab, served

ROOT = Path(__file__).resolve().parents[2]
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp; p1"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FIGURE = {
    "data": [{"type": "scatter", "x": [0, 1, 2], "y": [1, 3, 2], "name": MARKUP, "showlegend": True}],
    "layout": {
        "xaxis": {"title": {"text": "µs since start"}},
        "images": [{"source": PIXEL, "xref": "paper", "yref": "paper", "x": 0, "y": 1, "sizex": 1, "sizey": 1}],
    },
}


def everything(*_: Any) -> Any:
    """A page with one of all there is, its names hostile."""
    return html.Div(
        [
            html.H1(f"p1 stays whole {MARKUP}", id="title", title=MARKUP),
            html.Div([html.Button("Zoom", className="tool")], className="controls no-print"),
            html.A(MARKUP, href="/nowhere", className="bad"),
            html.Div("hidden words", style={"display": "none"}),
            controls.chart("curve", f"Allocated {MARKUP}", FIGURE, controls.table("Points", ["x", "y"], [[0, MARKUP]])),
            dag.AgGrid(
                id="grid",
                columnDefs=[{"field": "name", "headerName": "Name"}, {"field": "bytes"}],
                rowData=[{"name": f"{MARKUP}{i}", "bytes": i} for i in range(300)],
            ),
        ]
    )


@pytest.fixture
def tab(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tab]:
    monkeypatch.setattr(compare, "layout", everything)
    monkeypatch.setattr(compare, "register", lambda *_: None)
    app = create_app(ROOT / "sample_snapshots", cache_dir=tmp_path / "cache")
    with served(app) as base:
        yield Tab(chromium, base, color_scheme="dark")


def opened(tab: Tab) -> Any:
    page = tab.open("/?base=thunder_478/main&head=thunder_478/pr&q=%3Cb%3Ex", ".ag-cell")
    page.wait_for_selector("#curve .main-svg")
    return page


def saved(page: Any, selector: str, tmp: Path) -> tuple[str, Path]:
    with page.expect_download() as download:
        page.locator(selector).click()
    path = tmp / "saved"
    download.value.save_as(path)
    return str(download.value.suggested_filename), path


def test_a_chart_as_svg(tab: Tab, tmp_path: Path) -> None:
    name, path = saved(opened(tab), ".export-svg", tmp_path)
    text = path.read_text("utf-8")
    assert re.fullmatch(r"snapviz-[A-Za-z0-9._-]+\.svg", name)
    assert text.startswith("<svg")
    assert "thunder_478/main → thunder_478/pr" in text
    assert "rgb(255, 255, 255)" in text, "on white, also where the page is dark"
    assert "<script" not in text
    assert "&#60;img src=x onerror=alert(1)" in text, "the name is text"
    assert tab.complaints == []


def test_a_chart_as_png(tab: Tab, tmp_path: Path) -> None:
    from PIL import Image

    name, path = saved(opened(tab), ".export-png", tmp_path)
    with Image.open(path) as image:
        assert name.endswith(".png")
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        assert image.width > 1000
    assert tab.complaints == []


def test_a_page_as_a_file(tab: Tab, chromium: Any, tmp_path: Path) -> None:
    page = opened(tab)
    page.evaluate("document.querySelector('a.bad').setAttribute('href', 'javascript:alert(3)')")
    name, path = saved(page, "#export-html", tmp_path)
    text = path.read_text("utf-8")
    assert re.fullmatch(r"snapviz-compare-[A-Za-z0-9._-]+\.html", name)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    for forbidden in (
        "<script",
        "javascript:",
        '<img src="x"',
        'onerror="',
        "<link",
        "<iframe",
        "http://127.0.0.1",
        "<button",
    ):
        assert forbidden not in text, forbidden
    assert "hidden words" not in text
    assert "300 rows" in text
    assert f"{re.escape('alert(2)')}" in re.escape(text), "names are there, as text"
    assert "/?base=thunder_478/main&amp;head=thunder_478/pr" in text
    assert PIXEL[:60] in text
    assert len(text) < 1 << 20
    seen = Tab(chromium, f"file://{path.parent}")
    path.rename(path.with_name("saved.html"))
    page = seen.open("/saved.html", "svg.drawing")
    assert page.locator("svg.drawing").bounding_box()["width"] > 300
    ends = [page.locator(each).bounding_box() for each in ("main table >> nth=1", "footer")]
    assert ends[0]["y"] + ends[0]["height"] <= ends[1]["y"], "nothing runs over what follows it"
    assert page.locator("h1").inner_text() == f"p1 stays whole {MARKUP}"
    assert page.locator("main tr").count() == 302 + 1
    assert page.locator("details[open] table").is_visible()
    assert page.evaluate("document.scripts.length") == 0
    assert seen.complaints == []
    page.screenshot(path=str(tmp_path / "page.png"), full_page=True)


def test_on_paper_all_is_unfolded_and_nothing_can_be_clicked(tab: Tab) -> None:
    page = opened(tab)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details[open]").count() == 1
    assert page.locator("table.print-only tr").count() == 301
    assert not page.locator("#nav").is_visible()
    assert not page.locator(".controls").first.is_visible()
    assert not page.locator(".ag-root-wrapper").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("h1").evaluate("e => getComputedStyle(e).color") == "rgb(0, 0, 0)"
    assert page.pdf(format="A4")[:4] == b"%PDF"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.locator("table.print-only").count() == 0
    assert tab.complaints == []
