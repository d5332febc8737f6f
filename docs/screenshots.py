#!/usr/bin/env python3
"""Takes the screenshots of docs/dashboard.md anew, over the runs that come with snapviz.

    python docs/screenshots.py [NAME ...]

Needs the dashboard (``pip install -e '.[dev]'``) and chromium (SNAPVIZ_CHROMIUM, or the system's). Each becomes a
PNG of 1400×900 pixels with a palette, in docs/dashboard.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import waitress
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from snapviz.app import create_app
from snapviz.app.state import State

ROOT = Path(__file__).resolve().parents[1]
PLACE = Path(__file__).with_name("dashboard")
SIZE = {"width": 1400, "height": 900}
_CHROMIUM = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")

EAGER = {"base": "litgpt_eager_8/main", "head": "litgpt_eager_8/pr"}
THUNDER = {"base": "thunder_478/main", "head": "thunder_478/pr"}
FSDP2 = {
    "base": "accelerate_fsdp2_8/torch_optimizer_after_fsdp",
    "head": "accelerate_fsdp2_8/torch_optimizer_before_fsdp_not_fixed",
}
TWO = {
    "base": "accelerate_fsdp2_2/torch_optimizer_after_fsdp",
    "head": "accelerate_fsdp2_2/torch_optimizer_before_fsdp_not_fixed",
}


@dataclass(frozen=True)
class Shot:
    """One picture: what is shown, and how."""

    name: str
    state: State
    dark: bool = False
    click: str = ""
    # what is clicked on before
    end: str = ""
    # what is scrolled to until its end is seen


SHOTS = (
    Shot("compare", State(**EAGER)),
    Shot("holders", State(**THUNDER), click=".ag-row"),
    Shot("timeline", State(page="timeline", **FSDP2), end="#timeline-chart"),
    Shot("timeline-dark", State(page="timeline", **EAGER), dark=True, end="#timeline-chart"),
    Shot("live", State(page="live", **EAGER)),
    Shot("ranks", State(page="ranks", **TWO)),
    Shot("dangling", State(page="dangling", **THUNDER)),
    Shot("segments", State(page="segments", **FSDP2)),
    Shot("runs", State(page="runs", **EAGER)),
)


def main() -> None:
    """Takes those that are named, or all."""
    wanted = set(sys.argv[1:])
    PLACE.mkdir(exist_ok=True)
    chromium = os.environ.get("SNAPVIZ_CHROMIUM") or shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as playwright:
        app = create_app(ROOT / "sample_snapshots", cache_dir=cache)
        server = waitress.create_server(app.server, host="127.0.0.1", port=0, threads=8)
        threading.Thread(target=server.run, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_CHROMIUM))
        for shot in SHOTS:
            if not wanted or shot.name in wanted:
                _take(browser, shot, f"http://127.0.0.1:{server.effective_port}")
        browser.close()
        server.close()


def _take(browser: Any, shot: Shot, url: str) -> None:
    page = browser.new_page(viewport=SIZE, color_scheme="dark" if shot.dark else "light", reduced_motion="reduce")
    page.goto(url + shot.state.url())
    _drawn(page)
    if shot.click:
        page.locator(shot.click).first.click()
        _drawn(page)
    if shot.end:
        page.locator(shot.end).evaluate("element => element.scrollIntoView({ block: 'end' })")
        _drawn(page)
    page.mouse.move(2, SIZE["height"] - 2)
    image = Image.open(io.BytesIO(page.screenshot()))
    path = PLACE / f"{shot.name}.png"
    image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    sys.stderr.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} KB\n")
    page.context.close()


def _drawn(page: Page) -> None:
    """Waits until the page has its content, and nothing of it has changed for a moment."""
    page.locator("#page h1").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_function("() => !document.querySelector('.dash-graph--pending, [data-dash-is-loading=true]')")
    page.wait_for_load_state("networkidle")
    page.evaluate("() => new Promise(done => requestIdleCallback(() => setTimeout(done, 500)))")


if __name__ == "__main__":
    main()
